"""What runs of the two-phase network require of their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.signals import checked_known_signals
from snn.base import checks
from snn.run.clocked import time_of
from snn.run.run import Time

if TYPE_CHECKING:
    from dictlearn.two_phase.network import TwoPhaseNetwork


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """What a network is to code, checked.

    Attributes
    ----------
    signals : ndarray, shape (n_signals, n_inputs)
        x; zero where it is unknown.
    mask : ndarray of bool, shape (n_signals, n_inputs), or None
        True where x is known; None if it is everywhere.
    penalty, reweighting : ndarray, shape (n_atoms,)
        lambda1 and s.
    """

    signals: np.ndarray
    mask: np.ndarray | None
    penalty: np.ndarray
    reweighting: np.ndarray

    @classmethod
    def checked(
        cls,
        network: TwoPhaseNetwork,
        signals: ArrayLike,
        penalty: float | ArrayLike,
        reweighting: ArrayLike | None,
        mask: ArrayLike | None,
    ) -> Task:
        """Return a task, having checked what it is made of.

        Parameters
        ----------
        network : TwoPhaseNetwork
            Which has `n_inputs` and `n_atoms`.
        signals, penalty, reweighting, mask
            As for `TwoPhaseNetwork.run`.
        """
        n_atoms = network.n_atoms
        signals, mask = checked_known_signals(signals, network.n_inputs, mask)
        if mask is not None:
            signals = np.where(mask, signals, 0.0)
        penalty = checks.positive_array("penalty", penalty, n_atoms, meaning="a number for each atom")
        if reweighting is None:
            reweighting = np.ones(n_atoms)
        reweighting = checks.real_array(
            "reweighting", reweighting, shape=(n_atoms,), meaning="one weight for each atom"
        )
        if reweighting.min() < 0.0:
            raise ValueError(f"reweighting must not be negative; got {reweighting.min()}")
        return cls(signals=signals, mask=mask, penalty=penalty, reweighting=reweighting)

    @property
    def drives(self) -> np.ndarray:
        """The soma bias at gamma = 0, inputs first, one row for each signal."""
        inhibition = np.broadcast_to(-self.penalty * self.reweighting, (len(self.signals), len(self.penalty)))
        return np.hstack([self.signals, inhibition])


def checked_phases(
    kappa: float,
    duration: float,
    initial_potential: float,
    time_step: float | None = None,
    integration: str = "exact",
) -> tuple[float, float, float, Time[Any]]:
    """Return the parameters of the two phases, having checked them: numbers as floats, and how time passes.

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
    reset = "zero" if integration == "euler" else "subtract"
    how = time_of(time_step, integration=integration, reset=reset)
    how.end_of(duration)
    return kappa, duration, initial_potential, how


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
