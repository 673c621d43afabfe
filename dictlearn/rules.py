"""The local learning rules of the two-phase network.

Gradients are read from what each neuron saw of its own two phases (equations 9 and 10 of Lin and Tang,
2018), and three updates change its incoming weights (11 and 12).  A neuron uses its own rates and
currents, what arrives at its synapses, and its incoming weights; nothing else.

There are two read-outs.  "counts", the papers', has spike rates, with an error of a spike a phase.
"currents" has average soma currents, which neurons integrate anyway: the same limits (theory.md, equation
4), and the gradients are exact for the code that the phase with feedback passed on.

Quantities are of one signal, or of several, a row each; updates of several signals add up.
"""

from __future__ import annotations

import numpy as np

from dictlearn.synapses import Phase
from snn import checks

READOUTS = ("counts", "currents")
PROJECTION_RIDGE = 0.01


def reconstruction_gradient(
    without_feedback: Phase, with_feedback: Phase, *, readout: str = "currents"
) -> np.ndarray:
    """Return g_D, what each input neuron sees of the reconstruction error, shape (n_signals, n_inputs).

    ``g_D = b_kappa - b_0 ~= kappa (B a_kappa - x)``                                              (9)

    With currents it is equal, for a_kappa the average filtered spikes (`Phase.coding_trace`).

    Parameters
    ----------
    without_feedback, with_feedback : Phase
        The two phases.
    readout : {"counts", "currents"}, default "currents"
        b: spike rates, or average soma currents.
    """
    first, second = _phases(without_feedback, with_feedback)
    if checks.one_of("readout", readout, READOUTS) == "counts":
        return second.input_rate - first.input_rate
    return second.input_current - first.input_current


def lateral_gradient(
    feedforward: np.ndarray,
    lateral: np.ndarray,
    without_feedback: Phase,
    with_feedback: Phase,
    *,
    kappa: float,
    readout: str = "currents",
) -> np.ndarray:
    """Return g_H, what each coding neuron sees of its mismatch, shape (n_signals, n_atoms).

    ``g_H = (1 - kappa) H (a_0 - a_kappa) + (1 - kappa) e_0 - e_kappa ~= kappa (H - F B) a_kappa``   (10)

    with e = u - Theta a, the difference of a neuron's average current and what its spikes took.  By
    equation 8 the same is ``kappa H a_kappa + (1 - kappa) F b_0 - F b_kappa``, which is what "currents"
    computes, with b the average currents that the input neurons send for equation 11 as well, and a_kappa
    the average filtered spikes that arrive: equal to the right-hand side, not about.

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
    readout : {"counts", "currents"}, default "currents"
        See above.
    """
    first, second = _phases(without_feedback, with_feedback)
    if checks.one_of("readout", readout, READOUTS) == "currents":
        received = (1.0 - kappa) * first.input_current - second.input_current
        return kappa * second.coding_trace @ lateral.T + received @ feedforward.T
    thresholds = np.diagonal(lateral)
    excess_first = first.coding_current - thresholds * first.coding_rate
    excess_second = second.coding_current - thresholds * second.coding_rate
    change = (first.coding_rate - second.coding_rate) @ lateral.T
    return (1.0 - kappa) * (change + excess_first) - excess_second


def code(phase: Phase, thresholds: np.ndarray, *, readout: str = "currents") -> np.ndarray:
    """Return a, the code of each signal, shape (n_signals, n_atoms).

    Parameters
    ----------
    phase : Phase
        Usually the one with feedback, whose rates the updates use.
    thresholds : ndarray, shape (n_atoms,)
        theta, the diagonal of H.
    readout : {"counts", "currents"}, default "currents"
        Spike rates, or thresholded average currents max(u, 0) / theta.
    """
    checks.instance_of("phase", phase, Phase)
    if checks.one_of("readout", readout, READOUTS) == "counts":
        return phase.coding_rate
    return np.maximum(phase.coding_current, 0.0) / thresholds


def presynaptic_code(phase: Phase, *, readout: str = "currents") -> np.ndarray:
    """Return a as it arrives at the lateral synapses, shape (n_signals, n_atoms).

    Parameters
    ----------
    phase : Phase
        The one with feedback.
    readout : {"counts", "currents"}, default "currents"
        Spike rates, or average filtered spikes: the code for which `lateral_gradient` is exact.
    """
    checks.instance_of("phase", phase, Phase)
    if checks.one_of("readout", readout, READOUTS) == "counts":
        return phase.coding_rate
    return np.maximum(phase.coding_trace, 0.0)


