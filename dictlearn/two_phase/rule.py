"""The interface of a learning rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dictlearn.two_phase.layers import Signs
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.synapses import Synapses
from snn.base.archive import Entry
from snn.run.time import Clock

# Defaults of kappa, duration, time and amplitude.
STRONG_FEEDBACK = {"kappa": 0.7, "duration": 5.0, "time": Clock(1 / 32), "amplitude": 5.0}
WEAK_FEEDBACK = {**STRONG_FEEDBACK, "kappa": 0.1, "time": Clock(1 / 16)}
# Where inputs fire, by whether atoms are positive: else such spikes carry more noise than graded inputs.
SPIKING_INPUTS = {True: WEAK_FEEDBACK, False: {**WEAK_FEEDBACK, "duration": 10.0}}
# Without that noise fewer spikes do, in a longer time and on a coarser clock: codes come nearer to optimal.
GRADED_INPUTS = {**WEAK_FEEDBACK, "duration": 7.0, "time": Clock(1 / 8), "amplitude": 3.0}
KINDS_OF_NUMBERS = {"f": np.float64, "i": np.int64, "b": np.bool_}
# Rules by name, for files.
KINDS: dict[str, type[Rule]] = {}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A learning rule; subclasses define `change`, and what else differs from this class.

    A subclass with parameters is a frozen dataclass whose fields JSON can hold.  They are saved with a
    learner, and so is what the rule remembers.  A program that loads the learner must have defined or
    imported the class before.

    Attributes
    ----------
    batch_size, inputs : int and str
        Signals that see the same weights, and how inputs send, where settings have "auto".
    remembers : mapping of str to Entry
        The arrays that are kept from batch to batch.  ``Entry("f", ("atoms", "inputs"), 0.0)`` is an array of
        floats, shape (n_atoms, n_inputs), of at least 0.  They are zero at first, or absent if optional.
    """

    batch_size: ClassVar[int] = 32
    inputs: ClassVar[str] = "graded"
    remembers: ClassVar[Mapping[str, Entry]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        KINDS[f"{cls.__module__}.{cls.__qualname__}"] = cls

    def defaults(self, readout: str, inputs: str, signs: Signs) -> dict[str, Any]:
        """Return kappa, duration, time and amplitude where settings have "auto"."""
        if readout == "rate":
            return STRONG_FEEDBACK
        return GRADED_INPUTS if inputs == "graded" else SPIKING_INPUTS[signs.positive_atoms]

    def penalty_weights(
        self, thresholds: np.ndarray, silence: np.ndarray, memory: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return s, the weight of each neuron's penalty, from its threshold and the samples it was silent.

        Parameters
        ----------
        thresholds, silence : ndarray, shape (n_atoms,)
            The diagonal of H, and the samples since each neuron fired for a signal.
        memory : dict of str to ndarray
            The arrays that `remembers` names.
        """
        return np.ones(len(thresholds))

    def n_probes(self, n_samples: int, n_signals: int) -> int:
        """Return how many neurons are made to fire alone, beside a batch that comes after `n_samples`."""
        return 0

    def change(
        self, batch: Batch, observed: Observed, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Change F, B and H in place, and what the rule remembers.

        The learner then bounds thresholds, replaces atoms, lets those of `stalled` begin anew, and rounds
        weights, where its settings say so.

        Parameters
        ----------
        batch : Batch
            The run of the network: number of signals, samples so far, penalties, settings, and `energy`, the
            mean squared norm of its signals: steps are to be divided by it.
        observed : Observed
            Signals, codes, g_D and g_H.
        synapses : Synapses
            The weights, as the run had them.
        memory : dict of str to ndarray
            The arrays that `remembers` names.
        """
        raise NotImplementedError

    def atoms(self, synapses: Synapses, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the atoms that were learned, of any norm, shape (n_atoms, n_inputs): B^T."""
        return synapses.feedback_rows

    def stalled(self, n_fired: np.ndarray, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return atoms that `forget` makes begin anew, from the signals that each fired for: none."""
        return np.empty(0, dtype=int)

    def forget(self, atom: int, synapses: Synapses, memory: dict[str, np.ndarray]) -> None:
        """Forget what an atom did: it was just replaced by another pattern, or is stalled."""
        for array in self._of_atoms(memory).values():
            array[atom] = 0.0

    def _memory(self, known: Mapping[str, np.ndarray], n_atoms: int, n_inputs: int) -> dict[str, np.ndarray]:
        """Return the arrays that `remembers` names: those that are known, and zeros."""
        lengths, memory = {"atoms": n_atoms, "inputs": n_inputs}, {}
        for name, entry in self.remembers.items():
            if name in known:
                memory[name] = known[name]
            elif not entry.optional:
                shape: Any = [lengths.get(str(length), length) for length in entry.shape or ()]
                memory[name] = np.zeros(shape, dtype=KINDS_OF_NUMBERS[entry.kinds[0]])
        return memory

    def _of_atoms(self, memory: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the arrays that have a row for each atom."""
        shapes = {name: entry.shape or ("",) for name, entry in self.remembers.items() if name in memory}
        return {name: memory[name] for name, shape in shapes.items() if shape[0] == "atoms"}
