"""Wide regression: hundreds of samples, thousands of correlated columns, one target."""

import time
from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures

from examples._common import figure
from solvers import LassoProblem, solve_active_set
from solvers.gram.working_set import WorkingSetSearch
from tests.benchmarks import peers
from tests.benchmarks.contest import best_of, contest, faster, median_seconds
from tests.benchmarks.peers import Peer, Solve
from tests.benchmarks.problems import correlated_dictionary
from tests.benchmarks.random_designs import GAP, horizontal_bars
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.timing import milliseconds, table

TITLE = "Wide regression"


def _without(problem: LassoProblem) -> LassoProblem:
    """Return the problem, made of its arrays alone."""
    return LassoProblem(
        problem.dictionary, problem.signals, float(problem.l1_weights[0]), positive=problem.positive
    )


def _with(problem: LassoProblem) -> LassoProblem:
    """Return the problem, made of its arrays and its Gram matrix, which is checked."""
    return LassoProblem(
        problem.dictionary,
        problem.signals,
        float(problem.l1_weights[0]),
        positive=problem.positive,
        gram=problem.gram,
    )


def _prepared(problem: LassoProblem) -> Solve:
    return peers.ACTIVE_SET.ask(_without(problem))


def _from_arrays(problem: LassoProblem) -> Solve:
    return lambda tol: solve_active_set(_without(problem), tol=tol).codes


def _from_arrays_with_gram(problem: LassoProblem) -> Solve:
    return lambda tol: solve_active_set(_with(problem), tol=tol).codes


OURS = Peer(name="active set", ask=_prepared, takes_gram=False)
WITH_GRAM = Peer(name="active set with Gram", ask=peers.ACTIVE_SET.ask)
FROM_ARRAYS = Peer(name="active set, problem made too", ask=_from_arrays, takes_gram=False)
FROM_ARRAYS_WITH_GRAM = Peer(
    name="active set with Gram, problem made and Gram checked too", ask=_from_arrays_with_gram
)
ALL_OURS = (OURS, FROM_ARRAYS, WITH_GRAM, FROM_ARRAYS_WITH_GRAM)
RIVALS = (peers.SKLEARN_WITHOUT_GRAM, peers.CELER, peers.SKGLM[0])
RIVALS_WITH_GRAM = (peers.SKLEARN[0], peers.SKGLM[1])
ENTRANTS = (*ALL_OURS, *RIVALS, *RIVALS_WITH_GRAM)
# The targets: no slower without the matrix, half as fast again where all that take it are given it.
NEEDED, NEEDED_WITH_GRAM = 1.0, 1.5


