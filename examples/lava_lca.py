"""Lava's locally competitive algorithm (LCA) with its parameters, in floats and in Lava's integers.

`LCA1Layer` and `LCA2Layer` have the parameters of lava-optimization's processes with these names, and
compute the same numbers in each step.  In integers, mantissas have eight bits and a sign, messages have 24
bits, tau is a multiple of 2^-24, and quotients round downwards.  Unlike the neurons of `snn`, these neurons
leak and send a graded message in every step; only the residual layer spikes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from snn.digital.format import FixedPoint, exponent_for, mantissas_of
from solvers import LassoProblem

MESSAGE_BITS, WEIGHT_BITS, DECAY_BITS = 24, 8, 24
# With these exponents of weights and this largest potential, sums of weights times messages, and potentials
# times decay factors, are below 2^62.
EXPONENTS = range(-24, 9)
LARGEST_POTENTIAL = 2**36


@dataclass(frozen=True, eq=False, kw_only=True)
class LCARun:
    """The state of a network at the end of a run.

    `v1` is the code, sent as the message of the last step.  `voltage` has the potentials, and `residual` has
    the last message of the residual layer, or None.  `n_messages` counts nonzero entries of messages,
    `n_saturated` counts entries beyond 24 bits.
    """

    v1: np.ndarray
    voltage: np.ndarray
    residual: np.ndarray | None
    n_messages: int
    n_saturated: int


class _Layers:
    """A network, and the operations on its numbers that differ between floats and integers."""

    # The method `of` scales inputs so that the largest input becomes this integer.
    largest: ClassVar[int]

    def __init__(self, arithmetic: str, threshold: float, tau: float, tau_exp: int) -> None:
        self.is_fixed = arithmetic == "fixed"
        self.dtype = np.int64 if self.is_fixed else np.float64
        decay = math.ldexp(tau, tau_exp)
        # In integer arithmetic tau is an integer in units of 2^-DECAY_BITS.
        self.tau: Any = int(math.ldexp(decay, DECAY_BITS)) if self.is_fixed else decay
        if not 0.0 < decay < 1.0 or self.tau == 0:
            raise ValueError(
                f"tau * 2^tau_exp must lie between 0 and 1, and be at least 2^-{DECAY_BITS} in integers; got "
                f"{tau} * 2^{tau_exp}"
            )
        if self.is_fixed and threshold != int(threshold):
            raise ValueError(f"threshold must be a whole number in integers; got {threshold}")
        self._threshold = self.dtype(threshold)
        self.unit = 1.0
        self.n_saturated = self.n_messages = 0

    @classmethod
    def of(
        cls, problem: LassoProblem, signal: int = 0, *, tau: float = 0.1, arithmetic: str = "fixed"
    ) -> Self:
        """Return the network for one signal of a problem with one penalty and atoms of norm one.

        The code is `v1` times the attribute `unit`, which is 1 in floats.  In integers, `unit` brings the
        largest correlation to 2^20 or, with two layers, the largest entry of the signal to 2^14.
        """
        penalties = problem.l1_weights
        if problem.penalty.is_positive or problem.feature_weights is not None or np.ptp(penalties) != 0.0:
            raise ValueError("problem must have codes of any sign, one l1 penalty, no mask and no weights")
        if np.abs(problem.atoms.squared_norms - 1.0).max() > 1e-9:
            raise ValueError("problem must have atoms of norm one, as the soft threshold of LCA; got others")
        matrix, values, gain = cls._numbers(problem, signal, tau)
        unit = float(np.abs(values).max()) / cls.largest if arithmetic == "fixed" else 1.0
        exponent, threshold = 0, float(penalties[0]) / unit
        if arithmetic == "fixed":
            # Choose the smallest exponent at which no mantissa saturates.
            exponent = exponent_for(_mantissas(None), matrix)
            matrix, threshold = np.ldexp(matrix, -exponent), round(threshold)
        # With tau as a mantissa between 1/2 and 1, the product of tau and the weights keeps its bits.
        mantissa, tau_exp = math.frexp(tau)
        options: dict[str, Any] = {"weights_exp": exponent, "threshold": threshold}
        options |= {"tau": mantissa, "tau_exp": tau_exp, "arithmetic": arithmetic}
        if cls is LCA2Layer and arithmetic == "float":
            options["spike_height"] = 0.0
        network = cls(matrix, values * (gain / unit), **options)
        network.unit = unit
        return network

    def connection(self, weights: np.ndarray, exponent: int) -> tuple[np.ndarray, int]:
        """Return the weights of a connection and an exponent; in integers, weights are mantissas of 8 bits.

        Mantissas are truncated towards zero and saturate at 8 bits plus a sign.  If both signs occur,
        the sign needs the lowest bit: mantissas are then rounded downwards to even numbers.
        """
        if not self.is_fixed:
            return np.ldexp(weights, exponent), 0
        if exponent not in EXPONENTS:
            raise ValueError(f"the exponent of weights must lie in [-24, 8]; got {exponent}")
        mantissas = mantissas_of(_mantissas(0), weights).values
        if mantissas.min() < 0 < mantissas.max():
            return (mantissas >> 1) << 1, exponent
        return np.maximum(mantissas, 1 - 2**WEIGHT_BITS), exponent

    def vector(self, name: str, values: ArrayLike, bits: int) -> np.ndarray:
        """Return values as floats or, in integer arithmetic, as integers truncated towards zero."""
        vector = np.asarray(values, dtype=float)
        if self.is_fixed and np.abs(vector).max() >= 2 ** (bits - 1):
            raise ValueError(f"{name} must fit into {bits} bits; got {np.abs(vector).max():.3g}")
        return vector.astype(self.dtype)

    def require_range(self, potential: np.ndarray) -> None:
        """Raise an OverflowError if potentials grow without end: weights and tau do not fit together."""
        end = LARGEST_POTENTIAL if self.is_fixed else np.finfo(float).max
        if not (np.abs(potential) < end).all():
            raise OverflowError(
                f"potentials grew beyond {end:.3g}; the network is unstable: use a smaller tau, or atoms of "
                "norm one"
            )

    def received(self, connection: tuple[np.ndarray, int], message: np.ndarray) -> np.ndarray:
        """Return the weighted sum of a message, shifted by the exponent of the weights and rounded down."""
        weights, exponent = connection
        total: np.ndarray = weights @ message
        return total << exponent if exponent > 0 else total >> -exponent if exponent < 0 else total

    def shrunk(self, potential: np.ndarray) -> np.ndarray:
        """Return the soft threshold of a potential as a message."""
        return self.sent(np.maximum(np.abs(potential) - self._threshold, 0) * np.sign(potential))

    def sent(self, message: Any) -> np.ndarray:
        """Count the entries of a message, and return it, saturated at 24 bits in integer arithmetic."""
        if self.is_fixed:
            half = 2 ** (MESSAGE_BITS - 1)
            self.n_saturated += int(np.count_nonzero((message < -half) | (message >= half)))
            message = np.clip(message, -half, half - 1)
        self.n_messages += int(np.count_nonzero(message))
        return message

    def part(self, values: np.ndarray, share: Any) -> np.ndarray:
        """Return values times a share; an integer share is in units of 2^-24, and the result rounds down."""
        return (values * share) >> DECAY_BITS if self.is_fixed else values * share

    def leaked(self, potential: np.ndarray) -> np.ndarray:
        """Return the potential v after the leak, (1 - tau) v."""
        return self.part(potential, (2**DECAY_BITS if self.is_fixed else 1.0) - self.tau)

    def ended(self, activation: np.ndarray, potential: np.ndarray, residual: np.ndarray | None) -> LCARun:
        return LCARun(
            v1=activation, voltage=potential.copy(), residual=residual, n_messages=self.n_messages,
            n_saturated=self.n_saturated,
        )  # fmt: skip


class LCA1Layer(_Layers):
    """LCA in one layer: neurons that inhibit each other by their thresholded potentials.

    With S the soft threshold, the potentials are, from one step to the next::

        a(t) = S(v(t - 1))
        v(t) = (1 - tau) v(t - 1) + W a(t - 1) + bias

    At rest, with ``W = tau (I - Phi^T Phi)`` and ``bias = tau Phi^T s``, a is the code of the signal s for
    the penalty `threshold`.  `weights`, shape (n_atoms, n_atoms), are mantissas of ``2^weights_exp``; the
    decay of a step is ``tau * 2^tau_exp``.  Rozell and others (2008), Neural Computation 20.
    """

    largest = 2**20

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
        super().__init__(arithmetic, threshold, tau, tau_exp)
        self._weights = self.connection(np.asarray(weights, dtype=float), weights_exp)
        self._bias = self.vector("bias", bias, MESSAGE_BITS)
        self._potential, self._arriving = np.zeros((2, len(self._bias)), dtype=self.dtype)

    @classmethod
    def _numbers(cls, problem: LassoProblem, signal: int, tau: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Return W, the correlations, and the factor from the correlations to the bias."""
        return (np.eye(problem.n_atoms) - problem.gram) * tau, problem.correlations[signal], tau

    @np.errstate(over="ignore", invalid="ignore")  # `require_range` refuses infinity and NaN
    def run(self, n_steps: int) -> LCARun:
        """Run `n_steps` more steps."""
        for _ in range(n_steps):
            activation = self.shrunk(self._potential)
            self._potential = self.leaked(self._potential) + self._arriving + self._bias
            self.require_range(self._potential)
            self._arriving = self.received(self._weights, activation)
        return self.ended(activation, self._potential, residual=None)


