"""The table of cases: what is timed, in comparison with which packages, and to which gap.

A case makes its data, verifies every answer, and returns calls. The first call is the library's own, and the
others are compared with it.
"""

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import Lasso

from dictlearn import LearningSettings, learn_dictionary, mean_objective, random_dictionary
from examples.convolutional_coding import coding_problem, learned_kernels
from snn import simulate
from solvers import (
    METHODS,
    ConvolutionalDictionary,
    IllPosedWarning,
    LassoProblem,
    SparseCodingResult,
    SparseCodingStream,
    lasso_network,
    penalty_max,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from tests.benchmarks import learning, peers, quadratic
from tests.benchmarks.peers import Peer, calibrated, present, quiet
from tests.benchmarks.problems import (
    again,
    correlated_dictionary,
    demo_problem,
    learned_dictionary,
    masked_patches,
    patch_problem,
    photograph_patches,
    planted_problems,
    planted_signals,
    single_problems,
    wide_regression,
)
from tests.benchmarks.problems import random_dictionary as random_atoms
from tests.benchmarks.timing import WrongAnswerError, in_words, verify

ROOT = Path(__file__).parents[2]


@dataclass
class Work:
    """A call that a case times."""

    calls: dict[str, Callable[[], object]]
    notes: dict[str, str] = field(default_factory=dict)
    """Other figures of a call: spikes, objectives."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time that another program took."""
    n_signals: int = 1
    """Number of signals of a call; times are given per signal."""


class Case(NamedTuple):
    """A line of the table."""

    make: Callable[[bool], Work]
    """Makes the work; with True at a small size, which only shows that it runs."""
    about: str


def coding(problem: LassoProblem, entrants: Sequence[Peer], tol: float) -> Work:
    """Return calls of all entrants that reach a certified relative gap of `tol`; the first one must."""
    calls, notes = {}, {}
    for peer in present(entrants):
        call, _ = calibrated(peer, problem, tol)
        if call is None and peer is entrants[0]:
            verify(problem, peer.ask(problem)(tol), tol, peer.name)
        if call is not None:
            calls[peer.name] = call
    if peers.SPIKES.name in calls:
        notes[peers.SPIKES.name] = f"{solve_spiking(again(problem), tol=tol).n_steps.mean():.0f} spikes"
    return Work(calls, notes, n_signals=problem.n_signals)


# -- codes ---------------------------------------------------------------------------------------

ONE = (
    *(peers.SPIKES, peers.PREPARED_SPIKES, peers.ACTIVE_SET, peers.PREPARED_ACTIVE_SET, peers.FROM_SPIKES),
    *(peers.LEAN_FISTA, peers.SPAMS, peers.SKLEARN, peers.CELER, peers.SKGLM),
)
MANY = (
    *(peers.SPIKES, peers.CLOCKED_SPIKES, peers.ACTIVE_SET, peers.FROM_SPIKES, peers.FISTA),
    *(peers.SPAMS, peers.SKLEARN_BATCH),
)


def one_signal(n_features: int, n_atoms: int, support: int, tol: float, small: bool) -> Work:
    """A planted code in random atoms."""
    if small:
        n_features, n_atoms, support = 16, 32, 3
    (problem,) = planted_problems(random_atoms(n_features, n_atoms), support=support, n_signals=1)
    return coding(problem, ONE, tol)


ALONE = {peers.SPIKES: "spiking", peers.ONE_WINDOW: "spiking_one_window", peers.RATE: "spiking_rate"}
Problems = Callable[[], list[LassoProblem]]


def learned_patches(penalty: float, *, positive: bool) -> list[LassoProblem]:
    """Return a problem for each patch, at a share of its largest penalty."""
    atoms = learned_dictionary(256, 10_000)
    return single_problems(atoms, photograph_patches(5), penalty, positive=positive)


DESIGNS: dict[str, Problems] = {
    "random, 64 x 256": lambda: planted_problems(random_atoms(64, 256), support=6, n_signals=5),
    "random, 256 x 1,024": lambda: planted_problems(random_atoms(256, 1024), support=25, n_signals=5),
    "random, 1,024 x 4,096": lambda: planted_problems(random_atoms(1024, 4096), support=100, n_signals=3),
    "patches": lambda: [patch_problem(15).subset([k]) for k in range(15)],
    "correlated (rho 0.9), 256 x 1,024": lambda: planted_problems(
        correlated_dictionary(256, 1024), support=25, n_signals=5
    ),
}
SMALL: Problems = partial(planted_problems, random_atoms(16, 32), support=3, n_signals=2)
ON_PATCHES = "patches, 64 x 256 learned, penalty {} of the maximum, {}"
HARD: dict[str, Problems] = {
    "correlated (rho 0.9), 256 x 1024": DESIGNS["correlated (rho 0.9), 256 x 1,024"],
    "random, 256 x 1024, penalty 0.01 of the maximum": lambda: planted_problems(
        random_atoms(256, 1024), support=25, n_signals=5, penalty=0.01
    ),
    ON_PATCHES.format(0.1, "signed codes"): partial(learned_patches, 0.1, positive=False),
    ON_PATCHES.format(0.01, "codes not negative"): partial(learned_patches, 0.01, positive=True),
    ON_PATCHES.format(0.01, "signed codes"): partial(learned_patches, 0.01, positive=False),
}
COUNTED: dict[str, Problems] = {
    **{design: DESIGNS[design] for design in ("random, 64 x 256", "random, 256 x 1,024", "patches")},
    "image, 32,256 unknowns": lambda: [coding_problem(52, learned_kernels())],
}
WIDE = {
    "neighbours correlate by 0.5, 400 x 4,000": (0.5, 0.1),
    "like gene expression, 64 x 6,800": (0.5, 0.1, 0.01),
    "diabetes, products of its measurements, 442 x 1,000": (0.5, 0.1),
}
DESCENTS = (peers.SKLEARN, peers.CELER, peers.SKGLM)


def one_by_one(make: Problems, entrants: Sequence[Peer], tol: float, small: bool) -> Work:
    """Single signals one after the other; of spikes alone their number and the largest certified gap."""
    problems = (SMALL if small else make)()
    work = Work({}, n_signals=len(problems))
    for peer in present(entrants):
        calls = [calibrated(peer, problem, tol)[0] for problem in problems]
        if None not in calls:
            work.calls[peer.name] = partial(lambda calls: [call() for call in calls], calls)
            if peer in ALONE:
                results = [METHODS[ALONE[peer]](again(problem), tol=tol) for problem in problems]
                gap = max(result.relative_gap[0] for result in results)
                spikes = np.median([result.n_steps for result in results])
                work.notes[peer.name] = f"{spikes:,.0f} spikes, gap {gap:.0e}"
    return work


def regression(design: str, share: float, small: bool) -> Work:
    """One target and thousands of correlated columns, without a Gram matrix."""
    problem = wide_regression(design, share, small=small)
    work = coding(problem, (peers.ACTIVE_SET, *DESCENTS), 1e-6)
    result = solve_active_set(again(problem))
    readings = result.operations["method"].multiply_adds[0] / problem.dictionary.size
    work.notes[peers.ACTIVE_SET.name] = f"{result.support_size[0]} active, {readings:.1f} readings"
    return work


def operations(make: Problems, tol: float, small: bool) -> Work:
    """Medians: spikes, deliveries, updates, multiply-adds of read-out and certificate; or of the method."""
    problems = (SMALL if small else make)()
    work = Work({}, n_signals=len(problems))

    def counts(result: SparseCodingResult) -> list[np.ndarray]:
        ledger = result.operations
        if "network" not in ledger:
            return [ledger["method"].multiply_adds]
        run = ledger["network"].on_clock(1 / 4 if problems[0].has_gram else 1 / 8)
        others = (ledger[part].multiply_adds for part in ("read-out", "certificate"))
        return [run.spikes, run.synaptic_operations, run.neuron_updates, *others]

    for name in ("spiking", "fista", "active_set"):
        solve = partial(METHODS[name], tol=tol)
        results = [solve(again(problem)) for problem in problems]
        if not all(result.converged for result in results):
            raise WrongAnswerError(f"{name} must reach a relative gap of {tol:g}")
        medians = np.median([counts(result) for result in results], axis=0).ravel()
        work.notes[name] = ", ".join(f"{count:.0f}" for count in medians)
        work.calls[name] = partial(lambda solve: [solve(again(problem)) for problem in problems], solve)
    return work


def patches(tol: float, small: bool) -> Work:
    """Patches of a photograph in learned atoms."""
    return coding(patch_problem(50, 32, 500) if small else patch_problem(3_000), MANY, tol)


def tiny(n_features: int, n_atoms: int, penalty: float, small: bool) -> Work:
    """Many signals of few features, in few atoms: beside SPAMS, or SciPy's loop where the penalty is zero."""
    rng = np.random.default_rng(0)
    atoms = rng.random((n_atoms, n_features))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    signals = rng.random((100 if small else 20_000, n_features))
    problem = LassoProblem(atoms, signals, penalty, positive=True)
    return coding(problem, (peers.ACTIVE_SET, peers.SPAMS if penalty else peers.NNLS), 1e-6)


def demo(small: bool) -> Work:
    """The patches of `make demo`, in cosine atoms, codes of either sign."""
    return coding(
        demo_problem(small), (peers.SPIKES, peers.CLOCKED_SPIKES, peers.ACTIVE_SET, peers.FISTA), 1e-3
    )


def threads(small: bool) -> Work:
    """Return the work of coding patches in two threads."""
    problem = patch_problem(50, 32, 500) if small else patch_problem(3_000)
    return Work(
        {
            f"{solver.__name__}, {n_jobs} thread{'s' * (n_jobs > 1)}": partial(
                lambda solver, n_jobs: solver(again(problem), tol=1e-6, n_jobs=n_jobs), solver, n_jobs
            )
            for solver in (solve_spiking, solve_active_set)
            for n_jobs in (1, 2)
        }
    )


def many_atoms(small: bool) -> Work:
    """Atoms whose Gram matrix does not fit into memory, a few signals."""
    dictionary = random_atoms(16, 128) if small else random_atoms(64, 65_536)
    signals = planted_signals(dictionary, support=4, n_signals=8)
    problem = LassoProblem(dictionary, signals, 0.3, positive=True)
    verify(problem, solve_active_set(problem).codes, 1e-6, "active set")
    return Work(
        {
            "active set": lambda: solve_active_set(LassoProblem(dictionary, signals, 0.3, positive=True)),
            "FISTA to 1e-3": lambda: solve_fista(
                LassoProblem(dictionary, signals, 0.3, positive=True), tol=1e-3
            ),
        }
    )


def convolution(small: bool) -> Work:
    """8 x 8 kernels on an image, as on the chip of the paper: 32,256 unknowns."""
    n_kernels, side = (4, 20) if small else (224, 52)
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((n_kernels, 8, 8))
    kernels /= np.linalg.norm(kernels, axis=(1, 2), keepdims=True)
    image = learning.photograph(side, side)
    dictionary = ConvolutionalDictionary(kernels, image.shape, 4)
    signal = (image - image.mean()).reshape(1, -1)
    penalty = 0.1 * penalty_max(dictionary, signal)[0]
    problem = LassoProblem(dictionary, signal, penalty)
    calls = {
        "spikes alone to 1e-2": lambda: solve_spiking(again(problem), tol=1e-2),
        "active set": lambda: solve_active_set(again(problem)),
        "FISTA to 1e-2": lambda: solve_fista(again(problem), tol=1e-2),
    }
    for name, call in calls.items():
        verify(problem, call().codes, 1e-2, name)
    return Work(calls)


def masks(small: bool) -> Work:
    """Patches with half of the pixels missing, each with its own mask: in one call, and one by one."""
    problem = masked_patches(40 if small else 1_000)

    def each(solve: Callable[[LassoProblem], np.ndarray]) -> np.ndarray:
        """Return the codes of one ordinary problem for each patch, with only its known pixels."""
        cut = (
            LassoProblem(problem.dictionary[:, known], signal[np.newaxis, known], problem.l1_weights)
            for signal, known in zip(problem.signals, problem.feature_weights > 0, strict=True)
        )
        with quiet():  # some codes are zero
            return np.concatenate([solve(one) for one in cut])

    def descend(one: LassoProblem) -> np.ndarray:
        model = Lasso(one.l1_weights[0] / one.n_features, fit_intercept=False, tol=1e-7, max_iter=100_000)
        return model.fit(one.dictionary.T, one.signals[0]).coef_[np.newaxis]

    calls = {
        "`solve_active_set`, one call": lambda: solve_active_set(again(problem)).codes,
        "`solve_active_set`, one problem each": lambda: each(lambda one: solve_active_set(one).codes),
        "`active_set_from_spikes`, one problem each": lambda: each(
            lambda one: METHODS["active_set_from_spikes"](one).codes
        ),
        "`solve_fista`, one call": lambda: solve_fista(again(problem), tol=1e-6).codes,
        "scikit-learn's `Lasso`, one problem each": lambda: each(descend),
    }
    for name, call in calls.items():
        verify(problem, call(), 1e-6, name)
    return Work(calls, n_signals=problem.n_signals)


def stream(small: bool) -> Work:
    """A frame of 256 atoms by a deadline: medians and the latest of 100 frames."""
    rng = np.random.default_rng(0)
    dictionary = random_atoms(64, 256)
    code = rng.standard_normal(256) * (rng.random(256) < 0.05)
    frames = [(code * (1.0 + 0.02 * k)) @ dictionary for k in range(10 if small else 100)]
    calls, notes = {}, {}
    for deadline in (0.5e-3, 2e-3, 10e-3):
        frames_of = SparseCodingStream(dictionary, 0.05)
        late = [
            frames_of.code(frame, tol=1e-8, max_seconds=deadline).info["seconds_late"] for frame in frames
        ]
        name = f"deadline of {1e3 * deadline:g} ms"
        calls[name] = partial(frames_of.code, frames[-1], tol=1e-12, max_seconds=deadline)
        notes[name] = f"late by {in_words(float(np.median(late)))}, at most {in_words(max(late))}"
    return Work(calls, notes)


# -- networks ------------------------------------------------------------------------------------


def simulator(n_features: int, n_atoms: int, support: int, small: bool) -> Work:
    """A random CLASSO network for 100 time constants, beside Brian2 if that is installed."""
    if small:
        n_features, n_atoms, support = 32, 64, 4
    (problem,) = planted_problems(random_atoms(n_features, n_atoms), support=support, n_signals=1, seed=4)
    network, duration = lasso_network(problem), 20.0 if small else 100.0
    counts = simulate(network, duration).spike_counts
    notes = {"simulate": f"{counts.sum():,} spikes"}
    if n_atoms > 256 or small:
        return Work({"simulate": lambda: simulate(network, duration)}, notes)
    try:
        from tests.benchmarks.brian2_network import brian2_run

        theirs, seconds, _ = brian2_run(network, duration, repeats=5)
    except ImportError:
        return Work({"simulate": lambda: simulate(network, duration)}, notes)
    if not np.array_equal(theirs, counts):
        raise WrongAnswerError("Brian2 and the exact simulation must agree on spike counts")
    seconds = {"Brian2 C++, rk4, step 1e-3": float(np.median(seconds))}
    return Work({"simulate": lambda: simulate(network, duration)}, notes, seconds)


# -- learning ------------------------------------------------------------------------------------


def learned(task: str, batch_size: int, small: bool) -> Work:
    """10,240 samples learned, beside SPAMS and scikit-learn: the same start, samples and order."""
    n_samples = 64 if small else 10_240
    data = learning.task(task, 500 if small else n_samples)
    # Not seed 0, with which the signed task draws its true atoms.
    start = random_dictionary(data.n_atoms, data.signals.shape[1], positive=data.positive_atoms, rng=1)
    settings = LearningSettings(
        penalty=learning.PENALTY,
        positive_atoms=data.positive_atoms,
        positive_code=data.positive_code,
        batch_size=batch_size,
    )

    def ours(n_jobs: int = 1) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IllPosedWarning)  # signals of some tasks have an offset
            return learn_dictionary(
                data.signals, start=start, settings=settings, n_samples=n_samples, rng=0, n_jobs=n_jobs
            )

    def objective(dictionary: np.ndarray) -> str:
        score = mean_objective(
            dictionary, data.held_out, penalty=learning.PENALTY, positive_code=data.positive_code
        ).objective
        return f"objective {score:.4f}"

    learner = ours()
    spikes = learner.n_spikes / learner.n_samples
    calls = {"two-phase network": ours, "two-phase network, two threads": partial(ours, 2)}
    notes = {"two-phase network": f"{objective(learner.dictionary)}, {spikes:.0f} spikes a sample"}
    # For the other tasks, scikit-learn would take minutes.
    for name in ("SPAMS",) * peers.SPAMS.installed + ("scikit-learn",) * task.startswith("windows"):
        calls[name] = partial(learning.by_peer, name, data, start, n_samples, batch_size)
        notes[name] = objective(calls[name]())
    return Work(calls, notes)


