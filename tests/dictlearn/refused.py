"""Tables of refusals: a function, the type of its error, and wrong values for each argument."""

from functools import partial

import pytest


def each_refused(*rows):
    """Parametrise a test with calls, types of errors and the names in their messages."""
    cases = []
    for function, error, *wrong in rows:
        if isinstance(wrong[0], str):
            cases.append(pytest.param(function, error, wrong[0], id=wrong[0]))
        else:
            for name, values in wrong[0].items():
                calls = [partial(function, **{name: value}) for value in values]
                cases += [pytest.param(call, error, name, id=f"{name} {k}") for k, call in enumerate(calls)]
    return pytest.mark.parametrize(("call", "error", "name"), cases)
