"""Step sizes of the learning rules: how far, and how weights decay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from dictlearn.two_phase import rules
from dictlearn.two_phase.synapses import Synapses
from snn.base import checks

# Share of the mismatch that H corrects: currents measure it exactly, counts do not.
LATERAL_GAINS = {"current": 1.0, "rate": 0.1}
# How fast the paper's decay follows the mean code, in samples.
FOLLOWING = 1000.0
# What V of `UsageSteps` begins with: first steps are of the order of the trust region.
FIRST_MOVEMENT = 0.01


@dataclass(eq=False)
class CodeStatistics:
    """What step sizes depend on, of all codes so far; changed by the steps' `of_batch`.

    Attributes
    ----------
    usage : ndarray, shape (n_atoms,)
        A of `UsageSteps`: the sum of the squares of each atom's code, in units of the mean energy of the
        signals.
    movement : ndarray, shape (n_atoms,)
        V of `UsageSteps`: the sum of the squares of what each atom's code makes of the errors, in units of
        the square of that energy.
    mean_cost : float
        Mean of ``lambda1 |a|`` over signals and atoms, which the decay of `PaperSteps` follows.
    """

    usage: np.ndarray
    movement: np.ndarray
    mean_cost: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedBatch:
    """What was observed of a batch, and what else its step sizes depend on.

    Attributes
    ----------
    codes : ndarray, shape (n_signals, n_atoms)
        a of the signals.
    all_codes : ndarray, shape (n_rows, n_atoms)
        Those of the probes as well.
    errors : ndarray, shape (n_signals,)
        ||g_D||^2 / kappa^2, the squared norm of the reconstruction error of each signal.
    observed_penalty : callable
        Returns `rules.observed_penalty`, shape (n_signals, n_atoms), by the weights as they are then.
    lateral_gradient : callable
        Likewise `rules.lateral_gradient`, shape (n_rows, n_atoms).
    inhibition : callable
        Likewise H a, shape (n_rows, n_atoms).
    n_samples : int
        Samples learned from before the batch.
    energy : float
        The mean squared norm of the signals, as the network gets them.
    penalty : ndarray, shape (n_atoms,)
        lambda1 of each atom, likewise.
    thresholds : ndarray, shape (n_atoms,)
        theta, the diagonal of H, before the batch.
    kappa : float
        Strength of the feedback.
    readout : str
        One of `rules.READOUTS`.
    positive_atoms : bool
        Whether weights are bounded at zero.
    """

    codes: np.ndarray
    all_codes: np.ndarray
    errors: np.ndarray
    observed_penalty: Callable[[], np.ndarray]
    lateral_gradient: Callable[[], np.ndarray]
    inhibition: Callable[[], np.ndarray]
    n_samples: int
    energy: float
    penalty: np.ndarray
    thresholds: np.ndarray
    kappa: float
    readout: str
    positive_atoms: bool

    @property
    def follows_exactly(self) -> bool:
        """Whether H can move as the product of F and B does: no bound stops them, and currents are exact."""
        return not self.positive_atoms and self.readout == "current"

    def mismatch(self) -> np.ndarray:
        """Return m, the share of its lateral currents that each coding neuron sees mismatched, at most 1.

        The sum of |g_H| over the rows, over that of ``kappa |H a|``: 0 where H agrees with F B.
        """
        mismatch = np.abs(self.lateral_gradient()).sum(axis=0)
        received = self.kappa * np.abs(self.inhibition()).sum(axis=0)
        share = np.divide(mismatch, received, out=np.zeros_like(received), where=received > 0.0)
        return np.minimum(share, 1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchSteps:
    """Step sizes of one batch.

    Attributes
    ----------
    step, keep : float or ndarray, shape (n_atoms,)
        Of `rules.update_feedforward` and `rules.update_feedback`.
    lateral_step, lateral_keep : float
        Of `rules.update_lateral`; or the gain of `rules.project_lateral`, and 1.
    averaged : ndarray, shape (n_atoms,), or None
        The share of its new weights in the average of each atom; None: there is no average.
    """

    step: float | np.ndarray
    keep: float | np.ndarray
    lateral_step: float
    lateral_keep: float = 1.0
    averaged: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class UsageSteps:
    """Each coding neuron's step from what it did so far, and decay by what it observes.

    With A_i the sum of a_i^2 over all n samples so far, and C_i that of ``|a_i| sum_j |a_j|`` over the
    batch, in units of the mean energy of the signals::

        eta_i = gain / (initial_usage / (1 + n / settling) + A_i + caution C_i)
        F_ij <- F_ij - eta_i a_i (g_D_j / kappa + rho_i F_ij)        rho_i = -F_i . g_D / kappa
        B_ji likewise, with the same rho_i

    H follows by `rules.project_lateral`, from the signals and from probes: neurons whose lateral weights were
    unused for longest are driven alone, so that the weights of silent neurons stay correct.  A_i is the
    curvature of the objective along atom i, so that this is its diagonal Newton step.

    Where weights may have either sign, no bound stops them, and H moves with F and B as their product does
    (`rules.move_lateral_with_feedback`): a symmetric network stays consistent exactly.  What mismatch there
    is, is then measured with the changed weights and corrected.  With V_i the sum of
    ``a_i^2 ||g_D||^2 / kappa^2`` over all samples so far, and D_i that of a_i^2 over the batch::

        eta_i = 1 / (sqrt(0.01 + V_i) / reach + (1 - m_i) D_i + caution m_i C_i / gain)

    V_i is the sum of the squares of the neuron's own gradients, so that this is the step of AdaGrad, one for
    each neuron: it falls fast where errors remain that no atom explains, and slowly where they vanish.  m_i
    is the share of its lateral currents that neuron i saw mismatched in the batch, at most 1.  Where H agrees
    with F B, no step is larger than is best for the batch, 1 / D_i; elsewhere a batch goes no farther than H
    can follow.  Such steps are large, and keep atoms in motion: the dictionary is an average of each atom,
    to which a batch adds its new weights with the share ``min(averaging D_i / A_i, 1)``.  Where gradients
    are read from counts, steps are those of positive atoms.

    The decay keeps every atom at unit norm: the norm of F_i changes by
    ``2 eta_i a_i rho_i (1 - ||F_i||^2)``, whatever the code; on the unit sphere the update is tangent, and
    stationary exactly where the objective is under unit norms.  In an optimal code rho_i is lambda1 s_i, the
    penalty as it is weighted.  A batch whose codes explain too much, so that the sum of its a_i rho_i is
    negative, decays nothing.  There is no lambda2.

    Parameters
    ----------
    gain : float, default 4.0
        1 averages over all samples; more forgets the early ones.
    reach : float, default 1.5
        How far, about, an atom of unit norm has to go, for weights of either sign.
    averaging : float, default 4.0
        For weights of either sign: 1 averages over all that an atom did, more over the last part of it.
    initial_usage : float, default 2.0
        What the first steps are divided by.
    settling : float, default 300.0
        Samples after which that is halved: neurons that are used later may change faster.
    caution : float, default 10.0
        Weight of C_i, which bounds the curvature along all atoms at once: one batch goes at most
        gain / caution of the way, so that H can follow.
    lateral_gain : float, optional
        Share of the mismatch that H corrects, in (0, 2).  By default 1 where gradients are read from
        currents, which measure it exactly, and 0.1 where spikes are counted.
    probes : float, default 0.25
        Probes for each signal; on a clock each costs nearly as much as a signal.
    patience : float, default 4.0
        A neuron that was silent for n samples has the penalty weighted by ``s = max(1 - n / (patience
        n_atoms), 0)``, and recovers at its next spike: no atom stays unused for long.
    """

    gain: float = 4.0
    reach: float = 1.5
    averaging: float = 4.0
    initial_usage: float = 2.0
    settling: float = 300.0
    caution: float = 10.0
    lateral_gain: float | None = None
    probes: float = 0.25
    patience: float = 4.0

    def __post_init__(self) -> None:
        checks.check_fields(
            self,
            checks.positive_number,
            "gain",
            "reach",
            "averaging",
            "initial_usage",
            "settling",
            "patience",
        )
        checks.check_fields(self, checks.non_negative_number, "caution", "probes")
        if self.lateral_gain is not None:
            checks.check_fields(self, checks.positive_number, "lateral_gain")
            if self.lateral_gain >= 2.0:
                raise ValueError(f"lateral_gain must be less than 2; got {self.lateral_gain}")

    def penalty_weights(self, thresholds: np.ndarray, silence: np.ndarray) -> np.ndarray:
        """Return s, the weight of each neuron's penalty: neurons that were silent for long are excitable.

        Parameters
        ----------
        thresholds : ndarray, shape (n_atoms,)
            theta, the diagonal of H.
        silence : ndarray of int, shape (n_atoms,)
            Samples since each coding neuron last fired.
        """
        return np.maximum(1.0 - silence / (self.patience * len(silence)), 0.0)

    def n_probes(self, n_samples: int, n_signals: int) -> int:
        """Return how many neurons are made to fire alone, beside a batch.

        Parameters
        ----------
        n_samples : int
            Samples learned from before the batch.
        n_signals : int
            Signals of the batch.
        """
        return math.floor(self.probes * (n_samples + n_signals)) - math.floor(self.probes * n_samples)

    def of_batch(self, batch: LearnedBatch, statistics: CodeStatistics) -> BatchSteps:
        """Return the step sizes of a batch, having added its codes to the statistics.

        Parameters
        ----------
        batch : LearnedBatch
            What was observed of the batch.
        statistics : CodeStatistics
            Of the codes before; changed.
        """
        codes, energy = batch.codes, batch.energy
        observed = (codes * batch.observed_penalty()).sum(axis=0)
        used = (codes * codes).sum(axis=0) / energy
        statistics.usage += used
        sizes = np.abs(codes)
        together = sizes.sum(axis=1) @ sizes / energy
        averaged = None
        if batch.follows_exactly:
            statistics.movement += batch.errors @ (codes * codes) / energy**2
            mismatch = batch.mismatch()
            bound = (1.0 - mismatch) * used + self.caution / self.gain * mismatch * together
            step = 1.0 / (np.sqrt(FIRST_MOVEMENT + statistics.movement) / self.reach + bound) / energy
            averaged = np.zeros_like(used)
            np.divide(self.averaging * used, statistics.usage, out=averaged, where=used > 0.0)
            np.minimum(averaged, 1.0, out=averaged)
        else:
            initial = self.initial_usage / (1.0 + batch.n_samples / self.settling)
            step = self.gain / (initial + statistics.usage + self.caution * together) / energy
        gain = LATERAL_GAINS[batch.readout] if self.lateral_gain is None else self.lateral_gain
        return BatchSteps(
            step=step,
            keep=np.clip(1.0 - step * observed, 0.0, 1.0),
            lateral_step=gain,
            averaged=averaged,
        )

    def change_weights(
        self,
        synapses: Synapses,
        batch: LearnedBatch,
        batch_steps: BatchSteps,
        change_both_ways: Callable[[], Callable[[], None]],
    ) -> None:
        """Change F and B, and let H follow.

        Parameters
        ----------
        synapses : Synapses
            The weights, in place.
        batch : LearnedBatch
            What was observed of the batch.
        batch_steps : BatchSteps
            Its step sizes.
        change_both_ways : callable
            Begins to change F and B; returns what waits until they are changed.
        """
        lateral, codes, kappa = synapses.lateral, batch.all_codes, batch.kappa
        project = partial(
            rules.project_lateral,
            lateral,
            codes,
            kappa=kappa,
            gain=batch_steps.lateral_step,
            least=synapses.signs.least_weight,
        )
        if not batch.follows_exactly:
            gradient = batch.lateral_gradient()
            with _meanwhile(change_both_ways):
                project(gradient)
            return
        sizes = {"step": batch_steps.step, "keep": batch_steps.keep}
        before = batch.observed_penalty()
        with _meanwhile(change_both_ways):
            rules.move_lateral_with_feedback(lateral, batch.codes, before, **sizes)
        after = batch.observed_penalty()
        rules.move_lateral_with_feedforward(lateral, batch.codes, after, **sizes)
        weights = (synapses.feedforward, synapses.feedback, lateral)
        project(rules.lateral_mismatch(*weights, codes, kappa=kappa))


@dataclass(frozen=True, kw_only=True)
class PaperSteps:
    """The paper's plain rules: one step for all, a fixed decay, and re-weighting by the thresholds.

    Equations 11 and 12 with ``eta_D = step / (1 + n / halving)`` after n samples, in units of the mean
    energy of the signals.

    Parameters
    ----------
    step : float, default 0.5
        eta_D at the start.
    halving : float, default 20_000.0
        Samples after which eta_D is half of that.
    decay : float, optional
        lambda2, in the same units.  By default it follows the data: the mean of ``lambda1 |a|`` times the
        mean threshold, at which the mean atom norm neither grows nor shrinks at 1.
    lateral_ratio : float, default 15.0
        eta_H / eta_D.
    reweighting : bool, default True
        s = diag H, which keeps norms alike; otherwise s = 1.
    """

    step: float = 0.5
    halving: float = 20_000.0
    decay: float | None = None
    lateral_ratio: float = 15.0
    reweighting: bool = True

    def __post_init__(self) -> None:
        checks.check_fields(self, checks.positive_number, "step", "halving", "lateral_ratio")
        if self.decay is not None:
            checks.check_fields(self, checks.non_negative_number, "decay")
        checks.check_fields(self, checks.flag, "reweighting")

    def penalty_weights(self, thresholds: np.ndarray, silence: np.ndarray) -> np.ndarray:
        """Return s, the weight of each neuron's penalty: its threshold, or 1 without `reweighting`.

        Parameters
        ----------
        thresholds, silence
            As for `UsageSteps.penalty_weights`.
        """
        return thresholds if self.reweighting else np.ones(len(thresholds))

    def n_probes(self, n_samples: int, n_signals: int) -> int:
        """Return 0: there are no probes.

        Parameters
        ----------
        n_samples, n_signals
            As for `UsageSteps.n_probes`.
        """
        return 0

    def of_batch(self, batch: LearnedBatch, statistics: CodeStatistics) -> BatchSteps:
        """Return the step sizes of a batch, having added its codes to the statistics.

        Parameters
        ----------
        batch, statistics
            As for `UsageSteps.of_batch`.
        """
        codes, energy = batch.codes, batch.energy
        n_signals = len(codes)
        step = self.step / (1.0 + batch.n_samples / self.halving) / energy
        if self.decay is None:
            # The mean of all signals so far, until they are enough to forget the early ones.
            share_of_batch = min(1.0, n_signals / min(FOLLOWING, batch.n_samples + n_signals))
            cost = (np.abs(codes).mean(axis=0) * batch.penalty).mean()
            statistics.mean_cost += share_of_batch * (cost - statistics.mean_cost)
            decay = float(statistics.mean_cost * batch.thresholds.mean())
        else:
            decay = self.decay * energy
        return BatchSteps(
            step=step,
            keep=max(1.0 - step * decay, 0.0) ** n_signals,
            lateral_step=self.lateral_ratio * step,
            lateral_keep=max(1.0 - 2.0 * step * decay, 0.0) ** n_signals,
        )

    def change_weights(
        self,
        synapses: Synapses,
        batch: LearnedBatch,
        batch_steps: BatchSteps,
        change_both_ways: Callable[[], Callable[[], None]],
    ) -> None:
        """Change F and B, and H by `rules.update_lateral`.

        Parameters
        ----------
        synapses, batch, batch_steps, change_both_ways
            As for `UsageSteps.change_weights`.
        """
        gradient = batch.lateral_gradient()
        with _meanwhile(change_both_ways):
            rules.update_lateral(
                synapses.lateral,
                batch.all_codes,
                gradient,
                kappa=batch.kappa,
                step=batch_steps.lateral_step,
                keep=batch_steps.lateral_keep,
                least=synapses.signs.least_weight,
            )


@contextmanager
def _meanwhile(begin: Callable[[], Callable[[], None]]) -> Iterator[None]:
    """Begin something, and wait for it at the end, whatever happens in between."""
    wait = begin()
    try:
        yield
    finally:
        wait()


Steps = UsageSteps | PaperSteps
KINDS = {kind.__name__: kind for kind in (UsageSteps, PaperSteps)}
