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

# Default settings of rules with strong feedback and with weak feedback; durations are in synaptic time
# constants.
STRONG_FEEDBACK = {"kappa": 0.7, "duration": 5.0, "time": Clock(1 / 32), "amplitude": 5.0}
WEAK_FEEDBACK = {**STRONG_FEEDBACK, "kappa": 0.1, "time": Clock(1 / 16)}
# Default settings for inputs that fire, by `positive_atoms`.  Atoms of either sign need longer phases, since
# their gradients are noisier.
SPIKING_INPUTS = {True: WEAK_FEEDBACK, False: {**WEAK_FEEDBACK, "duration": 10.0}}
# Default settings for graded inputs.  Without the noise of input spikes, fewer spikes suffice, and a longer
# phase on a coarser clock improves codes.
GRADED_INPUTS = {**WEAK_FEEDBACK, "duration": 7.0, "time": Clock(1 / 8), "amplitude": 3.0}
# For each letter by which an `Entry` names a kind of numbers, the NumPy type.
KINDS_OF_NUMBERS = {"f": np.float64, "i": np.int64, "b": np.bool_}
# Classes of learning rules by module and name, which the files of learners contain.
KINDS: dict[str, type[Rule]] = {}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A learning rule: a subclass defines `change`, and may override every other method.

    A subclass with parameters is a frozen dataclass whose fields can be saved as JSON.  Parameters are saved
    with a learner, together with the arrays that the rule keeps from batch to batch.  A program must define
    or import the class before it loads the learner.

    Attributes
    ----------
    batch_size, inputs : int and str
        Values of the settings `batch_size` and `inputs` if these settings are "auto".
    remembers : mapping of str to Entry
        The arrays that a learner keeps for the rule from batch to batch.  ``Entry("f", ("atoms", "inputs"),
        0.0)`` is an array of floats >= 0, shape (n_atoms, n_inputs).  Arrays are zero at first, and optional
        arrays are absent at first.
    """

    batch_size: ClassVar[int] = 32
    inputs: ClassVar[str] = "graded"
    remembers: ClassVar[Mapping[str, Entry]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        KINDS[f"{cls.__module__}.{cls.__qualname__}"] = cls

    def defaults(self, readout: str, inputs: str, signs: Signs) -> dict[str, Any]:
        """Return the values of kappa, duration, time and amplitude that replace "auto"."""
        if readout == "rate":
            return STRONG_FEEDBACK
        return GRADED_INPUTS if inputs == "graded" else SPIKING_INPUTS[signs.positive_atoms]

    def penalty_weights(
        self, thresholds: np.ndarray, silence: np.ndarray, memory: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the weight s of each neuron's penalty, by default 1 for every neuron.

        Parameters
        ----------
        thresholds, silence : ndarray, shape (n_atoms,)
            The diagonal of H, and the number of samples since each neuron last fired for a signal.
        memory : dict of str to ndarray
            The arrays that `remembers` names.
        """
        return np.ones(len(thresholds))

    def n_probes(self, n_samples: int, n_signals: int) -> int:
        """Return the number of probes in a batch, by default 0.  A probe drives a single neuron."""
        return 0

    def change(
        self, batch: Batch, observed: Observed, synapses: Synapses, memory: dict[str, np.ndarray]
    ) -> None:
        """Change F, B, H and the arrays of `memory` in place.

        The learner then raises thresholds that are too small.  If the settings say so, the learner also
        replaces atoms, restarts the atoms that `stalled` returns, and rounds weights.

        Parameters
        ----------
        batch : Batch
            The run of the network: number of signals, samples so far, penalties, settings, and `energy`, the
            mean squared norm of signals, by which steps are divided.
        observed : Observed
            The signals, codes and gradients g_D and g_H of the batch.
        synapses : Synapses
            The weights with which the batch ran.
        memory : dict of str to ndarray
            The arrays that `remembers` names.
        """
        raise NotImplementedError

    def atoms(self, synapses: Synapses, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the learned atoms, of any norm, shape (n_atoms, n_inputs), by default B^T."""
        return synapses.feedback_rows

    def stalled(self, n_fired: np.ndarray, memory: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the atoms that the learner restarts with `forget`, by default none."""
        return np.empty(0, dtype=int)

    def forget(self, atom: int, synapses: Synapses, memory: dict[str, np.ndarray]) -> None:
        """Set the memory of an atom to zero, after its replacement or because the atom is stalled."""
        for array in self._of_atoms(memory).values():
            array[atom] = 0.0

    def _memory(self, known: Mapping[str, np.ndarray], n_atoms: int, n_inputs: int) -> dict[str, np.ndarray]:
        """Return the arrays that `remembers` names: known arrays, and zeros in place of unknown arrays."""
        lengths, memory = {"atoms": n_atoms, "inputs": n_inputs}, {}
        for name, entry in self.remembers.items():
            if name in known:
                memory[name] = known[name]
            elif not entry.optional:
                shape: Any = [lengths.get(str(length), length) for length in entry.shape or ()]
                memory[name] = np.zeros(shape, dtype=KINDS_OF_NUMBERS[entry.kinds[0]])
        return memory

    def _of_atoms(self, memory: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of a rule's memory that have a row for each atom."""
        shapes = {name: entry.shape or ("",) for name, entry in self.remembers.items() if name in memory}
        return {name: memory[name] for name, shape in shapes.items() if shape[0] == "atoms"}
