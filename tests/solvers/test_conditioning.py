"""An ill-posed problem causes one warning, with a remedy, at the caller's line; other problems cause none."""

import contextlib
import re
import warnings

import numpy as np
import pytest
from scipy.ndimage import uniform_filter

from dictlearn import LearningSettings
from snn import Clock, simulate
from snn.digital import DigitalFormat
from solvers import (
    METHODS,
    ConvolutionalDictionary,
    LassoProblem,
    SparseCodingStream,
    SpikingSparseCoder,
    ZeroCodesWarning,
    compare,
    held_out_score,
    lasso_network,
    path,
    penalty_max,
    solve_active_set,
    solve_digital,
    solve_fista,
    solve_spiking,
)

SIDE = 24


def warned(call):
    """Return the messages of a call's warnings; require that every warning points to this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert {warning.filename for warning in caught} <= {__file__}
    return [str(warning.message) for warning in caught]


# -- kernels and images ------------------------------------------------------------------------------


def kernels(*, mean, n_kernels=4, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((n_kernels, 4, 4))
    return drawn if mean else drawn - drawn.mean(axis=(1, 2), keepdims=True)


def images(kernels, image):
    shape = (SIDE, SIDE)
    return LassoProblem(ConvolutionalDictionary(kernels, shape, 2), image.reshape(1, -1), 0.5)


SLOW = 3.0 + uniform_filter(np.random.default_rng(1).standard_normal((SIDE, SIDE)), 3)
SHIFTED = np.zeros((2, 4, 4))
SHIFTED[0, :2, :2] = SHIFTED[1, 2:, 2:] = [[1.0, 2.0], [3.0, 4.0]]
WITH, WITHOUT = kernels(mean=True), kernels(mean=False)
COLOUR = np.random.default_rng(0).standard_normal((4, 4, 4, 3))
COLOUR -= COLOUR.mean(axis=(1, 2), keepdims=True)
CANCELLING = COLOUR + np.where(np.arange(4) == 0, 1.0, 0.0)[:, None, None, None] * [1.0, -1.0, 0.0]
ONE_CHANNEL = np.array([0.0, 0.0, 1.0])
NOISE = 0.1 * np.random.default_rng(1).standard_normal((SIDE, SIDE, 3))
ILL_POSED = {
    "one channel": (COLOUR, NOISE + ONE_CHANNEL, "no kernel has a mean"),
    "local means": (WITHOUT, SLOW, r"no kernel has a mean.* \d+% .*signal 0"),
    "equal": (np.concatenate([WITH, WITH[2:3]]), SLOW, "kernels 2 and 4"),
    "equal but for a factor": (np.concatenate([WITH, -3.0 * WITH[2:3]]), SLOW, "kernels 2 and 4"),
    "shifted": (SHIFTED, SLOW, "kernels 0 and 1 .*shift"),
}
WELL_POSED = {
    "all channels are noise": (COLOUR, NOISE),
    "means that cancel out": (CANCELLING, NOISE + ONE_CHANNEL),
    "a constant kernel": (np.concatenate([WITHOUT, np.ones((1, 4, 4))]), SLOW),
    "kernels with means": (WITH, SLOW),
    "means subtracted": (WITHOUT, SLOW - uniform_filter(SLOW, 4)),
    "nearly equal": (np.concatenate([WITH, WITH[2:3] + 1e-3]), SLOW),
}


@pytest.mark.parametrize(("some", "image", "words"), ILL_POSED.values(), ids=ILL_POSED)
@pytest.mark.parametrize("name", ["active_set", "active_set_from_spikes"])
def test_images_that_are_ill_posed_are_named(name, some, image, words):
    (message,) = warned(lambda: METHODS[name](images(some, image)))
    assert re.search(words, message)


@pytest.mark.parametrize(("some", "image"), WELL_POSED.values(), ids=WELL_POSED)
def test_the_remedies_named_are_remedies(some, image):
    assert warned(lambda: solve_active_set(images(some, image))) == []
    array = np.concatenate([np.eye(4), np.eye(4)])
    assert warned(lambda: solve_active_set(LassoProblem(array, np.ones((1, 4)), 0.5))) == []


# -- codes that are all zero, atoms in columns ---------------------------------------------------------


def random_case(*, n_atoms=30, n_features=12, n_signals=4, seed=0, **more):
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((n_atoms, n_features))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    return LassoProblem(atoms, rng.standard_normal((n_signals, n_features)), 0.2, **more)


def transposed(**more):
    atoms = random_case(n_atoms=12).dictionary.T
    return LassoProblem(atoms, random_case(n_signals=6).signals, 0.1, **more)


def masks(n_signals):
    return np.random.default_rng(1).random((n_signals, 12)) < 0.8


FORMAT = DigitalFormat()
CASE = random_case()
LARGEST = penalty_max(CASE.dictionary, CASE.signals).max()
ABOVE = CASE.with_penalty(3.0 * LARGEST)
CODER = SpikingSparseCoder(CASE.dictionary, alpha=3.0 * LARGEST)
NEGATIVE = LassoProblem(np.abs(CASE.dictionary), -np.abs(CASE.signals), 0.1, positive=True)
GROUPS = np.zeros((4, 4))
GROUPS[0, :2] = GROUPS[1, 2] = GROUPS[2, 3] = 1.0
SQUARE = random_case(n_atoms=12)
ONCE = {
    "no positive correlation": (lambda: solve_spiking(NEGATIVE), "all codes are zero: .*positive=True"),
    "a cut intercept": (
        lambda: solve_fista(LassoProblem([[1.0, 0.0], [1.0, 1.0]], [[1.0, -2.0]], [0.1, 0.0], positive=True)),
        "positive holds for atom 1",
    ),
    "all signals": (lambda: solve_fista(ABOVE), "all codes are zero: the penalty is too large"),
    "all masks": (
        lambda: solve_spiking(random_case(mask=masks(4)).with_penalty(1e3), n_jobs=2),
        "all codes are zero: the penalty is too large",
    ),
    "all masks transposed": (lambda: solve_fista(transposed(mask=masks(6)), tol=1e-2), r"dictionary\.T"),
    "all methods": (lambda: compare(transposed(), ["spiking", "active_set", "fista"]), r"dictionary\.T"),
    "a path": (lambda: path(transposed()), r"dictionary\.T"),
    "a long step": (
        lambda: solve_spiking(random_case(n_atoms=6, mask=masks(4)), time=Clock(2.0)),
        "^time_step is 2 ",
    ),
}
NEVER = {
    "where a path begins": lambda: solve_fista(CASE.with_penalty(LARGEST)),
    "a path": lambda: path(CASE, multiples=[100.0, 1.0]),
    "a comparison": lambda: compare(ABOVE, ["fista", "active_set", "spiking"]),
    "folds": lambda: held_out_score(ABOVE),
    "one signal": lambda: solve_fista(ABOVE.subset([0])),
    "signal after signal": lambda: [solve_fista(ABOVE.with_more_to_follow().subset([i])) for i in range(4)],
    "row after row of a coder": lambda: [CODER.transform(CASE.signals[i : i + 1]) for i in range(4)],
    "silence": lambda: solve_fista(LassoProblem(CASE.dictionary, np.zeros((3, 12)), 0.1)),
    "a stream": lambda: SparseCodingStream(CASE.dictionary, 3.0 * LARGEST).code(CASE.signals),
    "groups": lambda: solve_fista(LassoProblem(GROUPS, CASE.signals[:, :4], 0.1)),
    "two features": lambda: solve_fista(LassoProblem([[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.3]], 0.1)),
    "the identity": lambda: solve_fista(LassoProblem(np.eye(12), CASE.signals, 0.1)),
    "a norm of two": lambda: solve_fista(LassoProblem(2.0 * SQUARE.dictionary, CASE.signals, 0.1)),
    "rows": lambda: solve_fista(LassoProblem(SQUARE.dictionary, CASE.signals, 0.1)),
}


def test_zero_codes_of_many_batches_are_said_once_and_can_be_filtered():
    rng = np.random.default_rng(0)
    batches = rng.uniform(0.1, 1.0, (20, 5, 12)) * CASE.signals[0]

    def call():
        for batch in batches:
            CODER.transform(batch)
            solve_active_set(LassoProblem(CASE.dictionary[rng.permutation(30)], batch, 3.0 * LARGEST))

    assert len(set(warned(call))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ZeroCodesWarning)
        call()


@pytest.mark.parametrize(("call", "words"), ONCE.values(), ids=ONCE)
def test_it_is_said_once(call, words):
    (message,) = warned(call)
    assert re.search(words, message)


@pytest.mark.parametrize("call", NEVER.values(), ids=NEVER)
def test_nothing_is_said_where_it_is_no_surprise(call):
    assert warned(call) == []


@pytest.mark.parametrize("name", METHODS)
def test_every_method_names_zero_codes_and_atoms_in_columns(name):
    """Below the penalty that the warning names some code is nonzero, above it none is."""
    (message,) = warned(lambda: METHODS[name](CASE.with_penalty(50.0 * LARGEST), tol=1e-2))
    assert "penalty_max" in message
    assert warned(lambda: solve_fista(CASE.with_penalty(0.98 * LARGEST))) == []
    messages = warned(lambda: METHODS[name](transposed(), tol=1e-2))
    assert len([text for text in messages if "dictionary.T" in text]) == 1


@pytest.mark.parametrize(
    "run",
    [
        lambda step: simulate(lasso_network(CASE), 10.0 * step, Clock(step)),
        lambda step: solve_spiking(random_case(n_atoms=6), time=Clock(step), max_duration=100.0),
        lambda step: solve_digital(random_case(n_atoms=6), time=Clock(step, FORMAT), max_duration=100.0),
        lambda step: LearningSettings(penalty=0.1, duration=10.0 * step, time=Clock(step)),
    ],
    ids=["simulate", "solve_spiking", "solve_digital", "LearningSettings"],
)
def test_a_step_beyond_the_time_constant_is_named(run):
    def of_steps(step):
        with contextlib.suppress(ValueError):  # networks may run away with such steps
            run(step)

    assert len([text for text in warned(lambda: of_steps(5.0)) if text.startswith("time_step is 5 ")]) == 1
    assert not any("time_step" in text for text in warned(lambda: of_steps(1.0)))
