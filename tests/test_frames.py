"""Frames of pandas may have any kind of numeric column; other and missing entries are refused with advice."""

import numpy as np
import pytest

from dictlearn import SpikingDictionaryLearning, learn_dictionary
from snn import SpikingNetwork
from solvers import ElasticNet, LassoProblem, SpikingSparseCoder

pandas = pytest.importorskip("pandas")

FRAME = pandas.DataFrame(
    {
        "float": [1.5, 2.0, 0.0, 4.0],
        "text": ["x", "y", "x", "y"],
        "int": pandas.array([1, 0, 3, 2], dtype="Int64"),
        "bool": pandas.array([True, False, True, True], dtype="boolean"),
        "small": pandas.array([0.5, 0.25, 0.0, 1.0], dtype="Float32"),
    }
)
DUMMIES = pandas.get_dummies(FRAME)
ARRAY = np.array(
    [[1.5, 1, 1, 0.5, 1, 0], [2, 0, 0, 0.25, 0, 1], [0, 3, 1, 0, 1, 0], [4, 2, 1, 1, 0, 1]], dtype=float
)
MISSING = DUMMIES.copy()
MISSING.loc[1, "int"] = pandas.NA
OBJECTS = pandas.DataFrame({"a": [1.0, 2.0, pandas.NA], "b": [1.0, 2.0, 3.0]})
WEIGHTS = pandas.Series([0.1, 0.2], index=["b", "a"])


def transposed(frame):
    return frame.T  # if columns have different types, the result has objects


@pytest.mark.parametrize("frame", [DUMMIES, transposed(DUMMIES).T, DUMMIES.astype(object)], ids=range(3))
def test_numbers_of_every_kind_of_column_are_accepted(frame):
    np.testing.assert_array_equal(LassoProblem(transposed(frame), np.eye(4), 0.1).dictionary, ARRAY.T)
    np.testing.assert_array_equal(LassoProblem(np.eye(6), frame, 0.1).signals, ARRAY)
    np.testing.assert_array_equal(SpikingNetwork(np.zeros((4, 4)), frame["int"]).soma_bias, ARRAY[:, 1])
    coder = SpikingSparseCoder(np.eye(6), alpha=0.1)
    np.testing.assert_array_equal(coder.fit_transform(frame), coder.fit_transform(ARRAY))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: LassoProblem(transposed(FRAME), np.eye(4), 0.1), TypeError, "dictionary .*str.*get_dummies"),
        (lambda: LassoProblem(np.eye(5), FRAME, 0.1), TypeError, "signals .*str.*get_dummies"),
        (lambda: LassoProblem(np.eye(6), MISSING, 0.1), ValueError, r"signals .*nan at \[1, 1\].*pass mask="),
        (lambda: learn_dictionary(MISSING, 2, penalty=0.1), ValueError, "signals .*pass mask="),
        (lambda: SpikingSparseCoder(np.eye(6), alpha=0.1).fit(MISSING), ValueError, "X .*missing_values"),
        (lambda: SpikingDictionaryLearning(2, alpha=0.1).fit(MISSING), ValueError, "X .*missing_values"),
        (lambda: LassoProblem(np.eye(2), OBJECTS, 0.1), ValueError, r"signals .*nan at \[2, 0\].*pass mask="),
        (lambda: LassoProblem(OBJECTS, np.eye(2), 0.1), ValueError, r"dictionary .*nan at \[2, 0\]"),
        (
            lambda: SpikingSparseCoder(np.eye(2), alpha=0.1).fit(OBJECTS),
            TypeError,
            "X must not contain pandas.NA.*Float64",
        ),
        (
            lambda: SpikingDictionaryLearning(2).fit(OBJECTS),
            TypeError,
            "X must not contain pandas.NA.*Float64",
        ),
        (
            lambda: LassoProblem(np.eye(2), np.eye(2), WEIGHTS),
            ValueError,
            "penalty must have the index.*to_numpy",
        ),
        (lambda: ElasticNet(0.1, WEIGHTS), ValueError, "l2 must have the index.*'b', 'a'.*to_numpy"),
        (
            lambda: SpikingSparseCoder(np.eye(2), alpha=WEIGHTS).fit(np.eye(2)),
            ValueError,
            "alpha must have the index",
        ),
        (
            lambda: LassoProblem(np.eye(1), FRAME[["text"]].astype("category"), 0.1),
            TypeError,
            "signals .*str.*get_dummies",
        ),
    ],
)
def test_what_is_no_number_is_named_with_the_remedy(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_masked_entry_may_be_missing():
    problem = LassoProblem(np.eye(6), MISSING, 0.1, mask=MISSING.notna())
    np.testing.assert_array_equal(problem.signals, np.where(MISSING.notna(), ARRAY, 0.0))


def test_weights_in_order_are_taken_and_an_index_of_numbers_in_order_is_one():
    expected = LassoProblem(np.eye(2), np.eye(2), [0.2, 0.1]).l1_weights
    for weights in (WEIGHTS[["a", "b"]].to_numpy(), pandas.Series([0.2, 0.1])):
        np.testing.assert_array_equal(LassoProblem(np.eye(2), np.eye(2), weights).l1_weights, expected)
