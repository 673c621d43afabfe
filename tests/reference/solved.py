"""Helpers for tests that solve problems of every kind by every method."""

import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from solvers import IllPosedWarning
from tests.reference.methods import methods
from tests.reference.problems import CONVOLUTIONAL, DICTIONARIES, problems
from tests.reference.rationals import ExactProblem

LIMITS = {"max_duration": 300.0, "max_iter": 2000}
"""Low limits, so that tests also see codes that did not converge."""


def shortened(method):
    limits = {field.name: LIMITS[field.name] for field in fields(method) if field.name in LIMITS}
    return replace(method, **limits)


METHODS = {name: shortened(method) for name, method in methods().items()}
NEEDS_NO_GRAM = ("active_set", "fista")
every_method = pytest.mark.parametrize("name", METHODS)


def refusal(name, this):
    """Return (type of the error, words of its message) if a method refuses a problem, otherwise None."""
    takes = METHODS[name].takes
    form, _, weights, _ = this.kind
    zeros = {"zero_penalties", *([] if this.positive.all() else ["signed_zero_penalties"])} <= {*takes}
    if form in CONVOLUTIONAL and "convolution" not in takes:
        return TypeError, "array of atoms"
    if form in CONVOLUTIONAL and weights != "none" and "weights_with_convolution" not in takes:
        return TypeError, "masked or weighted"
    if this.is_mixed and "mixed_signs" not in takes:
        return TypeError, "positive"
    if (this.l1 == 0.0).any() and not zeros:
        return ValueError, "penalty"
    if form == "sparse" and name == "coordinate_descent":
        return TypeError, "dense array of atoms"
    if weights.startswith("own") and "own_weights" not in takes:
        return TypeError, "mask"
    return None


def forms_for(name):
    """Return the kinds of dictionaries that suit a method: integers and clock steps limit their scales."""
    return [form for form in DICTIONARIES if form != "scaled" or name not in ("digital", "spiking_clock")]


def problems_for(name, **features):
    """Return a strategy for problems that a method takes, perhaps without room for a Gram matrix."""
    features.setdefault("dictionary", forms_for(name))
    if name not in NEEDS_NO_GRAM:
        features.setdefault("limited", False)
    return problems(**features).filter(lambda this: refusal(name, this) is None)


def solved(method, this, problem=None, **options):
    """Solve a problem; require a warning that names this file if and only if a signal did not converge."""
    problem = this.problem() if problem is None else problem
    with this.with_room(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = method(problem, **options)
    assert all(issubclass(warning.category, (ConvergenceWarning, IllPosedWarning)) for warning in caught)
    assert {warning.filename for warning in caught} <= {__file__}
    is_warned = any(warning.category is ConvergenceWarning for warning in caught)
    assert is_warned != result.converged
    return result


def exact(this, signal):
    return ExactProblem.of(
        this.atoms, this.values[signal], this.weights[signal], this.l1, this.l2, positive=this.positive
    )


def contents(this):
    things = [this.signals, this.atoms, this.values, *this.options.values()]
    things += [getattr(this.penalty, name) for name in ("l1", "l2") if hasattr(this.penalty, name)]
    return [thing.toarray() if sparse.issparse(thing) else np.array(thing) for thing in things]
