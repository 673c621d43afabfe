"""Compilation of kernels before they are needed."""

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from dictlearn.two_phase.fit import learn_dictionary
from dictlearn.two_phase.observed import READOUTS
from dictlearn.two_phase.rules import PaperSteps, Rule, UsageSteps
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import LATERAL_BLOCK
from snn import precompile
from snn.run.time import Clock, Exact, Time
from solvers.precompile import tasks as tasks_of_solvers


def warm_up(*, progress: bool = True) -> None:
    """Compile all kernels of all packages, or load them from disk, so that no later call compiles.

    Parameters
    ----------
    progress
        See `snn.warm_up`.
    """
    precompile.run_tasks((precompile.tasks, tasks_of_solvers, tasks), progress=progress)


def tasks() -> precompile.Tasks:
    """Return the tasks that call all kernels of `dictlearn`."""
    signals = np.random.default_rng(0).standard_normal((4, 6))
    runs = {}
    # Numba compiles once for each of two batch sizes, because slices with one row are contiguous, but other
    # slices are not.
    kinds: tuple[Rule, ...] = (UsageSteps(), PaperSteps())
    ways = [("spiking", readout) for readout in READOUTS] + [("graded", "current")]
    times: tuple[Time, ...] = (Exact(), Clock(0.25))
    for rule, (inputs, readout), batch_size, time in product(kinds, ways, (1, 4), times):
        settings = LearningSettings(
            penalty=0.1,
            duration=2.0,
            readout=readout,
            inputs=inputs,
            time=time,
            rule=rule,
            batch_size=batch_size,
            positive_atoms=False,
            positive_code=batch_size == 1,
        )
        clock = ", on a clock" if isinstance(time, Clock) else ""
        name = (
            f"learning from {readout}, {inputs} inputs, {type(rule).__name__}, batches of {batch_size}{clock}"
        )
        # One case has more atoms than LATERAL_BLOCK, and the other case has fewer atoms than a batch has
        # rows.
        n_atoms = LATERAL_BLOCK + 1 if batch_size == 1 else 3
        options: Any = {"settings": settings, "n_samples": 4, "rng": 0, "n_jobs": 1}
        runs[name] = partial(learn_dictionary, signals, n_atoms, **options)
    return runs
