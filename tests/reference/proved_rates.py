"""Bounds on spike rates and stages, with their constants, from the proofs in docs/theory.md, section 4.5.

The distance between two codes is always the distance between their reconstructions, ``||(a - b) D||``.  Codes
are in the units of the problem, and rates in spikes per time constant.  A LASSO is treated as the CLASSO of
``[D, -D]``, so a network has a neuron for each row of `Neurons.atoms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from snn import simulate
from solvers import LassoProblem, lasso_network

HIGHEST_RATE = 0.25
"""Highest rate of a neuron.  The root bound holds up to 1/2, the other bounds as written up to 1/4."""


def distance(problem: LassoProblem, first: np.ndarray, second: np.ndarray) -> float:
    """Return the distance between the reconstructions of two codes."""
    return float(np.linalg.norm((first - second) @ problem.dictionary))


def code_of_counts(problem: LassoProblem, counts: np.ndarray, duration: float, scale: float) -> np.ndarray:
    """Return the code of each neuron's spikes since rest, divided by the duration plus one time constant."""
    net = (
        counts
        if problem.penalty.is_positive
        else counts[..., : problem.n_atoms] - counts[..., problem.n_atoms :]
    )
    return scale * net / (np.asarray(duration)[..., np.newaxis] + 1.0)


# -- rates of one run ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainRates:
    """Bounds, for one signal, on the code that counts of spikes since rest give."""

    atoms: np.ndarray
    """The atom of each neuron."""
    rates: np.ndarray
    """x, the rates of the optimum."""
    slack: np.ndarray
    """rho, the distance of a silent neuron's drive from the drive at which it fires, in units of `scale`."""
    scale: float
    """The value of a code for one unit of spike rate."""

    @classmethod
    def of(cls, problem: LassoProblem, optimum: np.ndarray, highest: float = HIGHEST_RATE) -> PlainRates:
        """Return the bounds for a network in which the largest rate tends to `highest`."""
        scale = float(np.abs(optimum).max()) / highest
        residual = problem.signals[0] - optimum @ problem.dictionary
        correlations = problem.dictionary @ residual
        atoms, rates, left = problem.dictionary, optimum, correlations - problem.l1_weights
        if not problem.penalty.is_positive:
            atoms = np.concatenate([atoms, -atoms])
            rates = np.concatenate([np.maximum(optimum, 0.0), np.maximum(-optimum, 0.0)])
            left = np.concatenate([left, -correlations - problem.l1_weights])
        slack = np.where(rates > 0.0, 0.0, np.maximum(-left, 0.0))
        return cls(atoms=atoms, rates=rates / scale, slack=slack / scale, scale=scale)

    @cached_property
    def gram(self) -> np.ndarray:
        return self.atoms @ self.atoms.T

    @cached_property
    def thresholds(self) -> np.ndarray:
        return np.diag(self.gram)

    @cached_property
    def growth(self) -> float:
        """K, the charge that the spikes of the optimum remove in a time constant."""
        return float(self.thresholds @ self.rates)

    @cached_property
    def start(self) -> float:
        """X, the length of the optimum's reconstruction, in units of `scale`."""
        return float(np.linalg.norm(self.rates @ self.atoms))

    def root_bound(self, time: np.ndarray) -> np.ndarray:
        """Return the bound on the distance that falls as 1 / sqrt(time), which needs no assumption."""
        return self.scale * np.sqrt(2.0 * self.growth * (time + 1.0) + self.start**2) / (time + 1.0)

    @cached_property
    def last_spike(self) -> float:
        """The time after which silent neurons of the optimum do not fire; infinite if slack is zero."""
        silent = self.rates == 0.0
        if not self.slack[silent].all():
            return np.inf
        worst = float(np.max(self.thresholds[silent] / self.slack[silent] ** 2, initial=0.0))
        return max(worst * (2.0 * self.growth + self.start**2) - 1.0, 0.0)

    @cached_property
    def reach(self) -> float:
        """C, the bound on the distance in units of ``scale / (t + 1)``."""
        used = self.rates > 0.0
        # The product of this matrix and a vector is as long as G_S^-1/2 times the vector (docs/theory.md).
        inverse = np.linalg.inv(np.linalg.cholesky(self.gram[np.ix_(used, used)]))
        lengths = np.linalg.norm(inverse, axis=0)
        lateral = self.gram - np.diag(self.thresholds)
        cost = (0.5 - self.rates) * self.thresholds
        below = 2.0 * self.growth * np.max(np.maximum(lateral @ self.rates, 0.0) / cost)
        along = (
            np.max(lengths / self.rates[used]) * (self.growth + below)
            + np.linalg.norm(inverse @ self.thresholds[used])
            + self.start
            + self.growth * np.max(np.linalg.norm(inverse @ lateral[used], axis=0) / cost)
        )
        before = 2.0 * self.growth * (self.last_spike + 1.0) + self.start**2
        return float(np.sqrt(along**2 + 2.0 * (self.growth + below) + before))


