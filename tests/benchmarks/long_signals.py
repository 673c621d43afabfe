"""Convolutional codes of long signals: an ECG of up to 102,400 samples, beside FISTA."""

import time

import numpy as np
import pywt
from matplotlib.figure import Figure

from dictlearn import ConvolutionalDictionaryLearning, prepare_image
from solvers import LassoProblem, solve_active_set, solve_fista
from tests.benchmarks.report import Target, at_most
from tests.benchmarks.timing import milliseconds, relative_gaps, table, verify

TITLE = "Long signals"
N_SAMPLES, QUICK_SAMPLES = (2_048, 25_600, 102_400), (2_048,)
# About one atom in twenty is active.
PENALTY = 0.01
N_KERNELS, LENGTH = 12, 64
GAP = 1e-10
NEEDED = 40.0  # seconds of one processor, for the longest
# FISTA gets so many iterations, up to this length.
ITERATIONS, MOST_OF_FISTA = 1_000, 25_600
OURS, FISTA = "active set", f"FISTA, {ITERATIONS:,} iterations"


def long_ecg(n_samples: int) -> np.ndarray:
    """Return the record of PyWavelets again and again, each time of another height, with noise."""
    record = pywt.data.ecg()
    record = (record - np.median(record)) / 200.0
    rng = np.random.default_rng(0)
    heights = 1.0 + 0.2 * rng.standard_normal(n_samples // len(record))
    signal = np.outer(heights, record).ravel()
    return signal + 0.02 * rng.standard_normal(len(signal))


def problem_of(kernels: np.ndarray, signal: np.ndarray) -> LassoProblem:
    """Return the problem of a signal without its slow changes, as the estimator makes it."""
    prepared = prepare_image(signal, LENGTH, smoothing=40)
    return LassoProblem(prepared.dictionary(kernels), prepared.signal, PENALTY)


def run(*, quick: bool) -> dict:
    lengths = QUICK_SAMPLES if quick else N_SAMPLES
    signal = long_ecg(lengths[-1])
    learner = ConvolutionalDictionaryLearning(
        N_KERNELS, kernel_size=LENGTH, alpha=0.1, random_state=0, max_iter=3, crop_size=1024, smoothing=40
    )
    kernels = learner.fit(signal[:8_192]).components_
    solve_active_set(problem_of(kernels, signal[: lengths[0]]))
    rows = []
    for n_samples in lengths:
        problem = problem_of(kernels, signal[:n_samples])
        begin = time.process_time()
        result = solve_active_set(problem, tol=GAP)
        seconds = time.process_time() - begin
        entry = {
            "n_samples": n_samples,
            "n_unknowns": problem.n_atoms,
            "n_active": int(result.support_size[0]),
            OURS: {"seconds": seconds, "gap": verify(problem, result.codes, GAP, OURS)},
        }
        if n_samples <= MOST_OF_FISTA:
            problem = problem_of(kernels, signal[:n_samples])
            begin = time.process_time()
            result = solve_fista(problem, tol=0.5 * GAP, max_iter=10 if quick else ITERATIONS, progress=False)
            seconds = time.process_time() - begin
            entry[FISTA] = {"seconds": seconds, "gap": float(relative_gaps(problem, result.codes)[0])}
        rows.append(entry)
    return {"lengths": rows}


def targets(data: dict) -> list[Target]:
    longest = data["lengths"][-1]
    return [
        at_most(
            f"{longest['n_samples']:,} samples, {longest['n_active']:,} active atoms, to {GAP:g}",
            NEEDED,
            longest[OURS]["seconds"],
            f"<= {NEEDED:g} s",
            " s",
        )
    ]


def markdown(data: dict) -> str:
    rows = []
    for entry in data["lengths"]:
        for way in (OURS, FISTA):
            if way in entry:
                rows.append(
                    [
                        f"{entry['n_samples']:,}", f"{entry['n_unknowns']:,}", f"{entry['n_active']:,}", way,
                        milliseconds(entry[way]["seconds"]), f"{entry[way]['gap']:.0e}",
                    ]
                )  # fmt: skip
    return (
        "The ECG record of PyWavelets, again and again, each time of another height and with noise, without "
        f"its slow changes, in {N_KERNELS} learned kernels of {LENGTH} samples, codes of either sign, "
        f"penalty {PENALTY:g}.  Seconds of one processor, certificates included; gaps in units of "
        "1/2 ||signal||^2.\n\n" + table(["samples", "unknowns", "in the code", "method", "time", "gap"], rows)
    )


def plot(data: dict) -> Figure | None:
    return None
