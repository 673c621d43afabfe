"""What runs of the two-phase network require of their arguments."""

from __future__ import annotations

import numpy as np

from dictlearn.signals import checked_signals
from snn import checks
from snn.clock_driven import INTEGRATIONS, checked_step, whole_steps


def checked_task(
    n_inputs: int,
    n_atoms: int,
    signals: np.ndarray,
    penalty: float,
    reweighting: np.ndarray | None,
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return signals, penalty and the weights of the penalty as arrays and a number, having checked them.

    Parameters
    ----------
    n_inputs, n_atoms : int
        Numbers of neurons of the network.
    signals, penalty, reweighting
        As for `TwoPhaseNetwork.run`.
    """
    signals = checked_signals(signals, n_inputs)
    penalty = checks.positive_number("penalty", penalty)
    if reweighting is None:
        reweighting = np.ones(n_atoms)
    reweighting = checks.real_array(
        "reweighting", reweighting, shape=(n_atoms,), meaning="one weight for each atom"
    )
    if reweighting.min() < 0.0:
        raise ValueError(f"reweighting must not be negative; got {reweighting.min()}")
    return signals, penalty, reweighting


def checked_phases(
    kappa: float,
    duration: float,
    initial_potential: float,
    time_step: float | None = None,
    integration: str = "exact",
) -> tuple[float, float, float, float | None, str]:
    """Return the parameters of the two phases, numbers as floats, having checked them.

    Parameters
    ----------
    kappa, duration, initial_potential, time_step, integration
        As for `TwoPhaseNetwork.run`.
    """
    kappa = share("kappa", kappa)
    if kappa == 0.0:
        raise ValueError("kappa must be positive: without feedback there is no second phase")
    duration = checks.positive_number("duration", duration)
    initial_potential = share("initial_potential", initial_potential)
    if time_step is not None:
        time_step = checked_step(time_step)
        whole_steps(duration, time_step)
    checks.one_of("integration", integration, INTEGRATIONS)
    return kappa, duration, initial_potential, time_step, integration


def share(name: str, value: float) -> float:
    """Return a number in [0, 1).

    Parameters
    ----------
    name : str
        Its name in messages.
    value : float
        The value to check.
    """
    number = checks.non_negative_number(name, value)
    if number >= 1.0:
        raise ValueError(f"{name} must lie in [0, 1); got {number}")
    return number