class LCA2Layer(_Layers):
    """LCA in two layers: neurons of the second add up the residual, and send sums above `spike_height`.

    With S the soft threshold and D the dictionary, one atom a row::

        r(t) = r(t - 1) - D^T a(t - 1) + s             a(t) = S(v(t - 1))
        |r| > spike_height:  the residual neuron sends r, and r <- 0
        v(t) = (1 - tau) v(t - 1) + tau a(t) + tau D (what was sent in the step before)

    `weights` are D, and `input_vec` is s, which has 16 bits in integers.  Weights towards the codes are the
    mantissas of tau D, truncated to 8 bits.  The paper is Parpart et al. (2022), arXiv:2205.15386.
    """

    largest = 2**14

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
        super().__init__(arithmetic, threshold, tau, tau_exp)
        atoms = np.asarray(weights, dtype=float)
        self._to_residual = self.connection(-atoms.T, weights_exp)
        self._to_codes = self.connection(atoms * tau, weights_exp + tau_exp)
        self._spike_height = self.dtype(spike_height)
        signal = self.vector("input_vec", input_vec, 17)
        scaled = np.ldexp(signal.astype(float), input_exp)
        self._input = np.floor(scaled).astype(np.int64) if self.is_fixed else scaled
        self._potential, self._to_v1 = np.zeros((2, len(atoms)), dtype=self.dtype)
        self._residual: np.ndarray
        self._residual, self._to_r = np.zeros((2, len(signal)), dtype=self.dtype)

    @classmethod
    def _numbers(cls, problem: LassoProblem, signal: int, tau: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Return D, the signal, and the factor from the signal to the input."""
        return np.asarray(problem.dictionary), problem.signals[signal], 1.0

    @np.errstate(over="ignore", invalid="ignore")  # `require_range` refuses infinity and NaN
    def run(self, n_steps: int) -> LCARun:
        """Run `n_steps` more steps."""
        for _ in range(n_steps):
            activation = self.shrunk(self._potential)
            self._residual = self._residual + self._to_r + self._input
            self.require_range(self._residual)
            fires = np.abs(self._residual) > self._spike_height
            sent = self.sent(np.where(fires, self._residual, 0))
            self._residual = np.where(fires, 0, self._residual)
            self._potential = self.leaked(self._potential) + self._to_v1 + self.part(activation, self.tau)
            self.require_range(self._potential)
            self._to_r = self.received(self._to_residual, activation)
            self._to_v1 = self.received(self._to_codes, sent)
        return self.ended(activation, self._potential, residual=sent)


def _mantissas(exponent: int | None) -> FixedPoint:
    """Return the format of a connection's mantissas: 8 bits and a sign."""
    return FixedPoint(bits=WEIGHT_BITS + 1, exponent=exponent, rounding="truncate")
