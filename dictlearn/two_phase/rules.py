"""Learning rules of the two-phase network, which say how observations of neurons change the weights.

`PaperSteps` uses only functions of this module; `UsageSteps`, the default, also calls kernels.  A rule is
local.  A neuron uses only its own rates and currents, what arrives at its synapses, and its incoming weights.
The updates from all signals of a batch are added.  Equations 9 to 12 are from Lin and Tang (2018).
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

__all__ = ["Entry", "PaperSteps", "Rule", "UsageSteps", "change_weights", "project_lateral"]

# Ridge epsilon of `project_lateral`, relative to the squared norm of a normalised code, which is 1.
PROJECTION_RIDGE = 0.01
# Largest number of linear equations that a kernel of this package solves faster than LAPACK.
SMALL_SYSTEM = 64
# Share of the mismatch H - F B that a batch corrects.  Currents measure the mismatch exactly, but spike
# counts are noisy.
LATERAL_GAINS = {"current": 1.0, "rate": 0.1}
# Number of samples over which `PaperSteps` averages lambda1 |a|, which sets its decay.
FOLLOWING = 1000.0
# Number added to V of `UsageSteps`, which limits the length of the first steps.
FIRST_MOVEMENT = 0.01
# An atom's average forgets half of its samples if its squared distance to the weights is LETS_GO times the
# usual squared distance.  If a squared distance exceeds the usual value, only the share RISE of the excess
# raises the usual value, so that the usual value does not follow a slow drift.  Atoms have unit norm, and
# squared distances below LEAST_DISTANCE are ignored.  The average of an atom counts as renewed if S of the
# atom is less than the share KEPT of A.
LETS_GO, RISE, LEAST_DISTANCE, KEPT = 4.0, 0.03, 1e-5, 0.25
# Signals count as changed if at least this share of all averages is renewed.  A few averages are renewed by
# chance.
LEAST_CHANGED = 0.1
# Atoms of a start may be learned already, so they are held and change slowly: 1 / eta is larger by HELD, and
# S begins at HELD_AVERAGE.  Held atoms are released when the squared norm of the sum of their gradients is
# DIRECTION + CHANCE / sqrt(number of weights) times its expected value for gradients without a common
# direction.
HELD, HELD_AVERAGE, DIRECTION, CHANCE = 12.0, 1000.0, 1.1, 4.0


@dataclass(frozen=True, kw_only=True)
class UsageSteps(Value, Rule):
    """The default rule: past codes set a neuron's step size, and its present observations set its decay.

    A_i is the sum of a_i^2 over all n samples so far, and C_i is the sum of ``|a_i| sum_j |a_j|`` over the
    batch.  Each term counts by the known share of its sample, in units of the signals' mean energy::

        eta_i = gain / (initial_usage / (1 + n / settling) + A_i + caution C_i)
        F_ij <- F_ij - eta_i a_i (g_D_j / kappa + rho_i F_ij)        rho_i = -F_i . g_D / kappa
        B_ji likewise, with the same rho_i

    `rules.project_lateral` corrects H, from signals and from probes.  A probe drives only the neuron whose
    lateral weights have been unused for the longest time, so that the weights of silent neurons stay correct.
    A_i is the curvature of the objective along atom i, so that eta_i makes a diagonal Newton step.

    If weights may have either sign, no bound stops them, and H moves exactly as the product F B does: a
    symmetric network stays consistent, and a mismatch decays as the weights do, before it is corrected.
    V_i is the sum of ``a_i^2 ||g_D||^2 / kappa^2`` over all samples so far, and D_i the sum of a_i^2 over the
    batch::

        eta_i = 1 / (sqrt(0.01 + V_i) / reach + (1 - m_i) D_i + caution m_i C_i / gain)

    V_i is the sum of the squares of the neuron's own gradients, so that each neuron makes an AdaGrad step.
    The AdaGrad step falls fast if errors remain that no atom explains, and slowly if errors vanish.  m_i is
    the mismatched share of the lateral currents of neuron i in the batch, at most 1.  If H agrees with F B,
    no step is larger than 1 / D_i, which is best for the batch.  Otherwise a step is so short that H can
    follow the change of F B.  Large steps keep atoms in motion, so the dictionary contains an average of each
    atom.  A batch adds its new weights to the average with the share ``min(averaging D_i / S_i, 1)``.  S_i
    grows like A_i, but S_i is halved whenever ``||B_i - average_i||^2`` is four times its usual value, so
    that the average does not lag behind the weights after a change of signals.  If gradients are read from
    counts, steps are computed as for positive atoms.  After a change of signals, an atom that lies between
    several true atoms has smaller codes than chance allows.  `stalled` returns atoms with too small
    codes, and the learner restarts the sums of these atoms.

    The atoms of a start may be the result of earlier learning.  Therefore atoms of a start are held, which
    means that they change slowly: ``1 / eta_i`` is larger by 12 and S_i starts at 1000.  Held atoms are
    released when the squared norm of the sum of all gradients is ``1.1 + 4 / sqrt(n_atoms n_inputs)`` times
    the sum of V_i, its expected value without a common direction.  Random atoms are released in the first
    batches.

    The decay keeps every atom at unit norm, because the norm of F_i changes by ``2 eta_i a_i rho_i (1 -
    ||F_i||^2)`` for any code.  If an atom has unit norm, its update is tangent to the unit sphere.  The
    update is stationary exactly where the objective under unit norms is stationary.  In an optimal code rho_i
    is lambda1 s_i, the weighted penalty.  If the codes of a batch explain too much, so that the sum of a_i
    rho_i is negative, nothing decays.  `UsageSteps` has no lambda2.

    Parameters
    ----------
    gain : float, default 4.0
        Size of the steps.  With a gain of 1, an atom averages over all samples.  With a larger gain, the atom
        forgets early samples.
    reach : float, default 1.75
        Approximate distance that an atom of unit norm has to move, for weights of either sign.
    averaging : float, default 4.0
        Used only for weights of either sign.  With 1, an atom is averaged over its whole past.  With a larger
        number, the atom is averaged over the last part of its past.
    initial_usage : float, default 2.0
        Usage of an atom before the first sample: a larger number makes the first steps smaller.
    settling : float, default 300.0
        Number of samples after which `initial_usage` is halved, so that atoms used later for the first time
        may change faster.
    caution : float, default 10.0
        Weight of C_i, which bounds the curvature along all atoms together.  A batch moves weights by at most
        the share gain / caution of the way to the batch's optimum, so that H can follow.
    lateral_gain : float, optional
        Share of the mismatch that H corrects, in (0, 2).  The default is 1 if gradients are read
        from currents, which measure the mismatch exactly, and 0.1 if spikes are counted.
    probes : float, default 0.25
        Number of probes for each signal; on a clock a probe costs about half as much as a signal.
    patience : float, default 4.0
        The penalty of a neuron that was silent for n samples is weighted by ``s = max(1 - n / (patience
        n_atoms), 0)`` until its next spike, so that no atom stays unused for long.
    """

    remembers: ClassVar[Mapping[str, Entry]] = {
        "usage": Entry("f", ("atoms",), 0.0),  # A_i
        "movement": Entry("f", ("atoms",), 0.0),  # V_i
        "average": Entry("f", ("atoms", "inputs"), optional=True),  # average of B^T
        "averaged": Entry("f", ("atoms",), 0.0),  # S_i
        "spread": Entry("f", ("atoms",), 0.0),  # usual value of ||B_i - average_i||^2
        "held": Entry("f", ("atoms",), 0.0),  # HELD while an atom is held, then 0
        "drift": Entry("f", ("atoms", "inputs"), optional=True),  # sum of gradients while an atom is held
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
        """Return s, which is smaller for neurons that have been silent for longer."""
        return np.maximum(1.0 - silence / (self.patience * len(silence)), 0.0)

    def n_probes(self, n_samples: int, n_signals: int) -> int:
        """Return the number of probes, rounded so that the total does not depend on the batch size."""
        return math.floor(self.probes * (n_samples + n_signals)) - math.floor(self.probes * n_samples)

    def change(
        self, batch: Batch, observed: Observed, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Change F and B, and correct H."""
        settings, n, energy = batch.settings, batch.n_signals, batch.energy
        kappa, least, readout = settings.kappa, settings.signs.least_weight, settings.readout
        codes, g_d = observed.codes[:n], observed.reconstruction_gradient[:n]
        g_h, rows, forward = observed.lateral_gradient, synapses.feedback_rows, synapses.feedforward_rows
        # If no bound stops F and B, and currents are exact, H moves exactly as the product F B does.
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
            # Changes of F and changes of B both change F B.  The second product g_D F uses the changed F.
            updates.change_rows(lateral, True, weighted, g_d @ forward, keep, -np.inf, *changes)
            g_h = keep * g_h
        gain = LATERAL_GAINS[readout] if self.lateral_gain is None else self.lateral_gain
        project_lateral(synapses, observed.codes, g_h, kappa=kappa, gain=gain)
        if not follows or settings.weight_format is not None:
            memory.pop("average", None)
            return
        # The average of an atom follows its weights, and follows faster after the weights have moved far.
        average = memory.setdefault("average", rows.copy())
        averaged, spread = memory["averaged"], memory["spread"]
        updates.average_rows(
            average, averaged, spread, rows, sums[0], self.averaging, LETS_GO, LEAST_DISTANCE, RISE
        )

    def _hold(
        self, batch: Batch, gradient: np.ndarray, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Slow down the changes of the starting atoms until their gradients have a common direction."""
        held, averaged, rows = memory["held"], memory["averaged"], synapses.feedback_rows
        if batch.n_samples == 0:
            held[:], averaged[:], memory["spread"][:] = HELD, HELD_AVERAGE, 1.0
            memory["drift"] = np.zeros(rows.shape)
        is_held = held > 0.0
        if "drift" in memory:  # absent after a lost trial that restored a held atom
            drift = memory["drift"]
            radial = np.einsum("ij,ij->i", gradient, rows)[:, np.newaxis] * rows
            drift += (gradient - radial) / batch.energy
            # Weights at their lower bound cannot fall.
            is_free = (rows > batch.settings.signs.least_weight) | (drift < 0.0)
            by_chance = (DIRECTION + CHANCE / math.sqrt(drift.size)) * memory["movement"][is_held].sum()
            if np.linalg.norm((drift * is_free)[is_held]) ** 2 <= by_chance:
                return
            del memory["drift"]
        averaged[is_held] = np.minimum(averaged, memory["usage"])[is_held]
        held[:], memory["spread"][is_held] = 0.0, 0.0

    def atoms(self, synapses: Synapses, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the averages of atoms in `memory` or, without averages, B^T."""
        is_used, rows = memory["usage"][:, np.newaxis] > 0.0, synapses.feedback_rows
        return np.where(is_used, memory.get("average", rows), rows)

    def stalled(self, n_fired: np.ndarray, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return atoms whose mean squared code is smaller than chance allows, after a change of signals."""
        used = np.flatnonzero((n_fired > 0) & (memory["usage"] > 0.0))
        # Atoms that fired for less than half of the median number of signals have had too little time.
        old = used[2 * n_fired[used] > np.median(n_fired[used])] if len(used) else used
        sizes = np.log(memory["usage"][old] / n_fired[old])
        # If signals have not changed, a restart of atoms with small codes would lose true atoms.
        let_go = memory["averaged"][old] < KEPT * memory["usage"][old]
        if len(old) < LEAST_ATOMS or let_go.mean() < LEAST_CHANGED:
            return old[:0]
        return old[let_go & (sizes < usual_range(sizes)[0])]


@dataclass(frozen=True, kw_only=True)
class PaperSteps(Value, Rule):
    """The paper's rule: one step size for all neurons, a fixed decay, and penalties weighted by thresholds.

    After n samples, ``eta_D = step / (1 + n / halving)``, in units of the mean energy of the signals::

        F_ij <- max(F_ij - eta_D (a_i g_D_j / kappa + lambda2 F_ij), 0)              B_ji likewise     (11)
        H_ij <- max(H_ij - eta_H g_H_i a_j / kappa - 2 eta_D lambda2 H_ij, 0)        s = diag H        (12)

    A batch is one sample by default, because these steps can run away in larger batches.

    Parameters
    ----------
    step : float, default 0.5
        Value of eta_D before the first sample.
    halving : float, default 20_000.0
        Number of samples after which eta_D is half of `step`.
    decay : float, optional
        The decay lambda2, in units of the mean energy of the signals.  The default is the mean of ``lambda1
        |a|`` over past samples times the mean threshold: with this value, a mean atom norm of 1 neither grows
        nor shrinks.
    lateral_ratio : float, default 15.0
        The ratio eta_H / eta_D.
    reweighting : bool, default True
        If True, s = diag H, which keeps the norms of atoms alike.  If False, s = 1.
    """

    batch_size: ClassVar[int] = 1
    inputs: ClassVar[str] = "spiking"
    remembers: ClassVar[Mapping[str, Entry]] = {"mean_cost": Entry("f", (), 0.0)}  # mean of lambda1 |a|

    step: float = checked(checks.positive_number, default=0.5)
    halving: float = checked(checks.positive_number, default=20_000.0)
    decay: float | None = checked(checks.non_negative_number, default=None)
    lateral_ratio: float = checked(checks.positive_number, default=15.0)
    reweighting: bool = checked(checks.flag, default=True)

    def defaults(self, readout: str, inputs: str, signs: Signs) -> dict[str, Any]:
        """Return the default settings with strong feedback, as in the paper."""
        return STRONG_FEEDBACK

    def penalty_weights(
        self, thresholds: np.ndarray, silence: np.ndarray, memory: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return s: the thresholds or, without re-weighting, 1."""
        return thresholds if self.reweighting else np.ones(len(thresholds))

    def change(
        self, batch: Batch, observed: Observed, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Change F, B and H by equations 11 and 12."""
        settings, n, energy = batch.settings, batch.n_signals, batch.energy
        kappa, least = settings.kappa, settings.signs.least_weight
        codes, g_d = observed.codes[:n], observed.reconstruction_gradient[:n]
        g_h = observed.lateral_gradient
        step = self.step / (1.0 + batch.n_samples / self.halving) / energy
        if self.decay is None:
            # Average over all samples so far, but over at most about the last FOLLOWING samples.
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
    """Change weights in place: ``w_i <- max(keep_i w_i - sum_k codes_ki values_k, least)``.

    The weights of a neuron without codes and with keep_i = 1 stay as they are, even below `least`.

    Parameters
    ----------
    weights : ndarray or sequence of ndarray, shapes (n_atoms, n_others)
        Weights with a row for each coding neuron, such as `Synapses.feedforward`, `feedback_rows`, `lateral`
        (weights to the neuron) or `lateral_rows` (weights from the neuron).
    codes : ndarray, shape (n_signals, n_atoms)
        Codes times a step size; most codes are zero.
    values : ndarray, shape (n_signals, n_others)
        Values at the other end of each synapse, for example the gradients that the other neuron observes.
    keep : float or ndarray, shape (n_atoms,), default 1.0
        The share of each weight that remains after decay.
    least : float, default -inf
        The lower bound of the new weights, for example `Signs.least_weight`.
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


def project_lateral(
    synapses: Synapses, codes: np.ndarray, lateral_gradient: np.ndarray, *, kappa: float, gain: float = 1.0
) -> None:
    """Change H in place so that it agrees with F B on the codes of a batch.

    ``H <- max(H - gain G^T L (L A A^T L + epsilon I)^-1 L A / kappa, 0)``

    The rows of G are the gradients g_H, the rows of A are the codes of the signals, and L = diag(1 / ||a||).
    After a step with `gain` = 1, H a equals F B a for every row a of A, up to the effects of the ridge
    epsilon and of the bound.  For one signal, this step is the normalised least-mean-squares rule ``H <- H -
    g_H^T a / (kappa ||a||^2)`` of a neuron that knows the sum of the squares of its inputs.  For several
    signals, the step is the limit of the least-mean-squares rule if the batch is repeated.

    Parameters
    ----------
    synapses : Synapses
        The weights; only H changes.
    codes, lateral_gradient : ndarray, shape (n_rows, n_atoms)
        The codes a and the gradients g_H of the batch.
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
        # With few rows, the system has one equation for each row:
        # G^T L (L A A^T L + epsilon I)^-1 L = G^T (A A^T + epsilon L^-2)^-1.
        products = codes @ codes.T
        squares = products.reshape(-1)[:: len(products) + 1]
        squares *= 1.0 + PROJECTION_RIDGE
        squares[squares == 0.0] = 1.0
        change_weights(rows, codes, _solution(products, lateral_gradient), least=least)
        return
    # With many rows, the system has one equation for each atom, and the change is the same:
    # (A^T L^2 A + epsilon I)^-1 A^T L^2 G.
    products, change = np.zeros((2, *rows.shape))
    updates.add_normalised(products, change, codes, lateral_gradient, PROJECTION_RIDGE)
    np.maximum(rows - _solution(products, change), least, out=rows)


def _solution(products: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``products^-1 values`` of a positive definite matrix, and overwrite both arguments."""
    if len(products) <= SMALL_SYSTEM:
        solved, is_finite = values, updates.solve(products, values)
    else:
        load_scipy_linalg()
        from scipy.linalg import blas, lapack

        factor, _ = lapack.dpotrf(products)
        # BLAS takes transposed views without copies.
        half = blas.dtrsm(1.0, factor, values.T, side=1)
        solved = blas.dtrsm(1.0, factor, half, side=1, trans_a=1, overwrite_b=1).T
        is_finite = np.isfinite(solved).all()
    if not is_finite:
        raise np.linalg.LinAlgError("codes and gradients must be finite to project lateral weights")
    return solved
