"""Two threads on a batch: how much faster, and the same bits."""

import numpy as np
from matplotlib.figure import Figure

from solvers import LassoProblem, solve_spiking
from tests.benchmarks.problems import again, patch_problem, planted_problems, random_dictionary
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.timing import Timing, WrongAnswerError, spread, table, timed, verify

TITLE = "Two threads"
N_JOBS = (1, 2)
NEEDED = 1.8
GAP = 1e-6


def batches(*, quick: bool) -> dict[str, tuple[LassoProblem, dict]]:
    """Return problems of many signals, and what the solver is asked."""
    n_patches, n_atoms, n_training = (64, 32, 500) if quick else (10_000, 256, 10_000)
    n_features, n_random, support, n_signals = (32, 64, 3, 16) if quick else (256, 1024, 25, 512)
    patches = patch_problem(n_patches, n_atoms, n_training)
    single = planted_problems(random_dictionary(n_features, n_random), support=support, n_signals=n_signals)
    random = LassoProblem(
        single[0].dictionary,
        np.concatenate([problem.signals for problem in single]),
        float(np.median([problem.l1_weights[0] for problem in single])),
        positive=True,
        gram=single[0].gram,
    )
    exact = {"polish": True, "tol": GAP}
    return {
        f"{n_patches:,} patches, spikes alone to 1e-3": (patches, {"tol": 1e-3}),
        f"{n_signals} random signals, {n_features} x {n_random}, spikes alone to 1e-4": (
            random,
            {"tol": 1e-4},
        ),
        f"{n_patches:,} patches, active set from spikes": (patches, exact),
        f"{n_signals} random signals, {n_features} x {n_random}, active set from spikes": (random, exact),
    }


def run(*, quick: bool) -> dict:
    works = {}
    for name, (problem, options) in batches(quick=quick).items():
        results = [solve_spiking(again(problem), n_jobs=n_jobs, **options) for n_jobs in N_JOBS]
        verify(problem, results[0].codes, options["tol"], name)
        require_same_bits(results[0].codes, results[1].codes, name)
        times = timed(
            {
                str(n_jobs): lambda n_jobs=n_jobs, problem=problem, options=options: solve_spiking(
                    again(problem), n_jobs=n_jobs, **options
                )
                for n_jobs in N_JOBS
            },
            quick=quick,
            seconds=3.0,
        )
        works[name] = {n_jobs: timing._asdict() for n_jobs, timing in times.items()}
    return {"works": works}


def require_same_bits(one: np.ndarray, other: np.ndarray, name: str) -> None:
    """Raise WrongAnswerError unless two threads give what one gives, to the last bit."""
    if one.tobytes() != other.tobytes():
        worst = float(np.abs(one - other).max())
        raise WrongAnswerError(f"{name}: two threads must give the same bits as one; got {worst:.3g} apart")


def targets(data: dict) -> list[Target]:
    return [
        at_least(
            f"2 threads, {name}", NEEDED, times["1"]["median"] / times["2"]["median"], f">= {NEEDED:g}x one"
        )
        for name, times in data["works"].items()
    ]


def markdown(data: dict) -> str:
    rows = [
        [
            name,
            *(spread(Timing(**times[str(n_jobs)])) for n_jobs in N_JOBS),
            f"{times['1']['median'] / times['2']['median']:.2f}x",
        ]
        for name, times in data["works"].items()
    ]
    return "Codes are the same to the last bit.\n\n" + table(
        ["work", "one thread", "two threads", "faster"], rows
    )


def plot(data: dict) -> Figure | None:
    return None