# -- processes of their own ----------------------------------------------------------------------

PROBLEM = "import numpy as np, solvers as s; p = s.LassoProblem(np.eye(4), np.ones((1, 4)), 0.5); "
NETWORK = "import numpy as np, snn; n = snn.SpikingNetwork(np.zeros((2, 2)), [1.0, 0.5]); "
PROGRAMS = {
    "import solvers": "import solvers",
    "first simulate": f"{NETWORK} snn.simulate(n, 5.0)",
    "first solve_active_set": f"{PROBLEM} s.solve_active_set(p)",
    "first solve_spiking": f"{PROBLEM} s.solve_spiking(p)",
}


def process(name: str, cold: bool, small: bool) -> Work:
    """A fresh interpreter, with an empty cache of machine code or a full one."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cold else {})
            command = [sys.executable, "-W", "ignore", "-c", PROGRAMS[name]]
            subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)

    return Work({name: run})


def quietly(make: Callable[..., Work], *arguments: object) -> Callable[[bool], Work]:
    """Return what makes a case, without warnings: verification decides."""

    def made(small: bool) -> Work:
        with quiet(), warnings.catch_warnings():
            return make(*arguments, small)

    return made


def _table() -> dict[str, Case]:
    cases = {}
    for n_features, n_atoms, support in ((64, 256, 12), (256, 1024, 25), (1024, 4096, 100)):
        for tol in (1e-3, 1e-4, 1e-6):
            name = f"one signal, {n_features} x {n_atoms}, {tol:g}"
            cases[name] = Case(quietly(one_signal, n_features, n_atoms, support, tol), one_signal.__doc__)
    for design in DESIGNS:
        for tol in (1e-3, 1e-6):
            name = f"spikes alone, {design}, {tol:g}"
            make = quietly(one_by_one, DESIGNS[design], (*ALONE, peers.LEAN_FISTA), tol)
            cases[name] = Case(make, one_by_one.__doc__)
    for design, problems in HARD.items():
        make = quietly(one_by_one, problems, (peers.SPIKES, peers.ACTIVE_SET, *DESCENTS), 1e-6)
        cases[f"hard design, {design}"] = Case(make, one_by_one.__doc__)
    for design, shares in WIDE.items():
        for share in shares:
            name = f"regression, {design}, penalty {share}"
            cases[name] = Case(quietly(regression, design, share), regression.__doc__)
    for design, problems in COUNTED.items():
        for tol in (1e-3, 1e-6):
            name = f"operations, {design}, {tol:g}"
            cases[name] = Case(quietly(operations, problems, tol), operations.__doc__)
    for tol in (1e-3, 1e-6):
        cases[f"3,000 patches, {tol:g}"] = Case(quietly(patches, tol), patches.__doc__)
    for n_features, n_atoms, penalty in ((3, 2, 0.1), (8, 6, 0.1), (12, 5, 0.0)):
        name = f"tiny signals, {n_features} x {n_atoms}, penalty {penalty:g}"
        cases[name] = Case(quietly(tiny, n_features, n_atoms, penalty), tiny.__doc__)
    for make, name in (
        (demo, "patches of the demo, 1e-3"),
        (threads, "two threads"),
        (many_atoms, "65,536 atoms"),
        (convolution, "convolution, 32,256 unknowns"),
        (masks, "a mask for each patch"),
        (stream, "stream, 256 atoms"),
    ):
        cases[name] = Case(quietly(make), make.__doc__)
    for size in quadratic.SIZES:
        make = quietly(lambda size, small: Work(quadratic.solvers_of(size, small)), size)
        cases[f"quadratic program, {size}"] = Case(make, "A random program, beside quadprog and Clarabel.")
    for n_features, n_atoms, support in ((64, 256, 12), (256, 1024, 25), (1024, 4096, 100)):
        name = f"simulate, {n_atoms} neurons"
        cases[name] = Case(quietly(simulator, n_features, n_atoms, support), simulator.__doc__)
    for task in learning.TASKS:
        for batch_size in (32, 512) if task == "split patches, 256 x 128" else (32,):
            name = f"learn {task}, batches of {batch_size}"
            cases[name] = Case(quietly(learned, task, batch_size), learned.__doc__)
    for program in PROGRAMS:
        for cold in (False, True):
            name = f"{program}, {'empty' if cold else 'full'} cache"
            cases[name] = Case(quietly(process, program, cold), process.__doc__)
    return cases


CASES = _table()
GATES = (
    *(
        "simulate, 256 neurons",
        "simulate, 4096 neurons",
        "one signal, 64 x 256, 1e-06",
        "3,000 patches, 1e-06",
    ),
    *("learn split patches, 256 x 128, batches of 32", "convolution, 32,256 unknowns", "65,536 atoms"),
    *("import solvers, full cache", "first simulate, empty cache", "first solve_spiking, empty cache"),
)
"""The names of cases that no change may make slower."""
