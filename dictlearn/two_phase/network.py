"""The two-phase network: input neurons, coding neurons, and the weights between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import checked_atoms
from dictlearn.signals import checked_known_signals
from dictlearn.two_phase.layers import Layers, Population, Signs, difference
from dictlearn.two_phase.phases import Phase, forget_debt, run_phases
from dictlearn.two_phase.synapses import Synapses, blocks
from dictlearn.two_phase.threads import LearningThreads, thread_count
from snn import BlockWeights, Exact, NetworkState, SpikeTrain, SpikingNetwork, simulate
from snn.base import checks
from snn.base.html import Described, memory, number, value_range
from snn.run.clocked import time_of
from snn.run.run import Time

# Signals simulated by one worker at a time.
LARGEST_BATCH = 64
EXACT = Exact()


@dataclass(frozen=True, eq=False, repr=False)
class TwoPhaseNetwork(Described):
    """A spiking network with feedback that codes signals and observes the gradient of its weights.

    M input neurons (threshold 1) drive N coding neurons (thresholds diag H), which inhibit each other
    and, scaled by gamma, drive the input neurons in return.  Neurons 0 .. M - 1 are the inputs::

        coding:  mu = -(1 - gamma) lambda1 s + F sigma_in - (H - diag H) sigma_cod
        input:   nu =  (1 - gamma) x + gamma B sigma_cod
        input whose x is unknown:      nu = B sigma_cod

    with sigma the filtered spikes of each layer.  At gamma = 0, with F = B^T = D^T and H = D^T D (the
    papers' orientation: atoms are the columns of D), the coding rates tend to the non-negative LASSO
    code of x; with any gamma in [0, 1) a consistent network, H = F B, has the same code.  Where x is unknown
    an input neuron carries the network's own prediction, and the code is that of the known inputs alone
    (docs/dictionary_learning.md, section 6).

    What may be negative has pairs of neurons, whose second one receives and sends everything with the
    opposite sign, by the same weights (section 9 there).  Inputs are pairs where signals may be negative,
    coding neurons where codes may be.  Of a pair, sigma is the difference.

    Parameters
    ----------
    feedforward : array_like, shape (n_atoms, n_inputs)
        F: its row i are the weights into coding neuron i.
    feedback : array_like, shape (n_inputs, n_atoms)
        B: its row j are the weights into input neuron j.
    lateral : array_like, shape (n_atoms, n_atoms)
        H: row i inhibits coding neuron i; the diagonal, positive, are the thresholds.
    positive_atoms : bool, default True
        Whether F, B and H must not be negative.
    positive_code : bool, default True
        Whether codes are not negative.
    positive_signals : bool, default True
        Whether signals must not be negative.  Where atoms or codes may be negative, signals may be anyway.

    Raises
    ------
    TypeError, ValueError
        If a matrix does not hold finite real numbers, has a wrong shape, or a wrong sign.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952, section 3 and equation 8.
    """

    feedforward: np.ndarray
    feedback: np.ndarray
    lateral: np.ndarray
    positive_atoms: bool = True
    positive_code: bool = True
    positive_signals: bool = True

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(
            self,
            feedforward: ArrayLike,
            feedback: ArrayLike,
            lateral: ArrayLike,
            positive_atoms: bool = True,
            positive_code: bool = True,
            positive_signals: bool = True,
        ) -> None: ...

    def __post_init__(self) -> None:
        signs = self.signs
        feedforward = checks.real_array(
            "feedforward", self.feedforward, shape=(None, None), meaning="(n_atoms, n_inputs)"
        )
        n_atoms, n_inputs = feedforward.shape
        feedback = checks.real_array(
            "feedback", self.feedback, shape=(n_inputs, n_atoms), meaning="(n_inputs, n_atoms)"
        )
        lateral = checks.real_array(
            "lateral", self.lateral, shape=(n_atoms, n_atoms), meaning="(n_atoms, n_atoms)"
        )
        for name, matrix in (("feedforward", feedforward), ("feedback", feedback), ("lateral", lateral)):
            if matrix.min() < signs.least_weight:
                raise ValueError(
                    f"{name} must not be negative; got {matrix.min()} (positive_atoms=False allows it)"
                )
            object.__setattr__(self, name, checks.read_only(matrix))
        thresholds = np.diagonal(lateral)
        if thresholds.min() <= 0.0:
            atom = int(np.argmin(thresholds))
            raise ValueError(
                f"lateral must have a positive diagonal, the thresholds; got {thresholds[atom]} "
                f"at [{atom}, {atom}]"
            )

    @classmethod
    def consistent(
        cls,
        dictionary: ArrayLike,
        *,
        positive_atoms: bool = True,
        positive_code: bool = True,
        positive_signals: bool = True,
    ) -> TwoPhaseNetwork:
        """Return the network of a dictionary, shape (n_atoms, n_inputs): F = B^T = D and H = F B.

        Parameters
        ----------
        dictionary : array_like, shape (n_atoms, n_inputs)
            D; no atom is zero.
        positive_atoms, positive_code, positive_signals
            As for `TwoPhaseNetwork`.
        """
        signs = Signs.checked(positive_atoms, positive_code, positive_signals)
        dictionary = checked_atoms("dictionary", dictionary, positive=signs.positive_atoms)
        return cls(dictionary, np.ascontiguousarray(dictionary.T), dictionary @ dictionary.T, *signs)

    @classmethod
    def of_synapses(cls, synapses: Synapses) -> TwoPhaseNetwork:
        """Return the network that has weights now."""
        feedforward, feedback, lateral = (
            weights.copy() for weights in (synapses.feedforward, synapses.feedback, synapses.lateral)
        )
        return cls(feedforward, feedback, lateral, *synapses.signs)

    def synapses(self) -> Synapses:
        """Return a copy of the weights, which learning may change."""
        return Synapses(*self._matrices, self.signs)

    def _facts(self) -> dict[str, str]:
        return {
            "input neurons": _in_pairs(self.n_inputs, self.layers.inputs),
            "coding neurons": _in_pairs(self.n_atoms, self.layers.coding),
            "memory": memory(sum(matrix.nbytes for matrix in self._matrices)),
            "thresholds": value_range(np.diagonal(self.lateral)),
        }

    @property
    def n_inputs(self) -> int:
        """M, the number of inputs."""
        return self.feedforward.shape[1]

    @property
    def n_atoms(self) -> int:
        """N, the number of atoms."""
        return self.feedforward.shape[0]

    @property
    def signs(self) -> Signs:
        """What is not negative."""
        return Signs.checked(self.positive_atoms, self.positive_code, self.positive_signals)

    @property
    def layers(self) -> Layers:
        """Which neurons there are, in the order of `spiking_network`."""
        return Layers(self.n_inputs, self.n_atoms, self.signs)

    @property
    def consistency(self) -> float:
        """1 - ||H - F B|| / ||H||: 1 where lateral weights and thresholds match the feedback loop."""
        product = self.feedforward @ self.feedback
        return 1.0 - float(np.linalg.norm(self.lateral - product) / np.linalg.norm(self.lateral))

    @property
    def symmetry(self) -> float:
        """1 - ||F - B^T|| / ||B||: 1 where both directions carry the same dictionary."""
        difference = float(np.linalg.norm(self.feedforward - self.feedback.T))
        size = float(np.linalg.norm(self.feedback))
        if size == 0.0:  # every atom has vanished
            return 1.0 if difference == 0.0 else -math.inf
        return 1.0 - difference / size

    def spiking_network(
        self,
        signal: ArrayLike,
        *,
        penalty: float | ArrayLike,
        gamma: float,
        reweighting: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> SpikingNetwork:
        """Return the network for one signal as `snn` simulates it, inputs first.

        Parameters
        ----------
        signal : array_like, shape (n_inputs,)
            x.
        penalty, reweighting
            As for `run`.
        gamma : float
            Strength of the feedback, in [0, 1).
        mask : array_like of bool, shape (n_inputs,), optional
            True where x is known.
        """
        mask = None if mask is None else np.atleast_2d(mask)
        task = Task.checked(self, np.atleast_2d(signal), penalty, reweighting, mask)
        gamma = share("gamma", gamma)
        if len(task.signals) != 1:
            raise ValueError(f"signal must be one signal; got {len(task.signals)}")
        feedforward, feedback, lateral = self._matrices
        if task.mask is not None:
            feedback, gain = np.where(task.mask[0], gamma, 1.0)[:, np.newaxis] * feedback, 1.0
        else:
            gain = gamma
        layers, drives = self.layers, (1.0 - gamma) * task.drives
        return SpikingNetwork(
            BlockWeights(layers.n_neurons, blocks(layers, feedforward, feedback, lateral, gamma=gain)),
            layers.drives(drives[:, : self.n_inputs], drives[:, self.n_inputs :])[0],
            layers.thresholds(lateral),
        )

    def run(
        self,
        signals: ArrayLike,
        *,
        penalty: float | ArrayLike,
        kappa: float = 0.7,
        duration: float = 20.0,
        reweighting: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        initial_potential: float = 0.0,
        time_step: float | None = None,
        integration: str = "exact",
        n_jobs: int | None = None,
    ) -> tuple[Phase, Phase]:
        """Run each signal at gamma = 0, then, all states kept, at gamma = kappa.

        Parameters
        ----------
        signals : array_like, shape (n_signals, n_inputs)
            x; not negative, unless signals may be.
        penalty : float or array_like, shape (n_atoms,)
            lambda1, positive; of all atoms or of each.
        kappa : float, default 0.7
            Strength of the feedback in the second phase, in (0, 1).
        duration : float, default 20.0
            Of each phase, in synaptic time constants.
        reweighting : array_like, shape (n_atoms,), optional
            s, the weights of the penalty, not negative; by default 1.
        mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
            True where a signal is known, by default everywhere.  Elsewhere it is not looked at.
        initial_potential : float, default 0.0
            Where potentials start, as a share of the thresholds, in [0, 1).  At 0 a neuron with rate
            r loses half a spike, on average, in the first phase and none in the second; at 0.5 that bias
            is gone.
        time_step : float, optional
            Run on a clock of this step, and not from event to event.
        integration : {"exact", "euler"}, default "exact"
            How the steps of a clock are done; see `snn.simulate_clocked`.  "exact" keeps charge.  "euler"
            resets potentials to zero too, the papers' setting.
        n_jobs : int, optional
            Number of threads; the result does not depend on it.

        Returns
        -------
        without_feedback, with_feedback : Phase

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind, shape or value.
        RunawayFeedbackError
            If the network runs away: feedback excites more than thresholds and lateral weights take.

        References
        ----------
        Lin and Tang (2018), arXiv:1805.08952, section 4.
        """
        task = Task.checked(self, signals, penalty, reweighting, mask)
        kappa, duration, initial_potential, how = checked_phases(
            kappa, duration, initial_potential, time_step, integration
        )
        first, second = self._run(
            task,
            gammas=(0.0, kappa),
            duration=duration,
            initial_potential=initial_potential,
            how=how,
            n_jobs=n_jobs,
        )
        return first, second

    def spikes(
        self,
        signal: ArrayLike,
        *,
        penalty: float | ArrayLike,
        kappa: float = 0.7,
        duration: float = 20.0,
        reweighting: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        initial_potential: float = 0.0,
    ) -> SpikeTrain:
        """Return all spikes of `run` on one signal, inputs first; the feedback comes on at `duration`.

        Parameters
        ----------
        signal : array_like, shape (n_inputs,)
            x.
        penalty, kappa, duration, reweighting, initial_potential
            As for `run`.
        mask : array_like of bool, shape (n_inputs,), optional
            True where x is known.
        """
        kappa, duration, initial_potential, *_ = checked_phases(kappa, duration, initial_potential)
        without, with_feedback = (
            self.spiking_network(signal, penalty=penalty, reweighting=reweighting, mask=mask, gamma=gamma)
            for gamma in (0.0, kappa)
        )
        state = NetworkState(
            membrane_potential=initial_potential * without.firing_threshold,
            synaptic_current=np.zeros(without.n_neurons),
        )
        first = simulate(without, duration, state=state, record_spikes=True)
        # As in `run_phases`: feedback acts on the filtered spikes, so that it acts at once.
        assert first.spikes is not None
        filtered = np.bincount(
            first.spikes.neurons,
            weights=np.exp(first.spikes.times - duration),
            minlength=without.n_neurons,
        )
        current, layers = first.state.synaptic_current.copy(), self.layers
        change = kappa if mask is None else kappa * np.ravel(mask)
        received = change * (self.feedback @ difference(layers.coding, filtered[np.newaxis])[0])
        for inputs in layers.inputs:
            current[inputs.neurons] += inputs.sign * received
        potential = first.state.membrane_potential.copy()
        if len(layers.inputs) == 2:
            forget_debt(potential[np.newaxis], layers)
        state = NetworkState(
            membrane_potential=potential,
            synaptic_current=current,
            time=first.state.time,
        )
        second = simulate(with_feedback, duration, state=state, record_spikes=True)
        assert second.spikes is not None
        return SpikeTrain(
            times=np.concatenate([first.spikes.times, second.spikes.times]),
            neurons=np.concatenate([first.spikes.neurons, second.spikes.neurons]),
            n_neurons=without.n_neurons,
            start=0.0,
            stop=second.state.time,
        )

    def code(
        self,
        signals: ArrayLike,
        *,
        penalty: float | ArrayLike,
        duration: float = 100.0,
        gamma: float = 0.0,
        reweighting: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """Return the code of each signal by this network's own weights, shape (n_signals, n_atoms).

        The thresholded average soma current, ``max(u, 0) / theta``, over the second half of a run.  In
        a consistent network it tends to the LASSO code in the atoms B^T, for any gamma.

        Parameters
        ----------
        signals, penalty, reweighting, mask, n_jobs
            As for `run`.
        duration : float, default 100.0
            Of the whole run, in synaptic time constants.
        gamma : float, default 0.0
            Strength of the feedback, in [0, 1).

        Raises
        ------
        TypeError, ValueError, RunawayFeedbackError
            As `run`.
        """
        task = Task.checked(self, signals, penalty, reweighting, mask)
        gamma = share("gamma", gamma)
        duration = checks.positive_number("duration", duration)
        _, second = self._run(
            task, gammas=(gamma, gamma), duration=0.5 * duration, initial_potential=0.5, n_jobs=n_jobs
        )
        current = second.coding_current
        if self.positive_code:
            return np.maximum(current, 0.0) / np.diagonal(self.lateral)
        # What a pair receives is without the penalty.
        excess = np.abs(current) - (1.0 - gamma) * task.penalty * task.reweighting
        return np.sign(current) * np.maximum(excess, 0.0) / np.diagonal(self.lateral)

    def _run(
        self,
        task: Task,
        *,
        gammas: tuple[float, float],
        duration: float,
        initial_potential: float,
        how: Time[Any] = EXACT,
        n_jobs: int | None,
    ) -> list[Phase]:
        n_threads = thread_count(n_jobs)
        synapses, drives = self.synapses(), task.drives
        with LearningThreads(n_threads) as executor:
            return run_phases(
                synapses,
                drives,
                mask=task.mask,
                gammas=gammas,
                duration=duration,
                initial_potential=initial_potential,
                how=how,
                n_pieces=max(n_threads, math.ceil(len(drives) / LARGEST_BATCH)),
                executor=executor,
            )

    @property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.feedforward, self.feedback, self.lateral


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
        """Return what a network is to code, arguments as of `TwoPhaseNetwork.run`, having checked them."""
        n_atoms = network.n_atoms
        signals, mask = checked_known_signals(
            signals, network.n_inputs, mask, signed=network.signs.signed_inputs
        )
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
        """What inputs and atoms are driven by at gamma = 0, inputs first, one row for each signal."""
        inhibition = np.broadcast_to(-self.penalty * self.reweighting, (len(self.signals), len(self.penalty)))
        return np.hstack([self.signals, inhibition])


def _in_pairs(size: int, populations: Sequence[Population]) -> str:
    return f"{number(size)} pairs" if len(populations) == 2 else number(size)


def checked_phases(
    kappa: float,
    duration: float,
    initial_potential: float,
    time_step: float | None = None,
    integration: str = "exact",
) -> tuple[float, float, float, Time[Any]]:
    """Return the parameters of two phases, numbers as floats, and how time passes, having checked them."""
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
    """Return a number in [0, 1)."""
    number = checks.non_negative_number(name, value)
    if number >= 1.0:
        raise ValueError(f"{name} must lie in [0, 1); got {number}")
    return number
