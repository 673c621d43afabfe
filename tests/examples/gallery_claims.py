"""Claims of the gallery about its pictures, as checks of what a script has computed.

Each function has the name of a script, and takes the variables of the script as they are at its end.
"""

from __future__ import annotations

from types import SimpleNamespace as Variables

import numpy as np

from snn.record.stimulus import drive_charge


def one_neuron(of: Variables) -> None:
    """The potential is the area under the current since the last spike of the neuron."""
    first = of.times < of.fired[0]
    current, potential = (ax.lines[0] for ax in (of.current, of.potential))
    area = np.trapezoid(current.get_ydata()[first], of.times[first])
    drawn = np.interp(of.times[first][-1], potential.get_xdata(), potential.get_ydata())
    assert abs(area - drawn) < 0.01
    assert len(of.fired) >= 5


def why_it_fired(of: Variables) -> None:
    """The drive by itself would have reached the threshold much earlier; the bars add up to the threshold."""
    assert of.why.charges["bias"] > 2.0 * of.why.firing_threshold
    assert (of.why.source_charge <= 0.0).all()
    assert abs(sum(charge for _, charge in of.why.parts()) - of.why.firing_threshold) < 1e-9


def live_input(of: Variables) -> None:
    """The drive brings the charge of all spikes and the rest; three inhibiting spikes remove one or two."""
    charge = drive_charge(of.stimulus, np.array([0.0, of.duration]), of.network.soma_bias)[1]
    left = of.alone.spike_counts + of.alone.state.membrane_potential
    assert np.abs(charge - left).max() < 1e-9
    assert 1 <= of.alone.n_spikes - of.run.n_spikes <= 2
    rates = [of.alone.spikes.counts(start=t, stop=t + 1.5).sum() for t in (1.75, 4.25)]
    assert rates[0] > rates[1]


def read_outs(of: Variables) -> None:
    """Rates need ten times the spikes per digit; eight refined digits need fewer than three by rates."""
    rates, _, window, refined = (line.get_xydata() for line in of.ax.lines)
    slope = np.polyfit(*np.log10(rates).T, 1)[0]
    assert -1.25 < slope < -0.75
    assert refined[-1, 1] < 1e-8 < rates[-1, 1]
    assert refined[-1, 0] < rates[-1, 0] < window[-1, 0]


def choose_penalty(of: Variables) -> None:
    """The search finds nearly the penalty that is best for the digits without noise."""
    assert 0.6 < of.chosen / of.best < 1.6
    assert of.alphas[0] < of.chosen < of.alphas[-1]


def video(of: Variables) -> None:
    """Between similar frames a stream takes fewer spikes; at the cut it takes as many as from zero."""
    (cold, cold_gaps), (warm, warm_gaps), (bounded, bounded_gaps) = (run for run, _ in of.runs.values())
    alike = np.setdiff1d(np.arange(of.n_frames), [0, of.cut])
    assert warm[alike].sum() < 0.5 * cold[alike].sum()
    assert (warm[1 : of.cut] <= 1.0).all()
    assert warm[of.cut] == cold[of.cut]
    assert bounded.max() <= 20
    assert max(cold_gaps.max(), warm_gaps.max()) <= 1e-3 < np.median(bounded_gaps)


def learn_atoms(of: Variables) -> None:
    """The objective falls, most of it within the first thousand samples, and all atoms are of use."""
    history = of.learning.learner_.history["objective"]
    assert history[-3:].mean() < 0.9 * history[0]
    assert history[-3:].mean() < 0.18, "random patches as atoms have .21"
    assert len(of.learning.dead_atoms_) == 0


def operations(of: Variables) -> None:
    """The network needs 1/8 to 1/3 of FISTA's operations; at gaps below 2 % the active set needs fewer."""
    ratio = np.divide(of.fista, of.network)
    assert ratio.min() > 2.5
    assert ratio.max() < 9.0
    share = np.divide(of.read_out, of.network)
    assert 0.4 < share.min() < share.max() < 1.1
    assert all(of.exact < count for count, gap in zip(of.network, of.gaps, strict=True) if gap < 0.02)


def own_rule(of: Variables) -> None:
    """Homeostasis divides the work more evenly, at nearly the same objective."""
    plain, even = (line.get_ydata() for line in of.ax.lines)
    assert np.std(even) < 0.9 * np.std(plain)
    before, after = (float(line.get_label().split()[-1]) for line in of.ax.lines)
    assert abs(after / before - 1.0) < 0.01


def how_many_atoms(of: Variables) -> None:
    """Twice the atoms lower the objective by about 8 %, and seeds agree on a tenth of the atoms."""
    objective = of.comparison.objective.mean(axis=1)
    np.testing.assert_allclose(objective[1:] / objective[:-1], 0.92, atol=0.015)
    assert 0.03 < of.comparison.agreement[1:].mean() < 0.2
