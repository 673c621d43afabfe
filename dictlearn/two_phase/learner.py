"""Dictionary learning by the two-phase network: one batch after the other, from local information only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import unit_norm
from dictlearn.resumable import History, Resumable
from dictlearn.signals import checked_known_signals
from dictlearn.two_phase import rules
from dictlearn.two_phase.batch import PROBE_SPIKES, BatchPlan
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.phases import Phase, RunawayFeedbackError
from dictlearn.two_phase.quantised import round_weights
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.steps import CodeStatistics, LearnedBatch
from dictlearn.two_phase.synapses import LEAST_THRESHOLD, Synapses
from snn.base import checks
from snn.base.archive import Entry
from snn.base.caller_warnings import without_warnings
from snn.base.html import number, value_range

# Objectives, which are sums of squares, stay in the range of floats.
SMALLEST_SCALE, LARGEST_SCALE = 1e-152, 1e152
LARGEST_PENALTY = 1e150
# Samples between two entries of the history.
RECORD_EVERY = 1000
NAMES = (
    "n_samples", "objective", "nonzeros", "spikes", "disturbance", "consistency", "symmetry", "least_norm",
    "median_norm", "largest_norm",
)  # fmt: skip
"""Of the history: means over the samples since the entry before, and figures of the weights."""
N_SUMS = 6
"""Sums for the next entry: samples, objectives, non-zeros, spikes, disturbances, and samples that are not
zero.  Only these have a disturbance."""
COUNTERS = ("n_samples", "n_spikes", "n_bounded", "n_replaced", "n_saturated")


class TwoPhaseLearner(Resumable):
    """A two-phase network that learns, with everything it needs to continue learning.

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
        Whether atoms that have long been silent are replaced, by what samples are missing most.
    rounding_seed : int, default 0
        Of the stochastic rounding of weights, if `settings` have a format with it.

    Attributes
    ----------
    settings, scale, replace_dead
        As given.  They may change between batches.
    rounding_seed : int
        As given.
    synapses : Synapses
        F, B and H as runs read them.
    usage, movement : ndarray, shape (n_atoms,)
        A and V of `UsageSteps`.
    last_fired, last_compared : ndarray of int, shape (n_atoms,)
        Samples learned from when each coding neuron last fired for a signal, and when it last did at all,
        as a probe perhaps: then its lateral weights were compared with F B.
    n_samples : int
        Samples learned from so far.
    n_spikes : int
        Spikes they took.
    n_bounded : int
        How often a threshold would have fallen below LEAST_THRESHOLD, and was kept there.
    n_replaced : int
        Atoms that were replaced.
    n_saturated : int
        How often a weight was beyond the range of `LearningSettings.weight_format`, and was kept at its end.
    """

    def __init__(
        self,
        network: TwoPhaseNetwork,
        settings: LearningSettings,
        *,
        scale: float,
        replace_dead: bool = False,
        rounding_seed: int = 0,
    ) -> None:
        checks.instance_of("network", network, TwoPhaseNetwork)
        checks.instance_of("settings", settings, LearningSettings)
        self.settings = settings
        self.scale = checks.positive_number("scale", scale)
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            raise ValueError(
                f"scale must lie between {SMALLEST_SCALE:g} and {LARGEST_SCALE:g}, so that objectives are in "
                f"the range of floats; got {self.scale:g}: change the unit of the signals"
            )
        self.replace_dead = checks.flag("replace_dead", replace_dead)
        self._penalties(network.n_atoms)
        if network.signs != settings.signs:
            raise ValueError(f"network must have the settings' {settings.signs}; got {network.signs}")
        self.synapses = network.synapses()
        self._statistics = CodeStatistics(usage=np.zeros(network.n_atoms), movement=np.zeros(network.n_atoms))
        self._average: np.ndarray | None = None  # of B^T; None: as it is now
        self.last_fired = np.zeros(network.n_atoms, dtype=np.int64)
        self.last_compared = np.zeros(network.n_atoms, dtype=np.int64)
        self.rounding_seed = checks.integer("rounding_seed", rounding_seed)
        if self.rounding_seed < 0:
            raise ValueError(f"rounding_seed must not be negative; got {self.rounding_seed}")
        self.n_samples, self.n_spikes, self.n_bounded, self.n_replaced, self.n_saturated = 0, 0, 0, 0, 0
        self._history, self._sums = History(NAMES), np.zeros(N_SUMS)
        self._round_weights()

    # -- the network ----------------------------------------------------------------------------

    @property
    def n_atoms(self) -> int:
        """N, the number of atoms."""
        return self.synapses.n_atoms

    @property
    def n_inputs(self) -> int:
        """M, the number of inputs."""
        return self.synapses.n_inputs

    @property
    def network(self) -> TwoPhaseNetwork:
        """The network as it is now, a copy."""
        return TwoPhaseNetwork.of_synapses(self.synapses)

    @property
    def dictionary(self) -> np.ndarray:
        """B^T with rows of unit norm, shape (n_atoms, n_inputs); an atom that vanished is zero.

        Where weights may have either sign, of the average that each synapse of B keeps of its weights (see
        `UsageSteps`), unless they have a `LearningSettings.weight_format`.
        """
        return unit_norm(self._averaged_rows)

    @property
    def _averaged_rows(self) -> np.ndarray:
        return self.synapses.feedback_rows if self._average is None else self._average

    @property
    def usage(self) -> np.ndarray:
        """A of `UsageSteps`, shape (n_atoms,)."""
        return self._statistics.usage

    @property
    def movement(self) -> np.ndarray:
        """V of `UsageSteps`, shape (n_atoms,)."""
        return self._statistics.movement

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Means over each thousand samples, and the weights at the end of it: a dict of arrays.

        objective, nonzeros, spikes (a sample) and disturbance (||g_D|| / ||kappa x||, what the feedback
        changes about the input layer; of signals that are not zero) as the network saw them; consistency,
        symmetry, and the norms.
        """
        return self._history.columns()

    @property
    def dead_atoms(self) -> np.ndarray:
        """Atoms silent for long: for the last 1,000 samples, or 10 for each atom if that is more."""
        return np.flatnonzero(self.n_samples - self.last_fired >= max(1000, 10 * self.n_atoms))

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

    def learn(
        self,
        signals: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        n_threads: int = 1,
        executor: Executor | None = None,
    ) -> float:
        """Learn from one batch; return its mean objective, as the network observed it.

        The same as `plan`, `BatchPlan.run` and `apply`.

        Parameters
        ----------
        signals : array_like, shape (n_signals, n_inputs)
            Not negative, unless the settings say that they may be.
        mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
            True where a signal is known, by default everywhere.  Elsewhere it is not looked at and may be
            NaN: the input neuron carries what the network predicts, and neither drives nor corrects.
        n_threads, executor
            Into how many pieces to divide the batch, and what runs them; the result does not depend on it.
            An executor changes the weights as well, outside the main thread, so that after Ctrl-C they
            are those of whole batches.

        Raises
        ------
        TypeError, ValueError
            If the signals are of the wrong kind, shape or value, or so large that the network would need
            more than 10,000,000 spikes for one of them.
        RunawayFeedbackError
            If the network runs away; the weights stay as they were before the batch.
        """
        n_threads = checks.positive_integer("n_threads", n_threads)
        signals, mask = checked_known_signals(
            signals, self.n_inputs, mask, signed=self.settings.signs.signed_inputs
        )

        def run(plan: BatchPlan) -> list[Phase]:
            return plan.run(self.synapses, signals, mask, n_pieces=n_threads, executor=executor)

        helper = executor if n_threads > 1 else None
        return self.learn_from_run(len(signals), run, mask=mask, executor=executor, helper=helper)

    def learn_from_run(
        self,
        n_signals: int,
        run: Callable[[BatchPlan], Sequence[Phase]],
        *,
        mask: np.ndarray | None = None,
        executor: Executor | None = None,
        helper: Executor | None = None,
    ) -> float:
        """Learn from one batch that runs elsewhere; return its mean objective.

        Parameters
        ----------
        n_signals : int
            Of the batch.
        run : callable
            Returns the phases of a plan: of `BatchPlan.run`, of all rows.
        mask, executor
            As for `learn`.
        helper : Executor, optional
            As for `apply`.

        Raises
        ------
        RunawayFeedbackError
            As `learn`.
        """
        plan = self.plan(n_signals)
        try:
            phases = run(plan)
        except RunawayFeedbackError as error:
            raise RunawayFeedbackError(
                f"after {self.n_samples:,} samples {error}; the weights are those before this batch: "
                "subtract the mean of signals with an offset, or try smaller steps"
            ) from None
        if executor is None:
            return self.apply(plan, phases, mask)
        # Not in this thread: Ctrl-C stops the main one anywhere, and a batch is learned whole or not at all.
        return executor.submit(self.apply, plan, phases, mask, helper=helper).result()

    def plan(self, n_signals: int) -> BatchPlan:
        """Return how the network as it is now runs a batch.

        Parameters
        ----------
        n_signals : int
            Of the batch.
        """
        settings = self.settings
        thresholds = np.diagonal(self.synapses.lateral_rows)
        silence = self.n_samples - self.last_fired
        n_probes = min(settings.steps.n_probes(self.n_samples, n_signals), self.n_atoms)
        # Those whose lateral weights were not used longest.
        probed = np.argsort(self.last_compared, kind="stable")[:n_probes]
        return BatchPlan(
            n_signals=n_signals,
            probed=probed,
            probe_drive=PROBE_SPIKES / settings.duration / (1.0 - settings.kappa) * thresholds[probed],
            penalty=self._penalties(self.n_atoms) * settings.steps.penalty_weights(thresholds, silence),
            scale=self.scale,
            settings=settings,
        )

    def apply(
        self,
        plan: BatchPlan,
        phases: Sequence[Phase],
        mask: np.ndarray | None = None,
        *,
        helper: Executor | None = None,
    ) -> float:
        """Change the weights by what neurons observed of a batch; return its mean objective.

        Parameters
        ----------
        plan : BatchPlan
            From `plan`, after which nothing else was learned.
        phases : sequence of Phase
            From `BatchPlan.run`, of all its rows.
        mask : ndarray of bool, shape (n_signals, n_inputs), optional
            Of its signals.
        helper : Executor, optional
            Changes F and B while H changes.
        """
        settings, synapses = self.settings, self.synapses
        kappa, readout = settings.kappa, settings.readout
        first, second = phases
        # Rows of signals teach everything, those of probes only H.
        of_signals = slice(0, plan.n_signals)
        known = None if mask is None else np.pad(mask, ((0, len(plan.probed)), (0, 0)), constant_values=True)
        seen: dict[str, Any] = {"readout": readout, "mask": known}
        g_d = rules.reconstruction_gradient(first, second, **seen)[of_signals]
        all_codes = rules.code(second, readout=readout, positive=settings.positive_code)
        codes = all_codes[of_signals]
        batch = LearnedBatch(
            codes=codes,
            all_codes=all_codes,
            errors=np.einsum("ij,ij->i", g_d, g_d) / kappa**2,
            observed_penalty=lambda: rules.observed_penalty(synapses.feedforward, g_d, kappa=kappa),
            lateral_gradient=lambda: rules.lateral_gradient(
                synapses.feedforward, synapses.lateral, first, second, kappa=kappa, **seen
            ),
            inhibition=lambda: all_codes @ synapses.lateral_rows,
            n_samples=self.n_samples,
            energy=settings.amplitude**2,
            penalty=self._penalties(self.n_atoms),
            thresholds=np.diagonal(synapses.lateral_rows).copy(),
            kappa=kappa,
            readout=readout,
            positive_atoms=settings.positive_atoms,
        )
        steps = settings.steps.of_batch(batch, self._statistics)
        least = settings.signs.least_weight
        sizes: dict[str, Any] = {"kappa": kappa, "step": steps.step, "keep": steps.keep, "least": least}

        def update_both_ways() -> None:
            rules.update_feedforward(synapses.feedforward, codes, g_d, **sizes)
            rules.update_feedback(synapses.feedback, codes, g_d, **sizes)

        def change_both_ways() -> Callable[[], None]:
            future = None
            if helper is not None:
                # After Ctrl-C the helper may be shut down already: this batch is still learned whole.
                with suppress(RuntimeError):
                    future = helper.submit(update_both_ways)

            def wait() -> None:
                # If no other thread has begun it, do it here.
                if future is None or future.cancel():
                    update_both_ways()
                else:
                    future.result()

            return wait

        settings.steps.change_weights(synapses, batch, steps, change_both_ways)
        diagonal = np.einsum("ii->i", synapses.lateral_rows)
        self.n_bounded += int(np.count_nonzero(diagonal < LEAST_THRESHOLD))
        np.maximum(diagonal, LEAST_THRESHOLD, out=diagonal)
        self._follow(steps.averaged)

        self.n_samples += plan.n_signals
        self.n_spikes += int(first.n_spikes.sum() + second.n_spikes.sum())
        self.last_fired[second.coding_rate[of_signals].any(axis=0)] = self.n_samples
        self.last_compared[second.coding_rate.any(axis=0)] = self.n_samples
        self.last_compared[plan.probed] = self.n_samples
        if self.replace_dead:
            self._replace(g_d)
        self._round_weights()
        return self._record(plan, mask, g_d, codes, first, second)

    def _follow(self, shares: np.ndarray | None) -> None:
        """Add the weights of now to the average of each atom, if there is one."""
        if shares is None or self.settings.weight_format is not None:
            self._average = None
            return
        if self._average is None:
            self._average = self.synapses.feedback_rows.copy()
        self._average += shares[:, np.newaxis] * (self.synapses.feedback_rows - self._average)

    def _penalties(self, n_atoms: int) -> np.ndarray:
        """Return lambda1 of each atom as the network gets it."""
        penalties = self.settings.penalties(n_atoms)
        largest = float(penalties.max())
        if largest > LARGEST_PENALTY / self.scale:
            raise ValueError(
                f"penalty must be at most {LARGEST_PENALTY:g} in units of the network, which sees signals "
                f"{self.scale:.3g} times as large; got {largest:g}, at which all codes are zero"
            )
        return self.scale * penalties

    def _replace(self, g_d: np.ndarray) -> None:
        """Replace dead atoms, each by what one sample of the batch is missing."""
        dead = self.dead_atoms
        if not len(dead):
            return
        missing = np.maximum(-g_d, self.settings.signs.least_weight)
        norms = np.linalg.norm(missing, axis=1)
        for atom, worst in zip(dead, np.argsort(-norms, kind="stable"), strict=False):
            if norms[worst] <= 0.0:
                break
            self.synapses.replace(atom, missing[worst] / norms[worst])
            self.usage[atom] = self.movement[atom] = 0.0
            if self._average is not None:
                self._average[atom] = self.synapses.feedback_rows[atom]
            self.last_fired[atom] = self.n_samples
            self.n_replaced += 1

    def _round_weights(self) -> None:
        weight_format = self.settings.weight_format
        if weight_format is not None:
            self.n_saturated += round_weights(
                self.synapses, weight_format, seed=self.rounding_seed, n_samples=self.n_samples
            )

    def _record(
        self,
        plan: BatchPlan,
        mask: np.ndarray | None,
        g_d: np.ndarray,
        codes: np.ndarray,
        first: Phase,
        second: Phase,
    ) -> float:
        """Add the batch to the history; return its mean objective in units of the signals."""
        n_signals, scale = plan.n_signals, self.scale
        # Without feedback the currents of the inputs are the signals.
        seen = first.input_current[:n_signals]
        norms = np.linalg.norm(seen if mask is None else np.where(mask, seen, 0.0), axis=1)
        errors = np.linalg.norm(g_d, axis=1) / self.settings.kappa  # ||B a - x||, by equation 9
        # While g_D is read from spike counts this is the error of the rates.
        objectives = 0.5 * errors**2 + np.abs(codes) @ plan.penalty
        nonzero = norms > 0.0
        disturbances = errors[nonzero] / norms[nonzero]
        self._sums += (
            n_signals,
            objectives.sum() / scale**2,
            int(np.count_nonzero(codes)),
            first.n_spikes.sum() + second.n_spikes.sum(),
            disturbances.sum(),
            len(disturbances),
        )
        if self.n_samples // RECORD_EVERY > (self.n_samples - n_signals) // RECORD_EVERY:
            n, *totals, n_nonzero = self._sums
            # The disturbance of a thousand zero signals is 0, not 0 / 0.
            means = np.array(totals) / (n, n, n, max(n_nonzero, 1.0))
            network = self.network
            norms = np.quantile(np.linalg.norm(network.feedback, axis=0), (0.0, 0.5, 1.0))
            self._history.add(self.n_samples, *means, network.consistency, network.symmetry, *norms)
            self._sums[:] = 0.0
        return float(objectives.mean() / scale**2)

    # -- saving ---------------------------------------------------------------------------------

    _counter, _unit = "n_samples", "sample"
    _checkpoint: ClassVar = {**Resumable._checkpoint, "seed": Entry("iu", (), 0)}
    _schema: ClassVar = {
        "feedforward": Entry("f", ("atoms", "inputs")),
        "feedback": Entry("f", ("inputs", "atoms")),
        "lateral": Entry("f", ("atoms", "atoms")),
        "settings": Entry("U", ()),
        "scale": Entry("f", (), 0.0),
        "replace_dead": Entry("b", ()),
        "usage": Entry("f", ("atoms",), 0.0),
        "movement": Entry("f", ("atoms",), 0.0),
        "average": Entry("f", ("atoms", "inputs"), optional=True),
        "last_fired": Entry("iu", ("atoms",), 0),
        "last_compared": Entry("iu", ("atoms",), 0),
        "counters": Entry("iu", (len(COUNTERS),), 0),
        "mean_cost": Entry("f", (), 0.0),
        "sums": Entry("f", (N_SUMS,), 0.0),
        "history": Entry("f", (None, len(NAMES))),
        "rounding_seed": Entry("iu", (), 0),
    }

    def _entries(self) -> dict[str, Any]:
        synapses = self.synapses
        return {
            "feedforward": synapses.feedforward,
            "feedback": synapses.feedback,
            "lateral": synapses.lateral,
            "settings": self.settings.as_text(),
            "scale": self.scale,
            "replace_dead": self.replace_dead,
            "usage": self.usage,
            "movement": self.movement,
            "average": self._averaged_rows,
            "last_fired": self.last_fired,
            "last_compared": self.last_compared,
            "counters": np.array([getattr(self, name) for name in COUNTERS]),
            "mean_cost": self._statistics.mean_cost,
            "sums": self._sums,
            "history": self._history.rows,
            "rounding_seed": self.rounding_seed,
        }

    @classmethod
    def _of_entries(cls, entries: dict[str, Any]) -> Self:
        counters = dict(zip(COUNTERS, entries["counters"].tolist(), strict=True))
        for name in ("last_fired", "last_compared"):
            if entries[name].max() > counters["n_samples"]:
                raise ValueError(f"{name} is later than the {counters['n_samples']} samples learned from")
        with without_warnings():  # the user was warned when the settings were made
            settings = LearningSettings.from_text(str(entries["settings"]))
        feedforward, feedback, lateral = (entries[name] for name in ("feedforward", "feedback", "lateral"))
        learner = cls(
            TwoPhaseNetwork(feedforward, feedback, lateral, *settings.signs),
            settings,
            scale=float(entries["scale"]),
            replace_dead=bool(entries["replace_dead"]),
            rounding_seed=int(entries["rounding_seed"]),
        )
        # Not as the constructor left them: it rounds to the format of now.
        learner.synapses = Synapses(feedforward, feedback, lateral, settings.signs)
        mean_cost = float(entries["mean_cost"])
        usage = entries["usage"].copy()
        movement = entries["movement"].copy()
        learner._statistics = CodeStatistics(usage=usage, movement=movement, mean_cost=mean_cost)
        if "average" in entries:
            learner._average = entries["average"].copy()
        learner.last_fired[:] = entries["last_fired"]
        learner.last_compared[:] = entries["last_compared"]
        vars(learner).update(counters)
        learner._sums[:] = entries["sums"]
        learner._history.rows = entries["history"]
        return learner
