"""The LASSO at a hundred penalties, beside the paths of scikit-learn, celer and skglm."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path

from solvers import LassoProblem, path
from tests.benchmarks.problems import correlated_dictionary, planted_problems, random_dictionary
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.timing import Timing, WrongAnswerError, relative_gaps, spread, table, timed

try:
    from celer import celer_path
except ImportError:
    celer_path = None
try:
    from skglm import Lasso as SkglmLasso
except ImportError:
    SkglmLasso = None

TITLE = "Paths of penalties"
GAP = 1e-6
N_PENALTIES = 100
SIZES = ((64, 256, 6, 0.0), (256, 1024, 25, 0.0), (400, 1000, 25, 0.5))
QUICK_SIZES = ((32, 64, 4, 0.0),)
SMALLEST = 1e-2
OURS, COLD = "path", "active set, each cold"
# A wide regression: samples, columns, columns planted, correlation of neighbours.  Gaps of others, and ours.
WIDE, QUICK_WIDE = (200, 20_000, 20, 0.5), (20, 600, 3, 0.5)
GAP_OF_OTHERS, GAP_OF_OURS = 9e-6, 1e-9
CELER, NEEDED = "celer_path", 1.0


def design(n_features: int, n_atoms: int, support: int, rho: float) -> LassoProblem:
    atoms = (
        correlated_dictionary(n_features, n_atoms, rho=rho) if rho else random_dictionary(n_features, n_atoms)
    )
    (problem,) = planted_problems(atoms, support=support, n_signals=1)
    # With the penalty 1 and both signs; peers are given the Gram matrix where they take it.
    return LassoProblem(problem.dictionary, problem.signals, 1.0, gram=problem.gram)


def calls(problem: LassoProblem, multiples: np.ndarray) -> dict[str, Callable[[float], np.ndarray]]:
    """Return each way to the codes, (n_penalties, n_atoms), by its own tolerance."""
    # Copies, since celer does not take arrays that it may not write.
    design = np.array(problem.dictionary.T, order="F")
    alphas = multiples / problem.n_features
    signal, gram = problem.signals[0].copy(), np.array(problem.gram)

    def ours(tol: float) -> np.ndarray:
        return path(problem.subset(slice(None)), multiples, tol=tol).codes[:, 0]

    def cold(tol: float) -> np.ndarray:
        codes = [path(problem.subset(slice(None)), [multiple], tol=tol).codes[0, 0] for multiple in multiples]
        return np.array(codes)

    def sklearn(tol: float) -> np.ndarray:
        found = lasso_path(design, signal, alphas=alphas, precompute=gram, tol=tol, max_iter=100_000)
        return found[1].T

    def celer(tol: float) -> np.ndarray:
        return celer_path(design, signal, "lasso", alphas=alphas, tol=tol)[1].T

    ways = {OURS: ours, COLD: cold, "scikit-learn lasso_path": sklearn}
    if celer_path is not None:
        ways[CELER] = celer
    return ways


def calls_without_gram(problem: LassoProblem, multiples: np.ndarray) -> dict[str, Callable]:
    """As `calls`, without a Gram matrix, which would be larger than the table."""
    design = np.array(problem.dictionary.T, order="F")
    alphas, signal = multiples / problem.n_features, problem.signals[0].copy()

    def ours(tol: float) -> np.ndarray:
        return path(problem.subset(slice(None)), multiples, tol=tol).codes[:, 0]

    def sklearn(tol: float) -> np.ndarray:
        return lasso_path(design, signal, alphas=alphas, precompute=False, tol=tol, max_iter=100_000)[1].T

    def celer(tol: float) -> np.ndarray:
        return celer_path(design, signal, "lasso", alphas=alphas, tol=tol)[1].T

    def skglm(tol: float) -> np.ndarray:
        return SkglmLasso(fit_intercept=False, tol=tol).path(design, signal, alphas)[1].T

    ways = {OURS: ours, "scikit-learn lasso_path": sklearn}
    if celer_path is not None:
        ways[CELER] = celer
    if SkglmLasso is not None:
        ways["skglm"] = skglm
    return ways


def run_wide(*, quick: bool) -> dict:
    n_features, n_atoms, support, rho = QUICK_WIDE if quick else WIDE
    columns = correlated_dictionary(n_features, n_atoms, rho=rho)
    (planted,) = planted_problems(columns, support=support, n_signals=1)
    problem = LassoProblem(planted.dictionary, planted.signals, 1.0)
    multiples = path(problem, n_multiples=10 if quick else N_PENALTIES, smallest=SMALLEST).multiples
    ways = calls_without_gram(problem, multiples)
    tols = {
        name: GAP_OF_OURS if name == OURS else loosest(problem, multiples, call, GAP_OF_OTHERS)
        for name, call in ways.items()
    }
    gap = worst_gap(problem, multiples, ways[OURS](GAP_OF_OURS))
    if not gap <= GAP_OF_OURS:
        raise WrongAnswerError(f"{OURS} must reach a relative gap of {GAP_OF_OURS:g}; got {gap:.3g}")
    timings = timed({name: partial(call, tols[name]) for name, call in ways.items()}, quick=quick)
    return {
        "n_features": n_features,
        "n_atoms": n_atoms,
        "rho": rho,
        "timings": {name: list(timing) for name, timing in timings.items()},
    }


def worst_gap(problem: LassoProblem, multiples: np.ndarray, codes: np.ndarray) -> float:
    """Return the largest relative gap along a path."""
    return max(
        float(relative_gaps(problem.with_penalty(multiple), code[np.newaxis])[0])
        for multiple, code in zip(multiples, codes, strict=True)
    )


def loosest(
    problem: LassoProblem, multiples: np.ndarray, call: Callable[[float], np.ndarray], gap: float = GAP
) -> float:
    """Return the loosest tolerance of a peer's own at which its whole path is good enough."""
    for tol in 10.0 ** -np.arange(3.0, 14.0):
        if worst_gap(problem, multiples, call(tol)) <= gap:
            return tol
    raise WrongAnswerError(f"a path must reach a relative gap of {gap:g}")


