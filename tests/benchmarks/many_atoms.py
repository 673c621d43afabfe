"""Many signals in many atoms without a Gram matrix: time of a processor, memory, and peers."""

import contextlib
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from solvers import IllPosedWarning, LassoProblem, PreparedLasso, certify, memory_limit, solve_active_set
from tests.benchmarks.peers import CELER, SKLEARN_WITHOUT_GRAM, present
from tests.benchmarks.report import Target, at_most
from tests.benchmarks.timing import WrongAnswerError, relative_gaps

TITLE = "Many signals, many atoms"
GAP = 1e-6
# Atoms that signals are made of, and about as many in their codes.
PLANTED = 40
# Atoms that resemble each other, with an inner product of 0.84.
IN_GROUP = 16
# Peers code so few signals: they take a second for each.
N_FOR_PEERS = 2
PEERS = (CELER, SKLEARN_WITHOUT_GRAM)
# A Gram matrix of the quick sizes does not fit.
QUICK_LIMIT = 1e6


class Work(NamedTuple):
    """What is coded."""

    n_atoms: int
    n_features: int
    n_signals: int
    kind: str = "random"
    """Or "groups"; or "mapped", random atoms in a file."""
    limit: float = 2**30

    @property
    def name(self) -> str:
        """For tables."""
        kind = {"random": "", "groups": ", correlated groups", "mapped": ", memory map"}[self.kind]
        return f"{self.n_atoms:,} x {self.n_features:,}{kind}, {self.n_signals:,} signals"


# With the targets: milliseconds a signal, and gigabytes beside the dictionary.
WORKS = {
    Work(16_384, 512, 200): (3.5, 0.6),
    Work(16_384, 512, 2_000): (3.0, 1.0),
    Work(16_384, 512, 200, "groups"): (None, None),
    Work(65_536, 768, 200): (8.0, 1.0),
    Work(65_536, 768, 2_000): (7.0, 2.0),
    Work(131_072, 1_024, 500, "mapped", 2e9): (None, 2.0),
}
QUICK_WORKS = {
    Work(600, 32, 20, "random", QUICK_LIMIT): (None, None),
    Work(600, 32, 20, "groups", QUICK_LIMIT): (None, None),
    Work(600, 32, 20, "mapped", QUICK_LIMIT): (None, None),
}


