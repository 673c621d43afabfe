"""Lava's locally competitive algorithm, in floats and in its integers, with its parameters.

`LCA1Layer` and `LCA2Layer` take what the processes of these names in lava-optimization take, and compute
what their models compute, step by step.  Their neurons are not those of `snn`: they leak, send a graded
message in every step, and have no spikes but those of the residual layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.value import Value
from snn.digital import FixedPoint
from solvers import LassoProblem

MESSAGE_BITS = 24
WEIGHT_BITS = 8
# tau is a fraction of 2^24 in the integer models.
DECAY_BITS = 24
LARGEST_SIGNAL = 2**15
# Sums of weights times messages, shifted, of up to 2^20 neurons, and potentials times decay factors, stay
# below 2^62.
LEAST_EXPONENT, LARGEST_EXPONENT = -24, 8
LARGEST_POTENTIAL = 2**36
# Powers of two that are floats, with room for the numbers that they multiply.
LARGEST_FLOAT_EXPONENT = 900


@dataclass(frozen=True, eq=False, kw_only=True)
class LCARun(Value):
    """What a run of `LCA1Layer` or `LCA2Layer` came to.

    Attributes
    ----------
    v1 : ndarray, shape (n_atoms,)
        The message of the last step: the thresholded potentials of the step before, in the unit of the input.
        This is the code.
    voltage : ndarray, shape (n_atoms,)
        The potentials.
    residual : ndarray, shape (n_features,), or None
        With two layers, what the residual layer sent in the last step: mostly zeros.
    n_messages : int
        Messages that were not zero, of all layers, from the first step on.
    n_saturated : int
        Messages beyond 24 bits, which became the end of that range; 0 in floats.
    """

    v1: np.ndarray
    voltage: np.ndarray
    residual: np.ndarray | None
    n_messages: int
    n_saturated: int


class _Arithmetic:
    """Numbers, and the operations on them that differ between floats and integers."""

    def __init__(self, arithmetic: str, tau: float, tau_exp: int) -> None:
        self.is_fixed = checks.one_of("arithmetic", arithmetic, ("fixed", "float")) == "fixed"
        self.dtype = np.int64 if self.is_fixed else np.float64
        tau, tau_exp = checks.positive_number("tau", tau), checks.integer("tau_exp", tau_exp)
        try:
            decay = math.ldexp(tau, tau_exp)
        except OverflowError:
            decay = math.inf
        if not 0.0 < decay < 1.0:
            raise ValueError(f"tau * 2^tau_exp must lie between 0 and 1; got {tau} * 2^{tau_exp}")
        # An integer in integers, as potentials are.
        self.tau: Any = int(math.ldexp(decay, DECAY_BITS)) if self.is_fixed else decay
        if self.is_fixed and self.tau == 0:
            raise ValueError(
                f"tau * 2^tau_exp must be at least 2^-{DECAY_BITS} in fixed-point arithmetic, its unit; got "
                f"{decay}: nothing would leak"
            )
        self.n_saturated = 0
        self.n_messages = 0

    def connection(self, name: str, weights: np.ndarray, exponent: int) -> tuple[np.ndarray, int]:
        """Return weights as a connection holds them: in integers as mantissas of 8 bits, and an exponent.

        Mantissas are truncated towards zero and saturate at 8 bits beside the sign.  If both signs occur the
        lowest bit makes room for the sign: mantissas are even, rounded downwards.
        """
        if not self.is_fixed:
            return self.scaled(name, weights, exponent), 0
        mantissas = _mantissas(0).quantise(weights).mantissas
        mixed = mantissas.min() < 0 < mantissas.max()
        if not mixed:
            mantissas = np.maximum(mantissas, 1 - 2**WEIGHT_BITS)
        if not LEAST_EXPONENT <= exponent <= LARGEST_EXPONENT:
            raise ValueError(
                f"the exponent of {name} must lie in [{LEAST_EXPONENT}, {LARGEST_EXPONENT}]; got {exponent}"
            )
        return (mantissas >> 1) << 1 if mixed else mantissas, exponent

    def scaled(self, name: str, values: np.ndarray, exponent: int) -> np.ndarray:
        """Return floats times a power of two."""
        if abs(exponent) > LARGEST_FLOAT_EXPONENT:
            raise ValueError(
                f"the exponent of {name} must lie in [-{LARGEST_FLOAT_EXPONENT}, {LARGEST_FLOAT_EXPONENT}] "
                f"in floats; got {exponent}"
            )
        with np.errstate(over="ignore"):
            scaled = np.ldexp(values, exponent)
        if not np.isfinite(scaled).all():
            raise ValueError(
                f"{name} must be in the range of floats times the power of two of their exponent; got "
                f"{np.abs(values).max():.3g} * 2^{exponent}"
            )
        return scaled

    def require_range(self, potential: np.ndarray) -> None:
        """OverflowError where potentials grow without end: weights and tau do not fit together."""
        if self.is_fixed:
            in_range, end = np.abs(potential) < LARGEST_POTENTIAL, "2^36"
        else:
            in_range, end = np.isfinite(potential), "the range of floats"
        if not in_range.all():
            raise OverflowError(
                f"potentials grew beyond {end}; the network is unstable: use a smaller tau, or weights of a "
                "dictionary whose atoms have norm one"
            )

    def received(self, connection: tuple[np.ndarray, int], message: np.ndarray) -> np.ndarray:
        """Return what a connection brings: the sum, and then the shift, which rounds downwards."""
        weights, exponent = connection
        total: np.ndarray = weights @ message
        return total << exponent if exponent > 0 else total >> -exponent if exponent < 0 else total

    def shrunk(self, potential: np.ndarray, threshold: float) -> np.ndarray:
        """Return the soft threshold, as a message."""
        return self.sent(np.maximum(np.abs(potential) - threshold, 0) * np.sign(potential))

    def sent(self, message: Any) -> np.ndarray:
        """Return a message, which in integers has 24 bits."""
        if self.is_fixed:
            half = 2 ** (MESSAGE_BITS - 1)
            self.n_saturated += int(np.count_nonzero((message < -half) | (message >= half)))
            message = np.clip(message, -half, half - 1)
        self.n_messages += int(np.count_nonzero(message))
        return message

    def leaked(self, potential: np.ndarray) -> np.ndarray:
        """Return (1 - tau) v; in integers the quotient is rounded downwards."""
        if self.is_fixed:
            return (potential * (2**DECAY_BITS - self.tau)) >> DECAY_BITS
        return potential * (1.0 - self.tau)

    def part(self, activation: np.ndarray) -> np.ndarray:
        """Return tau a; in integers the quotient is rounded downwards."""
        return (activation * self.tau) >> DECAY_BITS if self.is_fixed else activation * self.tau

    def outcome(self, activation: np.ndarray, potential: np.ndarray, residual: np.ndarray | None) -> LCARun:
        """Return what a run has come to, with the messages that were sent so far."""
        return LCARun(
            v1=activation,
            voltage=potential.copy(),
            residual=residual,
            n_messages=self.n_messages,
            n_saturated=self.n_saturated,
        )

    def number(self, name: str, value: float) -> Any:
        """Return a parameter that is a number of the arithmetic."""
        value = checks.non_negative_number(name, value)
        if self.is_fixed and value != int(value):
            raise ValueError(f"{name} must be a whole number in fixed-point arithmetic; got {value}")
        if self.is_fixed and value > LARGEST_POTENTIAL:
            raise ValueError(
                f"{name} must be at most 2^36 in fixed-point arithmetic, where potentials end; got "
                f"{value:.3g}"
            )
        return self.dtype(value)

    def vector(self, name: str, value: ArrayLike, length: int) -> np.ndarray:
        """Return a parameter that is a vector of the arithmetic, truncated towards zero in integers."""
        vector = checks.real_array(name, value, shape=(length,), meaning="one number for each neuron")
        if self.is_fixed and np.abs(vector).max() >= 2 ** (MESSAGE_BITS - 1):
            raise ValueError(f"{name} must fit into {MESSAGE_BITS} bits; got {np.abs(vector).max():.3g}")
        return vector.astype(self.dtype)


class LCA1Layer:
    """LCA in one layer: neurons that inhibit each other by their thresholded potentials.

    With S the soft threshold, the potentials are, from one step to the next::

        a(t) = S(v(t - 1))
        v(t) = (1 - tau) v(t - 1) + W a(t - 1) + bias

    A message takes one step.  At rest, with ``W = tau (I - Phi^T Phi)`` and ``bias = tau Phi^T s``, a is the
    code of the signal s for the penalty `threshold`.

    Parameters
    ----------
    weights : array_like, shape (n_atoms, n_atoms)
        W, as mantissas.
    bias : array_like, shape (n_atoms,)
        Added to the potentials in every step.
    weights_exp : int, default 0
        The power of two of the mantissas.
    threshold : float, default 1
        Threshold of the potentials.
    tau, tau_exp : float and int, default 0.1 and 0
        The decay of a step, ``tau * 2^tau_exp``, between 0 and 1.
    arithmetic : {"fixed", "float"}, default "fixed"
        Integers as on the chip: mantissas of 8 bits and a sign, messages of 24 bits, tau a multiple of 2^-24,
        every quotient rounded downwards; or floats.

    Attributes
    ----------
    unit : float
        What the number 1 stands for: 1, unless the network was made `of` a problem.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.

    References
    ----------
    Rozell, Johnson, Baraniuk and Olshausen (2008), Neural Computation 20.  Lava: lava-nc/lava-optimization,
    solvers/lca.
    """

    def __init__(
        self,
        weights: ArrayLike,
        bias: ArrayLike,
        weights_exp: int = 0,
        threshold: float = 1,
        tau: float = 0.1,
        tau_exp: int = 0,
        *,
        arithmetic: str = "fixed",
    ) -> None:
        weights = checks.real_array("weights", weights, shape=(None, None))
        if weights.shape[0] != weights.shape[1]:
            raise ValueError(f"weights must be square; got shape {weights.shape}")
        weights_exp = checks.integer("weights_exp", weights_exp)
        self._numbers = _Arithmetic(arithmetic, tau, tau_exp)
        self._weights = self._numbers.connection("weights", weights, weights_exp)
        self._threshold = self._numbers.number("threshold", threshold)
        self._bias = self._numbers.vector("bias", bias, len(weights))
        self.unit = 1.0
        self._potential, self._arriving = np.zeros((2, len(weights)), dtype=self._numbers.dtype)

    @classmethod
    def of(
        cls,
        problem: LassoProblem,
        signal: int = 0,
        *,
        tau: float = 0.1,
        weights_exp: int | None = None,
        unit: float | None = None,
        arithmetic: str = "fixed",
    ) -> LCA1Layer:
        """Return the network for one signal of a problem with one penalty and atoms of norm one.

        Parameters
        ----------
        problem : LassoProblem
            The problem; codes of any sign.
        signal : int, default 0
            Which signal.
        tau : float, default 0.1
            The decay of a step.
        weights_exp : int, optional
            The power of two of the mantissas; by default the smallest with which none saturates.
        unit : float, optional
            The code that the integer 1 stands for; by default such that the largest correlation is 2^20, and
            1 in floats.  Multiply `v1` by it.
        arithmetic : {"fixed", "float"}, default "fixed"
            As of the class.
        """
        penalty, _, correlations = _of_problem(problem, signal, arithmetic)
        unit = _unit(unit, correlations, 2**20, arithmetic)
        tau = checks.positive_number("tau", tau)
        weights = (np.eye(problem.n_atoms) - problem.gram) * tau
        threshold = penalty / unit
        if arithmetic == "fixed":
            weights_exp = _mantissas(weights_exp).exponent_for(weights)
            weights, threshold = np.ldexp(weights, -weights_exp), round(threshold)
        else:
            weights_exp = 0
        made = cls(weights, correlations * (tau / unit), weights_exp, threshold, tau, arithmetic=arithmetic)
        made.unit = unit
        return made

    @np.errstate(over="ignore", invalid="ignore")  # `require_range` refuses it
    def run(self, n_steps: int) -> LCARun:
        """Run `n_steps` more steps, and return what the network came to."""
        numbers = self._numbers
        for _ in range(checks.positive_integer("n_steps", n_steps)):
            activation = numbers.shrunk(self._potential, self._threshold)
            self._potential = numbers.leaked(self._potential) + self._arriving + self._bias
            numbers.require_range(self._potential)
            self._arriving = numbers.received(self._weights, activation)
        return numbers.outcome(activation, self._potential, residual=None)


class LCA2Layer:
    """LCA in two layers: a second one collects what the code leaves of the signal, and sends it now and then.

    With S the soft threshold and D the dictionary, one atom a row::

        r(t) = r(t - 1) - D^T a(t - 1) + s             a(t) = S(v(t - 1))
        |r| > spike_height:  the residual neuron sends r, and r <- 0
        v(t) = (1 - tau) v(t - 1) + tau a(t) + tau D (what was sent in the step before)

    Parameters
    ----------
    weights : array_like, shape (n_atoms, n_features)
        D, as mantissas.
    input_vec : array_like, shape (n_features,)
        s; in integers within 16 bits, as mantissas.
    weights_exp : int, default 0
        The power of two of the mantissas of the weights.
    input_exp : int, default 0
        The power of two of the mantissas of the input.
    threshold : float, default 1
        Threshold of the potentials.
    tau, tau_exp : float and int, default 0.1 and 0
        The decay of a step, ``tau * 2^tau_exp``, between 0 and 1.
    spike_height : float, default 1
        Residuals up to this are kept, and not sent.
    arithmetic : {"fixed", "float"}, default "fixed"
        As of `LCA1Layer`; the mantissas towards the codes are those of tau D, truncated to 8 bits.

    Attributes
    ----------
    unit : float
        What the number 1 stands for: 1, unless the network was made `of` a problem.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.

    References
    ----------
    Parpart et al. (2022), arXiv:2205.15386.  Lava: lava-nc/lava-optimization, solvers/lca.
    """

    def __init__(
        self,
        weights: ArrayLike,
        input_vec: ArrayLike,
        weights_exp: int = 0,
        input_exp: int = 0,
        threshold: float = 1,
        tau: float = 0.1,
        tau_exp: int = 0,
        spike_height: float = 1,
        *,
        arithmetic: str = "fixed",
    ) -> None:
        weights = checks.real_array("weights", weights, shape=(None, None))
        weights_exp = checks.integer("weights_exp", weights_exp)
        input_exp = checks.integer("input_exp", input_exp)
        self._numbers = numbers = _Arithmetic(arithmetic, tau, tau_exp)
        n_atoms, n_features = weights.shape
        self._to_residual = numbers.connection("weights", -weights.T, weights_exp)
        self._to_codes = numbers.connection("weights", weights * tau, weights_exp + tau_exp)
        self._threshold = numbers.number("threshold", threshold)
        self._spike_height = numbers.number("spike_height", spike_height)
        mantissas = numbers.vector("input_vec", input_vec, n_features)
        if numbers.is_fixed and (mantissas.min() < -LARGEST_SIGNAL or mantissas.max() >= LARGEST_SIGNAL):
            raise ValueError(
                f"input_vec must lie in [-2^15, 2^15) in fixed-point arithmetic; got {mantissas.min()} to "
                f"{mantissas.max()}: use input_exp"
            )
        if numbers.is_fixed and not -15 <= input_exp <= 8:
            raise ValueError(f"input_exp must lie in [-15, 8] in fixed-point arithmetic; got {input_exp}")
        if numbers.is_fixed:
            self._input = mantissas << input_exp if input_exp >= 0 else mantissas >> -input_exp
        else:
            self._input = numbers.scaled("input_vec", mantissas, input_exp)
        self.unit = 1.0
        self._potential, self._to_v1 = np.zeros((2, n_atoms), dtype=numbers.dtype)
        self._residual: np.ndarray
        self._residual, self._to_r = np.zeros((2, n_features), dtype=numbers.dtype)

    @classmethod
    def of(
        cls,
        problem: LassoProblem,
        signal: int = 0,
        *,
        tau: float = 0.1,
        weights_exp: int | None = None,
        unit: float | None = None,
        arithmetic: str = "fixed",
    ) -> LCA2Layer:
        """Return the network for one signal of a problem with one penalty and atoms of norm one.

        Parameters
        ----------
        problem, signal, tau, arithmetic
            As of `LCA1Layer.of`.
        weights_exp : int, optional
            The power of two of the mantissas; by default the smallest with which none saturates.
        unit : float, optional
            The value that the integer 1 stands for; by default such that the largest entry of the signal is
            2^14, and 1 in floats.  Multiply `v1` by it.
        """
        penalty, values, _ = _of_problem(problem, signal, arithmetic)
        unit = _unit(unit, values, 2**14, arithmetic)
        assert isinstance(problem.dictionary, np.ndarray)
        weights, threshold, height = problem.dictionary, penalty / unit, 0.0
        if arithmetic == "fixed":
            weights_exp = _mantissas(weights_exp).exponent_for(weights)
            weights, threshold, height = np.ldexp(weights, -weights_exp), round(threshold), 1.0
        else:
            weights_exp = 0
        # A mantissa of tau between 1/2 and 1 keeps the bits of tau times the weights.
        tau, tau_exp = math.frexp(checks.positive_number("tau", tau))
        made = cls(
            weights,
            values / unit,
            weights_exp,
            0,
            threshold,
            tau,
            tau_exp,
            height,
            arithmetic=arithmetic,
        )
        made.unit = unit
        return made

    @np.errstate(over="ignore", invalid="ignore")  # `require_range` refuses it
    def run(self, n_steps: int) -> LCARun:
        """Run `n_steps` more steps, and return what the network came to."""
        numbers = self._numbers
        for _ in range(checks.positive_integer("n_steps", n_steps)):
            activation = numbers.shrunk(self._potential, self._threshold)
            self._residual = self._residual + self._to_r + self._input
            numbers.require_range(self._residual)
            fires = np.abs(self._residual) > self._spike_height
            sent = numbers.sent(np.where(fires, self._residual, 0))
            self._residual = np.where(fires, 0, self._residual)
            self._potential = numbers.leaked(self._potential) + self._to_v1 + numbers.part(activation)
            numbers.require_range(self._potential)
            self._to_r = numbers.received(self._to_residual, activation)
            self._to_v1 = numbers.received(self._to_codes, sent)
        return numbers.outcome(activation, self._potential, residual=sent)


def _mantissas(exponent: int | None) -> FixedPoint:
    """Return the format of a connection's mantissas: 8 bits and a sign."""
    return FixedPoint(bits=WEIGHT_BITS + 1, exponent=exponent, rounding="truncate")


