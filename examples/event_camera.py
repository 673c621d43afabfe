"""A photograph panned under an event camera: spikes in, certified codes out. Ten seconds.

The camera is our own model.  A pixel remembers a level, at first its brightness.  When its brightness differs
from the level by the threshold c, the pixel sends an event and moves the level by c towards the brightness.
The levels, which can be computed from the events, are therefore within c of the picture at every moment.
Brightness is linear in time between looks, and an event has the time at which the line crosses a level.  The
model has no noise, and brightness is the pixel value; real cameras take the logarithm of brightness.

The picture is cut into patches, and each patch has a network of spiking neurons.  At the time of an event,
the drive of every neuron changes by c times the entry of the neuron's atom at the pixel.  The network never
stops: there are no frames.  Spike rates in a window code the mean of the levels, both with the weights of
the smooth window.  `solvers.certificate` certifies each code, independently of the network.

There is no leak, so potentials of silent neurons sink without end, and such a neuron would fire too late
when it is needed.  Therefore potentials below zero are set to zero at the beginning of each window.  For
comparison, all potentials are kept, or all are set to rest, at these times.  A stream takes the
events of a window at once, and refines its codes to a tolerance.  Finally, the picture at the end of each
window is coded as a frame.

    python -m examples.event_camera [--output DIR] [--windows NUMBER] [--shift PIXELS] [--threshold LEVEL]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse import block_diag, csr_array

from dictlearn import extract_patches, overcomplete_dct, remove_mean
from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, at_least, figure, parser, save, table
from examples._data import grey_photograph, panned_window
from snn import Simulator, SpikeTrain, Stimulus
from solvers import LassoProblem, SparseCodingStream, SpikingCodingResult, duality_gap, lasso_network

PATCH_SIDE = 8
N_PIXELS = PATCH_SIDE * PATCH_SIDE
N_ATOMS = 256
PENALTY = 0.1  # penalty in units of the signals, whose pixels are from 0 to 1
TOL = 1e-3  # certified gap of the stream, in units of 1/2 ||signal||^2
SIDE = 48  # side of the picture, in pixels
CORNER = (150, 240)
WINDOW = 32.0  # length of a window, in synaptic time constants
LOOKS = 16  # number of looks at the picture in a window
SCALE = 0.2  # code of a neuron with one spike per time constant
NO_CHANGE, LIFTED, FROM_REST = "as it was", "lifted", "from rest"
MILLISECOND = 1.0  # length of a synaptic time constant in milliseconds, for the printed events per second


class Events(NamedTuple):
    """The events that the camera sends."""

    # Times of the events in synaptic time constants, not decreasing.
    times: np.ndarray
    pixels: np.ndarray
    # 1 if a pixel became brighter by the threshold, -1 if it became darker.
    signs: np.ndarray
    # Levels of the pixels at the beginning, shape (n_pixels,).
    first: np.ndarray


def record(brightness: np.ndarray, interval: float, threshold: float) -> Events:
    """Return the events of pixels; `brightness`, shape (n_looks, n_pixels), is linear between looks."""
    level = np.zeros(brightness.shape[1], dtype=int)
    first = brightness[0]
    times, pixels, signs = [], [], []
    for look, (before, after) in enumerate(pairwise(brightness)):
        # Distance from the level to the brightness, in thresholds.
        beyond = (after - first) / threshold - level
        n_events = np.trunc(beyond).astype(int)
        for pixel in np.flatnonzero(n_events):
            sign = int(np.sign(n_events[pixel]))
            crossed = first[pixel] + threshold * (
                level[pixel] + sign * np.arange(1, abs(n_events[pixel]) + 1)
            )
            part = (crossed - before[pixel]) / (after[pixel] - before[pixel])
            times.append((look + np.clip(part, 0.0, 1.0)) * interval)
            pixels.append(np.full(len(crossed), pixel))
            signs.append(np.full(len(crossed), sign))
        level += n_events
    joined = [np.concatenate([*parts, []]) for parts in (times, pixels, signs)]
    order = np.argsort(joined[0], kind="stable")
    return Events(joined[0][order], joined[1][order].astype(int), joined[2][order].astype(int), first)


def patches_of(picture: np.ndarray) -> np.ndarray:
    """Return the patches of a picture without their means, (n_patches, N_PIXELS)."""
    return remove_mean(extract_patches(picture.reshape(SIDE, SIDE), PATCH_SIDE, stride=PATCH_SIDE))[0]


def sources_of(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """Return the patch and the source of each event; a pixel has two sources, one for each sign."""
    numbers = np.arange(SIDE * SIDE, dtype=float).reshape(SIDE, SIDE)
    of_patch = extract_patches(numbers, PATCH_SIDE, stride=PATCH_SIDE).astype(int).reshape(-1, N_PIXELS)
    patch, place = np.empty((2, SIDE * SIDE), dtype=int)
    for number, pixels in enumerate(of_patch):
        patch[pixels], place[pixels] = number, np.arange(N_PIXELS)
    return patch[events.pixels], 2 * place[events.pixels] + (events.signs < 0)


def steps_of(threshold: float) -> np.ndarray:
    """Return what an event of each source adds to a patch without its mean, (2 N_PIXELS, N_PIXELS)."""
    up = threshold * (np.eye(N_PIXELS) - 1.0 / N_PIXELS)
    return np.stack([up, -up], axis=1).reshape(2 * N_PIXELS, N_PIXELS)


def bump_share(places: np.ndarray) -> np.ndarray:
    """Return the share of the smooth window's weight that lies after each place, a number from 0 to 1."""
    return 1.0 - places**3 * (10.0 - 15.0 * places + 6.0 * places * places)


