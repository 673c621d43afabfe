"""Patches with missing pixels, each with its own mask: one call beside one problem for each patch."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from dictlearn import extract_patches, overcomplete_dct
from examples._common import figure, photograph
from solvers import LassoProblem, solve_active_set, solve_fista, solve_spiking
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.timing import Timing, WrongAnswerError, relative_gaps, spread, table, timed

TITLE = "Missing pixels"
GAP = 1e-6
SIDE, N_ATOMS, PENALTY = 8, 256, 0.02
N_MASKS = 4
OURS, FISTA = "one call", "one call, FISTA"
EACH, POLISHED, SKLEARN = "active set, each", "spikes and active set, each", "scikit-learn Lasso, each"
SHARED, CALLS = f"{N_MASKS} masks, one call", f"{N_MASKS} masks, {N_MASKS} calls"


def masked_patches(n_patches: int, *, n_masks: int | None = None) -> LassoProblem:
    """Return patches of china.jpg without their means; half the pixels are missing."""
    rng = np.random.default_rng(0)
    patches = extract_patches(photograph(128, 192), SIDE)
    patches = patches[rng.choice(len(patches), n_patches, replace=False)]
    masks = rng.random((n_patches if n_masks is None else n_masks, SIDE**2)) < 0.5
    masks = masks[np.arange(n_patches) % len(masks)]
    means = np.sum(patches * masks, axis=1, keepdims=True) / np.maximum(masks.sum(axis=1, keepdims=True), 1)
    return LassoProblem(overcomplete_dct(SIDE, N_ATOMS)[1:], patches - means, PENALTY, mask=masks)


def one_by_one(problem: LassoProblem, solve: Callable[[LassoProblem], np.ndarray]) -> np.ndarray:
    """Return codes of ordinary problems, of the known pixels of each patch."""
    return np.concatenate(
        [
            solve(LassoProblem(problem.dictionary[:, known], signal[np.newaxis, known], problem.l1_weights))
            for signal, known in zip(problem.signals, problem.mask, strict=True)
        ]
    )


def by_sklearn(problem: LassoProblem, tol: float) -> np.ndarray:
    model = Lasso(PENALTY / problem.n_features, fit_intercept=False, tol=tol, max_iter=100_000)
    return model.fit(problem.dictionary.T, problem.signals[0]).coef_[np.newaxis]


def calls(problem: LassoProblem) -> dict[str, Callable[[], np.ndarray]]:
    """Return each way to the codes."""
    finest = next(
        tol
        for tol in 10.0 ** -np.arange(4.0, 14.0)
        if relative_gaps(problem, one_by_one(problem, partial(by_sklearn, tol=tol))).max() <= GAP
    )
    return {
        OURS: lambda: solve_active_set(problem.subset(slice(None)), tol=GAP).codes,
        FISTA: lambda: solve_fista(problem.subset(slice(None)), tol=GAP).codes,
        EACH: lambda: one_by_one(problem, lambda one: solve_active_set(one, tol=GAP).codes),
        POLISHED: lambda: one_by_one(problem, lambda one: solve_spiking(one, tol=GAP, polish=True).codes),
        SKLEARN: lambda: one_by_one(problem, partial(by_sklearn, tol=finest)),
    }


def few_masks(problem: LassoProblem) -> dict[str, Callable[[], np.ndarray]]:
    """Return the ways where many patches have the same mask."""

    def one_call_each() -> np.ndarray:
        codes = np.empty((problem.n_signals, problem.n_atoms))
        for k in range(N_MASKS):
            part = LassoProblem(
                problem.dictionary, problem.signals[k::N_MASKS], problem.l1_weights, mask=problem.mask[k]
            )
            codes[k::N_MASKS] = solve_active_set(part, tol=GAP).codes
        return codes

    return {
        SHARED: lambda: solve_active_set(problem.subset(slice(None)), tol=GAP).codes,
        CALLS: one_call_each,
    }


def measured(
    problem: LassoProblem, ways: dict[str, Callable[[], np.ndarray]], *, quick: bool
) -> dict[str, list]:
    for name, way in ways.items():
        gap = relative_gaps(problem, way()).max()
        if not gap <= GAP:
            raise WrongAnswerError(f"{name} must reach a relative gap of {GAP:g}; got {gap:.3g}")
    return {name: list(timing) for name, timing in timed(ways, quick=quick, warm=True).items()}


def run(*, quick: bool) -> dict:
    n_patches = 40 if quick else 1_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        problem = masked_patches(n_patches)
        support = solve_active_set(problem, tol=GAP).support_size
        shared = masked_patches(n_patches, n_masks=N_MASKS)
        timings = measured(problem, calls(problem), quick=quick)
        timings |= measured(shared, few_masks(shared), quick=quick)
    return {"n_patches": n_patches, "n_nonzero": float(support.mean()), "timings": timings}


def targets(data: dict) -> list[Target]:
    work = f"{data['n_patches']:,} patches, each with its own mask, to {GAP:g}"
    times = {name: Timing(*values).median for name, values in data["timings"].items()}
    return [
        at_least(f"{work}, beside {name}", needed, times[name] / times[OURS], f">= {needed:g}x")
        for name, needed in ((POLISHED, 10.0), (EACH, 1.0), (SKLEARN, 1.0))
    ]


def markdown(data: dict) -> str:
    times = {name: Timing(*values) for name, values in data["timings"].items()}
    rows = [
        [
            name,
            spread(time),
            f"{1e6 * time.median / data['n_patches']:,.0f}",
            f"{time.median / times[SHARED if name in (SHARED, CALLS) else OURS].median:.3g}x",
        ]
        for name, time in times.items()
    ]
    return (
        f"{data['n_patches']:,} patches of 8 x 8 pixels of china.jpg, half of them missing, less "
        f"the mean of those that are known; {N_ATOMS - 1} cosine waves, {data['n_nonzero']:.1f} non-zeros a "
        f"patch; every code certified to {GAP:g}.  Each patch has its own mask, and is a problem of its own "
        "where that is said, without its missing pixels.  In the last two rows patches share "
        f"{N_MASKS} masks.\n\n" + table(["", "time", "microseconds a patch", "of one call"], rows)
    )


def plot(data: dict) -> Figure | None:
    picture = figure(7.0, 2.6)
    ax = picture.subplots()
    per_patch = {
        name: 1e6 * Timing(*values).median / data["n_patches"]
        for name, values in data["timings"].items()
        if name not in (SHARED, CALLS)
    }
    names = sorted(per_patch, key=per_patch.get, reverse=True)
    bars = ax.barh(names, [per_patch[name] for name in names], color="#0072B2")
    ax.bar_label(bars, [f"{per_patch[name]:,.0f}" for name in names], padding=3, fontsize="small")
    ax.set(
        xscale="log", xlabel="microseconds a patch, one core", title=f"Half the pixels missing, to {GAP:g}"
    )
    ax.margins(x=0.15)
    return picture
