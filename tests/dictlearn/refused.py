"""Tables of what is refused: a function, the type of its error, and for each argument wrong values of it."""

from functools import partial

import pytest


def each_refused(*rows):
    """Parametrise a test with calls, errors and what they name: the argument, or what a row says."""
    cases = []
    for function, error, *wrong in rows:
        if isinstance(wrong[0], str):
            cases.append(pytest.param(function, error, wrong[0], id=wrong[0]))
        else:
            for name, values in wrong[0].items():
                calls = [partial(function, **{name: value}) for value in values]
                cases += [pytest.param(call, error, name, id=f"{name} {k}") for k, call in enumerate(calls)]
    return pytest.mark.parametrize(("call", "error", "name"), cases)