class Window(NamedTuple):
    """Spikes, certified gaps and codes of one window, with an entry for each patch."""

    spikes: np.ndarray
    # Duality gap over 1/2 ||patch||^2, for the signal that the events describe.
    gap: np.ndarray
    codes: np.ndarray


def relative(gap: np.ndarray, signals: np.ndarray) -> np.ndarray:
    """Return gaps in units of 1/2 ||signal||^2; the gap of a zero signal is zero."""
    energy = 0.5 * (signals * signals).sum(axis=1)
    return np.divide(gap, energy, out=np.zeros_like(gap), where=energy > 0.0)


def run_live(events: Events, n_windows: int, threshold: float, *, start: str = LIFTED) -> list[Window]:
    """Return the windows of networks that follow every event at its time.

    At the beginning of a window, `start` may change the state of a network.  NO_CHANGE does nothing, LIFTED
    sets negative potentials to zero, and FROM_REST sets all potentials and currents to zero.
    """
    dictionary = overcomplete_dct(PATCH_SIDE, N_ATOMS)
    patch, source = sources_of(events)
    signals, steps = patches_of(events.first), steps_of(threshold)
    of_atoms = steps @ dictionary.T / SCALE
    weights = np.hstack([of_atoms, -of_atoms])
    problem = LassoProblem(dictionary, signals, PENALTY)
    network = lasso_network(problem, 0, scale=SCALE)
    correlations = signals @ dictionary.T
    biases = np.hstack([correlations - PENALTY, -correlations - PENALTY]) / SCALE
    simulators = [Simulator(network.with_soma_bias(bias)) for bias in biases]
    windows = []
    for k in range(n_windows):
        begin, end = k * WINDOW, (k + 1) * WINDOW
        first, last = np.searchsorted(events.times, [begin, end])
        rates, spikes = [], []
        means = signals.copy()
        for number, simulator in enumerate(simulators):
            chosen = first + np.flatnonzero(patch[first:last] == number)
            times, sources = events.times[chosen], source[chosen]
            train = SpikeTrain(times=times, neurons=sources, n_neurons=2 * N_PIXELS, start=begin, stop=end)
            if start == FROM_REST:
                simulator.membrane_potential = simulator.synaptic_current = np.zeros(2 * N_ATOMS)
            elif start == LIFTED:
                simulator.membrane_potential = np.maximum(simulator.membrane_potential, 0.0)
            stimulus = Stimulus(spikes=train, weights=weights, onto="drive")
            result = simulator.advance(end, stimulus=stimulus)
            rates.append(result.smooth_rate)
            spikes.append(result.n_spikes)
            shares = np.bincount(sources, bump_share((times - begin) / WINDOW), 2 * N_PIXELS)
            means[number] += shares @ steps
            signals[number] += train.counts() @ steps
        plus, minus = np.split(np.array(rates) * SCALE, 2, axis=1)
        of_window = LassoProblem(dictionary, means, PENALTY)
        codes = plus - minus
        gap = relative(duality_gap(of_window, codes), means)
        windows.append(Window(np.array(spikes), gap, codes))
    return windows


