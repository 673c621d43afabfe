"""V1 in spikes: learn receptive fields, then record from them as a laboratory would.

A network learns from whitened photographs, which ON and OFF cells send to the network.  Gabor functions are
fitted to the receptive fields of neurons.  The network sees drifting gratings, gets Poisson spikes, adapts to
one orientation, and is lesioned.  The synaptic time constant is taken as 10 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import least_squares

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    continue_learning,
    join_channels,
    learn_dictionary,
    mean_objective,
    split_channels,
    whiten,
)
from dictlearn.pictures import plot_atoms
from examples._common import BLUE, GREY, ORANGE, at_least, figure, parser, save, table
from examples._data import photographs, split_patches
from snn import Exact, Simulator, SpikeTrain, SpikingNetwork, Stimulus, Trials, simulate_trials
from solvers import LassoProblem, lasso_network

SIDE = 12  # side of a patch, in pixels
PENALTY = 0.1
CONTRAST = 3.0  # least norm of a patch without its mean; images have unit variance
TIME_CONSTANT = 10.0  # synaptic time constant, in ms
SCALE = 0.2  # code of a neuron that fires once in a time constant, with 100 spikes a second
FLOOR = Exact(potential_floor=0.0)

ORIENTATIONS = np.pi * np.arange(24) / 24
FREQUENCIES = (0.06, 0.1, 0.14, 0.18, 0.22, 0.26)  # spatial frequencies of gratings, in cycles a pixel
TEMPORAL_FREQUENCY = 2.0  # temporal frequency of gratings, in cycles a second
FRAME = 10.0  # duration of a frame, in ms
LARGEST_RATE = 100.0  # largest rate of an ON or OFF cell, in spikes a second
LEAST_RATE = 10.0  # least rate at the best grating of a neuron that is analysed, in spikes a second
ADAPTING = FREQUENCIES[2]
# Time constant of adaptation; relative rise of a threshold at a rate of one spike in a time constant.
ADAPTATION, STRENGTH = 100.0, 1.0
# A grating is shown for two cycles, of which the second cycle is analysed.
SECONDS = 2.0 / TEMPORAL_FREQUENCY
STOP = 1000.0 * SECONDS / TIME_CONSTANT
HALF = STOP / 2.0


class Gabor(NamedTuple):
    """Gabor functions that fit the receptive fields of neurons; lengths in pixels, angles in radians."""

    orientation: np.ndarray  # angle of the wave vector, in [0, pi)
    frequency: np.ndarray
    across: np.ndarray  # standard deviation of the envelope along the wave vector
    along: np.ndarray  # standard deviation of the envelope across the wave vector
    explained: np.ndarray  # share of the receptive field's variance that the function explains

    @property
    def shape(self) -> np.ndarray:
        """Widths and lengths in cycles, which Ringach (2002) calls n_x and n_y."""
        return np.stack([self.across, self.along]) * self.frequency

    @property
    def octaves(self) -> np.ndarray:
        """Bandwidth of spatial frequency at half height; infinite if the lower edge is at zero."""
        half = np.sqrt(2.0 * np.log(2.0)) / (2.0 * np.pi * self.across)
        with np.errstate(divide="ignore"):
            return np.log2((self.frequency + half) / np.maximum(self.frequency - half, 0.0))


def pixels() -> tuple[np.ndarray, np.ndarray]:
    """Return the row and column of each pixel of a patch, relative to the middle."""
    rows, columns = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2.0
    return rows.ravel(), columns.ravel()


def waves(place: np.ndarray) -> np.ndarray:
    """Return the even and the odd Gabor function of (row, column, orientation, frequency, across, along)."""
    row, column, orientation, frequency, across, along = place
    rows, columns = pixels()
    u = (columns - column) * np.cos(orientation) + (rows - row) * np.sin(orientation)
    v = (rows - row) * np.cos(orientation) - (columns - column) * np.sin(orientation)
    envelope = np.exp(-0.5 * ((u / across) ** 2 + (v / along) ** 2))
    phase = 2.0 * np.pi * frequency * u
    return np.stack([envelope * np.cos(phase), envelope * np.sin(phase)], axis=1)


def fit_gabor(field: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the parameters of the Gabor function that fits best, and the share that it explains."""

    def residual(place):
        functions = waves(place)
        return functions @ np.linalg.lstsq(functions, field, rcond=None)[0] - field

    spectrum = np.abs(np.fft.fft2(field.reshape(SIDE, SIDE), (64, 64)))
    down, right = (np.fft.fftfreq(64)[k] for k in np.unravel_index(spectrum.argmax(), spectrum.shape))
    rows, columns = pixels()
    weight = field**2 / (field @ field)
    middle = weight @ rows, weight @ columns
    least, most = [-SIDE, -SIDE, -10.0, 0.02, 0.4, 0.4], [SIDE, SIDE, 10.0, 0.5, SIDE, SIDE]
    fits = []
    for width in (1.5, 3.0):
        start = np.array([*middle, np.arctan2(down, right), np.hypot(down, right), width, width])
        fits.append(least_squares(residual, start.clip(least, most), bounds=(least, most), max_nfev=60))
    best = min(fits, key=lambda fit: fit.cost)
    return best.x, 1.0 - 2.0 * best.cost / float(field @ field)