def _of_problem(problem: LassoProblem, signal: int, arithmetic: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the penalty, a signal and its correlations."""
    checks.instance_of("problem", problem, LassoProblem)
    signal = checks.index("signal", signal, problem.n_signals)
    checks.one_of("arithmetic", arithmetic, ("fixed", "float"))
    if problem.feature_weights is not None:
        raise ValueError("problem must have no mask and no feature_weights; pass problem.ordinary()")
    if not isinstance(problem.dictionary, np.ndarray):
        raise TypeError(
            f"problem must have an array for a dictionary; got {type(problem.dictionary).__name__}"
        )
    penalties = problem.l1_weights
    if problem.is_positive or problem.curvatures.any() or (penalties != penalties[0]).any():
        raise ValueError("problem must have codes of any sign, and one l1 penalty for all atoms")
    if np.abs(problem.squared_norms - 1.0).max() > 1e-9:
        raise ValueError(
            "problem must have atoms of norm one: the soft threshold of LCA is that of such atoms"
        )
    values = problem.subset([signal]).dense_signals()[0]
    return float(penalties[0]), values, problem.correlations[signal]


def _unit(unit: float | None, values: np.ndarray, largest: int, arithmetic: str) -> float:
    """Return the unit in which the largest of some values is as large, unless it is given."""
    if unit is not None:
        return checks.positive_number("unit", unit)
    # The quotient of a tiny value may be zero.
    quotient = float(np.abs(values).max()) / largest
    return quotient if arithmetic == "fixed" and quotient > 0.0 else 1.0
