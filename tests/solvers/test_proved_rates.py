"""Bounds on rates and stages in docs/theory.md, section 4.5: correct runs keep them, faulty runs break them.

The allowance for rounding is the error that the certificate of the optimum permits, and 1e-9 of a bound.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn import Clock, RealNeuron, simulate
from solvers import LassoProblem, lasso_network, solve_active_set
from tests.reference.proved_rates import (
    HIGHEST_RATE,
    FixedStages,
    PlainRates,
    code_of_counts,
    distance,
    run_stages,
)
from tests.tiers import examples

N_FEATURES = 16
ATOMS = ("independent", "neighbours correlate", "one direction shared", "norms differ")


def random_problem(rng: np.random.Generator, *, n_atoms: int, kind: str, positive: bool) -> LassoProblem:
    """Return a problem of one signal, and atoms of one of several kinds."""
    atoms = rng.standard_normal((n_atoms, N_FEATURES))
    if kind == "neighbours correlate":
        for j in range(1, n_atoms):
            atoms[j] = 0.8 * atoms[j - 1] + 0.6 * atoms[j]
    elif kind == "one direction shared":
        atoms += rng.standard_normal(N_FEATURES)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    if kind == "norms differ":
        atoms *= np.exp(0.5 * rng.standard_normal((n_atoms, 1)))
    code = rng.uniform(0.1, 1.0, n_atoms) * (rng.permutation(n_atoms) < rng.integers(1, 7))
    if not positive:
        code *= rng.choice([-1.0, 1.0], n_atoms)
    signal = code @ atoms + 0.05 * rng.standard_normal(N_FEATURES)
    correlations = atoms @ signal if positive else np.abs(atoms @ signal)
    penalty = rng.choice([0.02, 0.1, 0.3]) * correlations.max()
    return LassoProblem(atoms, signal[np.newaxis], penalty, positive=positive)


def optimum_of(problem: LassoProblem) -> tuple[np.ndarray, float]:
    """Return the optimal code, and a bound on the error of its reconstruction."""
    result = solve_active_set(problem, tol=1e-12)
    return result.codes[0], float(np.sqrt(2.0 * result.duality_gap[0]))


def random_case(number: int, *, largest: int = 40):
    """Return a random problem, its optimum, and the rounding error of the optimum."""
    rng = np.random.default_rng(number)
    kind = ATOMS[number % len(ATOMS)]
    n_atoms = int(rng.integers(3, largest))
    problem = random_problem(rng, n_atoms=n_atoms, kind=kind, positive=bool(rng.integers(2)))
    return problem, *optimum_of(problem)


def share_of_bounds(problem, optimum, rounding, *, run=simulate, duration=300.0, highest=HIGHEST_RATE):
    """Return the largest distance of a run from the optimum, at any time, in units of each bound."""
    bounds = PlainRates.of(problem, optimum, highest)
    spikes = run(lasso_network(problem, scale=bounds.scale), duration, record_spikes=True).spikes
    counts = np.zeros((len(spikes.times) + 1, len(bounds.rates)))
    counts[np.arange(1, len(spikes.times) + 1), spikes.neurons] = 1.0
    counts = np.cumsum(counts, axis=0)
    # Times right after every spike, and right before the next spike.
    times = np.concatenate([[0.0], spikes.times, spikes.times, [duration]])
    counts = np.concatenate([counts, counts])
    errors = code_of_counts(problem, counts, times, bounds.scale) - optimum
    found = np.linalg.norm(errors @ problem.dictionary, axis=1) - rounding
    root = np.max(found / bounds.root_bound(times))
    steady = np.max(found * (times + 1.0)) / (bounds.scale * bounds.reach)
    late = np.isin(spikes.neurons, np.flatnonzero(bounds.rates == 0.0))
    last = spikes.times[late].max() / bounds.last_spike if late.any() else 0.0
    return float(root), float(steady), float(last)


def share_of_stages(problem, optimum, rounding, stages, start, bound, *, n_stages=12):
    """Return the largest distance and the largest number of spikes of a stage, in units of their bounds."""
    distances, spikes = [], []
    for stage, _ in zip(run_stages(problem, stages, start, bound), range(n_stages), strict=False):
        distances.append((distance(problem, stage.code, optimum) - rounding) / stage.bound)
        spikes.append(stage.n_spikes / stages.n_spikes)
    return max(distances), max(spikes)


@pytest.mark.property
@examples(60)
@given(number=st.integers(0, 10**6))
def test_no_run_breaks_its_bound(number):
    problem, optimum, rounding = random_case(number)
    if optimum.any():
        assert max(share_of_bounds(problem, optimum, rounding)) <= 1.0 + 1e-9


@pytest.mark.property
@examples(60)
@given(number=st.integers(0, 10**6), is_support_known=st.booleans())
def test_no_stage_breaks_its_bound(number, is_support_known):
    problem, optimum, rounding = random_case(number, largest=N_FEATURES - 2)
    used = np.arange(problem.n_atoms)
    support = np.flatnonzero(optimum) if is_support_known else used
    if not len(support):
        return
    stages = FixedStages(dictionary=problem.dictionary, used=used, support=support)
    start, bound = np.zeros(problem.n_atoms), float(np.linalg.norm(problem.signals))
    assert stages.factor < 0.62
    assert max(share_of_stages(problem, optimum, rounding, stages, start, bound)) <= 1.0 + 1e-9


# -- the bounds can be broken --------------------------------------------------------------------


def papers_clock(network, duration, **options):
    """Run a network on the clock of the papers, which loses charge."""
    return simulate(network, duration, Clock(0.5, RealNeuron(integration="euler", reset="zero")), **options)


def coarse_clock(network, duration, **options):
    """Simulate on a clock that keeps charge; neurons of atoms that share a direction fire in one step."""
    return simulate(network, duration, Clock(0.25), **options)


def weaker_inhibition(network, duration, **options):
    weights = 0.95 * network.weights.toarray()
    weaker = type(network)(weights, network.soma_bias, network.firing_threshold)
    return simulate(weaker, duration, **options)


@pytest.mark.parametrize(
    ("numbers", "options"),
    [
        (range(10), {"run": papers_clock, "duration": 20_000.0}),
        ([86, 98], {"run": coarse_clock}),
        (range(5), {"run": weaker_inhibition, "duration": 5_000.0}),
        (range(20), {"highest": 50.0, "duration": 20.0}),
    ],
    ids=["a clock that loses charge", "a coarse clock", "weaker inhibition", "rates far above a half"],
)
def test_the_root_bound_can_be_broken(numbers, options):
    assert max(share_of_bounds(*random_case(number), **options)[0] for number in numbers) > 1.0


@pytest.mark.parametrize("broken", ["no margins", "too short", "an atom is left out", "bound too small"])
def test_without_its_conditions_a_stage_breaks_its_bound(broken):
    shares = []
    for number in range(6):
        problem, optimum, rounding = random_case(number, largest=N_FEATURES - 2)
        support = np.flatnonzero(optimum)
        if len(support) < 2:
            continue
        stages = FixedStages(dictionary=problem.dictionary, used=np.arange(problem.n_atoms), support=support)
        bound = float(np.linalg.norm(problem.signals))
        if broken in ("no margins", "too short"):
            # Copy the proved numbers, and make one of them wrong.
            names = ("used", "margins", "scale", "duration", "factor", "n_spikes")
            stages = SimpleNamespace(**{name: getattr(stages, name) for name in names})
            if broken == "too short":
                stages.duration /= 500.0
            else:
                stages.margins = np.zeros_like(stages.margins)
        elif broken == "an atom is left out":
            used = np.setdiff1d(np.arange(problem.n_atoms), support[:1])
            stages = FixedStages(dictionary=problem.dictionary, used=used, support=support[1:])
        else:
            bound *= 3e-4
        start = np.zeros(problem.n_atoms)
        shares.append(share_of_stages(problem, optimum, rounding, stages, start, bound, n_stages=25)[0])
    assert np.median(shares) > 1.0
