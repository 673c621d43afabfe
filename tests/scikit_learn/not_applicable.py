"""Which of scikit-learn's tests do not apply to our classes, and why.

A listed case has to fail, with the exception that its reason names.  A case that is not listed has to pass.
Every rule has to match a case.  `conftest.py` enforces this.  `docs/scikit_learn.md` counts the cases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

from tests.scikit_learn.adapters import NotOffered


@dataclass(frozen=True)
class Reason:
    """A reason why cases do not apply, the exceptions they raise, and regular expressions for their names."""

    text: str
    raises: type[BaseException] | tuple[type[BaseException], ...]
    rules: tuple[str, ...]
    before: str | None = None
    """The first version of scikit-learn in which the cases apply."""

    @property
    def is_current(self) -> bool:
        return self.before is None or parse_version(sklearn.__version__) < parse_version(self.before)


REASONS = (
    Reason(
        "orthogonal matching pursuit, LARS and thresholding solve other problems than the LASSO",
        NotOffered,
        (
            r"test_dict_learning_(positivity|split|reconstruction|reconstruction_parallel|nonzero_coefs)"
            r"(\[.*-threshold\])?",
            r"test_dict_learning_lars_code_positivity",
            r"test_minibatch_dictionary_learning_positivity\[.*-threshold\]",
            r"test_sparse_encode_(shapes|shapes_omp|input|error_default_sparsity)",
            r"test_sparse_encode_positivity\[.*-threshold\]",
            r"test_sparse_encode_unavailable_positivity\[(lars|omp)\]",
            r"test_sparse_encode_numerical_consistency\[(lars|threshold|omp)\]",
            r"test_sparse_(encode|coder)_dtype_match\[.*-(lars|threshold|omp)\]",
            r"test_(dictionary|minibatch_dictionary)_learning_dtype_match\[.*-(lars|threshold|omp)-(lars|cd)\]",
            r"test_sparse_coder_parallel_mmap",
        ),
    ),
    Reason(
        "scikit-learn refuses non-negative codes by LARS, and expects an error; ours are of any method",
        pytest.fail.Exception,
        (r"test_dict_learning(_online)?_lars_positive_parameter",),
    ),
    Reason(
        "private statistics of scikit-learn's algorithm, `_A` and `_B`",
        AttributeError,
        (r"test_minibatch_dictionary_learning_dtype_match\[.*-lasso_(lars|cd)-(lars|cd)\]",),
    ),
    Reason("a private function of scikit-learn, `_update_dict`", NotOffered, (r"test_update_dict",)),
    Reason(
        "`max_iter=0` returns the start as it is; ours has at least one pass, and atoms of unit norm",
        ValueError,
        (r"test_dict_learning_online_initialization",),
    ),
    Reason(
        "`fit` without shuffling equals `partial_fit` sample by sample; ours shuffles, `fit` takes the unit "
        "of the network from all signals, `partial_fit` from its first ones, and steps are not counted",
        (AssertionError, AttributeError),
        (r"test_dict_learning_online_partial_fit",),
    ),
    Reason(
        "before 1.8 scikit-learn's coder had the shape of its dictionary as attributes from the start, and "
        "its `fit` accepted signals of any width",
        (AttributeError, ValueError),
        (r"test_sparse_coder_(estimator_clone|n_features_in)", r"test_get_feature_names_out\[SparseCoder\]"),
        before="1.8",
    ),
)


def reason_of(name: str) -> Reason | None:
    """Return why a case of this name does not apply, or None."""
    matching = [
        reason
        for reason in REASONS
        if reason.is_current and any(re.fullmatch(rule, name) for rule in reason.rules)
    ]
    if len(matching) > 1:
        raise ValueError(f"{name} has {len(matching)} reasons; one is enough")
    return matching[0] if matching else None


def unmatched_rules(names: list[str]) -> list[str]:
    """Return the rules that match none of these cases."""
    return [
        rule
        for reason in REASONS
        if reason.is_current
        for rule in reason.rules
        if not any(re.fullmatch(rule, name) for name in names)
    ]