def run_stream(events: Events, n_windows: int, threshold: float) -> list[Window]:
    """Return the windows of a stream that takes the events of each window at its end."""
    stream = SparseCodingStream(overcomplete_dct(PATCH_SIDE, N_ATOMS), PENALTY)
    signals, steps = patches_of(events.first), steps_of(threshold)
    n_patches = len(signals)
    patch, source = sources_of(events)
    # Each pixel and sign of the picture has a source; sources are ordered by patches.
    all_steps = csr_array(block_diag([steps] * n_patches, format="csr"))
    stream.code(signals, tol=TOL)
    windows = []
    for k in range(n_windows):
        begin, end = k * WINDOW, (k + 1) * WINDOW
        in_window = slice(*np.searchsorted(events.times, [begin, end]))
        train = SpikeTrain(
            times=events.times[in_window],
            neurons=patch[in_window] * 2 * N_PIXELS + source[in_window],
            n_neurons=all_steps.shape[0],
            start=begin,
            stop=end,
        )
        changed = stream.frame + (train.counts() @ all_steps).reshape(signals.shape)
        windows.append(window_of(stream.code(changed, tol=TOL)))
    return windows


def run_frames(frames: np.ndarray, *, restart: bool) -> list[Window]:
    """Return windows with codes of the picture at the end of each window, by a stream or from nothing."""
    stream = SparseCodingStream(overcomplete_dct(PATCH_SIDE, N_ATOMS), PENALTY)
    windows = []
    for frame in frames:
        if restart:
            stream.reset()
        windows.append(window_of(stream.code(patches_of(frame), tol=TOL)))
    return windows[1:]


def window_of(result: SpikingCodingResult) -> Window:
    return Window(result.n_steps, result.relative_gap, result.codes)


def errors(windows: Sequence[Window], pictures: np.ndarray) -> np.ndarray:
    """Return the relative error of the patches that codes reconstruct, for each picture."""
    dictionary = overcomplete_dct(PATCH_SIDE, N_ATOMS)
    truth = np.array([patches_of(picture) for picture in pictures])
    reconstructed = np.array([window.codes @ dictionary for window in windows])
    return np.linalg.norm(reconstructed - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))


COLOURS = (RED, PURPLE, ORANGE, BLUE, GREEN, GREY)


