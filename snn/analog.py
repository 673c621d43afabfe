"""The analog flow that spiking networks of this kind approach in their averages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value
from snn.record.operations import OperationCounts
from snn.weights.protocol import require_zero_diagonal

# The integrator replaces what is below 100 times the rounding unit by that, with a warning.
LEAST_RELATIVE_TOLERANCE = 2.5e-14


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AnalogResult(Value, Drawn):
    """Result of `simulate_analog`.

    Attributes
    ----------
    times : ndarray, shape (n_times,)
        In time constants of the flow; the first is 0.
    potentials : ndarray, shape (n_times, n_neurons)
        u at those times.
    activities : ndarray, shape (n_times, n_neurons)
        a = T(u) / gain.
    n_evaluations : int
        How often the integrator evaluated the flow.
    operations : OperationCounts
        Multiply-adds of these evaluations: a row of weights for each neuron that is active.  What the
        integrator adds up itself is not counted.
    """

    times: np.ndarray
    potentials: np.ndarray
    activities: np.ndarray
    n_evaluations: int
    operations: OperationCounts


def simulate_analog(
    weights: ArrayLike,
    drive: ArrayLike,
    *,
    activation_threshold: float | ArrayLike,
    duration: float,
    two_sided: bool = False,
    divisor: float | ArrayLike = 1.0,
    initial_potential: ArrayLike | None = None,
    n_times: int = 101,
    relative_tolerance: float = 1e-8,
) -> AnalogResult:
    """Integrate the flow of the locally competitive algorithm (LCA).

    Neuron i has the potential u_i and the activity a_i, a thresholded potential::

        du_i/dt = b_i - u_i + sum_j W_ji a_j        a_i = T(u_i) / g_i
        T(u) = max(u - lambda, 0)                   one-sided
        T(u) = sign(u) max(|u| - lambda, 0)         two-sided

    With W = -(G - diag G), b = Phi^T s and g = diag G, the activities descend the LASSO objective and
    come to rest at its optimum: dE/dt = -sum over active neurons of (du_i/dt)^2 / g_i.

    Parameters
    ----------
    weights : array_like, shape (n_neurons, n_neurons)
        W: `weights[source, target]`, zero diagonal.
    drive : array_like, shape (n_neurons,)
        b.
    activation_threshold : float or array_like, shape (n_neurons,)
        lambda, positive.
    duration : float
        How long, in the time constant of the flow.
    two_sided : bool, default False
        Whether activities may be negative.
    divisor : float or array_like, shape (n_neurons,), default 1.0
        g, positive: squared norms of the atoms.
    initial_potential : array_like, shape (n_neurons,), optional
        u(0); by default zero.
    n_times : int, default 101
        Samples returned, evenly spaced from 0 to `duration`.
    relative_tolerance : float, default 1e-8
        Of the integrator, an adaptive Runge-Kutta method of order 5(4).

    Returns
    -------
    AnalogResult

    Raises
    ------
    RuntimeError
        If the integrator gives up, as it does on a flow that blows up.

    References
    ----------
    Rozell, Johnson, Baraniuk and Olshausen (2008), Neural Computation 20; Tang, Lin and Davies (2017),
    arXiv:1705.05475, section 2.
    """
    weights = checks.real_array("weights", weights, shape=(None, None), meaning="(source, target)")
    n_neurons = weights.shape[0]
    require_zero_diagonal("weights", weights)
    drive = checks.real_array("drive", drive, shape=(n_neurons,), meaning="one drive a neuron")
    threshold = checks.positive_array(
        "activation_threshold", activation_threshold, n_neurons, meaning="one threshold a neuron"
    )
    divisor = checks.positive_array("divisor", divisor, n_neurons, meaning="one divisor a neuron")
    duration = checks.positive_number("duration", duration)
    two_sided = checks.flag("two_sided", two_sided)
    n_times = checks.positive_integer("n_times", n_times)
    relative_tolerance = checks.positive_number("relative_tolerance", relative_tolerance)
    if not LEAST_RELATIVE_TOLERANCE <= relative_tolerance < 1.0:
        raise ValueError(
            f"relative_tolerance must lie in [{LEAST_RELATIVE_TOLERANCE}, 1); got {relative_tolerance}"
        )
    if n_times < 2:
        raise ValueError(f"n_times must be at least 2; got {n_times}")
    initial_potential = checks.real_array(
        "initial_potential",
        np.zeros(n_neurons) if initial_potential is None else initial_potential,
        shape=(n_neurons,),
        meaning="one potential a neuron",
    )

    from scipy.integrate import solve_ivp  # here, because it takes longer to import than all of snn

    # What is subtracted of a potential lies between these.
    lowest = -threshold if two_sided else -np.inf
    n_active = 0

    def activity(potential: np.ndarray) -> np.ndarray:
        return (potential - np.clip(potential, lowest, threshold)) / divisor

    def flow(_: float, potential: np.ndarray) -> np.ndarray:
        nonlocal n_active
        active = activity(potential)
        n_active += int(np.count_nonzero(active))
        return drive - potential + active @ weights

    times = np.linspace(0.0, duration, n_times)
    with np.errstate(over="ignore", invalid="ignore"):  # of a flow that blows up, reported below
        solution = solve_ivp(
            flow,
            (0.0, duration),
            initial_potential,
            t_eval=times,
            rtol=relative_tolerance,
            atol=relative_tolerance * max(float(np.abs(drive).max()), float(threshold.min())),
        )
    if not solution.success or not np.isfinite(solution.y).all():
        raise RuntimeError(f"the analog flow could not be integrated to time {duration}: {solution.message}")
    potentials = np.ascontiguousarray(solution.y.T)
    return AnalogResult(
        times=times,
        potentials=potentials,
        activities=activity(potentials),
        n_evaluations=int(solution.nfev),
        operations=OperationCounts(multiply_adds=n_active * n_neurons),
    )
