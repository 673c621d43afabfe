"""A two-phase network that learns batch after batch, from local information only."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import unit_norm
from dictlearn.resumable import FILE_VERSION, Resumable, in_file
from dictlearn.signals import checked_signals
from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.history import HISTORY_COLUMNS, N_SUMS, LearningHistory
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.phases import SILENCING_DRIVE, RunawayFeedbackError
from dictlearn.two_phase.replacement import OF_ALL, OLD, TRIALS, Replacement, replace_atoms
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import LEAST_THRESHOLD, Synapses
from dictlearn.two_phase.two_phase_network import TwoPhaseNetwork
from snn._interrupts import one_thread
from snn.base import checks
from snn.base.archive import Entry, conforming
from snn.base.describe import number, value_range
from snn.base.value import assign, replaced
from snn.run.time import Clock, RealNeuron
from solvers.workers.blas import one_blas_thread

# Limits of the factor of the signals, and of the penalty in the network's units.  Within these limits,
# objectives, which are sums of squares, stay in the range of floats.
SMALLEST_SCALE, LARGEST_SCALE = 1e-152, 1e152
LARGEST_PENALTY = 1e150
# Number of spikes that the drive of a probe causes in the phase with feedback.
PROBE_SPIKES = 3.0
# Prefix of the names that the arrays of a learning rule have in the file of a learner.
REMEMBERED = "rule."
# After a runaway, the step of the clock is halved if it is longer than FINEST_STEP (synaptic time constants).
FINEST_STEP = 1 / 128


@dataclass(init=False, eq=False, repr=False, kw_only=True)
class TwoPhaseLearner(Resumable):
    """A two-phase network that learns, with everything it needs to continue learning.

    Read a learner between batches or in a callback, because batches change its weights in place.

    Parameters
    ----------
    network : TwoPhaseNetwork
        The network before learning.
    settings : LearningSettings
        The settings of the clock, the phases and the learning rule.
    scale : float
        Factor by which the signals are multiplied before they enter the network: `amplitude` over their root
        mean square norm.
    rounding_seed : int, default 0
        Seed of stochastic rounding, needed only if the weight format in `settings` rounds stochastically.

    Attributes
    ----------
    settings, scale
        The arguments of the constructor.  Both may change between batches, but `scale` only together with the
        amplitude in `settings`.
    rounding_seed : int
        The argument of the constructor.
    synapses : Synapses
        The weights F, B and H in the form that runs use.
    memory : dict of str to ndarray
        The arrays that the learning rule keeps from batch to batch; see `Rule.remembers`.
    n_fired : ndarray of int, shape (n_atoms,)
        Number of signals for which each coding neuron fired since its atom was last replaced or restarted.
    last_fired, last_compared : ndarray of int, shape (n_atoms,)
        For each coding neuron, the value of `n_samples` when it last fired for a signal, and when it last
        fired for a signal or a probe.  When a neuron fires, its lateral weights are compared with F B.
    n_samples : int
        Number of samples that the network has learned from.
    n_spikes : int
        Number of spikes of all runs of samples and probes.
    n_replaced : int
        Number of replaced atoms: dead atoms, and atoms whose replacement won its trial.
    frozen, lesioned : ndarray of bool, shape (n_atoms,)
        True for atoms that do not change, and for neurons that do not fire; see `freeze` and `lesion`.
    replacement : Replacement
        Trials of new atoms.  Until a trial is won, `network` and `dictionary` contain the old atom.
    n_halvings : int
        How often the step of the clock was halved, because signals have an offset or the network ran away.
    n_saturated : int
        How often a weight was outside the range of its number format and was set to the end of the range.
    """

    # A batch replaces the whole state at once, so that two learners never share an array that changes.
    settings: LearningSettings
    scale: float = in_file("f", (), 0.0)
    rounding_seed: int = in_file("iu", (), 0)
    synapses: Synapses
    memory: dict[str, np.ndarray]
    replacement: Replacement
    n_fired: np.ndarray = in_file("iu", ("atoms",), 0)
    last_fired: np.ndarray = in_file("iu", ("atoms",), 0)
    last_compared: np.ndarray = in_file("iu", ("atoms",), 0)
    frozen: np.ndarray = in_file("b", ("atoms",))
    lesioned: np.ndarray = in_file("b", ("atoms",))
    n_samples: int = in_file("iu", (), 0, default=0)
    n_spikes: int = in_file("iu", (), 0, default=0)
    n_replaced: int = in_file("iu", (), 0, default=0)
    n_saturated: int = in_file("iu", (), 0, default=0)
    n_halvings: int = in_file("iu", (), 0, default=0)
    _history: LearningHistory
    # The weights before the last batch; the next batch reuses their memory.
    _spare: Synapses | None = None
    # If True, the start was random without a seed, so that a checkpoint may have started from other weights.
    _any_start: bool = False

    def __init__(
        self, network: TwoPhaseNetwork, settings: LearningSettings, *, scale: float, rounding_seed: int = 0
    ) -> None:
        checks.instance_of("network", network, TwoPhaseNetwork)
        checks.instance_of("settings", settings, LearningSettings)
        scale = checks.positive_number("scale", scale)
        if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            raise ValueError(
                f"scale must lie between {SMALLEST_SCALE:g} and {LARGEST_SCALE:g}, so that objectives are in "
                f"the range of floats; got {scale:g}: change the unit of the signals"
            )
        if network.signs != settings.signs:
            raise ValueError(f"network must have the settings' {settings.signs}; got {network.signs}")
        n_fired, last_fired, last_compared = np.zeros((3, network.n_atoms), dtype=np.int64)
        assign(
            self,
            settings=settings,
            scale=scale,
            rounding_seed=checks.non_negative_integer("rounding_seed", rounding_seed),
            synapses=network.synapses(),
            memory={},
            replacement=Replacement(network.n_atoms),
            n_fired=n_fired,
            last_fired=last_fired,
            last_compared=last_compared,
            frozen=np.zeros(network.n_atoms, dtype=bool),
            lesioned=np.zeros(network.n_atoms, dtype=bool),
            _history=LearningHistory(),
        )
        self._penalties()
        self.n_saturated = self._round(self.synapses)
        self.memory = self._remembered()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # batches change weights in place

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_spare": None}

    # -- the network ----------------------------------------------------------------------------

    @property
    def n_atoms(self) -> int:
        """Number of atoms, N in the equations."""
        return self.synapses.n_atoms

    @property
    def n_inputs(self) -> int:
        """Number of inputs, M in the equations."""
        return self.synapses.n_inputs

    @property
    def dead_atoms(self) -> np.ndarray:
        """Indices of atoms, except lesioned ones, that were silent for max(1000, 10 n_atoms) samples."""
        latest = self.n_samples - max(1000, 10 * self.n_atoms)
        return np.flatnonzero((self.last_fired <= latest) & ~self.lesioned)

    @property
    def network(self) -> TwoPhaseNetwork:
        """A copy of the present network, with the old atoms in place of atoms on trial."""
        return TwoPhaseNetwork.of_synapses(self._without_trials()[0])

    @property
    def dictionary(self) -> np.ndarray:
        """The learned atoms, `Rule.atoms`, at unit norm, (n_atoms, n_inputs); vanished atoms are zero."""
        return unit_norm(self.settings.rule.atoms(*self._without_trials()))

    @property
    def history(self) -> dict[str, np.ndarray]:
        """The history of learning: a dict of arrays with an entry for each thousand samples.

        Four columns are means over a thousand samples, as the network observes them: objective, nonzeros,
        spikes (per sample) and disturbance (``||g_D|| / ||kappa x||`` over nonzero signals, which says how
        much feedback changes the input layer).  Five columns describe the weights after these samples:
        consistency, symmetry, and the least, median and largest norm of an atom.
        """
        return self._history.columns()

    def _facts(self) -> dict[str, str]:
        objective = self._history.last("objective")
        return {
            "atoms": number(self.n_atoms),
            "inputs": number(self.n_inputs),
            "samples learned from": number(self.n_samples),
            "spikes": number(self.n_spikes),
            "penalty": value_range(np.asarray(self.settings.penalty)),
            "dead atoms": number(len(self.dead_atoms)),
            **({} if objective is None else {"last objective": number(objective)}),
        }

    # -- learning --------------------------------------------------------------------------------

    def freeze(self, atoms: ArrayLike) -> None:
        """Freeze the chosen atoms, and no others, from the next batch on.

        Frozen atoms still code, but neither the rule nor replacement changes them.  The lateral weights of
        frozen neurons follow F B while the other atoms learn.  If a frozen atom is on trial, all trials end,
        and the old atoms return.

        Parameters
        ----------
        atoms : array_like of bool, shape (n_atoms,)
            True for each atom to freeze.
        """
        self._fix(frozen=atoms, lesioned=self.lesioned)

    def lesion(self, neurons: ArrayLike) -> None:
        """Silence the chosen coding neurons, and no others, from the next batch on.

        The neurons that still fire learn what silenced neurons have coded.  Atoms of silenced neurons do not
        change.  If the atom of a silenced neuron is on trial, all trials end, and the old atoms return.

        Parameters
        ----------
        neurons : array_like of bool, shape (n_atoms,)
            True for each neuron to silence.
        """
        self._fix(frozen=self.frozen, lesioned=neurons)

    def _fix(self, **arrays: ArrayLike) -> None:
        masks = {name: np.array(mask) for name, mask in arrays.items()}
        for name, mask in masks.items():
            if mask.dtype != np.bool_ or mask.shape != (self.n_atoms,):
                raise ValueError(f"{name} must be {self.n_atoms} bools; got {mask.dtype}, shape {mask.shape}")
        if masks["lesioned"].all():
            raise ValueError("lesioned must leave at least one neuron; got all of them")
        fixed, changes = masks["frozen"] | masks["lesioned"], {}
        if any(fixed[trial.atom] for trial in self.replacement.running):
            synapses, memory = self._without_trials()
            ended = replaced(self.replacement, running=())
            changes = {"synapses": synapses, "memory": memory, "replacement": ended}
        assign(self, **masks, **changes)

    def learn(self, signals: ArrayLike, *, mask: ArrayLike | None = None, n_threads: int = 1) -> float:
        """Learn from one batch; return its mean objective, as the network observed it.

        Parameters
        ----------
        signals : array_like, shape (n_signals, n_inputs)
            The signals, which must not be negative unless the settings allow negative signals.
        mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
            True where a signal is known, by default everywhere.  An unknown value is ignored and may be NaN.
            The input neuron of an unknown value carries the network's prediction, so that this neuron neither
            drives nor corrects the network.
        n_threads : int, default 1
            Number of threads that run the batch; the result does not depend on this number.

        Raises
        ------
        RunawayFeedbackError
            If the network runs away; the weights stay as they were before the batch.
        """
        n_threads = checks.positive_integer("n_threads", n_threads)
        signals, mask = checked_signals(
            signals, self.n_inputs, mask, signed=not self.settings.signs.positive_signals
        )
        return self.learn_batch(
            len(signals), lambda batch: batch.run(self.synapses, signals, mask, n_threads=n_threads)
        )

    @one_thread
    def learn_batch(self, n_signals: int, run: Callable[[Batch], Observed]) -> float:
        """Learn from one batch, which the function `run` runs; return the batch's mean objective.

        If an error or Ctrl-C ends the batch early, the learner stays as it was before the batch.

        Parameters
        ----------
        n_signals : int
            Number of signals in the batch.
        run : callable
            Function that returns what neurons observe of a batch, for example `Batch.run` with `synapses`.
        """
        # One thread suffices for small products, and rounding does not depend on the number of threads.
        with one_blas_thread():
            batch = self.batch(n_signals)
            try:
                observed = run(batch)
            except RunawayFeedbackError as error:
                raise RunawayFeedbackError(
                    f"after {self.n_samples:,} samples {error}; the weights are those before this batch: "
                    "subtract the mean of signals with an offset, or learn in exact time (time=Exact())"
                ) from None
            new, objective = self._after(batch, observed)
        assign(self, **vars(new))  # all is set at once, so that Ctrl-C cannot leave a half-changed learner
        return objective

    def batch(self, n_signals: int) -> Batch:
        """Return the next batch: its size and position, its penalties and its probes.

        Parameters
        ----------
        n_signals : int
            Number of signals in the batch.
        """
        settings, thresholds = self.settings, self.synapses.thresholds.copy()
        penalty, silence = self._penalties(), self.n_samples - self.last_fired
        reweighting = settings.rule.penalty_weights(thresholds, silence, self._remembered())
        compared, n_firing = self.last_compared, self.n_atoms - np.count_nonzero(self.lesioned)
        if n_firing < self.n_atoms:
            reweighting = np.where(self.lesioned, -SILENCING_DRIVE / penalty, reweighting)
            compared = np.where(self.lesioned, self.n_samples + 1, compared)
        if settings.signs != self.synapses.signs:
            raise ValueError(f"settings must have the network's {self.synapses.signs}; got {settings.signs}")
        if settings.inputs == "graded":
            self.synapses.close(settings.kappa)
        n_probes = min(settings.rule.n_probes(self.n_samples, n_signals), n_firing)
        # Probe the atoms whose lateral weights have not been used for the longest time.
        probed = np.argsort(compared, kind="stable")[:n_probes]
        return Batch(
            n_signals=n_signals,
            n_samples=self.n_samples,
            penalty=penalty,
            reweighting=reweighting,
            probed=probed,
            probe_drive=PROBE_SPIKES / settings.duration / (1.0 - settings.kappa) * thresholds[probed],
            scale=self.scale,
            settings=self._settings_now(),
        )

    @property
    def can_halve(self) -> bool:
        """Whether learning may halve the step of the clock."""
        time = self._settings_now().time
        return isinstance(time, Clock) and time.neuron == RealNeuron() and time.time_step > FINEST_STEP

    def _settings_now(self) -> LearningSettings:
        """Return the settings, with the steps of a clock halved `n_halvings` times."""
        time = self.settings.time
        if not isinstance(time, Clock) or not self.n_halvings:
            return self.settings
        return replace(self.settings, time=replace(time, time_step=time.time_step / 2**self.n_halvings))

    def _after(self, batch: Batch, observed: Observed) -> tuple[Self, float]:
        """Return the state of the learner after a batch, and the mean objective of the batch."""
        settings, n, now = self.settings, batch.n_signals, self.n_samples + batch.n_signals
        synapses = self._spare or copy.deepcopy(self.synapses)
        synapses.values[:] = self.synapses.values
        before, known = self.synapses, self._remembered()
        memory = {name: array.copy() for name, array in known.items()}
        settings.rule.change(batch, observed, synapses, memory)
        fixed = np.flatnonzero(self.frozen | self.lesioned)
        if len(fixed):
            synapses.replace(fixed, before.feedforward_rows[:, fixed], before.feedback_rows[fixed])
            for name, rows in settings.rule._of_atoms(memory).items():
                rows[fixed] = known[name][fixed] if name in known else 0.0
        if not updates.bound(
            synapses.values, settings.signs.least_weight, synapses.thresholds, LEAST_THRESHOLD
        ):
            raise ValueError(
                "rule must keep weights finite and their signs as the settings require; "
                f"{type(settings.rule).__name__} did not after {self.n_samples:,} samples: take smaller "
                "steps; the weights are those before this batch"
            )
        counts = self.n_fired.copy(), self.last_fired.copy(), self.last_compared.copy()
        updates.count_fired(observed.fired, n, now, batch.probed, *counts)
        n_fired, last_fired, last_compared = counts
        new = replaced(
            self,
            synapses=synapses,
            _spare=self.synapses,
            memory=memory,
            replacement=copy.copy(self.replacement),
            n_fired=n_fired,
            last_fired=last_fired,
            last_compared=last_compared,
            n_samples=now,
            n_spikes=self.n_spikes + int(observed.n_spikes.sum()),
            _history=copy.copy(self._history),
        )
        if settings.replacement or self.replacement.running:
            replace_atoms(new, batch, observed)
        new.n_saturated += new._round(synapses)
        return new, new._history.observe(batch, observed, synapses)

    def _remembered(self) -> dict[str, np.ndarray]:
        """Return the arrays that the present rule keeps from batch to batch."""
        return self.settings.rule._memory(self.memory, self.n_atoms, self.n_inputs)

    def _penalties(self) -> np.ndarray:
        """Return lambda1 of each atom in the network's units."""
        penalties = self.settings.penalties(self.n_atoms)
        largest = float(penalties.max())
        if largest > LARGEST_PENALTY / self.scale:
            raise ValueError(
                f"penalty must be at most {LARGEST_PENALTY:g} in units of the network, which sees signals "
                f"{self.scale:.3g} times as large; got {largest:g}, at which all codes are zero"
            )
        return self.scale * penalties

    def _without_trials(self) -> tuple[Synapses, dict[str, np.ndarray]]:
        """Return weights and memory, with the old atoms in place of atoms on trial."""
        synapses, memory = self.synapses, self._remembered()
        if self.replacement.running:
            synapses, memory = copy.deepcopy((synapses, memory))
            for trial in self.replacement.running:
                trial.undo(synapses, memory)
            self._round(synapses)
        return synapses, memory

    def _round(self, synapses: Synapses) -> int:
        """Round weights to their number format; return the number of weights outside its range."""
        if self.settings.weight_format is None:
            return 0
        # The seed and `n_samples` determine the random stream, so that a file need not save a generator's
        # state.
        rng = np.random.default_rng([self.rounding_seed, 1, self.n_samples])
        return synapses.round(self.settings.weight_format, rng)

    # -- saving ---------------------------------------------------------------------------------

    _counter = "n_samples"
    _others: ClassVar = {
        "feedforward": Entry("f", ("atoms", "inputs")),
        "feedback": Entry("f", ("inputs", "atoms")),
        "lateral": Entry("f", ("atoms", "atoms")),
        "settings": Entry("U", ()),
        "sums": Entry("f", (N_SUMS,), 0.0),
        "history": Entry("f", ("steps", len(HISTORY_COLUMNS))),
        **OF_ALL,
        **TRIALS,
    }

    def _entries(self) -> dict[str, Any]:
        synapses = self.synapses
        return {
            "version": FILE_VERSION,
            **super()._entries(),
            "feedforward": synapses.feedforward,
            "feedback": synapses.feedback,
            "lateral": synapses.lateral,
            "settings": self.settings.as_text(),
            "sums": self._history.sums,
            "history": self._history.rows,
            **{REMEMBERED + name: array for name, array in self._remembered().items()},
            **self.replacement.entries(),
        }

    @classmethod
    def _of_entries(cls, entries: Mapping[str, np.ndarray]) -> Self:
        values, arrays = cls._conforming(entries, cls._others)
        with checks.without_warnings():  # the user was warned when the settings were made
            settings = LearningSettings.from_text(str(arrays["settings"]))
        rule = settings.rule
        remembered = {REMEMBERED + name: entry for name, entry in rule.remembers.items()}
        rows = {
            OLD + name: entry._replace(shape=("trials", *entry.shape[1:]), optional=True)
            for name, entry in rule._of_atoms(rule.remembers).items()
        }
        arrays = conforming(entries, {**cls._others, **remembered, **rows})
        for name in ("n_fired", "last_fired", "last_compared"):
            if values[name].max() > values["n_samples"]:
                raise ValueError(f"{name} is more than the {values['n_samples']} samples learned from")
        weights = arrays["feedforward"], arrays["feedback"], arrays["lateral"]
        begun = {name: values[name] for name in ("scale", "rounding_seed")}
        return assign(
            cls(TwoPhaseNetwork(*weights, *settings.signs), settings, **begun),
            **values,
            synapses=Synapses(*weights, settings.signs),  # saved weights, not rounded again
            memory={name.removeprefix(REMEMBERED): arrays[name] for name in remembered if name in arrays},
            replacement=Replacement.of_entries(arrays),
            _history=LearningHistory(arrays["history"], arrays["sums"]),
        )
