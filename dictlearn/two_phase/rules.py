"""Learning rules of the two-phase network: values that say how weights change by what neurons observed.

`PaperSteps` is written with the functions of this module and nothing else; `UsageSteps`, the default, calls
kernels as well.  A rule is local: a neuron uses its own rates and currents, what arrives at its synapses, and
its incoming weights.  The updates of several signals add up.  Equations 9 to 12 are those of Lin and Tang
(2018).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.layers import Signs
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.replacement import LEAST_ATOMS, usual_range
from dictlearn.two_phase.rule import STRONG_FEEDBACK, Rule
from dictlearn.two_phase.synapses import Synapses
from snn.base import checks
from snn.base.archive import Entry
from snn.base.value import Value, checked
from solvers.workers.blas import load_scipy_linalg

__all__ = [
    "Entry",
    "PaperSteps",
    "Rule",
    "UsageSteps",
    "change_weights",
    "observed_penalty",
    "project_lateral",
]

# epsilon of `project_lateral`, in units of the squared norms of the normalised codes, 1.
PROJECTION_RIDGE = 0.01
# Equations that a kernel solves in less time than LAPACK.
SMALL_SYSTEM = 64
# The share of the mismatch that H corrects: currents measure it exactly, counts do not.
LATERAL_GAINS = {"current": 1.0, "rate": 0.1}
# Time in which the paper's decay follows the mean code, in samples.
FOLLOWING = 1000.0
# V of `UsageSteps` at the start: first steps are of the order of the trust region.
FIRST_MOVEMENT = 0.01
# An average lets half of its memory go if its squared distance to the weights is LETS_GO times the usual one.
# A larger distance raises the usual one by the share RISE, so that a slow drift does not become usual.
# A squared distance below LEAST_DISTANCE, of atoms of unit norm, is as good as none.  Signals have changed if
# an average has less than the share KEPT of what its atom did.
LETS_GO, RISE, LEAST_DISTANCE, KEPT = 4.0, 0.03, 1e-5, 0.25
# Signals have changed if at least this share of the averages has let go; single ones do by chance.
LEAST_CHANGED = 0.1
# What the atoms of a start have in 1 / eta and in S, as after long learning, until the squared sum of their
# gradients is DIRECTION times that of gradients without a direction, or, of few weights, more by CHANCE.
HELD, HELD_AVERAGE, DIRECTION, CHANCE = 12.0, 1000.0, 1.1, 4.0


@dataclass(frozen=True, kw_only=True)
class UsageSteps(Value, Rule):
    """Each coding neuron's step from what it did so far, and decay by what it observes.

    With A_i the sum of a_i^2 over all n samples so far, and C_i that of ``|a_i| sum_j |a_j|`` over the
    batch, each times the known share of its sample, in units of the mean energy of the signals::

        eta_i = gain / (initial_usage / (1 + n / settling) + A_i + caution C_i)
        F_ij <- F_ij - eta_i a_i (g_D_j / kappa + rho_i F_ij)        rho_i = -F_i . g_D / kappa
        B_ji likewise, with the same rho_i

    H follows by `rules.project_lateral`, from the signals and from probes: neurons whose lateral weights were
    unused for longest are driven alone, so that the weights of silent neurons stay correct.  A_i is the
    curvature of the objective along atom i, so that this is its diagonal Newton step.

    Where weights may have either sign, no bound stops them, and H moves with F and B as their product does: a
    symmetric network stays consistent exactly, and a mismatch in it decays as the weights do, before it is
    corrected.  With V_i the sum of ``a_i^2 ||g_D||^2 / kappa^2`` over all samples so far, and D_i
    that of a_i^2 over the batch::

        eta_i = 1 / (sqrt(0.01 + V_i) / reach + (1 - m_i) D_i + caution m_i C_i / gain)

    V_i is the sum of the squares of the neuron's own gradients, so that this is the step of AdaGrad, one for
    each neuron: it falls fast where errors remain that no atom explains, and slowly where they vanish.  m_i
    is the share of its lateral currents that neuron i saw mismatched in the batch, at most 1.  Where H agrees
    with F B, no step is larger than is best for the batch, 1 / D_i; elsewhere a batch goes no farther than H
    can follow.  Such steps are large, and keep atoms in motion: the dictionary is an average of each atom,
    to which a batch adds its new weights with the share ``min(averaging D_i / S_i, 1)``.  S_i is A_i, halved
    whenever ``||B_i - average_i||^2`` is four times what it usually is: when signals change, the average must
    not lag behind the weights.  Where gradients are read from counts, steps are those of positive atoms.  An
    atom that is left between several true ones after such a change has smaller codes than chance allows: its
    sums begin anew (`stalled`).

    Atoms that learning starts from may have been learned before.  They are held, ``1 / eta_i`` larger by 12
    and S_i by 1000, until the squared sum of all gradients is ``1.1 + 4 / sqrt(n_atoms n_inputs)`` times what
    it is without a direction, the sum of V_i: of random atoms, in the first batches.

    The decay keeps every atom at unit norm: the norm of F_i changes by
    ``2 eta_i a_i rho_i (1 - ||F_i||^2)``, whatever the code; on the unit sphere the update is tangent, and
    stationary exactly where the objective is under unit norms.  In an optimal code rho_i is lambda1 s_i, the
    penalty as it is weighted.  A batch whose codes explain too much, so that the sum of its a_i rho_i is
    negative, decays nothing.  There is no lambda2.

    Parameters
    ----------
    gain : float, default 4.0
        1 averages over all samples; more forgets the early ones.
    reach : float, default 1.75
        Distance, about, that an atom of unit norm has to go, for weights of either sign.
    averaging : float, default 4.0
        For weights of either sign: 1 averages over all that an atom did, more over the last part of it.
    initial_usage : float, default 2.0
        Divides the first steps.
    settling : float, default 300.0
        Samples after which that is halved: neurons that are used later may change faster.
    caution : float, default 10.0
        Weight of C_i, which bounds the curvature along all atoms at once: one batch goes at most
        gain / caution of the way, so that H can follow.
    lateral_gain : float, optional
        Share of the mismatch that H corrects, in (0, 2).  By default 1 where gradients are read from
        currents, which measure it exactly, and 0.1 where spikes are counted.
    probes : float, default 0.25
        Probes for each signal; on a clock each costs about half as much as a signal.
    patience : float, default 4.0
        A neuron that was silent for n samples has the penalty weighted by ``s = max(1 - n / (patience
        n_atoms), 0)``, and recovers at its next spike: no atom stays unused for long.
    """

    remembers: ClassVar[Mapping[str, Entry]] = {
        "usage": Entry("f", ("atoms",), 0.0),  # A
        "movement": Entry("f", ("atoms",), 0.0),  # V
        "average": Entry("f", ("atoms", "inputs"), optional=True),  # of B^T
        "averaged": Entry("f", ("atoms",), 0.0),  # S
        "spread": Entry("f", ("atoms",), 0.0),  # usual ||B_i - average_i||^2
        "held": Entry("f", ("atoms",), 0.0),  # HELD, or 0
        "drift": Entry("f", ("atoms", "inputs"), optional=True),  # sum of gradients while any is held
    }

    gain: float = checked(checks.positive_number, default=4.0)
    reach: float = checked(checks.positive_number, default=1.75)
    averaging: float = checked(checks.positive_number, default=4.0)
    initial_usage: float = checked(checks.positive_number, default=2.0)
    settling: float = checked(checks.positive_number, default=300.0)
    caution: float = checked(checks.non_negative_number, default=10.0)
    lateral_gain: float | None = checked(checks.positive_number, default=None)
    probes: float = checked(checks.non_negative_number, default=0.25)
    patience: float = checked(checks.positive_number, default=4.0)

    def _check(self) -> None:
        if self.lateral_gain is not None and self.lateral_gain >= 2.0:
            raise ValueError(f"lateral_gain must be less than 2; got {self.lateral_gain}")

    def penalty_weights(
        self, thresholds: np.ndarray, silence: np.ndarray, memory: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return s: neurons that were silent for long are excitable."""
        return np.maximum(1.0 - silence / (self.patience * len(silence)), 0.0)

    def n_probes(self, n_samples: int, n_signals: int) -> int:
        """Return `probes` for each signal, rounded so that batches of any size have as many."""
        return math.floor(self.probes * (n_samples + n_signals)) - math.floor(self.probes * n_samples)

    def change(
        self, batch: Batch, observed: Observed, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Change F and B, and let H follow."""
        settings, n, energy = batch.settings, batch.n_signals, batch.energy
        kappa, least, readout = settings.kappa, settings.signs.least_weight, settings.readout
        codes, g_d = observed.codes[:n], observed.reconstruction_gradient[:n]
        g_h, rows, forward = observed.lateral_gradient, synapses.feedback_rows, synapses.feedforward_rows
        # No bound stops F and B, and currents are exact: H can move as their product does.
        follows = not settings.positive_atoms and readout == "current"
        sums, products = np.zeros((7, synapses.n_atoms)), np.zeros(rows.shape)
        weights = forward, synapses.lateral_rows, kappa
        seen = observed.codes, observed.known_share, g_d, g_h
        updates.sums_by_atom(sums[:6], products, *seen, *weights, sums[6], follows)
        memory["movement"] += sums[3] / energy**2
        if batch.n_samples == 0 or memory["held"].any():
            self._hold(batch, products / kappa, synapses, memory)
        factors, keep = np.empty((2, synapses.n_atoms))
        initial = self.initial_usage / (1.0 + batch.n_samples / self.settling)
        updates.usage_steps(
            factors, keep, sums, memory["usage"], memory["movement"], memory["held"], follows, energy, kappa,
            FIRST_MOVEMENT, self.reach, initial, self.gain, self.caution,
        )  # fmt: skip
        changes = np.empty((8, synapses.n_atoms)), np.empty(8, dtype=np.bool_)
        if follows:
            weighted, lateral = codes * factors, synapses.lateral_rows
            updates.change_rows(lateral, False, weighted, g_d @ forward, keep, -np.inf, *changes)
        updates.change_atoms(forward, rows, products, factors, keep, least)
        if follows:
            # F B changes by both; the second time rho, -F g_D / kappa, is that of the changed F.
            updates.change_rows(lateral, True, weighted, g_d @ forward, keep, -np.inf, *changes)
            g_h = keep * g_h
        gain = LATERAL_GAINS[readout] if self.lateral_gain is None else self.lateral_gain
        project_lateral(synapses, observed.codes, g_h, kappa=kappa, gain=gain)
        if not follows or settings.weight_format is not None:
            memory.pop("average", None)
            return
        # The averages of the atoms follow their weights, faster where these have left them.
        average = memory.setdefault("average", rows.copy())
        averaged, spread = memory["averaged"], memory["spread"]
        updates.average_rows(
            average, averaged, spread, rows, sums[0], self.averaging, LETS_GO, LEAST_DISTANCE, RISE
        )

    def _hold(
        self, batch: Batch, gradient: np.ndarray, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Hold the atoms that learning starts from until their gradients have a direction."""
        held, averaged, rows = memory["held"], memory["averaged"], synapses.feedback_rows
        if batch.n_samples == 0:
            held[:], averaged[:], memory["spread"][:] = HELD, HELD_AVERAGE, 1.0
            memory["drift"] = np.zeros(rows.shape)
        is_held = held > 0.0
        if "drift" in memory:  # if not, an atom came back from before all were let go
            drift = memory["drift"]
            radial = np.einsum("ij,ij->i", gradient, rows)[:, np.newaxis] * rows
            drift += (gradient - radial) / batch.energy
            # Weights at a bound do not fall.
            is_free = (rows > batch.settings.signs.least_weight) | (drift < 0.0)
            by_chance = (DIRECTION + CHANCE / math.sqrt(drift.size)) * memory["movement"][is_held].sum()
            if np.linalg.norm((drift * is_free)[is_held]) ** 2 <= by_chance:
                return
            del memory["drift"]
        averaged[is_held] = np.minimum(averaged, memory["usage"])[is_held]
        held[:], memory["spread"][is_held] = 0.0, 0.0

    def atoms(self, synapses: Synapses, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return B^T; where weights may have either sign, the average that each synapse keeps of it."""
        is_used, rows = memory["usage"][:, np.newaxis] > 0.0, synapses.feedback_rows
        return np.where(is_used, memory.get("average", rows), rows)

    def stalled(self, n_fired: np.ndarray, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return atoms with smaller codes than chance allows, A_i over their signals, after a change."""
        used = np.flatnonzero((n_fired > 0) & (memory["usage"] > 0.0))
        # Those that fired for less than half of what is usual have had too little time.
        old = used[2 * n_fired[used] > np.median(n_fired[used])] if len(used) else used
        sizes = np.log(memory["usage"][old] / n_fired[old])
        # If signals have not changed, fewer true atoms are found if small ones begin anew.
        let_go = memory["averaged"][old] < KEPT * memory["usage"][old]
        if len(old) < LEAST_ATOMS or let_go.mean() < LEAST_CHANGED:
            return old[:0]
        return old[let_go & (sizes < usual_range(sizes)[0])]


@dataclass(frozen=True, kw_only=True)
class PaperSteps(Value, Rule):
    """The paper's plain rules: one step for all, a fixed decay, and re-weighting by the thresholds.

    With ``eta_D = step / (1 + n / halving)`` after n samples, in units of the mean energy of the signals::

        F_ij <- max(F_ij - eta_D (a_i g_D_j / kappa + lambda2 F_ij), 0)              B_ji likewise     (11)
        H_ij <- max(H_ij - eta_H g_H_i a_j / kappa - 2 eta_D lambda2 H_ij, 0)        s = diag H        (12)

    Samples come one at a time by default: in larger batches these steps can run away.

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

    batch_size: ClassVar[int] = 1
    inputs: ClassVar[str] = "spiking"
    remembers: ClassVar[Mapping[str, Entry]] = {"mean_cost": Entry("f", (), 0.0)}  # of lambda1 |a|

    step: float = checked(checks.positive_number, default=0.5)
    halving: float = checked(checks.positive_number, default=20_000.0)
    decay: float | None = checked(checks.non_negative_number, default=None)
    lateral_ratio: float = checked(checks.positive_number, default=15.0)
    reweighting: bool = checked(checks.flag, default=True)

    def defaults(self, readout: str, inputs: str, signs: Signs) -> dict[str, Any]:
        """Return the strong feedback of the paper."""
        return STRONG_FEEDBACK

    def penalty_weights(
        self, thresholds: np.ndarray, silence: np.ndarray, memory: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return s: the thresholds, or 1."""
        return thresholds if self.reweighting else np.ones(len(thresholds))

    def change(
        self, batch: Batch, observed: Observed, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Change F, B and H by the plain rules."""
        settings, n, energy = batch.settings, batch.n_signals, batch.energy
        kappa, least = settings.kappa, settings.signs.least_weight
        codes, g_d = observed.codes[:n], observed.reconstruction_gradient[:n]
        g_h = observed.lateral_gradient
        step = self.step / (1.0 + batch.n_samples / self.halving) / energy
        if self.decay is None:
            # The mean of all signals so far, until they are enough to forget the early ones.
            share_of_batch = min(1.0, n / min(FOLLOWING, batch.n_samples + n))
            cost = (np.abs(codes).mean(axis=0) * batch.penalty).mean()
            memory["mean_cost"] += share_of_batch * (cost - memory["mean_cost"])
            decay = float(memory["mean_cost"] * synapses.thresholds.mean())
        else:
            decay = self.decay * energy
        keep = max(1.0 - step * decay, 0.0) ** n
        atoms = synapses.feedforward, synapses.feedback_rows
        change_weights(atoms, step / kappa * codes, g_d, keep=keep, least=least)
        keep = max(1.0 - 2.0 * step * decay, 0.0) ** n
        lateral = self.lateral_ratio * step / kappa * g_h
        change_weights(synapses.lateral_rows, observed.codes, lateral, keep=keep, least=least)


# -- functions that rules are made of --------------------------------------------------------------


def change_weights(
    weights: np.ndarray | Sequence[np.ndarray],
    codes: np.ndarray,
    values: np.ndarray,
    *,
    keep: float | np.ndarray = 1.0,
    least: float = -np.inf,
) -> None:
    """Change weights in place and alike: ``w_i <- max(keep_i w_i - sum_k codes_ki values_k, least)``.

    Weights of neurons without a code that keep all of them stay as they are, even below `least`.

    Parameters
    ----------
    weights : ndarray or sequence of ndarray, shapes (n_atoms, n_others)
        A row for each coding neuron: `Synapses.feedforward` and `feedback_rows`, `lateral` (weights to it) or
        `lateral_rows` (weights from it).
    codes : ndarray, shape (n_signals, n_atoms)
        Nearly all zero, such as the codes times a step.
    values : ndarray, shape (n_signals, n_others)
        Numbers at the other ends of the synapses, such as the gradients that targets observe.
    keep : float or ndarray, shape (n_atoms,), default 1.0
        The share of the weights that decay leaves.
    least : float, default -inf
        The smallest weight, `Signs.least_weight`.
    """
    keep = np.full(codes.shape[1], keep)
    memory = np.empty((8, values.shape[1])), np.empty(8, dtype=np.bool_)
    for each in [weights] if isinstance(weights, np.ndarray) else weights:
        if each.shape != (codes.shape[1], values.shape[1]) or len(codes) != len(values):
            raise ValueError(
                "weights must have a row for each column of codes and a column for each of values, and codes "
                f"as many rows as values; got shapes {each.shape}, {codes.shape} and {values.shape}"
            )
        are_columns = not each.flags.c_contiguous
        updates.change_rows(each.T if are_columns else each, are_columns, codes, values, keep, least, *memory)


def observed_penalty(synapses: Synapses, reconstruction_gradient: np.ndarray, *, kappa: float) -> np.ndarray:
    """Return ``rho_i = -F_i @ g_D / kappa``, what each coding neuron receives of the error of reconstruction.

    Its shape is (n_signals, n_atoms).  In an optimal code it is lambda1 s_i for every active neuron: what the
    atom still explains is worth its penalty.  In the code of a short run it is not.

    Parameters
    ----------
    synapses : Synapses
        F.
    reconstruction_gradient : ndarray, shape (n_signals, n_inputs)
        g_D.
    kappa : float
        Strength of the feedback.
    """
    return (reconstruction_gradient / -kappa) @ synapses.feedforward_rows


def project_lateral(
    synapses: Synapses, codes: np.ndarray, lateral_gradient: np.ndarray, *, kappa: float, gain: float = 1.0
) -> None:
    """Change H in place so that it agrees with F B on the codes of a batch.

    ``H <- max(H - gain G^T L (L A A^T L + epsilon I)^-1 L A / kappa, 0)``

    with the rows of G and A the g_H and codes of the signals, and L = diag(1 / ||a||).  At gain 1, H a is
    then F B a for every row a of A, but for the ridge epsilon and the bound.  For one signal this is the
    normalised least-mean-squares rule ``H <- H - g_H^T a / (kappa ||a||^2)`` of a neuron that knows the sum
    of the squares of what arrives; for several, the limit of repeating that rule over the batch.

    Parameters
    ----------
    synapses : Synapses
        H.
    codes, lateral_gradient : ndarray, shape (n_rows, n_atoms)
        a and g_H.
    kappa : float
        Strength of the feedback.
    gain : float, default 1.0
        Share of the mismatch to correct, in (0, 2).

    References
    ----------
    Ozeki and Umeda (1984), An adaptive filtering algorithm using an orthogonal projection to an affine
    subspace, Electronics and Communications in Japan 67.
    """
    rows, least = synapses.lateral_rows, synapses.signs.least_weight
    lateral_gradient = gain / kappa * lateral_gradient
    if len(codes) <= synapses.n_atoms:
        # G^T L (L A A^T L + epsilon I)^-1 L = G^T (A A^T + epsilon L^-2)^-1.
        products = codes @ codes.T
        squares = products.reshape(-1)[:: len(products) + 1]
        squares *= 1.0 + PROJECTION_RIDGE
        squares[squares == 0.0] = 1.0
        change_weights(rows, codes, _solution(products, lateral_gradient), least=least)
        return
    # Equal to (A^T L^2 A + epsilon I)^-1 A^T L^2 G: a system of the atoms.
    products, change = np.zeros((2, *rows.shape))
    updates.add_normalised(products, change, codes, lateral_gradient, PROJECTION_RIDGE)
    np.maximum(rows - _solution(products, change), least, out=rows)


def _solution(products: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``products^-1 values`` of a positive definite matrix; both are overwritten."""
    if len(products) <= SMALL_SYSTEM:
        solved, is_finite = values, updates.solve(products, values)
    else:
        load_scipy_linalg()  # only learning with projections needs it
        from scipy.linalg import blas, lapack

        factor, _ = lapack.dpotrf(products)
        # Transposed views, which BLAS takes without copies.
        half = blas.dtrsm(1.0, factor, values.T, side=1)
        solved = blas.dtrsm(1.0, factor, half, side=1, trans_a=1, overwrite_b=1).T
        is_finite = np.isfinite(solved).all()
    if not is_finite:
        raise np.linalg.LinAlgError("codes and gradients must be finite to project lateral weights")
    return solved
