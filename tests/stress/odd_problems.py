"""Problems at the edges: time, memory and honest gaps of the active set and of spikes alone.

    python -m tests.stress.odd_problems

Each runs in a process of its own, compilation included, for at most `PATIENCE` seconds.
"""

import argparse
import multiprocessing
import queue
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from examples._data import photographs
from solvers import ConvolutionalDictionary, LassoProblem, solve_active_set, solve_spiking
from solvers.certificate.optimality import measure, penalty_max
from tests.reference.networks import random_dictionary

PATIENCE = 120.0
METHODS = {
    "active set, 1e-6": partial(solve_active_set, tol=1e-6),
    "spikes alone, 1e-3": partial(solve_spiking, tol=1e-3),
}


def problem(
    n_atoms: int, n_features: int, share: float, *, n_signals: int = 1, copies: int = 1
) -> LassoProblem:
    """Return random signals and `n_atoms` random atoms, each several times, at a share of the maximum."""
    rng = np.random.default_rng(0)
    dictionary = np.repeat(random_dictionary(rng, n_atoms, n_features), copies, axis=0)
    signals = rng.standard_normal((n_signals, n_features))
    return LassoProblem(dictionary, signals, share * penalty_max(dictionary, signals).max())


def image_problem(
    side: int, n_kernels: int, *, n_images: int = 1, n_channels: int = 1, share: float = 0.1
) -> LassoProblem:
    """Return square parts of a photograph and random 8 x 8 kernels, all without mean, at stride 4."""
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((n_kernels, 8, 8, n_channels))
    kernels -= kernels.mean(axis=(1, 2), keepdims=True)
    kernels /= np.linalg.norm(kernels.reshape(n_kernels, -1), axis=1)[:, np.newaxis, np.newaxis, np.newaxis]
    photograph = photographs()[0]
    corners = rng.integers(0, np.array(photograph.shape) - side, size=(n_images * n_channels, 2))
    parts = np.stack([photograph[i : i + side, j : j + side] for i, j in corners])
    parts = (parts - parts.mean(axis=(1, 2), keepdims=True)).reshape(n_images, n_channels, side, side)
    parts = np.moveaxis(parts, 1, -1)
    if n_channels == 1:
        kernels, parts = kernels[..., 0], parts[..., 0]
    dictionary = ConvolutionalDictionary(kernels, (side, side), 4)
    signals = parts.reshape(n_images, -1)
    return LassoProblem(dictionary, signals, share * penalty_max(dictionary, signals).max())


PROBLEMS: dict[str, Callable[[], LassoProblem]] = {
    "weak penalty: 1,024 atoms x 256, 1e-3 of the maximum": partial(problem, 1024, 256, 1e-3),
    "weaker: 1e-4 of the maximum": partial(problem, 1024, 256, 1e-4),
    "long signal: 200 atoms x 20,000, 0.01": partial(problem, 200, 20_000, 0.01),
    "many atoms: 200,000 x 50, 0.1": partial(problem, 200_000, 50, 0.1),
    "one atom, 100,000 signals": partial(problem, 1, 50, 0.1, n_signals=100_000),
    "small: 8 atoms x 4, 100,000 signals": partial(problem, 8, 4, 0.1, n_signals=100_000),
    "copies: 200 atoms ten times each x 100, 0.1": partial(problem, 200, 100, 0.1, n_signals=5, copies=10),
    "large support: 4,096 atoms x 2,048, 0.01": partial(problem, 4096, 2048, 0.01),
    "photograph of 128 x 128, 32 kernels, 0.1": partial(image_problem, 128, 32),
    "the same, 128 kernels": partial(image_problem, 128, 128),
    "the same, 512 kernels": partial(image_problem, 128, 512),
    "the same, 128 kernels of three channels": partial(image_problem, 128, 128, n_channels=3),
    "the same, 128 kernels of twelve channels": partial(image_problem, 128, 128, n_channels=12),
    "16 photographs of 64 x 64, 128 kernels, 0.1": partial(image_problem, 64, 128, n_images=16),
}


def solve(name: str, method: str, outcome: multiprocessing.Queue) -> None:
    """Put seconds, gigabytes, the largest relative gap and the mean support."""
    unsolved = PROBLEMS[name]()
    started = time.perf_counter()
    with warnings.catch_warnings():
        # The table says how far it came.
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = METHODS[method](unsolved)
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    gap = float((measure(unsolved, result.sparse_codes).duality_gap / unsolved.energies).max())
    outcome.put((seconds, memory, gap, float(result.support_size.mean())))


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="", help="those whose names contain this")
    chosen = [name for name in PROBLEMS if options.parse_args().only in name]
    print(
        "| problem | method | in the code | time | peak memory | largest gap |\n| --- " + "| --- " * 5 + "|"
    )
    for name in chosen:
        for method in METHODS:
            outcome = multiprocessing.Queue()
            process = multiprocessing.Process(target=solve, args=(name, method, outcome))
            process.start()
            try:
                seconds, memory, gap, support = outcome.get(timeout=PATIENCE)
                cells = f"{support:.0f} | {seconds:.2g} s | {memory:.2g} GB | {gap:.1e}"
            except queue.Empty:
                cells = f"- | over {PATIENCE:.0f} s | - | -"
            print(f"| {name} | {method} | {cells} |", flush=True)
            process.kill()
            process.join()


if __name__ == "__main__":
    main()