def run(*, quick: bool) -> dict:
    sizes = []
    for n_features, n_atoms, support, rho in QUICK_SIZES if quick else SIZES:
        problem = design(n_features, n_atoms, support, rho)
        multiples = path(problem, n_multiples=10 if quick else N_PENALTIES, smallest=SMALLEST).multiples
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ways = calls(problem, multiples)
            tols = {
                name: GAP if name in (OURS, COLD) else loosest(problem, multiples, call)
                for name, call in ways.items()
            }
            for name in (OURS, COLD):
                gap = worst_gap(problem, multiples, ways[name](GAP))
                if not gap <= GAP:
                    raise WrongAnswerError(f"{name} must reach a relative gap of {GAP:g}; got {gap:.3g}")
            timings = timed(
                {name: partial(call, tols[name]) for name, call in ways.items()},
                quick=quick,
            )
        sizes.append(
            {
                "n_features": n_features,
                "n_atoms": n_atoms,
                "rho": rho,
                "timings": {name: list(timing) for name, timing in timings.items()},
            }
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        wide = run_wide(quick=quick)
    return {"n_penalties": len(multiples), "sizes": sizes, "wide": wide}


def targets(data: dict) -> list[Target]:
    wide = data.get("wide", {"timings": {}})  # not in data of before
    times = {name: Timing(*values).median for name, values in wide["timings"].items()}
    if CELER not in times:
        return []
    return [
        at_least(
            f"path of {N_PENALTIES} penalties, {wide['n_features']} x {wide['n_atoms']:,}, "
            f"to {GAP_OF_OURS:g}, beside celer to {GAP_OF_OTHERS:g}",
            NEEDED,
            times[CELER] / times[OURS],
            f">= {NEEDED:g}x",
        )
    ]


def markdown(data: dict) -> str:
    names = list(data["sizes"][0]["timings"])
    rows = []
    for size in data["sizes"]:
        times = {name: Timing(*values) for name, values in size["timings"].items()}
        label = f"{size['n_features']} x {size['n_atoms']}" + (
            f", rho {size['rho']:g}" if size["rho"] else ""
        )
        rows.append(
            [
                label,
                *(
                    f"{spread(times[name])} ({times[name].median / times[OURS].median:.2g}x)"
                    for name in names
                ),
            ]
        )
    text = (
        f"{data['n_penalties']} penalties from the largest that gives a code to {SMALLEST:g} of it, each "
        f"code certified to {GAP:g}; random atoms, a planted code, both signs.  The Gram matrix is given to "
        "all that take it.  In brackets, the time in units of the first column's.\n\n"
        + table(["design", *names], rows)
    )
    return text + _wide_table(data["wide"]) if "wide" in data else text


def _wide_table(wide: dict) -> str:
    times = {name: Timing(*values) for name, values in wide["timings"].items()}
    rows = [
        [name, f"{spread(timing)} ({timing.median / times[OURS].median:.2g}x)"]
        for name, timing in times.items()
    ]
    return (
        f"\n\nA wide regression, {wide['n_features']} x {wide['n_atoms']:,}, neighbours correlated by "
        f"{wide['rho']:g}, without a Gram matrix: ours to {GAP_OF_OURS:g}, others to {GAP_OF_OTHERS:g}.\n\n"
        + table(["path", "time"], rows)
    )


def plot(data: dict) -> Figure | None:
    return None
