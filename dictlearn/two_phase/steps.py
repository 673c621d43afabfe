"""Step sizes of the learning rules: how far, and how weights decay."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dictlearn.two_phase import rules
from snn.base import checks

# Share of the mismatch that H corrects: currents measure it exactly, counts do not.
LATERAL_GAINS = {"current": 1.0, "rate": 0.1}
# How fast the paper's decay follows the mean code, in samples.
FOLLOWING = 1000.0


@dataclass(eq=False)
class CodeStatistics:
    """What step sizes depend on, of all codes so far; changed by the steps' `of_batch`.

    Attributes
    ----------
    usage : ndarray, shape (n_atoms,)
        A of `UsageSteps`: the sum of the squares of each atom's code, in units of the mean energy of the
        signals.
    mean_cost : float
        Mean of lambda1 a over signals and atoms, which the decay of `PaperSteps` follows.
    """

    usage: np.ndarray
    mean_cost: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchConditions:
    """What step sizes of one batch depend on beside its codes.

    Attributes
    ----------
    n_samples : int
        Samples learned from before the batch.
    energy : float
        The mean squared norm of the signals, as the network gets them.
    penalty : ndarray, shape (n_atoms,)
        lambda1 of each atom, likewise.
    thresholds : ndarray, shape (n_atoms,)
        theta, the diagonal of H.
    observed_penalty : ndarray, shape (n_signals, n_atoms)
        `rules.observed_penalty`, by the weights before the batch.
    readout : str
        One of `rules.READOUTS`.
    """

    n_samples: int
    energy: float
    penalty: np.ndarray
    thresholds: np.ndarray
    observed_penalty: np.ndarray
    readout: str


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchSteps:
    """Step sizes of one batch.

    Attributes
    ----------
    step, keep : float or ndarray, shape (n_atoms,)
        Of `rules.update_feedforward` and `rules.update_feedback`.
    lateral_step, lateral_keep : float
        Of `rules.update_lateral`; or the gain of `rules.project_lateral`, and 1.
    """

    step: float | np.ndarray
    keep: float | np.ndarray
    lateral_step: float
    lateral_keep: float = 1.0


@dataclass(frozen=True, kw_only=True)
class UsageSteps:
    """Each coding neuron's step from its own usage, and decay by what it observes.

    With A_i the sum of a_i^2 over all samples so far, and C_i that of a_i sum_j a_j over the batch, in
    units of the mean energy of the signals::

        eta_i = gain / (initial_usage / (1 + n / settling) + A_i + caution C_i)      after n samples
        F_ij <- F_ij - eta_i a_i (g_D_j / kappa + rho_i F_ij)        rho_i = -F_i . g_D / kappa
        B_ji likewise, with the same rho_i

    and H follows by `rules.project_lateral`, from the signals and from probes: neurons whose lateral
    weights were unused for longest are driven alone, so that the weights of silent neurons stay correct.

    A_i is the curvature of the objective along atom i, so that this is its diagonal Newton step.  The decay
    keeps every atom at unit norm: the norm of F_i changes by ``2 eta_i a_i rho_i (1 - ||F_i||^2)``, whatever
    the code; on the unit sphere the update is tangent, and stationary exactly where the objective is under
    unit norms.  In an optimal code rho_i is lambda1 s_i, the penalty as it is weighted.  A batch whose codes
    explain too much, so that the sum of its a_i rho_i is negative, decays nothing.  There is no lambda2.

    Parameters
    ----------
    gain : float, default 4.0
        1 averages over all samples; more forgets the early ones.
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
    initial_usage: float = 2.0
    settling: float = 300.0
    caution: float = 10.0
    lateral_gain: float | None = None
    probes: float = 0.25
    patience: float = 4.0

    def __post_init__(self) -> None:
        checks.check_fields(self, checks.positive_number, "gain", "initial_usage", "settling", "patience")
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

    def of_batch(
        self, codes: np.ndarray, statistics: CodeStatistics, conditions: BatchConditions
    ) -> BatchSteps:
        """Return the step sizes of a batch, having added its codes to the statistics.

        Parameters
        ----------
        codes : ndarray, shape (n_signals, n_atoms)
            a of the signals.
        statistics : CodeStatistics
            Of the codes before; changed.
        conditions : BatchConditions
            What else they depend on.
        """
        energy = conditions.energy
        observed = (codes * conditions.observed_penalty).sum(axis=0)
        statistics.usage += (codes * codes).sum(axis=0) / energy
        together = codes.sum(axis=1) @ codes / energy
        initial = self.initial_usage / (1.0 + conditions.n_samples / self.settling)
        step = self.gain / (initial + statistics.usage + self.caution * together) / energy
        gain = LATERAL_GAINS[conditions.readout] if self.lateral_gain is None else self.lateral_gain
        return BatchSteps(
            step=step,
            keep=np.clip(1.0 - step * observed, 0.0, 1.0),
            lateral_step=gain,
        )

    def update_lateral(
        self,
        lateral: np.ndarray,
        codes: np.ndarray,
        lateral_gradient: np.ndarray,
        batch_steps: BatchSteps,
        *,
        kappa: float,
    ) -> None:
        """Change H in place by `rules.project_lateral`.

        Parameters
        ----------
        lateral, codes, lateral_gradient, kappa
            As for `rules.project_lateral`.
        batch_steps : BatchSteps
            Step sizes of the batch.
        """
        rules.project_lateral(lateral, codes, lateral_gradient, kappa=kappa, gain=batch_steps.lateral_step)


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
        lambda2, in the same units.  By default it follows the data: the mean of lambda1 a times the mean
        threshold, at which the mean atom norm neither grows nor shrinks at 1.
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

    def of_batch(
        self, codes: np.ndarray, statistics: CodeStatistics, conditions: BatchConditions
    ) -> BatchSteps:
        """Return the step sizes of a batch, having added its codes to the statistics.

        Parameters
        ----------
        codes, statistics, conditions
            As for `UsageSteps.of_batch`.
        """
        n_signals, energy = len(codes), conditions.energy
        step = self.step / (1.0 + conditions.n_samples / self.halving) / energy
        if self.decay is None:
            # The mean of all signals so far, until they are enough to forget the early ones.
            share_of_batch = min(1.0, n_signals / min(FOLLOWING, conditions.n_samples + n_signals))
            cost = (codes.mean(axis=0) * conditions.penalty).mean()
            statistics.mean_cost += share_of_batch * (cost - statistics.mean_cost)
            decay = float(statistics.mean_cost * conditions.thresholds.mean())
        else:
            decay = self.decay * energy
        return BatchSteps(
            step=step,
            keep=max(1.0 - step * decay, 0.0) ** n_signals,
            lateral_step=self.lateral_ratio * step,
            lateral_keep=max(1.0 - 2.0 * step * decay, 0.0) ** n_signals,
        )

    def update_lateral(
        self,
        lateral: np.ndarray,
        codes: np.ndarray,
        lateral_gradient: np.ndarray,
        batch_steps: BatchSteps,
        *,
        kappa: float,
    ) -> None:
        """Change H in place by `rules.update_lateral`.

        Parameters
        ----------
        lateral, codes, lateral_gradient, batch_steps, kappa
            As for `UsageSteps.update_lateral`.
        """
        rules.update_lateral(
            lateral,
            codes,
            lateral_gradient,
            kappa=kappa,
            step=batch_steps.lateral_step,
            keep=batch_steps.lateral_keep,
        )


Steps = UsageSteps | PaperSteps
KINDS = {kind.__name__: kind for kind in (UsageSteps, PaperSteps)}