def draw(
    brightness: np.ndarray, events: Events, runs: dict[str, list[Window]], misfits: dict[str, np.ndarray]
) -> Figure:
    n_windows = len(next(iter(runs.values())))
    picture = figure(10.0, 6.4)
    top, bottom = picture.subfigures(2, 1, height_ratios=(0.55, 1.0))
    shown = np.unique(np.linspace(0, n_windows - 1, 5).astype(int))
    for ax, k in zip(top.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        in_window = slice(*np.searchsorted(events.times, [k * WINDOW, (k + 1) * WINDOW]))
        ax.imshow(brightness[(k + 1) * LOOKS].reshape(SIDE, SIDE), cmap="gray", vmin=0.0, vmax=1.0)
        row, column = np.divmod(events.pixels[in_window], SIDE)
        ax.scatter(column, row, s=2, c=np.where(events.signs[in_window] > 0, ORANGE, BLUE), linewidths=0)
        ax.set_title(f"window {k + 1}: {in_window.stop - in_window.start:,} events", fontsize="medium")
        ax.set_axis_off()
    left, middle, right = bottom.subplots(1, 3)
    numbers = np.arange(1, n_windows + 1)
    for (label, windows), colour in zip(runs.items(), COLOURS, strict=True):
        style = {"color": colour, "marker": "o", "markersize": 3, "label": label}
        left.plot(numbers, [window.spikes.mean() for window in windows], **style)
        middle.semilogy(numbers, [max(window.gap.max(), 1e-5) for window in windows], **style)
        right.plot(numbers, 100.0 * misfits[label], **style)
    middle.axhline(TOL, color=GREY, linestyle=":")
    left.set(title="Spikes a window", ylabel="spikes a patch", ylim=(0.0, None))
    middle.set(title="Largest certified gap", ylabel="largest gap / (1/2 ||patch||²)")
    right.set(title="Distance from the photograph", ylabel="% of the patches", ylim=(0.0, None))
    for ax in (left, middle, right):
        ax.set(xlabel="window")
    bottom.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--windows", type=at_least(1), default=10, help="number of windows")
    command.add_argument("--shift", type=at_least(0.0, 20.0, float), default=0.25, help="pixels a window")
    command.add_argument("--threshold", type=at_least(1e-4, kind=float), default=0.02, help="of an event")
    options = command.parse_args(arguments)
    n_windows, threshold = options.windows, options.threshold
    n_looks = n_windows * LOOKS
    photograph, shift = grey_photograph("china"), options.shift / LOOKS
    pan = panned_window(photograph, n_looks + 1, shift, side=SIDE, corner=CORNER)
    brightness = pan.reshape(n_looks + 1, SIDE * SIDE)
    events = record(brightness, WINDOW / LOOKS, threshold)
    ends = brightness[::LOOKS]
    # The weights of the smooth window have their mean in the middle of a window.
    middles = brightness[LOOKS // 2 :: LOOKS]
    runs = {
        "events, a network that never stops": run_live(events, n_windows, threshold),
        "the same, potentials as they were": run_live(events, n_windows, threshold, start=NO_CHANGE),
        "the same, each window from rest": run_live(events, n_windows, threshold, start=FROM_REST),
        "events, a stream": run_stream(events, n_windows, threshold),
        "frames, a stream": run_frames(ends, restart=False),
        "frames, each from nothing": run_frames(ends, restart=True),
    }
    live = list(runs)[:3]
    misfits = {
        label: errors(windows, middles if label in live else ends[1:]) for label, windows in runs.items()
    }
    seconds = 1e-3 * MILLISECOND * WINDOW * n_windows
    print(
        f"{n_windows} windows of {WINDOW:g} time constants, {len(events.times):,} events: "
        f"{len(events.times) / n_windows:,.0f} a window, {len(events.times) / seconds:,.0f} a second at "
        f"{MILLISECOND:g} ms; levels are within {threshold:g} of the picture\n"
    )
    rows = [
        (
            label,
            f"{np.mean([window.spikes.mean() for window in windows]):.1f}",
            f"{np.median([window.gap for window in windows]):.1e}",
            f"{max(window.gap.max() for window in windows):.1e}",
            f"{100.0 * misfits[label].mean():.2f} %",
        )
        for label, windows in runs.items()
    ]
    print(table(["", "spikes a patch", "median gap", "largest gap", "from the photograph"], rows))
    save(draw(brightness, events, runs, misfits), options.output, "event_camera.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