def designs(*, quick: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray, tuple[float, ...]]]:
    """Yield name, columns (a row each), target and penalties of each design, in shares of the maximum."""
    for n_samples, n_columns in ((30, 600),) if quick else ((400, 4000), (200, 2000)):
        columns = correlated_dictionary(n_samples, n_columns, rho=0.5)
        rng = np.random.default_rng(1)
        weights = np.zeros(n_columns)
        weights[rng.choice(n_columns, n_samples // 20, replace=False)] = rng.standard_normal(n_samples // 20)
        target = weights @ columns
        noise = rng.standard_normal(n_samples)
        target += noise * np.linalg.norm(target) / (3.0 * np.linalg.norm(noise))
        yield f"neighbours correlate by 0.5, {n_samples} x {n_columns:,}", columns, target, (0.5, 0.1, 0.05)
    n_samples, n_columns = (16, 600) if quick else (64, 6800)
    columns, target = expression(n_samples, n_columns)
    yield f"like gene expression, {n_samples} x {n_columns:,}", columns, target, (0.5, 0.1, 0.05, 0.01)
    columns, target = diabetes(2 if quick else 4)
    name = f"diabetes, products of its measurements, {columns.shape[1]} x {len(columns):,}"
    yield name, columns, target, (0.5, 0.1, 0.05)


def expression(n_samples: int, n_genes: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised genes that belong to some of thirty modules, and the labels of two classes."""
    rng = np.random.default_rng(seed)
    modules = rng.standard_normal((30, n_samples))
    loadings = rng.standard_normal((n_genes, 30)) * (rng.random((n_genes, 30)) < 0.1)
    genes = loadings @ modules + 0.7 * rng.standard_normal((n_genes, n_samples))
    labels = np.sign(modules[0] + modules[1] + 0.5 * rng.standard_normal(n_samples))
    return _standardised(genes), labels - labels.mean()


def diabetes(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the products of up to `degree` of the ten measurements of 442 patients, and the progression."""
    measured, progression = load_diabetes(return_X_y=True)
    products = PolynomialFeatures(degree, include_bias=False).fit_transform(_standardised(measured.T).T)
    return _standardised(products.T), progression - progression.mean()


def _standardised(rows: np.ndarray) -> np.ndarray:
    rows = rows - rows.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(rows / rows.std(axis=1, keepdims=True))


def run(*, quick: bool) -> dict:
    found = {}
    for name, columns, target, shares in designs(quick=quick):
        gram = columns @ columns.T
        largest = float(np.abs(columns @ target).max())
        entries = {}
        for share in shares:
            problem = LassoProblem(columns, target[np.newaxis], share * largest, gram=gram)
            outcome = contest([problem], ENTRANTS, GAP, quick=quick, required=ALL_OURS)
            entries[f"{share:g}"] = {"contest": outcome, **_counted(problem)}
        found[name] = {"penalties": entries, "reading": _reading(columns, target, quick=quick)}
    return {"designs": found}


def _counted(problem: LassoProblem) -> dict:
    """Return the support, the members of the working set, and how often all columns were read for it."""
    nothing = np.empty(0, dtype=np.int64)
    search = WorkingSetSearch(_without(problem), nothing, np.empty(0))
    search.run(100 * problem.n_atoms)
    return {
        "support": len(search.support()[0]),
        "members": search.n_members,
        "readings": search.n_readings,
        "rounds": search.n_rounds,
    }


def _reading(columns: np.ndarray, target: np.ndarray, *, quick: bool) -> float:
    """Return the seconds of one product of all columns with a vector."""
    taken = []
    for _ in range(3 if quick else 51):
        begin = time.perf_counter()
        columns @ target
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken))


def targets(data: dict) -> list[Target]:
    found = []
    for name, design in data["designs"].items():
        for share, entry in design["penalties"].items():
            for ours, rivals, needed, words in (
                (OURS, RIVALS, NEEDED, "no Gram"),
                (WITH_GRAM, RIVALS_WITH_GRAM, NEEDED_WITH_GRAM, "Gram given"),
            ):
                outcome, names = entry["contest"], [peer.name for peer in rivals]
                found.append(
                    at_least(
                        f"{name}, penalty {share} of the maximum, {words}, gap {GAP:g}",
                        needed,
                        faster(outcome, ours.name, names),
                        f">= {needed:g}x the best ({best_of(outcome, names)})",
                    )
                )
    return found


def times_table(design: dict) -> str:
    """Return the time of each method at each penalty, and what the active set did."""
    entries = design["penalties"]
    rows = [
        [
            peer,
            "yes" if first["gram"] else "no",
            *(_duration(median_seconds(entry["contest"], peer)) for entry in entries.values()),
        ]
        for peer, first in next(iter(entries.values()))["contest"]["peers"].items()
    ]
    for words, key in (("active columns", "support"), ("columns in the working set", "members")):
        rows.append([words, "", *(f"{entry[key]:,}" for entry in entries.values())])
    rows.append(
        ["readings of all columns for it", "", *(f"{entry['readings']:.1f}" for entry in entries.values())]
    )
    return table(["", "Gram", *(f"{share} of the maximum" for share in entries)], rows)


def _duration(seconds: float) -> str:
    return milliseconds(seconds) if np.isfinite(seconds) else "not reached"


def markdown(data: dict) -> str:
    parts = [
        f"One target, a LASSO whose columns are atoms, to a certified gap of {GAP:g}.  Layouts that a "
        "program wants are made outside the clock.  Each of ours also reads all columns for the "
        "correlations with the target and for the certificate.  To make a problem takes one reading more, to "
        "check its Gram matrix another one and some rows."
    ]
    for name, design in data["designs"].items():
        parts += [
            f"### {name[0].upper()}{name[1:]}",
            times_table(design),
            f"To read all columns once takes {milliseconds(design['reading'])}.",
        ]
    return "\n\n".join(parts)


def plot(data: dict) -> Figure | None:
    found = data["designs"]
    picture = figure(15.0, 3.4 * ((len(found) + 1) // 2))
    axes = picture.subplots((len(found) + 1) // 2, 2, squeeze=False).ravel()
    for ax in axes[len(found) :]:
        ax.set_axis_off()
    for ax, (name, design) in zip(axes, found.items(), strict=False):
        share = "0.1"
        peers_at = design["penalties"][share]["contest"]["peers"]
        seconds = {peer: entry["seconds"] for peer, entry in peers_at.items()}
        horizontal_bars(ax, seconds, "")
        # The longest names are wider than the axes.
        ax.set_title(f"{name},\npenalty {share} of the maximum", fontsize="medium", loc="right")
    return picture
