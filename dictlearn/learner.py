"""Dictionary learning by the two-phase network: one batch after the other, from local information only."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs
from tqdm import tqdm

from dictlearn import _kernels, rules
from dictlearn.network import TwoPhaseNetwork, share
from dictlearn.order import batches_in_order, seed_of_order
from dictlearn.steps import PaperSteps, Steps, UsageSteps
from dictlearn.synapses import Phase, RunawayFeedbackError, Synapses
from snn import checks
from snn.archive import load_archive, save_archive

# A threshold at zero would mean endless spikes.  In units of the target, 1.
LEAST_THRESHOLD = 0.05
# Samples between two entries of the history.
RECORD_EVERY = 1000
# Share of the mismatch that H makes good: currents know it exactly.
LATERAL_GAINS = {"currents": 1.0, "counts": 0.1}
# Of a probed neuron, in the phase with feedback.
PROBE_SPIKES = 3.0
# How fast the paper's decay follows the mean code, in samples.
FOLLOWING = 1000.0

HISTORY = (
    "n_samples", "objective", "nonzeros", "spikes", "disturbance", "consistency", "symmetry", "least_norm",
    "median_norm", "largest_norm",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """How the two-phase network is run and taught.

    Parameters
    ----------
    penalty : float
        lambda1, in units of the signals; positive.
    kappa : float, default 0.7
        Strength of the feedback in the second phase, in (0, 1).
    duration : float, default 10.0
        Of each phase, in synaptic time constants.
    amplitude : float, default 5.0
        The root mean square norm of the signals as the network gets them: more means more spikes and less
        error of counting.  Dictionaries do not depend on the unit of the signals.
    readout : {"currents", "counts"}, default "currents"
        What gradients and codes are read from; see `dictlearn.rules`.
    initial_potential : float, default 0.5
        Where potentials start each sample, as a share of the thresholds, in [0, 1).
    time_step : float, optional
        Run on a clock of this step with reset to zero, the paper's setting with 1/32.
    steps : UsageSteps or PaperSteps, default UsageSteps()
        Step sizes and decay.
    batch_size : int, default 16
        Samples that see the same weights; 1 is the paper's setting.
    """

    penalty: float
    kappa: float = 0.7
    duration: float = 10.0
    amplitude: float = 5.0
    readout: str = "currents"
    initial_potential: float = 0.5
    time_step: float | None = None
    steps: Steps = field(default_factory=UsageSteps)
    batch_size: int = 16

    def __post_init__(self) -> None:
        for name in ("penalty", "duration", "amplitude"):
            object.__setattr__(self, name, checks.positive_number(name, getattr(self, name)))
        for name in ("kappa", "initial_potential"):
            object.__setattr__(self, name, share(name, getattr(self, name)))
        if self.kappa == 0.0:
            raise ValueError("kappa must be positive: without feedback there is no second phase")
        checks.one_of("readout", self.readout, rules.READOUTS)
        if self.time_step is not None:
            object.__setattr__(self, "time_step", checks.positive_number("time_step", self.time_step))
        if not isinstance(self.steps, (UsageSteps, PaperSteps)):
            raise TypeError(f"steps must be UsageSteps or PaperSteps; got {type(self.steps).__name__}")
        object.__setattr__(self, "batch_size", checks.positive_integer("batch_size", self.batch_size))

    def as_text(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(
            {**asdict(self), "steps": {"kind": type(self.steps).__name__, **asdict(self.steps)}}
        )

    @classmethod
    def from_text(cls, text: str) -> LearningSettings:
        """Return the settings that `as_text` wrote."""
        values = json.loads(text)
        steps = values.pop("steps")
        kind = {"UsageSteps": UsageSteps, "PaperSteps": PaperSteps}[steps.pop("kind")]
        return cls(**values, steps=kind(**steps))


class TwoPhaseLearner:
    """A two-phase network that learns, and all it needs to go on learning.

    Parameters
    ----------
    network : TwoPhaseNetwork
        Where to start.
    settings : LearningSettings
        How to run and to teach it.
    scale : float
        What signals are multiplied with before the network gets them, `amplitude` over their root mean
        square norm.
    replace_dead : bool, default False
        Whether atoms that have long been silent start anew, from what samples are missing most.

    Attributes
    ----------
    n_samples : int
        Samples learned from so far.
    n_spikes : int
        Spikes they took.
    n_bounded : int
        How often a threshold would have fallen below LEAST_THRESHOLD, and was kept there.
    n_replaced : int
        Atoms that started anew.
    """

    def __init__(
        self,
        network: TwoPhaseNetwork,
        settings: LearningSettings,
        *,
        scale: float,
        replace_dead: bool = False,
    ) -> None:
        checks.instance_of("network", network, TwoPhaseNetwork)
        checks.instance_of("settings", settings, LearningSettings)
        self.settings = settings
        self.scale = checks.positive_number("scale", scale)
        self.replace_dead = checks.flag("replace_dead", replace_dead)
        self._synapses = Synapses(network.feedforward, network.feedback, network.lateral)
        self.usage = np.zeros(network.n_atoms)
        self.last_fired = np.zeros(network.n_atoms, dtype=np.int64)
        self.last_compared = np.zeros(network.n_atoms, dtype=np.int64)
        self.n_samples, self.n_spikes, self.n_bounded, self.n_replaced = 0, 0, 0, 0
        self._mean_code = 0.0
        self._sums = np.zeros(5)  # since the last entry of the history
        self._history: list[np.ndarray] = []

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_synapses": self.network}

    def __setstate__(self, state: dict) -> None:
        # The rows of synapses are views of one array, which a pickle would tear apart.
        network = state["_synapses"]
        self.__dict__.update(state)
        self._synapses = Synapses(network.feedforward, network.feedback, network.lateral)

    # -- what it is ------------------------------------------------------------------------------

    @property
    def n_atoms(self) -> int:
        """N, the number of coding neurons."""
        return self._synapses.n_atoms

    @property
    def n_inputs(self) -> int:
        """M, the number of input neurons."""
        return self._synapses.n_inputs

    @property
    def network(self) -> TwoPhaseNetwork:
        """The network as it is now, a copy."""
        synapses = self._synapses
        return TwoPhaseNetwork(synapses.feedforward.copy(), synapses.feedback.copy(), synapses.lateral.copy())

    @property
    def dictionary(self) -> np.ndarray:
        """B^T with rows of unit norm, shape (n_atoms, n_inputs); an atom that vanished is zero."""
        norms = np.linalg.norm(self._synapses.feedback_rows, axis=1, keepdims=True)
        return self._synapses.feedback_rows / np.where(norms > 0.0, norms, 1.0)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Means over each thousand samples, and the weights at the end of it: a dict of arrays.

        objective, nonzeros, spikes (a sample) and disturbance (||g_D|| / ||kappa x||, what the feedback
        changes about the input layer) as the network saw them; consistency, symmetry, and the norms.
        """
        rows = np.array(self._history).reshape(-1, len(HISTORY))
        return dict(zip(HISTORY, rows.T.copy(), strict=True))

    @property
    def dead_atoms(self) -> np.ndarray:
        """Atoms silent for long: for the last 1,000 samples, or 10 for each atom if that is more."""
        return np.flatnonzero(self.n_samples - self.last_fired >= max(1000, 10 * self.n_atoms))

    # -- learning --------------------------------------------------------------------------------

    def learn(self, signals: np.ndarray, *, n_threads: int = 1, executor: Executor | None = None) -> float:
        """Learn from one batch; return its mean objective, as the network saw it.

        Parameters
        ----------
        signals : array_like, shape (n_signals, n_inputs)
            Not negative.
        n_threads, executor
            How many pieces to cut the batch into, and who runs them; the result does not depend on it.

        Raises
        ------
        TypeError, ValueError
            If the signals are of the wrong kind, shape or value.
        RunawayFeedbackError
            If the network runs away; the weights stay as they were before the batch.
        """
        signals = checked_signals(signals, self.n_inputs)
        settings = self.settings
        thresholds = np.diagonal(self._synapses.lateral_rows).copy()
        reweighting = np.ones(self.n_atoms)
        if isinstance(settings.steps, UsageSteps):
            silence = self.n_samples - self.last_fired
            reweighting = np.maximum(1.0 - silence / (settings.steps.patience * self.n_atoms), 0.0)
        elif settings.steps.reweighting:
            reweighting = thresholds
        probed = self._probed(len(signals))
        drives = np.zeros((len(signals) + len(probed), self.n_inputs + self.n_atoms))
        drives[: len(signals), : self.n_inputs] = self.scale * signals
        drives[:, self.n_inputs :] = -(settings.penalty * self.scale) * reweighting
        drives[len(signals) + np.arange(len(probed)), self.n_inputs + probed] = (
            PROBE_SPIKES / settings.duration / (1.0 - settings.kappa) * thresholds[probed]
        )
        try:
            phases = self._synapses.run(
                drives,
                gammas=(0.0, settings.kappa),
                duration=settings.duration,
                initial_potential=settings.initial_potential,
                time_step=settings.time_step,
                n_pieces=n_threads,
                executor=executor,
            )
        except RunawayFeedbackError as error:
            raise RunawayFeedbackError(
                f"after {self.n_samples:,} samples {error}; the weights are those before this batch "
                "(smaller steps let H keep up with F B)"
            ) from None
        # Not in this thread: Ctrl-C stops the main one anywhere, and a batch is learned whole or not at all.
        with ThreadPoolExecutor(1) if executor is None else nullcontext(executor) as other:
            return other.submit(self._update, signals, probed, thresholds, reweighting, *phases).result()

    def _probed(self, n_signals: int) -> np.ndarray:
        """Return the atoms that are made to fire alone: those whose lateral weights were not used longest."""
        steps = self.settings.steps
        if not isinstance(steps, UsageSteps):
            return np.empty(0, dtype=np.int64)
        n_probes = min(round(steps.probes * n_signals), self.n_atoms)
        return np.argsort(self.last_compared, kind="stable")[:n_probes]

    def _update(
        self,
        signals: np.ndarray,
        probed: np.ndarray,
        thresholds: np.ndarray,
        reweighting: np.ndarray,
        first: Phase,
        second: Phase,
    ) -> float:
        settings, synapses = self.settings, self._synapses
        kappa, readout = settings.kappa, settings.readout
        # Rows of signals teach everything, those of probes only H.
        of_signals = slice(0, len(signals))
        g_d = rules.reconstruction_gradient(first, second, readout=readout)[of_signals]
        codes = rules.code(second, thresholds, readout=readout)[of_signals]
        arriving = rules.presynaptic_code(second, readout=readout)
        g_h = rules.lateral_gradient(
            synapses.feedforward, synapses.lateral, first, second, kappa=kappa, readout=readout
        )
        step, keep, lateral_values, lateral_keep = self._steps(codes, arriving, g_h, thresholds)

        # Equations 11 and 12, as in `rules`, in place and a row a source.
        scaled = codes * (step / kappa)
        place = np.empty((len(scaled) + 2) * self.n_atoms + len(scaled), dtype=np.int64)
        _kernels.change_columns(synapses.feedforward_rows, keep, scaled, g_d, place)
        _kernels.change_rows(synapses.feedback_rows, keep, scaled, g_d)
        _kernels.change_rows(synapses.lateral_rows, lateral_keep, arriving, lateral_values)
        diagonal = np.einsum("ii->i", synapses.lateral_rows)
        self.n_bounded += int(np.count_nonzero(diagonal < LEAST_THRESHOLD))
        np.maximum(diagonal, LEAST_THRESHOLD, out=diagonal)

        self.n_samples += len(signals)
        self.n_spikes += int(first.n_spikes.sum() + second.n_spikes.sum())
        self.last_fired[second.coding_rate[of_signals].any(axis=0)] = self.n_samples
        self.last_compared[second.coding_rate.any(axis=0)] = self.n_samples
        self.last_compared[probed] = self.n_samples
        if self.replace_dead:
            self._replace(signals, g_d)
        return self._record(signals, g_d, arriving[of_signals], codes, reweighting, first, second)

    def _steps(
        self, codes: np.ndarray, arriving: np.ndarray, g_h: np.ndarray, thresholds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return eta_D of each atom and what decay leaves of it, eta_H g_H / kappa and what is left of H."""
        settings, steps = self.settings, self.settings.steps
        energy = settings.amplitude**2
        penalty = settings.penalty * self.scale
        if isinstance(steps, UsageSteps):
            self.usage += (codes * codes).sum(axis=0) / energy
            together = codes.sum(axis=1) @ codes / energy
            initial = steps.initial_usage / (1.0 + self.n_samples / steps.settling)
            step = steps.gain / (initial + self.usage + steps.caution * together) / energy
            keep = np.maximum(1.0 - step * penalty * codes.sum(axis=0), 0.0)
            lateral_gain = steps.lateral_gain
            if lateral_gain is None:
                lateral_gain = LATERAL_GAINS[settings.readout]
            values = lateral_gain * rules.solve_projection(arriving, g_h) / settings.kappa
            return step, keep, values, np.ones(self.n_atoms)
        step = steps.step / (1.0 + self.n_samples / steps.halving) / energy
        if steps.decay is None:
            # The mean of what there was so far, until that is long enough to forget.
            share_of_batch = min(1.0, len(codes) / min(FOLLOWING, self.n_samples + len(codes)))
            self._mean_code += share_of_batch * (codes.mean() - self._mean_code)
            decay = penalty * self._mean_code * thresholds.mean()
        else:
            decay = steps.decay * energy
        keep = max(1.0 - step * decay, 0.0) ** len(codes)
        lateral_keep = max(1.0 - 2.0 * step * decay, 0.0) ** len(codes)
        return (
            np.full(self.n_atoms, step),
            np.full(self.n_atoms, keep),
            steps.lateral_ratio * step / settings.kappa * g_h,
            np.full(self.n_atoms, lateral_keep),
        )

    def _replace(self, signals: np.ndarray, g_d: np.ndarray) -> None:
        """Start dead atoms anew, each from what one sample of the batch is missing."""
        dead = self.dead_atoms
        if not len(dead):
            return
        synapses = self._synapses
        missing = np.maximum(-g_d, 0.0)
        norms = np.linalg.norm(missing, axis=1)
        for atom, worst in zip(dead, np.argsort(-norms, kind="stable"), strict=False):
            if norms[worst] <= 0.0:
                break
            synapses.feedforward_rows[:, atom] = missing[worst] / norms[worst]
            synapses.feedback_rows[atom] = missing[worst] / norms[worst]
            synapses.lateral_rows[:, atom] = synapses.feedback_rows @ synapses.feedforward_rows[:, atom]
            synapses.lateral_rows[atom] = synapses.feedback_rows[atom] @ synapses.feedforward_rows
            self.usage[atom] = 0.0
            self.last_fired[atom] = self.n_samples
            self.n_replaced += 1

    def _record(
        self,
        signals: np.ndarray,
        g_d: np.ndarray,
        arriving: np.ndarray,
        codes: np.ndarray,
        reweighting: np.ndarray,
        first: Phase,
        second: Phase,
    ) -> float:
        """Add the batch to the history; return its mean objective in units of the signals."""
        kappa, scale = self.settings.kappa, self.scale
        norms = np.linalg.norm(signals, axis=1) * scale
        disturbance = np.linalg.norm(g_d, axis=1) / kappa  # ||B a - x||, by equation 9
        # While g_D is read from spike counts this is the error of the rates.
        objectives = 0.5 * disturbance**2 + self.settings.penalty * scale * (arriving @ reweighting)
        lit = norms > 0.0
        self._sums += (
            len(signals),
            objectives.sum() / scale**2,
            np.count_nonzero(codes),
            first.n_spikes.sum() + second.n_spikes.sum(),
            (disturbance[lit] / norms[lit]).sum(),
        )
        if self.n_samples // RECORD_EVERY > (self.n_samples - len(signals)) // RECORD_EVERY:
            network = self.network
            atom_norms = np.linalg.norm(network.feedback, axis=0)
            quantiles = np.quantile(atom_norms, (0.0, 0.5, 1.0))
            self._history.append(
                np.array(
                    [
                        self.n_samples,
                        *(self._sums[1:] / self._sums[0]),
                        network.consistency,
                        network.symmetry,
                        *quantiles,
                    ]
                )
            )
            self._sums[:] = 0.0
        return float(objectives.mean() / scale**2)

    # -- keeping it ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike, **extra: str | int) -> None:
        """Write everything to `path` (npz), whole or not at all.

        Parameters
        ----------
        path : path-like
            Where to.
        **extra
            Further entries, which `load` leaves alone.
        """
        synapses = self._synapses
        save_archive(
            path,
            {
                "feedforward": synapses.feedforward,
                "feedback": synapses.feedback,
                "lateral": synapses.lateral,
                "settings": self.settings.as_text(),
                "scale": self.scale,
                "replace_dead": self.replace_dead,
                "usage": self.usage,
                "last_fired": self.last_fired,
                "last_compared": self.last_compared,
                "counters": np.array([self.n_samples, self.n_spikes, self.n_bounded, self.n_replaced]),
                "mean_code": self._mean_code,
                "sums": self._sums,
                "history": np.array(self._history).reshape(-1, len(HISTORY)),
                **extra,
            },
        )

    @classmethod
    def load(cls, path: str | os.PathLike) -> TwoPhaseLearner:
        """Read a learner that `save` wrote; it goes on bit for bit as if it had never stopped.

        Parameters
        ----------
        path : path-like
            Where from.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no such file, or it is not one of a learner.
        """
        names = (
            "feedforward", "feedback", "lateral", "settings", "scale", "replace_dead", "usage", "last_fired",
            "last_compared",            "counters", "mean_code", "sums", "history",
        )  # fmt: skip
        entries = load_archive(path, names, kind="TwoPhaseLearner")
        try:
            network = TwoPhaseNetwork(entries["feedforward"], entries["feedback"], entries["lateral"])
            learner = cls(
                network,
                LearningSettings.from_text(str(entries["settings"])),
                scale=float(entries["scale"]),
                replace_dead=bool(entries["replace_dead"]),
            )
            learner.usage[:] = entries["usage"]
            learner.last_fired[:] = entries["last_fired"]
            learner.last_compared[:] = entries["last_compared"]
            learner.n_samples, learner.n_spikes, learner.n_bounded, learner.n_replaced = map(
                int, entries["counters"]
            )
            learner._mean_code = float(entries["mean_code"])
            learner._sums[:] = entries["sums"]
            learner._history = list(entries["history"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"path must name a saved TwoPhaseLearner; got {os.fspath(path)!r} ({error})"
            ) from None
        return learner


def learn_dictionary(
    signals: np.ndarray,
    n_atoms: int | None = None,
    *,
    penalty: float | None = None,
    settings: LearningSettings | None = None,
    n_samples: int | None = None,
    start: np.ndarray | TwoPhaseNetwork | None = None,
    replace_dead: bool = False,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    callback: Callable[[TwoPhaseLearner], bool | None] | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int = 10_000,
) -> TwoPhaseLearner:
    """Learn a dictionary for non-negative signals with the two-phase spiking network.

    Minimises, over non-negative dictionaries D of unit-norm atoms and codes a >= 0, the mean over the
    signals x of ``1/2 ||x - a D||^2 + penalty ||a||_1`` (with `PaperSteps`: the paper's objective, which has
    ``lambda2 / 2 ||D||^2`` in place of unit norms).  Every weight changes by what its own neuron sees.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_inputs)
        Not negative: split signed signals with `split_channels`.  Drawn in a new random order each epoch.
    n_atoms : int, optional
        Needed unless `start` is given.
    penalty : float, optional
        lambda1, positive.  Needed unless `settings` is given.
    settings : LearningSettings, optional
        How to run and teach the network; by default as its documentation says.
    n_samples : int, optional
        How many samples to learn from; by default ten times the signals.
    start : array_like, shape (n_atoms, n_inputs), or TwoPhaseNetwork, optional
        A non-negative dictionary, or any network.  By default `random_dictionary`.
    replace_dead : bool, default False
        Whether atoms that have long been silent start anew, from what samples are missing most.
    rng : int or Generator, optional
        For the start and the order of the samples.
    n_jobs : int, optional
        Threads that a batch is divided among; the result does not depend on it.
    progress : bool, default False
        Show a progress bar with the objective as the network sees it.
    callback : callable, optional
        Called with the learner at every thousand samples and at the end; learning stops if it returns True.
    checkpoint : path-like, optional
        Where the learner is saved every `checkpoint_every` samples and at the end.  If the file exists,
        learning goes on from there, and ends with the same bits as if it had never stopped.
    checkpoint_every : int, default 10_000
        In samples.

    Returns
    -------
    TwoPhaseLearner
        Its `dictionary` has unit norms; its `network` is what learned.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value, or the checkpoint is of something else.
    RunawayFeedbackError
        If the network runs away.

    Notes
    -----
    Whatever ends learning early, a runaway, Ctrl-C, a full disk or an error of the callback: the exception
    has the learner in its attribute `learner`, with the weights after the last whole batch.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952.
    """
    signals = checked_signals(signals, None)
    if settings is None:
        if penalty is None:
            raise TypeError("penalty must be given, or settings that have one")
        settings = LearningSettings(penalty=penalty)
    elif penalty is not None:
        raise TypeError("penalty must not be given twice, alone and in settings")
    checks.instance_of("settings", settings, LearningSettings)
    n_samples = 10 * len(signals) if n_samples is None else checks.positive_integer("n_samples", n_samples)
    checkpoint_every = checks.positive_integer("checkpoint_every", checkpoint_every)
    n_threads = effective_n_jobs(checks.worker_count("n_jobs", n_jobs))
    checks.flag("progress", progress)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable; got {type(callback).__name__}")
    if checkpoint is not None:
        # Now rather than after the first ten thousand samples.
        if not isinstance(checkpoint, (str, os.PathLike)):
            raise TypeError(f"checkpoint must be a path; got {type(checkpoint).__name__}")
        if not Path(checkpoint).absolute().parent.is_dir():
            raise ValueError(f"checkpoint must lie in a folder that exists; got {os.fspath(checkpoint)!r}")
    seed = seed_of_order(rng)
    given = TwoPhaseLearner(
        _starting_network(start, n_atoms, signals.shape[1], seed),
        settings,
        scale=amplitude_scale(signals, settings.amplitude),
        replace_dead=replace_dead,
    )
    learner = given
    if checkpoint is not None:
        identity = _identity(signals, given, start is not None, seed if rng is not None else None)
        if Path(checkpoint).exists():
            learner, seed = _resumed(checkpoint, identity)
    try:
        with (
            ThreadPoolExecutor(n_threads) as executor,
            tqdm(total=n_samples, initial=learner.n_samples, disable=not progress, unit="sample") as bar,
        ):
            batches = batches_in_order(
                len(signals),
                n_samples,
                batch_size=settings.batch_size,
                seed=seed,
                first=learner.n_samples,
            )
            for batch in batches:
                place = learner.n_samples
                objective = learner.learn(signals[batch], n_threads=n_threads, executor=executor)
                bar.update(len(batch))
                bar.set_postfix_str(f"objective {objective:.4g}", refresh=False)
                done = learner.n_samples >= n_samples
                if callback is not None and (
                    done or learner.n_samples // RECORD_EVERY > place // RECORD_EVERY
                ):
                    done = bool(callback(learner)) or done
                if checkpoint is not None and (
                    done or learner.n_samples // checkpoint_every > place // checkpoint_every
                ):
                    learner.save(checkpoint, identity=identity, seed=seed)
                if done:
                    break
    except BaseException as error:
        error.learner = learner
        raise
    return learner


def random_dictionary(
    n_atoms: int, n_inputs: int, *, rng: int | np.random.Generator | None = None
) -> np.ndarray:
    """Return unit-norm atoms of independent magnitudes |N(0, 1)|, shape (n_atoms, n_inputs).

    Parameters
    ----------
    n_atoms, n_inputs : int
        Positive.
    rng : int or Generator, optional
        Where they come from.
    """
    n_atoms = checks.positive_integer("n_atoms", n_atoms)
    n_inputs = checks.positive_integer("n_inputs", n_inputs)
    atoms = np.abs(np.random.default_rng(rng).standard_normal((n_atoms, n_inputs)))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def random_network(
    n_atoms: int, n_inputs: int, *, rng: int | np.random.Generator | None = None
) -> TwoPhaseNetwork:
    """Return a network of independent random weights, neither consistent nor symmetric.

    F and B are two random dictionaries, and H has the thresholds 1 and otherwise the entries of a
    Gram matrix of such atoms on average, each multiplied by its own number between 1/2 and 3/2.

    Parameters
    ----------
    n_atoms, n_inputs, rng
        As for `random_dictionary`.
    """
    rng = np.random.default_rng(rng)
    feedforward = random_dictionary(n_atoms, n_inputs, rng=rng)
    feedback = random_dictionary(n_atoms, n_inputs, rng=rng)
    lateral = (2.0 / np.pi) * rng.uniform(0.5, 1.5, (n_atoms, n_atoms))
    np.fill_diagonal(lateral, 1.0)
    return TwoPhaseNetwork(feedforward, feedback.T, lateral)


def checked_signals(signals: np.ndarray, n_inputs: int | None) -> np.ndarray:
    """Return signals as a float array, shape (n_signals, n_inputs), having checked their signs.

    Parameters
    ----------
    signals : array_like
        What came in.
    n_inputs : int or None
        How many features they must have, if that is known.
    """
    signals = checks.real_array("signals", signals, shape=(None, n_inputs), meaning="(n_signals, n_inputs)")
    if signals.min() < 0.0:
        raise ValueError(
            f"signals must not be negative (split them into + and - channels); got {signals.min()}"
        )
    return signals


def amplitude_scale(signals: np.ndarray, amplitude: float) -> float:
    """Return what brings the root mean square norm of signals to `amplitude`.

    Parameters
    ----------
    signals : ndarray, shape (n_signals, n_inputs)
        Not all zero.
    amplitude : float
        Positive.
    """
    largest = float(signals.max())
    if largest == 0.0:
        raise ValueError("signals must not all be zero: there is nothing to learn")
    # Divided first, because squares of very large or small numbers leave the range of floats.
    norm = largest * float(np.sqrt(np.mean(((signals / largest) ** 2).sum(axis=1))))
    return amplitude / norm


def _starting_network(
    start: np.ndarray | TwoPhaseNetwork | None, n_atoms: int | None, n_inputs: int, seed: int
) -> TwoPhaseNetwork:
    if start is None:
        if n_atoms is None:
            raise TypeError("n_atoms must be given, or a start that has some")
        start = random_dictionary(n_atoms, n_inputs, rng=seed)
    network = start if isinstance(start, TwoPhaseNetwork) else TwoPhaseNetwork.consistent(start)
    if n_atoms is not None and network.n_atoms != n_atoms:
        raise ValueError(f"start has {network.n_atoms} atoms but n_atoms is {n_atoms}")
    if network.n_inputs != n_inputs:
        raise ValueError(f"start has {network.n_inputs} inputs but signals have {n_inputs} features")
    return network


def _identity(signals: np.ndarray, learner: TwoPhaseLearner, is_start_given: bool, seed: int | None) -> str:
    """Return what a checkpoint must agree with to be gone on from, as JSON; None where it need not."""
    synapses = learner._synapses
    is_start_known = is_start_given or seed is not None
    return json.dumps(
        {
            "data": _digest([signals]),
            "settings": learner.settings.as_text(),
            "replace_dead": learner.replace_dead,
            "number of atoms": learner.n_atoms,
            "rng": seed,
            "start": _digest([synapses.feedforward, synapses.feedback, synapses.lateral])
            if is_start_known
            else None,
        }
    )


def _digest(arrays: Sequence[np.ndarray]) -> str:
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(np.ascontiguousarray(array))
    return total.hexdigest()


def _resumed(checkpoint: str | os.PathLike, identity: str) -> tuple[TwoPhaseLearner, int]:
    """Return the learner of a checkpoint and its seed, if it is one of the same task."""
    entries = load_archive(checkpoint, ("identity", "seed"), kind="TwoPhaseLearner")
    before = json.loads(str(entries["identity"]))
    for name, value in json.loads(identity).items():
        if value is not None and before.get(name) != value:
            raise ValueError(
                f"checkpoint {os.fspath(checkpoint)!r} was made with other {name}: "
                "give it another name, or delete it to start anew"
            )
    return TwoPhaseLearner.load(checkpoint), int(entries["seed"])
