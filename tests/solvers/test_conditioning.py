"""Ill-posed problems are named, with the remedy, and well-posed ones are not."""

import contextlib
import re
import threading
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from scipy.ndimage import uniform_filter

from dictlearn import LearningSettings
from snn import simulate_clocked
from solvers import (
    METHODS,
    ConvolutionalDictionary,
    IllPosedWarning,
    LassoProblem,
    PreparedLasso,
    SparseCodingStream,
    compare,
    held_out_score,
    lasso_network,
    path,
    penalty_max,
    solve_active_set,
    solve_digital,
    solve_fista,
    solve_spiking,
    sweep_digital,
)
from solvers.problem.conditioning import penalty_called
from tests.reference.methods import methods

SIDE = 24


def kernels(*, mean, n_kernels=4, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((n_kernels, 4, 4))
    return drawn if mean else drawn - drawn.mean(axis=(1, 2), keepdims=True)


def slow_image(seed=1):
    """Mostly slow changes."""
    return 3.0 + uniform_filter(np.random.default_rng(seed).standard_normal((SIDE, SIDE)), 3)


def problem(kernels, image, **more):
    dictionary = ConvolutionalDictionary(kernels, (SIDE, SIDE), 2)
    return LassoProblem(dictionary, image.reshape(1, -1), 0.5, **more)


@pytest.mark.parametrize("solve", [solve_active_set, lambda each: solve_spiking(each, polish=True)])
def test_an_image_with_its_mean_and_kernels_without(solve):
    message = r"no kernel has a mean, but local means are \d+% of the energy of signal 0: subtract them"
    with pytest.warns(IllPosedWarning, match=message) as caught:
        solve(problem(kernels(mean=False), slow_image()))
    assert caught[0].filename.endswith("test_conditioning.py")


def test_the_remedies_named_are_remedies():
    image = slow_image()
    constant = np.concatenate([kernels(mean=False), np.ones((1, 4, 4))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_active_set(problem(constant, image))
        solve_active_set(problem(kernels(mean=True), image))
        solve_active_set(problem(kernels(mean=False), image - uniform_filter(image, 4)))


@pytest.mark.parametrize("factor", [1.0, -3.0])
def test_kernels_that_are_equal(factor):
    doubled = np.concatenate([kernels(mean=True), factor * kernels(mean=True)[2:3]])
    with pytest.warns(IllPosedWarning, match="kernels 2 and 4 are equal .* leave one of them out"):
        solve_active_set(problem(doubled, slow_image()))


def test_a_kernel_that_is_another_one_shifted():
    shifted = np.zeros((2, 4, 4))
    shifted[0, :2, :2] = shifted[1, 2:, 2:] = [[1.0, 2.0], [3.0, 4.0]]
    with pytest.warns(IllPosedWarning, match="kernels 0 and 1 are equal but for a factor and a shift"):
        solve_active_set(problem(shifted, slow_image()))


def test_kernels_that_are_nearly_equal_are_not_named():
    near = np.concatenate([kernels(mean=True), kernels(mean=True)[2:3] + 1e-3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_active_set(problem(near, slow_image()))


def test_of_arrays_of_atoms_nothing_is_said():
    array = np.concatenate([np.eye(4), np.eye(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_active_set(LassoProblem(array, np.ones((1, 4)), 0.5))


def random_case(*, n_atoms=30, n_features=12, n_signals=4, seed=0, **more):
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((n_atoms, n_features))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    return LassoProblem(atoms, rng.standard_normal((n_signals, n_features)), 0.2, **more)


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("method", [*METHODS.values()], ids=list(METHODS))
def test_codes_that_are_all_zero_are_named_by_every_solver(method):
    case = random_case()
    largest = penalty_max(case.dictionary, case.signals).max()
    (message,) = warned(lambda: method(case.with_penalty(50.0 * largest), tol=1e-2))
    # Below the factor that it names there is a code, above it there is none.
    factor = float(re.search(r"at this penalty; some are not below ([\d.]+) times it$", message).group(1))
    assert factor == pytest.approx(1.0 / 50.0, rel=1e-2)
    assert warned(lambda: solve_fista(case.with_penalty(0.98 * factor * 50.0 * largest))) == []


def test_the_line_of_the_caller_is_named():
    with pytest.warns(IllPosedWarning, match="all codes are zero") as caught:
        solve_spiking(random_case().with_penalty(1e3))
    assert caught[0].filename == __file__


def test_negative_signals_where_codes_must_not_be_negative():
    atoms, signals = np.abs(random_case().dictionary), -np.abs(random_case().signals)
    (message,) = warned(lambda: solve_spiking(LassoProblem(atoms, signals, 0.1, positive=True)))
    assert message.endswith(
        "no correlation of a signal with an atom is positive, which positive=True requires"
    )


def test_no_warning_where_codes_of_zeros_are_no_surprise():
    case = random_case()
    largest = penalty_max(case.dictionary, case.signals).max()
    above = case.with_penalty(3.0 * largest)
    assert warned(lambda: solve_fista(case.with_penalty(largest))) == []  # where a path begins
    assert warned(lambda: path(case, multiples=[100.0, 1.0])) == []
    assert warned(lambda: compare(above, ["fista", "active_set", "spiking"])) == []
    assert warned(lambda: held_out_score(above)) == []
    assert warned(lambda: solve_fista(above.subset([0]))) == []  # one signal alone
    silent = LassoProblem(case.dictionary, np.zeros((3, 12)), 0.1)
    assert warned(lambda: solve_fista(silent)) == []
    stream = SparseCodingStream(case.dictionary, 3.0 * largest)
    assert warned(lambda: stream.code(case.signals)) == []


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_warning_for_all_masks(n_jobs):
    mask = np.random.default_rng(1).random((4, 12)) < 0.8
    case = random_case(mask=mask)
    (message,) = warned(lambda: solve_spiking(case.with_penalty(1e3), n_jobs=n_jobs))
    assert message.startswith("all codes are zero at this penalty")


def transposed(**more):
    atoms = random_case(n_atoms=12).dictionary.T
    return LassoProblem(atoms, random_case(n_signals=6).signals, 0.1, **more)


@pytest.mark.parametrize("solve", methods("digital", "spiking_clock").values())
def test_one_warning_of_transposed_atoms_for_all_masks(solve):
    mask = np.random.default_rng(1).random((6, 12)) < 0.8
    (message,) = warned(lambda: solve(transposed(mask=mask), tol=1e-2))
    assert "pass dictionary.T" in message


def test_one_warning_of_a_long_step_for_all_masks_and_all_points_of_a_sweep():
    case = random_case(n_atoms=6, mask=np.random.default_rng(1).random((4, 12)) < 0.8)
    (message,) = warned(lambda: solve_spiking(case, time_step=2.0))
    assert message.startswith("time_step is 2 ")
    axes = {"time_step": [2.0, 4.0], "weight_bits": [6, 8]}
    (message,) = warned(lambda: sweep_digital(random_case(n_atoms=6), axes, duration=20.0))
    assert message.startswith("time_step is 4 ")


@pytest.mark.parametrize("workers", [{"n_jobs": 2}, {"n_jobs": 2, "backend": "loky"}])
def test_workers_say_nothing_of_their_own(workers, capfd):
    mask = np.random.default_rng(1).random((6, 12)) < 0.8
    with parallel_config(**workers), warnings.catch_warnings():
        warnings.simplefilter("default")
        messages = warned(lambda: solve_spiking(transposed(mask=mask), max_duration=3.0, n_jobs=2))
    assert len(messages) == 2  # transposed, and not converged
    assert "Warning" not in capfd.readouterr().err


def test_one_warning_for_all_methods_that_are_compared():
    (message,) = warned(lambda: compare(transposed(), ["spiking", "active_set", "fista"]))
    assert "pass dictionary.T" in message


def test_dim_batches_are_warned_of_in_the_same_words():
    rng = np.random.default_rng(2)
    case = random_case().with_penalty(30.0)
    prepared = PreparedLasso(case.dictionary, 30.0)
    batches = [rng.standard_normal((3, 12)) for _ in range(3)]
    for make in (prepared.with_signals, case.with_signals):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for batch in batches:
                solve_fista(make(batch))
        assert [str(warning.message) for warning in caught] == [
            "all codes are zero: penalty is too large for all signals of a batch; penalty_max says from "
            "where on it is"
        ]
        assert penalty_max(case.dictionary, batches[0]).max() < 30.0


def test_matrices_with_atoms_of_zero_are_not_taken_for_transposed():
    groups = np.zeros((4, 4))
    groups[0, :2] = groups[1, 2] = groups[2, 3] = 1.0
    for atoms in ([[1.0, 1.0], [0.0, 0.0]], groups):
        signals = np.random.default_rng(0).standard_normal((2, len(atoms)))
        assert warned(lambda a=atoms, s=signals: solve_fista(LassoProblem(a, s, 0.1))) == []


def test_the_check_for_transposed_atoms_is_made_once(monkeypatch):
    calls = []
    product = np.einsum
    monkeypatch.setattr(np, "einsum", lambda *args: calls.append(args) or product(*args))
    case = transposed()
    warned(lambda: [solve_active_set(case.with_signals(signal[np.newaxis])) for signal in case.signals])
    assert [args[0] for args in calls].count("ij,ij->j") == 1


def test_the_name_of_the_penalty_is_that_of_the_thread():
    case, names = random_case().with_penalty(1e3), []

    def elsewhere():
        names.extend(warned(lambda: solve_fista(case)))

    with penalty_called("alpha"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        names.extend(warned(lambda: solve_fista(case)))
    names.extend(warned(lambda: solve_fista(case)))
    assert [re.search(r"at this (\w+);", name).group(1) for name in names] == [
        "penalty",
        "alpha",
        "penalty",
    ]


@pytest.mark.parametrize("name", METHODS)
def test_a_square_dictionary_with_its_atoms_in_columns(name):
    atoms = random_case(n_atoms=12).dictionary
    signals = random_case().signals
    message = (
        r"columns have one norm, .* norms from 0\.\d+ to 1\.\d+: if atoms are columns, pass dictionary\.T"
    )
    for dictionary, expected in ((atoms.T.copy(), 1), (atoms, 0), (np.eye(12), 0), (2.0 * atoms, 0)):
        messages = warned(lambda d=dictionary: METHODS[name](LassoProblem(d, signals, 0.1), tol=1e-2))
        found = [text for text in messages if re.search(message, text)]
        assert len(found) == expected, messages
    assert (
        len([text for text in warned(lambda: path(LassoProblem(atoms.T, signals, 0.1))) if "columns" in text])
        == 1
    )


@pytest.mark.parametrize(
    "run",
    [
        lambda step: simulate_clocked(lasso_network(random_case()), 10.0 * step, time_step=step),
        lambda step: solve_spiking(random_case(n_atoms=6), time_step=step, max_duration=100.0),
        lambda step: solve_digital(random_case(n_atoms=6), time_step=step, max_duration=100.0),
        lambda step: LearningSettings(penalty=0.1, duration=10.0 * step, time_step=step),
    ],
    ids=["simulate_clocked", "solve_spiking", "solve_digital", "LearningSettings"],
)
def test_a_step_beyond_the_time_constant_is_named(run):
    def of_steps(step):
        with contextlib.suppress(ValueError):  # networks may run away with such steps
            run(step)

    messages = [text for text in warned(lambda: of_steps(5.0)) if text.startswith("time_step is 5 ")]
    assert len(messages) == 1
    assert "synaptic time constants, which are the unit of time" in messages[0]
    assert not any("time_step" in text for text in warned(lambda: of_steps(1.0)))
