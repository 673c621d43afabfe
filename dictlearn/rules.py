"""The local learning rules of the two-phase network.

Two read-outs turn what each neuron saw of its own two phases into a gradient (equations 9 and 10 of Lin
and Tang, 2018), and three updates change its incoming weights (11 and 12).  A neuron uses its own rates
and currents, the rates that arrive at its synapses, and its incoming weights; nothing else.

Quantities are of one signal, or of several, a row each; updates of several signals add up.
"""

from __future__ import annotations

import numpy as np

from dictlearn.network import Phase
from snn import checks

READOUTS = ("counts", "currents")


def reconstruction_gradient(
    without_feedback: Phase, with_feedback: Phase, *, readout: str = "counts"
) -> np.ndarray:
    """Return g_D, what each input neuron sees of the reconstruction error, shape (n_signals, n_inputs).

    ``g_D = b_kappa - b_0 ~= kappa (B a_kappa - x)``                                              (9)

    Parameters
    ----------
    without_feedback, with_feedback : Phase
        The two phases.
    readout : {"counts", "currents"}, default "counts"
        Rates b from spike counts, as in the paper; or from the average soma currents, which have the
        same limits without the error of counting.
    """
    first, second = _phases(without_feedback, with_feedback)
    if checks.one_of("readout", readout, READOUTS) == "counts":
        return second.input_rate - first.input_rate
    return np.maximum(second.input_current, 0.0) - np.maximum(first.input_current, 0.0)


def lateral_gradient(
    lateral: np.ndarray, without_feedback: Phase, with_feedback: Phase, *, kappa: float
) -> np.ndarray:
    """Return g_H, what each coding neuron sees of its mismatch, shape (n_signals, n_atoms).

    ``g_H = (1 - kappa) H (a_0 - a_kappa) + (1 - kappa) e_0 - e_kappa ~= kappa (H - F B) a_kappa``   (10)

    with e = u - Theta a, the difference of a neuron's average current and what its spikes took.

    Parameters
    ----------
    lateral : ndarray, shape (n_atoms, n_atoms)
        H; neuron i uses its own row.
    without_feedback, with_feedback : Phase
        The two phases.
    kappa : float
        Strength of the feedback in the second.
    """
    first, second = _phases(without_feedback, with_feedback)
    thresholds = np.diagonal(lateral)
    excess_first = first.coding_current - thresholds * first.coding_rate
    excess_second = second.coding_current - thresholds * second.coding_rate
    change = (first.coding_rate - second.coding_rate) @ lateral.T
    return (1.0 - kappa) * (change + excess_first) - excess_second


def code(phase: Phase, thresholds: np.ndarray, *, readout: str = "counts") -> np.ndarray:
    """Return a, the code of each signal, shape (n_signals, n_atoms).

    Spike rates ("counts"), or thresholded average currents max(u, 0) / theta ("currents").

    Parameters
    ----------
    phase : Phase
        Usually the one with feedback, whose rates the updates use.
    thresholds : ndarray, shape (n_atoms,)
        theta, the diagonal of H.
    readout : {"counts", "currents"}, default "counts"
        See above.
    """
    checks.instance_of("phase", phase, Phase)
    if checks.one_of("readout", readout, READOUTS) == "counts":
        return phase.coding_rate
    return np.maximum(phase.coding_current, 0.0) / thresholds


def feedforward_update(
    feedforward: np.ndarray,
    codes: np.ndarray,
    reconstruction_gradient: np.ndarray,
    *,
    kappa: float,
    step: float,
    decay: float,
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
    step : float
        eta_D.
    decay : float
        lambda2.
    """
    return feedforward - step * (codes.T @ reconstruction_gradient / kappa + decay * feedforward)


def feedback_update(
    feedback: np.ndarray,
    codes: np.ndarray,
    reconstruction_gradient: np.ndarray,
    *,
    kappa: float,
    step: float,
    decay: float,
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
    step: float,
    decay: float,
) -> np.ndarray:
    """Return the new H: coding neuron i changes its lateral weights and its threshold.

    ``H_ij <- H_ij - eta_H g_H_i a_j / kappa - 2 eta_D lambda2 H_ij``                           (12)

    Parameters
    ----------
    lateral : ndarray, shape (n_atoms, n_atoms)
        H.
    codes : ndarray, shape (n_signals, n_atoms)
        a of the phase with feedback.
    lateral_gradient : ndarray, shape (n_signals, n_atoms)
        g_H.
    kappa : float
        Strength of the feedback.
    lateral_step : float
        eta_H, about 15 eta_D in the paper.
    step, decay : float
        eta_D and lambda2: H decays twice as fast as F and B, as their product does.
    """
    return lateral - lateral_step * (lateral_gradient.T @ codes) / kappa - (2.0 * step * decay) * lateral


def _phases(without_feedback: Phase, with_feedback: Phase) -> tuple[Phase, Phase]:
    checks.instance_of("without_feedback", without_feedback, Phase)
    checks.instance_of("with_feedback", with_feedback, Phase)
    return without_feedback, with_feedback
