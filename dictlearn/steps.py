"""Step sizes of the learning rules: how far, and how weights decay."""

from __future__ import annotations

from dataclasses import dataclass

from snn import checks


@dataclass(frozen=True, kw_only=True)
class UsageSteps:
    """Each coding neuron's step from its own usage, and decay with its own activity.

    With A_i the sum of a_i^2 over all samples so far, and C_i that of a_i sum_j a_j over the batch, in
    units of the mean energy of the signals::

        eta_i = gain / (initial_usage / (1 + n / settling) + A_i + caution C_i)      after n samples
        F_ij <- F_ij - eta_i a_i (g_D_j / kappa + lambda1 F_ij)      B_ji likewise

    and H follows by `rules.projected_codes`, from the signals and from probes: neurons whose lateral
    weights were not in use for longest are made to fire alone, so that those of silent ones stay true.

    A_i is the curvature of the objective along atom i, so that this is its diagonal Newton step.  The decay
    a_i lambda1 is what keeps every atom at unit norm: since F_i . g_D = -lambda1 kappa for an active neuron,
    the update is tangent to the unit sphere, and stationary exactly where the objective is under unit
    norms.  There is no lambda2.

    An atom that is used less than once in about n_atoms samples settles below unit norm, near sqrt(s): by
    the time it fires, its penalty is weighted by s, see `patience`, but its decay is not.

    Parameters
    ----------
    gain : float, default 4.0
        1 averages over all samples, more forgets the early ones.
    initial_usage : float, default 2.0
        What the first steps are divided by.
    settling : float, default 300.0
        Samples after which that is halved: neurons that find their use later may move faster.
    caution : float, default 10.0
        Weight of C_i, which bounds the curvature along all atoms at once: one batch goes at most
        gain / caution of the way, and H can follow.
    lateral_gain : float, optional
        Share of the mismatch that H makes good, in (0, 2).  By default 1 where gradients are read from
        currents, which know it exactly, and 0.1 where spikes are counted.
    probes : float, default 1.0
        Probes for each signal; each costs a twentieth of its spikes or so.
    patience : float, default 4.0
        A neuron that was silent for n samples has the penalty weighted by ``s = max(1 - n / (patience
        n_atoms), 0)``, and recovers at its next spike: no atom stays unused for long.
    """

    gain: float = 4.0
    initial_usage: float = 2.0
    settling: float = 300.0
    caution: float = 10.0
    lateral_gain: float | None = None
    probes: float = 1.0
    patience: float = 4.0

    def __post_init__(self) -> None:
        for name in ("gain", "initial_usage", "settling", "patience"):
            object.__setattr__(self, name, checks.positive_number(name, getattr(self, name)))
        for name in ("caution", "probes"):
            object.__setattr__(self, name, checks.non_negative_number(name, getattr(self, name)))
        if self.lateral_gain is not None:
            object.__setattr__(
                self, "lateral_gain", checks.positive_number("lateral_gain", self.lateral_gain)
            )
            if self.lateral_gain >= 2.0:
                raise ValueError(f"lateral_gain must be less than 2; got {self.lateral_gain}")


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
        lambda2, in the same units.  By default it follows the data: lambda1 times the mean code times the
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
        for name in ("step", "halving", "lateral_ratio"):
            object.__setattr__(self, name, checks.positive_number(name, getattr(self, name)))
        if self.decay is not None:
            object.__setattr__(self, "decay", checks.non_negative_number("decay", self.decay))
        object.__setattr__(self, "reweighting", checks.flag("reweighting", self.reweighting))


Steps = UsageSteps | PaperSteps
