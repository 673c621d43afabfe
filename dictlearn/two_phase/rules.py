"""The local learning rules of the two-phase network.

Gradients are read from what each neuron observes of its own two phases (equations 9 and 10 of Lin and Tang,
2018), and updates change its incoming weights (11 and 12).  A neuron uses its own rates and currents, what
arrives at its synapses, and its incoming weights; nothing else.  `TwoPhaseLearner` calls these functions.

There are two read-outs.  "rate", the papers', uses spike rates, with an error of one spike in a phase.
"current" uses average soma currents, which neurons integrate anyway: the same limits (theory.md, equation
4), and the gradients are exact for the code that the phase with feedback passed on.

Arrays have one row for each signal; the updates of several signals add up.
"""

from __future__ import annotations

import numpy as np

from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.phases import Phase
from snn.base import checks
from solvers.workers.blas import load_scipy_linalg

READOUTS = ("rate", "current")
# epsilon of `project_lateral`, in units of the squared norms of the normalised codes, 1.
PROJECTION_RIDGE = 0.01
# With more signals in a batch `project_lateral` solves for the atoms, if they are fewer: to solve for signals
# takes a time that grows with their cube.
LARGE_BATCH = 256


def reconstruction_gradient(
    without_feedback: Phase,
    with_feedback: Phase,
    *,
    readout: str = "current",
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """Return g_D, what each input neuron observes of the reconstruction error, shape (n_signals, n_inputs).

    ``g_D = b_kappa - b_0 ~= kappa (B a_kappa - x)``                                              (9)

    With currents it is equal, for a_kappa the average filtered spikes (`Phase.coding_trace`).  The neuron of
    an unknown input observes none: it takes its b_kappa for b_0.

    Parameters
    ----------
    without_feedback, with_feedback : Phase
        The two phases.
    readout : {"rate", "current"}, default "current"
        b: spike rates, or average soma currents.
    mask : ndarray of bool, shape (n_signals, n_inputs), optional
        True where an input is known, as in `TwoPhaseNetwork.run`.
    """
    before, after = _sent(without_feedback, with_feedback, readout, mask)
    return after - before


def lateral_gradient(
    feedforward: np.ndarray,
    lateral: np.ndarray,
    without_feedback: Phase,
    with_feedback: Phase,
    *,
    kappa: float,
    readout: str = "current",
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """Return g_H, what each coding neuron observes of its mismatch, shape (n_signals, n_atoms).

    ``g_H = (1 - kappa) H (a_0 - a_kappa) + (1 - kappa) e_0 - e_kappa ~= kappa (H - F B) a_kappa``   (10)

    with e = u - Theta a, the difference of a neuron's average current and what its spikes took.  By
    equation 8 the same is ``kappa H a_kappa + (1 - kappa) F b_0 - F b_kappa``, which is what "current"
    computes, with b the average currents that the input neurons send for equation 11 as well, and a_kappa
    the average filtered spikes that arrive: equal to the right-hand side, not an approximation.

    The neuron of an unknown input sends its b_kappa in place of b_0.  With readout="rate",
    (1 - kappa) F (b_kappa - b_0) of the unknown inputs is added: the two phases predict different values.

    Parameters
    ----------
    feedforward : ndarray, shape (n_atoms, n_inputs)
        F; neuron i uses its own row.
    lateral : ndarray, shape (n_atoms, n_atoms)
        H; neuron i uses its own row.
    without_feedback, with_feedback : Phase
        The two phases.
    kappa : float
        Strength of the feedback in the second.
    readout : {"rate", "current"}, default "current"
        See above.
    mask : ndarray of bool, shape (n_signals, n_inputs), optional
        As for `reconstruction_gradient`.
    """
    first, second = without_feedback, with_feedback
    before, after = _sent(first, second, readout, mask)
    if readout == "current":
        received = (1.0 - kappa) * before - after
        return kappa * second.coding_trace @ lateral.T + received @ feedforward.T
    thresholds = np.diagonal(lateral)
    excess_first = first.coding_current - thresholds * first.coding_rate
    excess_second = second.coding_current - thresholds * second.coding_rate
    change = (first.coding_rate - second.coding_rate) @ lateral.T
    if mask is not None:
        change += (before - first.input_rate) @ feedforward.T
    return (1.0 - kappa) * (change + excess_first) - excess_second


def code(phase: Phase, *, readout: str = "current", positive: bool = True) -> np.ndarray:
    """Return a, the code of each signal as it arrives at synapses, shape (n_signals, n_atoms).

    Parameters
    ----------
    phase : Phase
        Usually the one with feedback, whose rates the updates use.
    readout : {"rate", "current"}, default "current"
        Spike rates, or average filtered spikes: the code for which both gradients are exact.
    positive : bool, default True
        Whether codes are not negative: what rounding makes negative is zero.
    """
    checks.instance_of("phase", phase, Phase)
    if checks.one_of("readout", readout, READOUTS) == "rate":
        return phase.coding_rate
    return np.maximum(phase.coding_trace, 0.0) if positive else phase.coding_trace


def observed_penalty(
    feedforward: np.ndarray, reconstruction_gradient: np.ndarray, *, kappa: float
) -> np.ndarray:
    """Return rho, what each coding neuron receives of the reconstruction error, shape (n_signals, n_atoms).

    ``rho_i = -F_i . g_D / kappa``

    In an optimal code it is lambda1 s_i for every active neuron: what the atom still explains is worth its
    penalty.  In the code of a short run it is not, and `UsageSteps` decays by what is observed.

    Parameters
    ----------
    feedforward : ndarray, shape (n_atoms, n_inputs)
        F; neuron i uses its own row.
    reconstruction_gradient : ndarray, shape (n_signals, n_inputs)
        g_D, which the input neurons send.
    kappa : float
        Strength of the feedback.
    """
    return (-1.0 / kappa) * (reconstruction_gradient @ feedforward.T)


def update_feedforward(
    feedforward: np.ndarray,
    codes: np.ndarray,
    reconstruction_gradient: np.ndarray,
    *,
    kappa: float,
    step: float | np.ndarray,
    keep: float | np.ndarray = 1.0,
    least: float = 0.0,
) -> None:
    """Change F in place: coding neuron i changes the weights that arrive at it.

    ``F_ij <- max(keep_i F_ij - eta_i a_i g_D_j / kappa, 0)``                                   (11)

    summed over the signals of a batch; keep_i is 1 - eta_i lambda2 for one signal.

    Parameters
    ----------
    feedforward : ndarray, shape (n_atoms, n_inputs)
        F; the transpose of a C-contiguous array, one row for each source, as spikes need it.
    codes : ndarray, shape (n_signals, n_atoms)
        a of the phase with feedback.
    reconstruction_gradient : ndarray, shape (n_signals, n_inputs)
        g_D, which the input neurons send.
    kappa : float
        Strength of the feedback.
    step : float or ndarray, shape (n_atoms,)
        eta, of all neurons or of each.
    keep : float or ndarray, shape (n_atoms,), default 1.0
        The share of the weights that decay leaves, for all neurons or for each.
    least : float, default 0.0
        The smallest weight; -inf for any.
    """
    n_signals, n_atoms = codes.shape
    workspace = np.empty((n_signals + 2) * n_atoms + n_signals, dtype=np.int64)
    updates.change_columns(
        feedforward.T,
        np.full(n_atoms, keep),
        codes * (step / kappa),
        reconstruction_gradient,
        least,
        workspace,
    )


def update_feedback(
    feedback: np.ndarray,
    codes: np.ndarray,
    reconstruction_gradient: np.ndarray,
    *,
    kappa: float,
    step: float | np.ndarray,
    keep: float | np.ndarray = 1.0,
    least: float = 0.0,
) -> None:
    """Change B in place: input neuron i changes the weights that arrive at it.

    ``B_ij <- max(keep_j B_ij - eta_j g_D_i a_j / kappa, 0)``                                   (11)

    Parameters
    ----------
    feedback : ndarray, shape (n_inputs, n_atoms)
        B; the transpose of a C-contiguous array.
    codes, reconstruction_gradient, kappa, step, keep, least
        As for `update_feedforward`.
    """
    updates.change_rows(
        feedback.T,
        np.full(codes.shape[1], keep),
        codes * (step / kappa),
        reconstruction_gradient,
        least,
    )


def update_lateral(
    lateral: np.ndarray,
    codes: np.ndarray,
    lateral_gradient: np.ndarray,
    *,
    kappa: float,
    step: float,
    keep: float = 1.0,
    least: float = 0.0,
) -> None:
    """Change H in place: coding neuron i changes its lateral weights and its threshold.

    ``H_ij <- max(keep H_ij - eta_H g_H_i a_j / kappa, 0)``                                     (12)

    with keep = 1 - 2 eta_D lambda2 for one signal: H decays twice as fast as F and B, as their product does.

    Parameters
    ----------
    lateral : ndarray, shape (n_atoms, n_atoms)
        H; the transpose of a C-contiguous array.
    codes : ndarray, shape (n_signals, n_atoms)
        a of the phase with feedback.
    lateral_gradient : ndarray, shape (n_signals, n_atoms)
        g_H.
    kappa, keep, least
        As for `update_feedforward`.
    step : float
        eta_H, about 15 eta_D in the paper.
    """
    _change_lateral(lateral, codes, step / kappa * lateral_gradient, keep, least)


def move_lateral_with_feedback(
    lateral: np.ndarray,
    codes: np.ndarray,
    observed_penalty: np.ndarray,
    *,
    step: float | np.ndarray,
    keep: float | np.ndarray = 1.0,
) -> None:
    """Change H in place as the product F B changes when B does.

    ``H_ij <- keep_j H_ij + rho_i eta_j a_j``

    summed over the signals of a batch.  By `update_feedback` B_j becomes keep_j B_j - eta_j a_j g_D / kappa,
    and rho_i is -F_i . g_D / kappa.  Coding neuron j sends keep_j and eta_j a_j to all others.

    Parameters
    ----------
    lateral : ndarray, shape (n_atoms, n_atoms)
        H; the transpose of a C-contiguous array.
    codes : ndarray, shape (n_signals, n_atoms)
        a of the signals that B learns from.
    observed_penalty : ndarray, shape (n_signals, n_atoms)
        rho, by F before it changes.
    step, keep
        As for `update_feedback`.
    """
    kept = np.full(codes.shape[1], keep)
    updates.change_rows(lateral.T, kept, codes * step, -observed_penalty, -np.inf)


def move_lateral_with_feedforward(
    lateral: np.ndarray,
    codes: np.ndarray,
    observed_penalty: np.ndarray,
    *,
    step: float | np.ndarray,
    keep: float | np.ndarray = 1.0,
) -> None:
    """Change H in place as the product F B changes when F does, B having changed before.

    ``H_ij <- keep_i H_ij + eta_i a_i rho_j``

    with rho_j by F as it is after its change: in a symmetric network that is -B_j . g_D / kappa by the B that
    F is multiplied with.  Coding neuron j sends it to all others.

    Parameters
    ----------
    lateral, codes, step, keep
        As for `move_lateral_with_feedback`.
    observed_penalty : ndarray, shape (n_signals, n_atoms)
        rho of the same signals, by F as it is now.
    """
    n_signals, n_atoms = codes.shape
    workspace = np.empty((n_signals + 2) * n_atoms + n_signals, dtype=np.int64)
    kept = np.full(n_atoms, keep)
    updates.change_columns(lateral.T, kept, codes * step, -observed_penalty, -np.inf, workspace)


def lateral_mismatch(
    feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray, codes: np.ndarray, *, kappa: float
) -> np.ndarray:
    """Return g_H of codes by the weights as they are now, ``kappa (H a - F (B a))``.

    After a batch has changed F and B: the input neurons send B a, as they sent it in the phase with feedback.

    Parameters
    ----------
    feedforward : ndarray, shape (n_atoms, n_inputs)
        F; neuron i uses its own row.
    feedback : ndarray, shape (n_inputs, n_atoms)
        B; input neuron j uses its own row.
    lateral : ndarray, shape (n_atoms, n_atoms)
        H; neuron i uses its own row.
    codes : ndarray, shape (n_signals, n_atoms)
        a.
    kappa : float
        Strength of the feedback in the phase that codes were observed in.
    """
    return kappa * (codes @ lateral.T - (codes @ feedback.T) @ feedforward.T)


def project_lateral(
    lateral: np.ndarray,
    codes: np.ndarray,
    lateral_gradient: np.ndarray,
    *,
    kappa: float,
    gain: float = 1.0,
    least: float = 0.0,
) -> None:
    """Change H in place so that it agrees with F B on the codes of a batch.

    ``H <- max(H - gain G^T L (L A A^T L + epsilon I)^-1 L A / kappa, 0)``

    with the rows of G and A the g_H and codes of the signals, and L = diag(1 / ||a||).  At gain 1, H a is
    then F B a for every row a of A, but for the ridge epsilon and the bound.  For one signal this is the
    normalised least-mean-squares rule ``H <- H - g_H^T a / (kappa ||a||^2)`` of a neuron that knows the sum
    of the squares of what arrives; for several, the limit of repeating that rule over the batch.

    Parameters
    ----------
    lateral, codes, lateral_gradient, kappa, least
        As for `update_lateral`.
    gain : float, default 1.0
        Share of the mismatch to correct, in (0, 2).

    References
    ----------
    Ozeki and Umeda (1984), An adaptive filtering algorithm using an orthogonal projection to an affine
    subspace, Electronics and Communications in Japan 67.
    """
    active = np.flatnonzero(codes.any(axis=0))
    if len(codes) > max(LARGE_BATCH, len(active)):
        change = gain * _projected_together(codes[:, active], lateral_gradient) / kappa
        lateral.T[active] = np.maximum(lateral.T[active] - change, least)
        return
    _change_lateral(lateral, codes, gain * _projected(codes, lateral_gradient) / kappa, 1.0, least)


def _change_lateral(
    lateral: np.ndarray, codes: np.ndarray, values: np.ndarray, keep: float, least: float
) -> None:
    updates.change_rows(lateral.T, np.full(codes.shape[1], keep), codes, values, least)


def _projected(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``L (L A A^T L + epsilon I)^-1 L values``; see `project_lateral`."""
    directions, inverse = _directions(codes)
    return inverse * _ridge_solve(directions @ directions.T, inverse * values)


def _projected_together(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``A^T L (L A A^T L + epsilon I)^-1 L values`` of more signals than atoms.

    It equals ``(L^T A^T A L + epsilon I)^-1 A^T L values``, a system of the atoms: of 1,280 signals and 256
    atoms that took a tenth of the time.
    """
    directions, inverse = _directions(codes)
    return _ridge_solve(directions.T @ directions, directions.T @ (inverse * values))


def _directions(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``L A`` and the diagonal of L, zero for a code that is zero."""
    norms = np.linalg.norm(codes, axis=1, keepdims=True)
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    return codes * inverse, inverse


def _ridge_solve(products: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``(products + epsilon I)^-1 values``."""
    load_scipy_linalg()  # only learning with projections needs it
    from scipy import linalg

    # Without the ridge, nearly equal codes would require large weights.
    products = products + PROJECTION_RIDGE * np.eye(len(products))
    factor = linalg.cho_factor(products, overwrite_a=True, check_finite=False)
    return linalg.cho_solve(factor, values, overwrite_b=True, check_finite=False)


def _sent(
    without_feedback: Phase, with_feedback: Phase, readout: str, mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the input neurons send of their two phases, b_0 and b_kappa."""
    checks.instance_of("without_feedback", without_feedback, Phase)
    checks.instance_of("with_feedback", with_feedback, Phase)
    name = "input_rate" if checks.one_of("readout", readout, READOUTS) == "rate" else "input_current"
    before, after = (getattr(phase, name) for phase in (without_feedback, with_feedback))
    return before if mask is None else np.where(mask, before, after), after
