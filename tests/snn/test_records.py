"""Potentials, currents, causes of spikes, and rates that are read from a record agree with their formulas."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn import (
    ARITHMETIC_45NM,
    LOIHI,
    Clock,
    Imperfections,
    NetworkState,
    OperationCounts,
    RealNeuron,
    Record,
    SpikeTrain,
    SpikingNetwork,
    Stimulus,
    energy_estimate,
    simulate,
)
from snn.digital import DigitalFormat
from tests.reference.networks import MODERATE, classo_network, golden_network, networks, random_dictionary
from tests.reference.weight_forms import NAMES
from tests.tiers import examples

every_form = pytest.mark.parametrize("form", NAMES)
ONTO = st.sampled_from([None, "current", "drive"])


def inputs_of(stimulus):
    """Return (time, weights) of each input spike onto the current."""
    if stimulus is None or stimulus.onto == "drive":
        return []
    rows = stimulus.weights.toarray()[stimulus.spikes.neurons]
    return list(zip(stimulus.spikes.times, rows, strict=True))


def drive_of(stimulus, network, since, until):
    """Return the integral of the drive between two times, summed from one change to the next."""
    if stimulus is None or since == until:
        return network.soma_bias * (until - since)
    edges = np.unique(np.concatenate([[since, until], stimulus.times]))
    edges = edges[(since <= edges) & (edges <= until)]
    return np.diff(edges) @ stimulus.drive_at(edges[:-1], network.soma_bias)


def close(one, other, this, rtol=1e-11):
    size = np.maximum(this.firing_threshold, 1.0) + this.duration * np.abs(this.soma_bias).max()
    if this.state is not None:
        size = size + np.abs(this.state.membrane_potential) + np.abs(this.state.synaptic_current)
    np.testing.assert_allclose(one / size, other / size, rtol=0, atol=rtol)


@every_form
@pytest.mark.property
@examples(8)
@given(data=st.data(), onto=ONTO)
def test_traces_are_the_formula_and_the_run(form, data, onto):
    """Traces equal sums with one term for each spike, and the final state of a run that ends at that time."""
    this = data.draw(networks(form, MODERATE, most=25))
    network, start, stop = this.network(), this.start, this.start + this.duration
    stimulus = onto and this.stimulus(onto=onto)
    options = {"state": this.state, "stimulus": stimulus}
    run = simulate(network, this.duration, record_spikes=True, **options)
    state = this.state or NetworkState.at_rest(network.n_neurons)
    inside = [
        start + x * this.duration for x in data.draw(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5))
    ]
    times = np.sort([start, *inside, *inside[:1], stop])
    mu, v, u = run.record.current(times), run.record.potential(times), run.record.average_current(times[1:])
    for row, t in enumerate(times):
        current = state.synaptic_current * np.exp(start - t)
        charge = -state.synaptic_current * np.expm1(start - t) + drive_of(stimulus, network, start, t)
        counts = np.zeros(network.n_neurons)
        own = [(s, this.weights[j], j) for s, j in zip(run.spikes.times, run.spikes.neurons, strict=True)]
        for s, weights, j in [*own, *((s, weights, None) for s, weights in inputs_of(stimulus))]:
            if s <= t:
                current, charge = current + weights * np.exp(s - t), charge - weights * np.expm1(s - t)
                if j is not None:
                    counts[j] += 1
        drive = network.soma_bias if stimulus is None else stimulus.drive_at([t], network.soma_bias)[0]
        close(mu[row], drive + current, this)
        close(v[row], state.membrane_potential + charge - network.firing_threshold * counts, this)
        if row:
            close(u[row - 1] * (t - start), charge, this, 1e-10)
    middle = inside[0]
    part = None if stimulus is None else stimulus.between(start, middle)
    there = simulate(network, middle - start, state=this.state, stimulus=part)
    row = np.flatnonzero(times == middle)[0]
    close(v[row], there.state.membrane_potential, this, 1e-9)
    close(u[row - 1], there.average_soma_current, this, 1e-9)


@every_form
@pytest.mark.property
@examples(6)
@given(data=st.data(), onto=ONTO)
def test_charges_of_a_spike_are_the_formula_and_reach_the_threshold(form, data, onto):
    this = data.draw(networks(form, MODERATE, most=25))
    network, stimulus = this.network(), onto and this.stimulus(onto=onto)
    run = simulate(network, this.duration, state=this.state, stimulus=stimulus, record_spikes=True)
    spikes = run.spikes
    state = this.state or NetworkState.at_rest(network.n_neurons)

    def area(s, since, until):  # charge of a current that is one at time s
        return np.exp(s - max(since, s)) - np.exp(s - until) if s < until else 0.0

    for k in np.unique(np.linspace(0, len(spikes) - 1, 12).astype(int)) if len(spikes) else []:
        told = run.record.explain(k - len(spikes))
        neuron, time = spikes.neurons[k], spikes.times[k]
        earlier = spikes.times[:k][spikes.neurons[:k] == neuron]
        since = earlier[-1] if len(earlier) else this.start
        assert (told.spike, told.neuron, told.time, told.since) == (k, neuron, time, since)
        assert told.firing_threshold == network.firing_threshold[neuron]
        of_start = 0.0 if len(earlier) else state.membrane_potential[neuron]
        assert told.charges.get("initial potential", 0.0) == of_start
        charges = np.zeros(network.n_neurons)
        for s, j in zip(spikes.times[:k], spikes.neurons[:k], strict=True):
            charges[j] += this.weights[j, neuron] * area(s, since, time)
        of_inputs = sum(weights[neuron] * area(s, since, time) for s, weights in inputs_of(stimulus))
        size = 1.0 + np.abs(charges).sum() + sum(abs(charge) for charge in told.charges.values())
        size += sum(abs(w[neuron]) for _, w in inputs_of(stimulus))
        of_current = state.synaptic_current[neuron] * area(this.start, since, time)
        for one, other in (
            (told.source_charge, charges),
            (told.charges.get("input spikes", 0.0), of_inputs),
            (told.charges.get("initial current", 0.0), of_current),
            (told.charges["bias"], drive_of(stimulus, network, since, time)[neuron]),
            (sum(charge for _, charge in told.parts(3)), told.firing_threshold),
        ):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * size)
        parts = dict(told.parts(2))
        for source in np.argsort(-np.abs(charges), kind="stable")[:2]:
            if charges[source] != 0.0:
                assert parts[f"spikes of neuron {source}"] == told.source_charge[source]
        assert told.source_charge[neuron] == 0.0
        assert not told.source_charge[np.bincount(spikes.neurons[:k], minlength=len(charges)) == 0].any()


OFF_GRID = Stimulus(drive_times=[0.3], drive=[[0.5, 1.0]])


@pytest.mark.parametrize(
    ("name", "clock", "stimulus"),
    [
        ("resets to zero", {"neuron": RealNeuron(reset="zero")}, None),
        ("Euler", {"neuron": RealNeuron(integration="euler")}, None),
        ("registers", {"neuron": DigitalFormat()}, None),
        ("leak", {"imperfections": Imperfections(leak=0.1)}, None),
        ("delays, lost spikes", {"imperfections": Imperfections(delays=0.5, lost_spikes=0.1)}, None),
        ("between steps", {}, OFF_GRID),
    ],
)
def test_records_of_other_neurons_are_not_rebuilt(name, clock, stimulus):
    network = SpikingNetwork([[0.0, -0.5], [-0.3, 0.0]], [1.0, 0.7])
    run = simulate(network, 5.0, Clock(0.25, **clock), stimulus=stimulus, record_spikes=True)
    with pytest.raises(ValueError, match=f"spikes .*{name}"):
        _ = run.record
    with pytest.raises(ValueError, match="spikes"):
        Record(network, run.spikes)


@pytest.mark.parametrize(
    ("clock", "stimulus"),
    [
        ({}, None),
        ({"imperfections": Imperfections(threshold_mismatch=0.3, weight_mismatch=0.3)}, None),
        ({}, Stimulus(drive_times=[0.5], drive=[[0.5, 1.0]])),
    ],
)
def test_records_of_a_clock_have_its_states(clock, stimulus):
    network = SpikingNetwork([[0.0, -0.5], [-0.3, 0.0]], [1.0, 0.7])
    first = simulate(network, 1.5).state
    state = replace(first, time=0.0)
    run = simulate(network, 5.0, Clock(0.25, **clock), state=state, stimulus=stimulus, record_spikes=True)
    rebuilt = run.record.potential([5.0])[0]
    np.testing.assert_allclose(rebuilt, run.state.membrane_potential, rtol=0, atol=1e-12)


def test_energy_is_counts_times_costs():
    """Counts of the golden network until t = 4, on a clock of 1/4: 16 synaptic operations and 48 updates."""
    counts = simulate(golden_network(), 4.0).operations
    assert energy_estimate(counts.on_clock(0.25)) == pytest.approx(16 * 23.6 + 48 * 81.0)
    clocked = simulate(golden_network(), 4.0, Clock(0.25)).operations
    costs = {"synaptic_operations": 2.0, "neuron_updates": 3.0}
    assert energy_estimate(clocked, costs) == 2.0 * clocked.synaptic_operations + 3.0 * 48
    # An exact run has no updates of a chip, so it is refused unless `costs` leaves updates out.
    with pytest.raises(ValueError, match="counts"):
        energy_estimate(counts)
    assert energy_estimate(counts, {"synaptic_operations": 1.0}) == 16.0
    of_signals = OperationCounts(synaptic_operations=np.array([1, 0]), multiply_adds=np.array([0, 10]))
    np.testing.assert_array_equal(energy_estimate(of_signals, {**LOIHI, "multiply_adds": 5.0}), [23.6, 50.0])
    assert energy_estimate(OperationCounts(multiply_adds=10**9), ARITHMETIC_45NM) == pytest.approx(4.6e9)


# --- rates -----------------------------------------------------------------------------------------


@st.composite
def trains(draw):
    """Draw spikes on a grid of quarters, so that many are at the ends of intervals."""
    n, start, length = draw(st.integers(1, 4)), draw(st.integers(-2, 5)), draw(st.integers(4, 40))
    quarters = sorted(draw(st.lists(st.integers(0, length), max_size=20)))
    neurons = draw(st.lists(st.integers(0, n - 1), min_size=len(quarters), max_size=len(quarters)))
    times = start + 0.25 * np.array(quarters, dtype=float)
    return SpikeTrain(times=times, neurons=neurons, n_neurons=n, start=start, stop=start + 0.25 * length)


@pytest.mark.property
@examples(150)
@given(spikes=trains(), data=st.data())
def test_rates_are_their_formulas(spikes, data):
    """Intervals are open at the left and closed at the right, but the record includes its start."""
    steps = round(4 * (spikes.stop - spikes.start))
    begin = data.draw(st.integers(0, steps - 1))
    end = data.draw(st.integers(begin + 1, steps))
    start, stop = spikes.start + 0.25 * begin, spikes.start + 0.25 * end
    length, grid = stop - start, spikes.start + 0.25 * np.arange(begin + 1, end + 1)
    spike_rate, smooth = (spikes.rate(start=start, stop=stop), spikes.smooth_rate(start=start, stop=stop))
    counts, curve = spikes.counts(start=start, stop=stop), spikes.rate_curve(grid, start=start)
    for i in range(spikes.n_neurons):
        of = [t for t, j in zip(spikes.times, spikes.neurons, strict=True) if j == i]
        np.testing.assert_array_equal(spikes.of(i), of)
        within = [t for t in of if (start < t or begin == 0) and t <= stop]
        assert counts[i] == len(within)
        assert spike_rate[i] == pytest.approx(len(within) / length, rel=1e-14)
        shares = [(t - start) / length for t in within]
        bumps = sum(30.0 * s**2 * (1.0 - s) ** 2 for s in shares) / length
        assert smooth[i] == pytest.approx(bumps, rel=1e-10, abs=1e-11)
        expected = [sum(t <= until for t in within) / (until - start) for until in grid]
        np.testing.assert_allclose(curve[:, i], expected, rtol=1e-14)
    np.testing.assert_array_equal(spikes.rate_curve(grid)[-1], spikes.rate(stop=stop))
    assert len(spikes) == len(spikes.times) == spikes.counts().sum()


@pytest.mark.parametrize("time", [20.0, 200.0, 2000.0])
def test_thresholded_average_current_differs_from_the_rate_by_c_over_t(time):
    """By Equation 4 of docs/theory.md, u - theta a = v / t for a run from rest.

    If u >= 0, the read-outs differ by |v| / (theta t).  If u < 0, they differ by a, and theta a = u - v / t <
    |v| / t.  If a neuron keeps firing, v is at most theta and at least the drop from 0 that inhibition can
    cause at once; if a neuron stops firing, the difference is its number of early spikes divided by t.
    """
    rng = np.random.default_rng(41)
    dictionary = random_dictionary(rng, 30, 15, non_negative=True)
    network = classo_network(dictionary, dictionary[:3].sum(axis=0), 0.1)
    run, threshold = simulate(network, time), network.firing_threshold
    read = run.thresholded_current
    np.testing.assert_allclose(read, np.maximum(run.average_soma_current, 0.0) / threshold, rtol=1e-15)
    gap = np.abs(read - run.spike_rate)
    assert (gap <= np.abs(run.state.membrane_potential) / threshold / time * (1 + 1e-9)).all()
    assert gap.max() * time < 5.0
