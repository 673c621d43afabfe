"""Compilation of kernels before they are needed."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from snn import Clock, precompile
from solvers.certificate.compiled import certify_screened
from solvers.methods.active_set import ActiveSet, solve_active_set
from solvers.methods.spiking import (
    ActiveSetFromSpikes,
    AverageCurrents,
    OneWindow,
    Rates,
    Stages,
    solve_digital,
    solve_spiking,
)
from solvers.problem.convolutional_dictionary import ConvolutionalDictionary
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.problem.memory import memory_limit
from solvers.studies.path import path
from solvers.studies.stream import SparseCodingStream

# The methods that have kernels.
COMPILED = (Stages(), OneWindow(), AverageCurrents(), Rates(), ActiveSet(), ActiveSetFromSpikes())


def warm_up(*, progress: bool = True) -> None:
    """Compile all kernels of `solvers` and `snn`, or load them from disk, so that later calls are fast.

    Parameters
    ----------
    progress
        See `snn.warm_up`.
    """
    precompile.run_tasks((precompile.tasks, tasks), progress=progress)


def tasks() -> precompile.Tasks:
    """Return the tasks that call all kernels of `solvers`."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((6, 4)), rng.standard_normal((3, 4))
    # Networks with the atoms of `many` are large enough for screening of neurons.
    many = rng.standard_normal((70, 20)), rng.standard_normal((2, 20))
    convolutional = (
        ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (5, 5), 2),
        rng.standard_normal((1, 25)),
    )
    runs: dict[str, Callable[[], object]] = {}
    cases: tuple[Any, ...] = (dense, convolutional)
    for (dictionary, signals), positive in product(cases, (True, False)):
        problem = LassoProblem(dictionary, signals, 0.1, positive=positive)
        form = "convolutional " if dictionary is convolutional[0] else ""
        form += "CLASSO" if positive else "LASSO"
        # With n_jobs=1 the kernels are compiled in this process, also inside a `joblib.parallel_config`.
        for method in COMPILED:
            runs[f"{form}, {method.name}"] = partial(method, problem, tol=0.05, n_jobs=1)
        one = problem.subset(slice(0, 1))
        if dictionary is dense[0]:
            runs[f"{form}, derivatives"] = partial(_derivatives, problem)
            runs[f"{form} by spikes, one signal"] = partial(solve_spiking, one, tol=0.05)
            screened = LassoProblem(*many, 1.0, positive=positive)
            runs[f"{form} of many neurons"] = partial(solve_spiking, screened, tol=0.05, n_jobs=1)
        runs[f"{form} by an active set, one signal"] = partial(solve_active_set, one, n_jobs=1)
    masked = LassoProblem(*dense, 0.5, mask=np.ones((3, 4), dtype=np.bool_))
    runs["LASSO with masks, by an active set"] = partial(solve_active_set, masked, n_jobs=1)
    free = LassoProblem(*dense, [1.0] * 5 + [0.0])
    runs["LASSO with an intercept, a path"] = partial(path, free, n_multiples=2, n_jobs=1)
    runs["a stream"] = lambda: SparseCodingStream(dense[0], 0.5).code(dense[1])
    clocked = LassoProblem(*dense, 0.5)
    runs["LASSO on a clock"] = partial(solve_spiking, clocked, time=Clock(0.25), tol=0.05, n_jobs=1)
    runs["LASSO by integers"] = partial(solve_digital, clocked, tol=0.1, n_jobs=1)
    with memory_limit(1):
        model = LassoModel(dense[0], 0.5)
    runs["LASSO without a Gram matrix"] = partial(_without_gram, model, rng.standard_normal((4, 4)))
    return runs


def _derivatives(problem: LassoProblem) -> None:
    result = solve_active_set(problem, n_jobs=1)
    result.vjp(result.codes, undefined="leave out")


def _without_gram(model: LassoModel, signals: np.ndarray) -> None:
    problem = model.with_signals(signals)
    certify_screened(problem, solve_active_set(problem, n_jobs=1).sparse_codes)
