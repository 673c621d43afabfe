"""What the texts of the gallery say of its pictures, as checks of what a script has computed.

Each function has the name of a script and takes its variables as they are at its end.
"""

from __future__ import annotations

from types import SimpleNamespace as Variables

import numpy as np


def one_neuron(of: Variables) -> None:
    """The potential is the area under the current since the last spike of the neuron."""
    first = of.times < of.fired[0]
    current, potential = (ax.lines[0] for ax in (of.current, of.potential))
    area = np.trapezoid(current.get_ydata()[first], of.times[first])
    drawn = np.interp(of.times[first][-1], potential.get_xdata(), potential.get_ydata())
    assert abs(area - drawn) < 0.01
    assert len(of.fired) >= 5


def three_neurons(of: Variables) -> None:
    """Neuron 1 fires once; the others settle at the rates of the exact solution."""
    assert of.run.spike_counts[1] == 1
    assert of.optimum[1] == 0.0
    assert np.abs(of.run.spike_rate - of.optimum).max() < 2.0 / of.run.duration


def why_it_fired(of: Variables) -> None:
    """The drive alone would have been enough much earlier; the bars add up to the threshold."""
    assert of.why.charges["bias"] > 2.0 * of.why.firing_threshold
    assert (of.why.source_charge <= 0.0).all()
    assert abs(of.why.total - of.why.firing_threshold) < 1e-9


def live_input(of: Variables) -> None:
    """The charge of the drive is spikes and what is left; three inhibiting spikes cost one or two of them."""
    charge = of.stimulus.drive_charge([0.0, of.duration], of.network.soma_bias)[1]
    left = of.alone.spike_counts + of.alone.state.membrane_potential
    assert np.abs(charge - left).max() < 1e-9
    assert 1 <= of.alone.n_spikes - of.run.n_spikes <= 2
    rates = [of.alone.spikes.counts(start=t, stop=t + 1.5).sum() for t in (1.75, 4.25)]
    assert rates[0] > rates[1]


def finds_its_code(of: Variables) -> None:
    """The network starts again several times, with spikes that are worth less; the gap falls to 1e-5."""
    scales = np.array([stage.scale for stage in of.history.stages])
    assert len(scales) > 3
    assert (np.diff(scales[:5]) < 0.0).all()
    assert scales[-1] < 1e-3 * scales[0]
    assert (np.diff(of.history.duality_gap) <= 0.0).all()
    assert of.history.relative_gap[-1] <= 1e-5
    assert np.abs(of.history.codes[-1] - of.history.optimum).max() < 0.02 * of.history.optimum.max()


def read_outs(of: Variables) -> None:
    """Rates take ten times the spikes for a digit; refined, all eight digits take fewer than their three."""
    rates, _, window, refined = (line.get_xydata() for line in of.ax.lines)
    slope = np.polyfit(*np.log10(rates).T, 1)[0]
    assert -1.25 < slope < -0.75
    assert refined[-1, 1] < 1e-8 < rates[-1, 1]
    assert refined[-1, 0] < rates[-1, 0] < window[-1, 0]


def choose_penalty(of: Variables) -> None:
    """The search finds nearly the penalty that is best for the digits without noise."""
    assert 0.6 < of.chosen / of.best < 1.6
    assert of.alphas[0] < of.chosen < of.alphas[-1]


def photograph(of: Variables) -> None:
    """Codes are certified, of some 200 spikes; many patches of the sky have one atom or none."""
    assert (of.result.duality_gap <= 1e-3 * of.problem.energies).all()
    assert 180 < of.result.n_steps.mean() < 230
    assert (of.sizes[:, -10:] <= 1).mean() > 0.5
    assert of.sizes[:, :10].mean() > 10.0


def missing_pixels(of: Variables) -> None:
    """Known pixels stay as they are; the others are far better than grey."""
    assert (of.filled[of.known] == of.image[of.known]).all()
    assert of.decibels > of.constant + 9.0


def convolution(of: Variables) -> None:
    """Most of the image is in the code, which is sparse and certified."""
    assert of.gap <= 1e-2
    assert of.result.support_size[0] < 0.1 * of.problem.n_atoms
    assert np.square(of.image - of.coded).sum() < 0.3 * np.square(of.image).sum()


def video(of: Variables) -> None:
    """Between alike frames a stream takes a part of the spikes, and at the cut as many as from nothing."""
    (cold, cold_gaps), (warm, warm_gaps), (bounded, bounded_gaps) = (run for run, _ in of.runs.values())
    alike = np.setdiff1d(np.arange(of.n_frames), [0, of.cut])
    assert warm[alike].sum() < 0.5 * cold[alike].sum()
    assert (warm[1 : of.cut] <= 1.0).all()
    assert warm[of.cut] == cold[of.cut]
    assert bounded.max() <= 20
    assert max(cold_gaps.max(), warm_gaps.max()) <= 1e-3 < np.median(bounded_gaps)


def local_updates(of: Variables) -> None:
    """What synapses observe comes closer to the gradient in longer phases."""
    cosines = [float(ax.get_title().split()[-1]) for ax in of.axes]
    assert cosines[0] > 0.95
    assert cosines == sorted(cosines)
    assert of.cosine > 0.9995


def learn_atoms(of: Variables) -> None:
    """The objective falls, most of it within the first thousand samples, and all atoms are of use."""
    history = of.learning.learner_.history["objective"]
    assert history[-3:].mean() < 0.9 * history[0]
    assert history[-3:].mean() < 0.18, "random patches as atoms have .21"
    assert len(of.learning.dead_atoms_) == 0


def bits(of: Variables) -> None:
    """About eight bits are enough for 1 %, but for no width where registers have 14 bits."""
    narrow, *wide = (line.get_ydata() for line in of.ax.lines[:3])
    assert min(narrow) > 0.01
    for gaps in wide:
        assert of.bits[np.argmax(np.array(gaps) <= 0.01)] in (7, 8, 10)


def imperfect_neurons(of: Variables) -> None:
    """One run is the worse the more neurons differ; stages end at the tolerance up to an eighth."""
    one_run, stages = np.array(of.gaps["one run"]), np.array(of.gaps["stages"])
    assert (np.diff(one_run) > 0.0).all()
    repaired = of.sizes <= 1 / 8
    assert (stages[repaired] <= 1e-6).all()
    assert one_run[of.sizes == 1 / 8] > 0.02
    assert (stages[~repaired] > 1e-3).all()


def operations(of: Variables) -> None:
    """The network takes a third to an eighth of FISTA's operations; the active set the fewest from 2 % on."""
    ratio = np.divide(of.fista, of.network)
    assert ratio.min() > 2.5
    assert ratio.max() < 9.0
    share = np.divide(of.read_out, of.network)
    assert 0.4 < share.min() < share.max() < 1.1
    assert all(of.exact < count for count, gap in zip(of.network, of.gaps, strict=True) if gap < 0.02)