def fit_gabors(fields: np.ndarray) -> Gabor:
    places, explained = zip(*map(fit_gabor, fields), strict=True)
    _, _, orientation, frequency, across, along = np.transpose(places)
    return Gabor(orientation % np.pi, frequency, across, along, np.array(explained))


def grating(orientation: float, frequency: float, phases: np.ndarray) -> np.ndarray:
    """Return the responses of ON and OFF cells to gratings of unit norm, a row for each phase."""
    rows, columns = pixels()
    position = columns * np.cos(orientation) + rows * np.sin(orientation)
    patches = np.cos(2.0 * np.pi * frequency * position - np.asarray(phases)[:, np.newaxis])
    patches -= patches.mean(axis=1, keepdims=True)
    return split_channels(patches / np.linalg.norm(patches, axis=1, keepdims=True))


def drifting(orientation: float, frequency: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of the frames of a drifting grating, and the responses of ON and OFF cells."""
    seconds = np.arange(0.0, SECONDS, FRAME / 1000.0)
    phases = 2.0 * np.pi * TEMPORAL_FREQUENCY * seconds
    return 1000.0 * seconds / TIME_CONSTANT, grating(orientation, frequency, phases)


class Cortex:
    """The network of learned neurons, and its stimuli."""

    def __init__(self, dictionary: np.ndarray) -> None:
        self.dictionary = dictionary
        problem = LassoProblem(dictionary, np.zeros((1, dictionary.shape[1])), PENALTY, positive=True)
        self.network: SpikingNetwork = lasso_network(problem, 0, scale=SCALE)  # drive without a signal

    def drive(self, signals: np.ndarray) -> np.ndarray:
        return self.network.soma_bias + signals @ self.dictionary.T / SCALE

    def film(self, orientation: float, frequency: float) -> Stimulus:
        times, frames = drifting(orientation, frequency)
        return Stimulus(drive_times=times, drive=self.drive(frames))

    def poisson(self, orientation: float, frequency: float, rng: int) -> Stimulus:
        """Return the Poisson spikes of ON and OFF cells for a grating; their mean drive is that of `film`."""
        times, frames = drifting(orientation, frequency)
        gain = LARGEST_RATE * TIME_CONSTANT / 1000.0 / frames.max()
        spikes = SpikeTrain.poisson(frames * gain, [*times, STOP], rng=rng)
        return Stimulus(spikes=spikes, weights=self.dictionary.T / (SCALE * gain))

    def adapted(self, orientation: float, frequency: float, strength: float) -> SpikingNetwork:
        """Return the network after eight seconds of a grating; spikes raise thresholds for some time."""
        times, frames = drifting(orientation, frequency)
        simulator, rested = Simulator(self.network, time=FLOOR), self.network.firing_threshold
        rise, part = np.zeros(len(rested)), 10  # frames between two changes of thresholds
        for first in np.tile(np.arange(0, len(times), part), 8):
            stimulus = Stimulus(
                drive_times=simulator.time + times[:part], drive=self.drive(frames[first : first + part])
            )
            result = simulator.advance(simulator.time + times[part], stimulus=stimulus)
            rise += (strength * result.spike_rate - rise) * result.duration / ADAPTATION
            simulator.firing_threshold = rested * (1.0 + rise)
        return simulator.network


class Tuning(NamedTuple):
    """Responses of neurons to drifting gratings, with rates in spikes a second."""

    rates: np.ndarray  # mean rates, shape (n_frequencies, n_orientations, n_neurons)
    modulation: np.ndarray  # ratio F1 / F0 of each neuron at its best grating

    @property
    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the best frequency and of the best orientation of each neuron."""
        flat = self.rates.reshape(-1, self.rates.shape[2])
        return np.unravel_index(flat.argmax(axis=0), self.rates.shape[:2])  # type: ignore[return-value]

    @property
    def curves(self) -> np.ndarray:
        """The rates at the best frequency for all orientations, shape (n_neurons, n_orientations)."""
        return self.rates[self.best[0], :, np.arange(self.rates.shape[2])]

    @property
    def is_driven(self) -> np.ndarray:
        return self.rates.max(axis=(0, 1)) >= LEAST_RATE

    def half_widths(self) -> np.ndarray:
        """Return half the width of the tuning curve of each driven neuron at half height, in degrees."""
        step = 180.0 / len(ORIENTATIONS)
        fine = np.arange(0.0, 180.0, 0.5)
        widths = []
        for curve in self.curves[self.is_driven]:
            angles = step * np.arange(-len(curve), 2 * len(curve))
            smooth = np.interp(fine, angles, np.tile(np.roll(curve, len(curve) // 2 - curve.argmax()), 3))
            widths.append(0.25 * np.count_nonzero(smooth >= 0.5 * curve.max()))
        return np.array(widths)


def tuning_of(cortex: Cortex) -> Tuning:
    """Show all gratings to the network; return the responses in the second cycle."""
    films = [cortex.film(angle, frequency) for frequency in FREQUENCIES for angle in ORIENTATIONS]
    trials = simulate_trials(cortex.network, STOP, FLOOR, stimuli=films)
    edges = np.linspace(HALF, STOP, 51)
    counts = trials.binned(edges).reshape(len(FREQUENCIES), len(ORIENTATIONS), 50, -1)
    tuning = Tuning(counts.sum(axis=2) * TEMPORAL_FREQUENCY, np.zeros(0))
    cycle = counts[*tuning.best, :, np.arange(counts.shape[3])]
    with np.errstate(invalid="ignore"):  # the ratio of a silent neuron is 0 / 0
        wave = np.exp(2j * np.pi * np.arange(50) / 50)
        return tuning._replace(modulation=2.0 * np.abs(cycle @ wave) / cycle.sum(axis=1))


def sparseness(responses: np.ndarray) -> np.ndarray:
    """Return the sparseness of Vinje and Gallant (2000), from 0 to 1, of each column with a response."""
    n = len(responses)
    responses = responses[:, responses.any(axis=0)]
    return (1.0 - responses.mean(axis=0) ** 2 / (responses**2).mean(axis=0)) / (1.0 - 1.0 / n)


def decoded(rates: np.ndarray, tuning: Tuning) -> float:
    """Return the orientation of the population vector, in degrees."""
    vector = rates @ np.exp(2j * ORIENTATIONS[tuning.best[1]])
    return float(np.rad2deg(np.angle(vector)) / 2.0)


def after_effect(cortex: Cortex, tuning: Tuning, tilts: np.ndarray, strength: float) -> np.ndarray:
    """Return how much more gratings seem tilted after adaptation to a vertical grating, in degrees."""
    adapted = cortex.adapted(np.pi / 2.0, ADAPTING, strength)
    shifts = []
    for network in (cortex.network, adapted):
        films = [cortex.film(np.pi / 2.0 + np.deg2rad(tilt), ADAPTING) for tilt in tilts]
        counts = simulate_trials(network, STOP, FLOOR, stimuli=films).spike_counts
        seen = np.array([decoded(row, tuning) for row in counts])
        shifts.append((seen - tilts) % 180.0 - 90.0)
    return np.subtract(shifts[1], shifts[0])


def recovery(
    learner: TwoPhaseLearner, signals: np.ndarray, tested: np.ndarray, n_samples: int
) -> list[tuple[int, float]]:
    """Silence a fifth of the neurons; return the held-out objective after several numbers of samples."""
    lesioned = np.arange(learner.n_atoms) % 5 == 0

    def score() -> float:
        kept = learner.dictionary[~learner.lesioned]
        return float(mean_objective(kept, tested, penalty=PENALTY).objective)

    scores = [(0, score())]
    learner.lesion(lesioned)
    scores.append((0, score()))
    begin = learner.n_samples
    for share in (0.05, 0.2, 0.5, 1.0):
        wanted = begin + int(share * n_samples)
        continue_learning(learner, signals, n_samples=wanted, rng=1)
        scores.append((learner.n_samples - begin, score()))
    return scores


class Findings(NamedTuple):
    """The results that are drawn and printed."""

    dictionary: np.ndarray
    gabors: Gabor
    tuning: Tuning
    trials: Trials
    neuron: int  # the neuron whose trials are drawn
    lifetime: np.ndarray
    population: np.ndarray
    tilts: np.ndarray
    shifts: np.ndarray
    recovery: list[tuple[int, float]]


def record(n_neurons: int, n_samples: int, n_trials: int, n_patches: int) -> Findings:
    """Learn receptive fields, and return the results of all experiments."""
    scenes = [whiten(image) for image in photographs()]
    signals, tested = split_patches(scenes, SIDE, n_samples, n_patches, contrast=CONTRAST)
    settings = LearningSettings(penalty=PENALTY)
    learner = learn_dictionary(signals, n_neurons, settings=settings, n_samples=n_samples, rng=0)
    cortex = Cortex(learner.dictionary)
    tuning = tuning_of(cortex)
    frequencies, orientations = tuning.best
    # Choose a neuron that is driven well, but not best.
    neuron = int(np.argsort(tuning.rates.max(axis=(0, 1)))[-n_neurons // 8])
    best = float(ORIENTATIONS[orientations[neuron]]), FREQUENCIES[frequencies[neuron]]
    stimuli = [cortex.poisson(*best, rng=seed) for seed in range(n_trials)]
    trials = simulate_trials(cortex.network, STOP, FLOOR, stimuli=stimuli)
    # Show each natural patch for .3 seconds, and count the spikes of the last quarter of a second.
    shown = simulate_trials(cortex.network, 30.0, FLOOR, drives=cortex.drive(tested))
    responses = shown.binned([5.0, 30.0])[:, 0]
    tilts = np.arange(-80.0, 81.0, 10.0)
    return Findings(
        dictionary=learner.dictionary,
        gabors=fit_gabors(join_channels(learner.dictionary)),
        tuning=tuning,
        trials=trials,
        neuron=neuron,
        lifetime=sparseness(responses),
        population=sparseness(responses.T),
        tilts=tilts,
        shifts=after_effect(cortex, tuning, tilts, STRENGTH),
        recovery=recovery(learner, signals, tested, n_samples // 2),
    )


def draw_fields(findings: Findings) -> Figure:
    """Draw receptive fields, and the shapes and bandwidths of their Gabor functions."""
    picture = figure(11.0, 4.2)
    fields, shapes, bandwidths = picture.subplots(1, 3, width_ratios=(1.15, 1.0, 1.0))
    plot_atoms(join_channels(findings.dictionary[:144]), SIDE, columns=12, ax=fields)
    fields.set_title("receptive fields: ON in white, OFF in black")
    shapes.scatter(*findings.gabors.shape, s=10.0, color=BLUE, alpha=0.6, linewidths=0.0)
    limit = float(np.quantile(findings.gabors.shape, 0.99))
    shapes.plot([0.0, limit], [0.0, limit], color=GREY, linewidth=0.8)
    shapes.set(
        xlim=(0.0, limit), ylim=(0.0, limit), title="shapes of receptive fields",
        xlabel="$n_x$: width across the stripes, in cycles", ylabel="$n_y$: length along them, in cycles",
    )  # fmt: skip
    is_band = np.isfinite(findings.gabors.octaves)
    bandwidths.hist(findings.gabors.octaves[is_band], bins=np.linspace(0.5, 5.0, 19), color=BLUE)
    bandwidths.set(
        title=f"bandwidth of {is_band.sum()} neurons of {len(is_band)}",
        xlabel="octaves at half height", ylabel="neurons",
    )  # fmt: skip
    return picture


def draw_recordings(findings: Findings) -> Figure:
    """Draw tuning curves, trials, adaptation, and recovery from a lesion."""
    picture = figure(11.0, 6.6)
    (curves, modulation, after), (raster, sparse, lesion) = picture.subplots(2, 3)
    tuning, degrees = findings.tuning, np.rad2deg(ORIENTATIONS)
    order = np.argsort(-tuning.rates.max(axis=(0, 1)))
    for rank, colour in zip((2, len(order) // 8, len(order) // 4), (BLUE, ORANGE, GREY), strict=True):
        curves.plot(degrees, tuning.curves[order[rank]], color=colour, label=f"neuron {order[rank]}")
    curves.set(title="drifting gratings", xlabel="orientation (degrees)", ylabel="spikes a second")
    curves.legend(fontsize="small")
    modulation.hist(tuning.modulation[tuning.is_driven], bins=np.linspace(0.0, 2.0, 21), color=BLUE)
    modulation.axvline(1.0, color=GREY, linestyle="--")
    modulation.set(title="simple cells are above 1", xlabel="F1 / F0", ylabel="neurons")
    after.axhline(0.0, color=GREY, linewidth=0.8)
    after.plot(findings.tilts, findings.shifts, marker="o", markersize=3.0, color=BLUE)
    after.set(
        title="tilt after-effect", xlabel="tilt from the adapting grating (degrees)", ylabel="shift (degrees)"
    )
    findings.trials.plot(neurons=[findings.neuron], ax=raster)
    ticks = np.linspace(0.0, STOP, 6)
    raster.set_xticks(ticks, labels=[f"{tick * TIME_CONSTANT:.0f}" for tick in ticks])
    raster.set_xlabel("time (ms; a time constant is 10 ms)")
    bins = np.linspace(0.9, 1.0, 41)
    sparse.hist(findings.lifetime, bins=bins, color=BLUE, label="of a neuron, over patches")
    sparse.hist(findings.population, bins=bins, color=ORANGE, alpha=0.7, label="of a patch, over neurons")
    sparse.set(title="natural patches", xlabel="sparseness", ylabel="neurons, patches")
    sparse.legend(fontsize="small")
    samples, scores = np.transpose(findings.recovery)
    lesion.axhline(scores[0], color=GREY, linestyle="--", label="before the lesion")
    lesion.plot(samples[1:], scores[1:], marker="o", markersize=3.0, color=BLUE, label="a fifth silenced")
    lesion.set(title="lesion and recovery", xlabel="patches seen since", ylabel="objective, held out")
    lesion.legend(fontsize="small")
    return picture


def report(findings: Findings) -> str:
    """Return a table of medians and of the outer tenths."""
    gabors, tuning, half = findings.gabors, findings.tuning, findings.trials.binned([HALF, STOP])[:, 0]
    responsive = half.mean(axis=0) >= 1.0
    fano = half[:, responsive].var(axis=0, ddof=1) / half[:, responsive].mean(axis=0)
    octaves = gabors.octaves[np.isfinite(gabors.octaves)]
    rows = [
        ("variance that Gabor functions explain", gabors.explained),
        ("n_x", gabors.shape[0]),
        ("n_y", gabors.shape[1]),
        ("bandwidth, octaves", octaves),
        ("half width of orientation tuning, degrees", tuning.half_widths()),
        ("F1 / F0", tuning.modulation[tuning.is_driven]),
        ("Fano factor of counts in half a second", fano),
        ("lifetime sparseness", findings.lifetime),
        ("population sparseness", findings.population),
    ]
    numbers = [
        [name, *(f"{value:.2f}" for value in np.quantile(values, (0.1, 0.5, 0.9)))] for name, values in rows
    ]
    return table(["", "10 %", "median", "90 %"], numbers)


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--neurons", type=at_least(20), default=432)
    command.add_argument("--samples", type=at_least(100), default=60_000, help="patches to learn from")
    command.add_argument("--trials", type=at_least(2), default=50, help="trials with Poisson spikes")
    command.add_argument(
        "--patches", type=at_least(10), default=1_000, help="held-out patches, to code and to test on"
    )
    options = command.parse_args(arguments)
    findings = record(options.neurons, options.samples, options.trials, options.patches)
    print(f"{options.neurons} neurons, {options.samples:,} patches of {SIDE} x {SIDE} pixels")
    print(f"neurons that a grating drives: {np.count_nonzero(findings.tuning.is_driven)}")
    print(report(findings))
    shift = findings.shifts[np.abs(findings.tilts) == 10.0]
    print(f"after-effect of a tilt of 10 degrees: {(shift[1] - shift[0]) / 2.0:.1f} degrees away")
    (_, before), (_, lesioned), *_, (n_seen, after) = findings.recovery
    print(f"objective {before:.4f}; a fifth lesioned {lesioned:.4f}; {n_seen:,} patches later {after:.4f}")
    save(draw_fields(findings), options.output, "v1_fields.png")
    save(draw_recordings(findings), options.output, "v1_recordings.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