def feedforward_update(
    feedforward: np.ndarray,
    codes: np.ndarray,
    reconstruction_gradient: np.ndarray,
    *,
    kappa: float,
    step: float | np.ndarray,
    decay: float | np.ndarray,
) -> np.ndarray:
    """Return the new F: coding neuron i changes the weights that arrive at it.

    ``F_ij <- F_ij - eta_D (a_i g_D_j / kappa + lambda2 F_ij)``                                 (11)

    Parameters
    ----------
    feedforward : ndarray, shape (n_atoms, n_inputs)
        F.
    codes : ndarray, shape (n_signals, n_atoms)
        a of the phase with feedback.
    reconstruction_gradient : ndarray, shape (n_signals, n_inputs)
        g_D, which the input neurons send.
    kappa : float
        Strength of the feedback.
    step : float or ndarray, shape (n_atoms,)
        eta_D, of all neurons or of each.
    decay : float or ndarray, shape (n_atoms,)
        lambda2, of all neurons or of each.
    """
    step, decay = _column(step), _column(decay)
    return feedforward - step * (codes.T @ reconstruction_gradient / kappa + decay * feedforward)


def feedback_update(
    feedback: np.ndarray,
    codes: np.ndarray,
    reconstruction_gradient: np.ndarray,
    *,
    kappa: float,
    step: float | np.ndarray,
    decay: float | np.ndarray,
) -> np.ndarray:
    """Return the new B: input neuron i changes the weights that arrive at it.

    ``B_ij <- B_ij - eta_D (g_D_i a_j / kappa + lambda2 B_ij)``                                 (11)

    Parameters
    ----------
    feedback : ndarray, shape (n_inputs, n_atoms)
        B.
    codes, reconstruction_gradient, kappa, step, decay
        As for `feedforward_update`.
    """
    return feedback - step * (reconstruction_gradient.T @ codes / kappa + decay * feedback)


def lateral_update(
    lateral: np.ndarray,
    codes: np.ndarray,
    lateral_gradient: np.ndarray,
    *,
    kappa: float,
    lateral_step: float,
    decay: float = 0.0,
) -> np.ndarray:
    """Return the new H: coding neuron i changes its lateral weights and its threshold.

    ``H_ij <- H_ij - eta_H g_H_i a_j / kappa - 2 eta_D lambda2 H_ij``                           (12)

    Parameters
    ----------
    lateral : ndarray, shape (n_atoms, n_atoms)
        H.
    codes, kappa
        As for `feedforward_update`; or the `projected_codes`.
    lateral_gradient : ndarray, shape (n_signals, n_atoms)
        g_H.
    lateral_step : float
        eta_H, about 15 eta_D in the paper.
    decay : float, default 0.0
        2 eta_D lambda2: H decays twice as fast as F and B, as their product does.
    """
    return lateral - lateral_step * (lateral_gradient.T @ codes) / kappa - decay * lateral


def projected_codes(codes: np.ndarray, *, gain: float = 1.0) -> np.ndarray:
    """Return what to give `lateral_update`, with a step of 1, for H to agree with F B on these signals.

    ``P = gain L (L A A^T L + epsilon I)^-1 L A`` with L = diag(1 / ||a||), after which, at gain 1,
    H a = F B a for every row a of A.  For one signal it is a / ||a||^2, the normalised least-mean-squares
    rule of a neuron that knows the sum of the squares of what arrives; for several, the limit of
    repeating that rule over the signals of the batch.

    Parameters
    ----------
    codes : ndarray, shape (n_signals, n_atoms)
        A: the codes of the phase with feedback, as they arrive at the synapses.
    gain : float, default 1.0
        Share of the mismatch to make good, in (0, 2).

    References
    ----------
    Ozeki and Umeda (1984), An adaptive filtering algorithm using an orthogonal projection to an affine
    subspace, Electronics and Communications in Japan 67.
    """
    return gain * solve_projection(codes, codes)


def solve_projection(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``L (L A A^T L + epsilon I)^-1 L values``, with L = diag(1 / ||a||) over the rows a of A.

    Parameters
    ----------
    codes : ndarray, shape (n_signals, n_atoms)
        A.
    values : ndarray, shape (n_signals, n_values)
        What to solve for: A itself in `projected_codes`; g_H for a learner that multiplies with the
        few non-zeros of A last.
    """
    from scipy import linalg  # here: only learning with projections needs it

    norms = np.linalg.norm(codes, axis=1, keepdims=True)
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    directions = codes * inverse
    # Nearly equal signals would ask for large weights to tell them apart.
    products = directions @ directions.T + PROJECTION_RIDGE * np.eye(len(codes))
    return inverse * linalg.solve(products, inverse * values, assume_a="pos")


def _column(value: float | np.ndarray) -> float | np.ndarray:
    return np.asarray(value)[:, np.newaxis] if np.ndim(value) else value


def _phases(without_feedback: Phase, with_feedback: Phase) -> tuple[Phase, Phase]:
    checks.instance_of("without_feedback", without_feedback, Phase)
    checks.instance_of("with_feedback", with_feedback, Phase)
    return without_feedback, with_feedback