def atoms_of(work: Work, rng: np.random.Generator) -> np.ndarray:
    """Return atoms of norm one."""
    atoms = rng.standard_normal((work.n_atoms, work.n_features))
    if work.kind == "groups":
        centres = np.sqrt(0.8) * rng.standard_normal((-(-work.n_atoms // IN_GROUP), work.n_features))
        centres += np.sqrt(0.2) * rng.standard_normal(work.n_features)
        atoms *= np.sqrt(0.16)
        atoms += np.sqrt(0.84) * centres.repeat(IN_GROUP, axis=0)[: work.n_atoms]
    atoms /= np.sqrt(np.einsum("ij,ij->i", atoms, atoms))[:, np.newaxis]
    return atoms


def mapped(work: Work, rng: np.random.Generator, folder: str) -> np.ndarray:
    """Return atoms that are in a file, written part by part."""
    path = Path(folder) / "atoms.npy"
    shape = work.n_atoms, work.n_features
    array = np.lib.format.open_memmap(path, "w+", np.float64, shape)
    for first in range(0, work.n_atoms, 4096):
        part = work._replace(n_atoms=min(4096, work.n_atoms - first))
        array[first : first + part.n_atoms] = atoms_of(part, rng)
    array.flush()
    return np.load(path, mmap_mode="r")


def signals_of(atoms: np.ndarray, n_signals: int, rng: np.random.Generator) -> np.ndarray:
    """Return sums of some of the atoms, with noise."""
    signals = 0.02 * rng.standard_normal((n_signals, atoms.shape[1]))
    planted = min(PLANTED, atoms.shape[1] // 8)
    for signal in signals:
        chosen = np.sort(rng.choice(len(atoms), planted, replace=False))
        signal += rng.uniform(0.5, 1.5, planted) @ atoms[chosen]
    return signals


def penalty_for(atoms: np.ndarray, signals: np.ndarray) -> float:
    """Return a penalty at which codes have about as many atoms as signals are made of."""
    prepared = PreparedLasso(atoms, 1.0, positive=True).with_signals(signals)
    low, high = 0.01, 50.0
    for _ in range(10):
        middle = np.sqrt(low * high)
        support = solve_active_set(prepared.with_penalty(middle)).support_size.mean()
        wanted = min(PLANTED, atoms.shape[1] // 8)
        low, high = (middle, high) if support > wanted else (low, middle)
    return float(np.sqrt(low * high))


def peak() -> float:
    """Return the most memory that this process has had, in GB."""
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9


def measured(work: Work) -> dict:
    """Return what a process of its own measures: its memory is that of this work."""
    rng = np.random.default_rng(0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ConvergenceWarning)
        # On the way to a penalty.
        warnings.simplefilter("ignore", IllPosedWarning)
        stack.enter_context(memory_limit(work.limit))
        if work.kind == "mapped":
            atoms = mapped(work, rng, stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            atoms = atoms_of(work, rng)
        signals = signals_of(atoms, work.n_signals, rng)
        penalty = penalty_for(atoms, signals[:8])
        before = peak()
        begin, processor = time.perf_counter(), time.process_time()
        problem = LassoProblem(atoms, signals, penalty, positive=True)
        result = solve_active_set(problem)
        figures = {
            "seconds": time.perf_counter() - begin,
            "processor": time.process_time() - processor,
            "peak": peak(),
            "before": before,
            "support": float(result.support_size.mean()),
            "peers": {},
        }
        few = problem.subset(slice(0, N_FOR_PEERS))
        # NumPy's certificate, which shares nothing with the one that was timed.
        gap = max(relative_gaps(few, result.codes[:N_FOR_PEERS]).max(), result.relative_gap.max())
        if not gap <= GAP:
            raise WrongAnswerError(f"codes of {work.name} must reach a gap of {GAP:g}; got {gap:.2g}")
        if work.kind == "mapped":
            return figures
        for peer in present(PEERS):
            solve = peer.ask(few)
            begin = time.process_time()
            codes, tol = solve(GAP), GAP
            while certify(few, codes).relative_gap.max() > GAP and tol > 1e-14:
                tol *= 0.1
                begin = time.process_time()
                codes = solve(tol)
            figures["peers"][peer.name] = (time.process_time() - begin) / N_FOR_PEERS
        return figures


def run(*, quick: bool) -> dict:
    works = QUICK_WORKS if quick else WORKS
    rows = []
    for work in works:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append({"work": list(work), **pool.apply(measured, (work,))})
    return {"rows": rows}


def milliseconds(row: dict) -> float:
    """Return the time of a processor for each signal."""
    return 1e3 * row["processor"] / Work(*row["work"]).n_signals


def targets(data: dict) -> list[Target]:
    found = []
    times = {Work(*row["work"]): milliseconds(row) for row in data["rows"]}
    for row in data["rows"]:
        work = Work(*row["work"])
        most, memory = WORKS.get(work, (None, None))
        if work.kind == "groups" and work._replace(kind="random") in times:
            most = 2.0 * times[work._replace(kind="random")]
        if most is not None:
            found.append(at_most(f"{work.name}, a signal", most, times[work], f"<= {most:.3g} ms", " ms"))
        if memory is not None:
            extra = row["peak"] - 8e-9 * work.n_atoms * work.n_features
            found.append(at_most(f"{work.name}, memory", memory, extra, f"<= {memory:g} GB", " GB"))
    return found


def markdown(data: dict) -> str:
    lines = [
        "Codes that are not negative, certified to 1e-6 (active sets end at rounding), one thread.  Times "
        "of a signal are of the processor; the peak of memory is that of the process, dictionary and all.",
        "",
        f"| work | active | a signal | in all | peak | {' | '.join(peer.name for peer in PEERS)} |",
        f"| --- | --- | --- | --- | --- | {' | '.join('---' for _ in PEERS)} |",
    ]
    for row in data["rows"]:
        peers = [row["peers"].get(peer.name) for peer in PEERS]
        lines.append(
            f"| {Work(*row['work']).name} | {row['support']:.0f} | {milliseconds(row):.1f} ms "
            f"| {row['seconds']:.1f} s | {row['peak']:.2f} GB "
            f"| {' | '.join('-' if peer is None else f'{1e3 * peer:.0f} ms' for peer in peers)} |"
        )
    return "\n".join(lines)


def plot(data: dict) -> Figure | None:
    return None