# -- stages of fixed length ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedStages:
    """Stages of one length, their margins and scales, and the gain of each stage."""

    dictionary: np.ndarray
    used: np.ndarray
    """The atoms of the network, linearly independent; all that the optimum uses are among them."""
    support: np.ndarray
    """Atoms of `used` that include those of the optimum; all of `used` if no more is known."""
    duration: float = 0.0
    """T, the length of a stage.  By default the one with the largest proved gain per spike."""

    def __post_init__(self) -> None:
        if not self.duration:
            object.__setattr__(self, "duration", float(np.e * self._gain))

    @cached_property
    def gram(self) -> np.ndarray:
        return self.dictionary[self.used] @ self.dictionary[self.used].T

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.linalg.inv(self.gram)

    @cached_property
    def margins(self) -> np.ndarray:
        """gamma, the largest error of each coefficient if the reconstruction is off by one."""
        return np.sqrt(np.diag(self._inverse))

    @cached_property
    def scale(self) -> float:
        """The coefficient that one unit of spike rate stands for, if the reconstruction is off by one."""
        return 2.0 * float(self.margins.max()) / HIGHEST_RATE

    @cached_property
    def _charge(self) -> float:
        """The largest value of theta . (a* - o), if the reconstruction is off by one."""
        inside = np.isin(self.used, self.support)
        thresholds = np.diag(self.gram) * inside
        return float(thresholds @ self.margins + np.sqrt(thresholds @ np.abs(self._inverse) @ thresholds))

    @cached_property
    def _width(self) -> float:
        """The largest norm of the reconstruction of the margins and of the error."""
        return float(np.sqrt(self.margins @ np.abs(self.gram) @ self.margins)) + 1.0

    @cached_property
    def _gain(self) -> float:
        return 2.0 * self.scale * self._charge

    @property
    def factor(self) -> float:
        """f, the largest factor by which a stage multiplies the distance from the optimum."""
        longer = self.duration + 1.0
        return float(np.sqrt(self._gain / longer + (self._width / longer) ** 2))

    @property
    def n_spikes(self) -> float:
        """The largest number of spikes of a stage."""
        spent = self._charge / self.scale * (self.duration + 1.0) + 0.5 * (self._width / self.scale) ** 2
        return spent / ((0.5 - HIGHEST_RATE) * float(np.diag(self.gram).min()))


class Stage(NamedTuple):
    """Results at the end of a stage."""

    code: np.ndarray
    bound: float
    """Bound on the distance of the code from the optimum."""
    n_spikes: int


def run_stages(
    problem: LassoProblem, stages: FixedStages, start: np.ndarray, bound: float
) -> Iterator[Stage]:
    """Code the residual, stage by stage, from a code whose distance from the optimum is at most `bound`.

    No stage inspects its result: margin, scale and length of every stage are known before the first.
    """
    code = start.astype(float)
    while True:
        margin = np.zeros(problem.n_atoms)
        margin[stages.used] = stages.margins * bound
        offset = np.sign(code) * np.maximum(np.abs(code) - margin, 0.0)
        left = LassoProblem(
            problem.dictionary[stages.used],
            problem.signals - offset @ problem.dictionary,
            problem.l1_weights[stages.used],
            positive=problem.penalty.is_positive,
        )
        scale = stages.scale * bound
        run = simulate(lasso_network(left, scale=scale), stages.duration, max_spikes=10**8)
        code = offset
        code[stages.used] += code_of_counts(left, run.spike_counts, stages.duration, scale)
        bound *= stages.factor
        yield Stage(code, bound, run.n_spikes)
