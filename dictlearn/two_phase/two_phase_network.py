"""The two-phase network: input neurons, coding neurons, and the weights between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.atoms import checked_atoms
from dictlearn.signals import checked_signals
from dictlearn.two_phase.layers import Layers, Signs
from dictlearn.two_phase.phases import Phase, run_phases, thread_count
from dictlearn.two_phase.settings import checked_phases, share
from dictlearn.two_phase.synapses import Synapses, checked_format
from snn import SpikingNetwork
from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, assign
from snn.digital import FixedPoint
from snn.run.simulate import EXACT_TIME
from snn.run.time import Time

if TYPE_CHECKING:
    import nir


@dataclass(frozen=True, eq=False, repr=False)
class TwoPhaseNetwork(Value, Described):
    """A spiking network with feedback, which codes signals and observes the gradient of its weights.

    M input neurons (threshold 1) drive N coding neurons (thresholds diag H).  Coding neurons inhibit each
    other and, scaled by gamma, drive the input neurons in return.  Neurons 0 .. M - 1 are the inputs::

        coding:  mu = -(1 - gamma) lambda1 s + F sigma_in - (H - diag H) sigma_cod
        input:   nu =  (1 - gamma) x + gamma B sigma_cod
        input whose x is unknown:      nu = B sigma_cod

    Here sigma are the filtered spikes of each layer.  At gamma = 0, with F = B^T = D^T and H = D^T D (the
    papers' orientation: atoms are the columns of D), the coding rates tend to the non-negative LASSO code of
    x.  With any gamma in [0, 1) a consistent network, H = F B, has the same code as at gamma = 0.  An input
    neuron whose x is unknown carries the network's own prediction, and only the known inputs decide the code
    (docs/dictionary_learning.md, section 6).

    A pair of neurons represents a number of either sign.  The second neuron receives and sends everything
    with the opposite sign, by the same weights (section 9 of docs/dictionary_learning.md).  Inputs are pairs
    if signals may be negative, and coding neurons are pairs if codes may be negative.  For a pair, sigma is
    the difference of the two neurons' filtered spikes.

    Parameters
    ----------
    feedforward : array_like, shape (n_atoms, n_inputs)
        F: row i has the weights into coding neuron i.
    feedback : array_like, shape (n_inputs, n_atoms)
        B: row j has the weights into input neuron j.
    lateral : array_like, shape (n_atoms, n_atoms)
        H: row i has the weights that inhibit coding neuron i, and the positive diagonal contains the
        thresholds.
    positive_atoms : bool, default True
        Whether F, B and H must not be negative.
    positive_code : bool, default True
        Whether codes must not be negative.
    positive_signals : bool, default True
        Whether signals must not be negative.  If atoms or codes may be negative, signals may be negative too.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952, sections 3 and 4, and equation 8.
    """

    _shown: ClassVar = ("n_inputs", "n_atoms", "lateral", "positive_code")

    feedforward: np.ndarray
    feedback: np.ndarray
    lateral: np.ndarray
    positive_atoms: bool = True
    positive_code: bool = True
    positive_signals: bool = True

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            feedforward: ArrayLike,
            feedback: ArrayLike,
            lateral: ArrayLike,
            positive_atoms: bool = True,
            positive_code: bool = True,
            positive_signals: bool = True,
        ) -> None: ...

    def _check(self) -> None:
        least = self.signs.least_weight
        feedforward = checks.real_array(
            "feedforward", self.feedforward, shape=(None, None), meaning="(n_atoms, n_inputs)"
        )
        n_atoms, n_inputs = feedforward.shape
        for name, shape, meaning in (
            ("feedforward", (n_atoms, n_inputs), "(n_atoms, n_inputs)"),
            ("feedback", (n_inputs, n_atoms), "(n_inputs, n_atoms)"),
            ("lateral", (n_atoms, n_atoms), "(n_atoms, n_atoms)"),
        ):
            weights = checks.real_array(name, getattr(self, name), shape=shape, meaning=meaning)
            if weights.min() < least:
                raise ValueError(
                    f"{name} must not be negative; got {weights.min()}: pass positive_atoms=False to allow it"
                )
            assign(self, **{name: weights})
        thresholds = np.diagonal(self.lateral)
        if thresholds.min() <= 0.0:
            raise ValueError(
                f"lateral must have a positive diagonal, the thresholds; got {thresholds.min()} for atom "
                f"{int(np.argmin(thresholds))}"
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
            The dictionary D, without zero atoms.
        positive_atoms, positive_code, positive_signals
            See `TwoPhaseNetwork`.
        """
        signs = Signs.checked(positive_atoms, positive_code, positive_signals)
        dictionary = checked_atoms("dictionary", dictionary, positive=signs.positive_atoms)
        return cls(dictionary, np.ascontiguousarray(dictionary.T), dictionary @ dictionary.T, *signs)

    @classmethod
    def of_synapses(cls, synapses: Synapses) -> TwoPhaseNetwork:
        """Return a network with a copy of the weights in `synapses`."""
        matrices = (synapses.feedforward, synapses.feedback, synapses.lateral)
        feedforward, feedback, lateral = (matrix.copy() for matrix in matrices)
        return cls(feedforward, feedback, lateral, *synapses.signs)

    def synapses(self) -> Synapses:
        """Return a copy of the weights that learning may change."""
        return Synapses(self.feedforward, self.feedback, self.lateral, self.signs)

    def rounded(
        self, weight_format: FixedPoint, *, rng: int | np.random.Generator | None = None
    ) -> TwoPhaseNetwork:
        """Return the network with rounded weights, for example for a chip that runs without learning.

        Parameters
        ----------
        weight_format : FixedPoint
            The number format; see `LearningSettings` for an exponent of None.
        rng : int or Generator, optional
            Source of random numbers for stochastic rounding.
        """
        synapses = self.synapses()
        synapses.round(checked_format(weight_format, self.signs), np.random.default_rng(rng))
        return TwoPhaseNetwork.of_synapses(synapses)

    @property
    def n_inputs(self) -> int:
        """Number of inputs, M in the equations."""
        return self.feedforward.shape[1]

    @property
    def n_atoms(self) -> int:
        """Number of atoms, N in the equations."""
        return self.feedforward.shape[0]

    @property
    def signs(self) -> Signs:
        """The flags that say whether atoms, codes and signals must not be negative."""
        return Signs.checked(self.positive_atoms, self.positive_code, self.positive_signals)

    @property
    def layers(self) -> Layers:
        """The populations of neurons, in the order of `spiking_network`."""
        return Layers(self.n_inputs, self.n_atoms, self.signs)

    @property
    def consistency(self) -> float:
        """Agreement of H and F B, 1 - ||H - F B|| / ||H||: 1 if lateral weights match the feedback loop."""
        return self.synapses().consistency

    @property
    def symmetry(self) -> float:
        """Agreement of F and B^T, 1 - ||F - B^T|| / ||B||, which is 1 if F and B^T are equal."""
        return self.synapses().symmetry

    def spiking_network(
        self,
        signal: ArrayLike,
        *,
        penalty: float | ArrayLike,
        gamma: float,
        reweighting: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> SpikingNetwork:
        """Return the network for one signal as a `SpikingNetwork`; input neurons come first.

        Parameters
        ----------
        signal : array_like, shape (n_inputs,)
            The signal x.
        penalty, reweighting
            See `run`.
        gamma : float
            Strength of the feedback, in [0, 1).
        mask : array_like of bool, shape (n_inputs,), optional
            True where the signal is known.
        """
        mask = None if mask is None else np.atleast_2d(mask)
        signals, inhibition, known = self._checked(np.atleast_2d(signal), penalty, reweighting, mask)
        gamma = share("gamma", gamma)
        if len(signals) != 1:
            raise ValueError(f"signal must be one signal; got {len(signals)}")
        feedback, gain = self.feedback, gamma
        if known is not None:
            feedback, gain = np.where(known[0], gamma, 1.0)[:, np.newaxis] * feedback, 1.0
        layers = self.layers
        return SpikingNetwork(
            Synapses(self.feedforward, feedback, self.lateral, layers.signs).weights(layers, gain),
            layers.drives((1.0 - gamma) * signals, (gamma - 1.0) * inhibition)[0],
            layers.thresholds(self.lateral),
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
        time: Time = EXACT_TIME,
        n_jobs: int | None = None,
    ) -> tuple[Phase, Phase]:
        """Run each signal at gamma = 0 and then, with all states kept, at kappa; return both phases.

        Parameters
        ----------
        signals : array_like, shape (n_signals, n_inputs)
            The signals x, which must not be negative unless the network allows negative signals.
        penalty : float or array_like, shape (n_atoms,)
            The penalty lambda1, positive: one number for all atoms, or one number for each atom.
        kappa, duration, initial_potential, time
            See `LearningSettings`.  If potentials start at 0, the default, a firing neuron loses half a spike
            on average in the first phase.  Potentials that start at 0.5 remove this bias.
        reweighting : array_like, shape (n_atoms,), optional
            Weights s of the penalty, not negative; by default 1.
        mask : array_like of bool, shape (n_signals, n_inputs) or (n_inputs,), optional
            True where a signal is known, by default everywhere.  Unknown values are ignored.
        n_jobs : int, optional
            Number of threads; the result does not depend on this number.

        Raises
        ------
        RunawayFeedbackError
            If the network runs away: feedback excites more than thresholds and lateral weights take away.
        """
        task = self._checked(signals, penalty, reweighting, mask)
        options = checked_phases(kappa, duration, initial_potential, time)
        first, second = self._run(task, n_jobs, gammas=(0.0, options.pop("kappa")), **options)
        return first, second

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

        The code is the thresholded average soma current, ``max(u, 0) / theta``, over the second half of the
        run.  In a consistent network the code tends to the LASSO code in the atoms B^T, for any gamma.

        Parameters
        ----------
        signals, penalty, reweighting, mask, n_jobs
            See `run`.
        duration : float, default 100.0
            Length of the whole run, in synaptic time constants.
        gamma : float, default 0.0
            Strength of the feedback, in [0, 1).
        """
        task = self._checked(signals, penalty, reweighting, mask)
        gamma = share("gamma", gamma)
        duration = checks.positive_number("duration", duration)
        options = {"duration": 0.5 * duration, "initial_potential": 0.5, "time": EXACT_TIME}
        _, second = self._run(task, n_jobs, gammas=(gamma, gamma), **options)
        current = second.coding_current
        if self.positive_code:
            return np.maximum(current, 0.0) / np.diagonal(self.lateral)
        # The current of a pair of neurons does not include the penalty.
        excess = np.abs(current) - (1.0 - gamma) * task[1]
        return np.sign(current) * np.maximum(excess, 0.0) / np.diagonal(self.lateral)

    def _checked(
        self,
        signals: ArrayLike,
        penalty: float | ArrayLike,
        reweighting: ArrayLike | None,
        mask: ArrayLike | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Check arguments; return signals (zero where unknown), lambda1 s for each signal, and the mask."""
        signals, known = checked_signals(signals, self.n_inputs, mask, signed=not self.signs.positive_signals)
        if known is not None:
            signals = np.where(known, signals, 0.0)
        n_atoms = self.n_atoms
        penalty = checks.positive_array("penalty", penalty, n_atoms)
        if reweighting is not None:
            penalty = penalty * checks.positive_array("reweighting", reweighting, n_atoms, zero=True)
        return signals, np.broadcast_to(penalty, (len(signals), n_atoms)), known

    def _run(self, task: tuple[Any, ...], n_jobs: int | None, **options: Any) -> list[Phase]:
        (signals, inhibition, known), n_threads = task, thread_count(n_jobs)
        return run_phases(self.synapses(), signals, -inhibition, mask=known, n_threads=n_threads, **options)

    def to_nir(
        self,
        *,
        penalty: float,
        gamma: float,
        reweighting: ArrayLike | None = None,
        time_constant: float = 1.0,
        time_step: float | None = None,
    ) -> nir.NIRGraph:
        """Return the network in one of its phases as a NIR graph whose input is the signal.

        The graph has two populations, "input_neurons" and "coding_neurons", each with its own synapses::

            Input(x) -> Affine((1 - gamma) I, 0) -> input_neurons -> LI -> Affine(F, 0) -> coding_neurons
            coding_neurons -> LI -> Affine(-(H - diag H), 0) -> coding_neurons
            coding_neurons -> LI -> Affine(gamma B, 0) -> input_neurons

        The coding neurons have the bias -(1 - gamma) lambda1 s.  At gamma = 0 the graph lacks the connections
        of the last line.  In a population of pairs, the neurons with the sign of the signal come first.  Each
        phase is a separate graph, since NIR cannot express a change of gamma; potentials start at zero.
        ``snn.exchange.from_nir(graph, signal=x)`` reads the graph, with the coding neurons first.

        Parameters
        ----------
        penalty, gamma, reweighting
            See `spiking_network`.
        time_constant : float, default 1.0
            The synaptic time constant in the graph's unit of time.
        time_step : float, optional
            Time step of the simulator, if it runs in steps; see `snn.exchange.to_nir`.
        """
        from snn.exchange import to_nir  # imported here, because only NIR needs it

        layers, x = self.layers, np.zeros(self.n_inputs)
        network = self.spiking_network(x, penalty=penalty, gamma=gamma, reweighting=reweighting)
        nothing = np.zeros((self.n_inputs, self.n_atoms))
        n_first = layers.coding[0].first
        return to_nir(
            network,
            input_weights=(1.0 - gamma) * layers.drives(np.eye(self.n_inputs), nothing).T,
            populations={"input_neurons": n_first, "coding_neurons": layers.n_neurons - n_first},
            time_constant=time_constant,
            time_step=time_step,
        )
