"""Which modules an import loads, what is left to compile after warming up, and threads."""

from pathlib import Path

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]


def run(program, **environment):
    return run_python("-W", "error", "-c", program, **environment).stdout.split()


@pytest.fixture(scope="module")
def imported():
    return run("import sys, snn, solvers, dictlearn; print(*sys.modules)")


@pytest.fixture(scope="module")
def imported_by_scipy():
    """Return the modules that `scipy.sparse` imports; before SciPy 1.16 they include `scipy.linalg`."""
    return run("import sys, scipy.sparse; print(*sys.modules)")


@pytest.mark.parametrize(
    "module",
    ["matplotlib", "pandas", "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.stats", "sklearn"],
)
def test_import_leaves_out_what_takes_long(imported, imported_by_scipy, module):
    assert "snn.run.exact" in imported
    if module not in imported_by_scipy:
        assert module not in imported


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("solvers", "SpikingSparseCoder"),
        ("dictlearn", "SpikingDictionaryLearning"),
        ("dictlearn", "ConvolutionalDictionaryLearning"),
    ],
)
def test_estimators_are_there_when_asked_for(package, name):
    program = f"""
import pickle, sys
import {package}
assert {name!r} in dir({package})
assert "sklearn" not in sys.modules or {package}.__dict__.get({name!r}) is None
from {package} import *
estimator = {name}
assert estimator is {package}.{name} is pickle.loads(pickle.dumps(estimator))
assert {name!r} in vars({package})
print(estimator.__name__, hasattr({package}, "nothing"))
"""
    assert run(program) == [name, "False"]


SIGNATURES = """
import sys
from numba.core.dispatcher import Dispatcher

def signatures():
    modules = [module for name, module in sys.modules.items()
               if name.split(".")[0] in ("snn", "solvers", "dictlearn")]
    kernels = {kernel for module in modules for kernel in vars(module).values()
               if isinstance(kernel, Dispatcher)}
    return {(id(kernel), kernel.__module__, kernel.__name__, *signature)
            for kernel in kernels for signature in kernel.signatures}
"""
WARM_SNN = """
import snn
snn.warm_up(progress=False)
warm = signatures()
import numpy as np
from scipy import sparse
from snn.weights import Connection, Segments
rng = np.random.default_rng(0)
for n_neurons in (2, 90):
    inhibition = -rng.uniform(0.0, 0.2, (n_neurons, n_neurons))
    np.fill_diagonal(inhibition, 0.0)
    lateral = snn.DenseRows(-inhibition, -1.0)
    wide = sparse.csr_array(inhibition)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    block = Connection(0, 0, inhibition.shape, 0)
    for weights in (
        inhibition, np.asfortranarray(inhibition), lateral,
        snn.DenseRows(inhibition).sign_pairs(np.ones(n_neurons)),
        lateral.sign_pairs(np.ones(n_neurons)), sparse.csc_array(inhibition), wide,
        Segments(n_neurons, (block, block), inhibition.ravel()), Segments(n_neurons, (), inhibition.ravel()),
    ):
        drive = rng.uniform(0.0, 1.0, weights.shape[0])
        network = snn.SpikingNetwork(weights, drive, np.ones(len(drive)))
        for record in (False, True):
            result = snn.simulate(network, 3.0, record_spikes=record)
            snn.simulate(network, 3.0, state=result.state, record_spikes=record, max_spikes=100_000)
            result = snn.simulate(network, 3.0, snn.Clock(0.25), record_spikes=record)
            papers = snn.Clock(0.25, snn.RealNeuron(reset="zero"))
            snn.simulate(network, 3.0, papers, state=result.state)
"""
WARM_SOLVERS = """
import snn, solvers
solvers.warm_up(progress=False)
warm = signatures()
import copy, pickle
import numpy as np
rng = np.random.default_rng(0)
dictionary = rng.standard_normal((40, 20))
for n_signals in (1, 30):
    signals = rng.standard_normal((n_signals, 20))
    for positive in (False, True):
        for gram in (None, dictionary @ dictionary.T):
            for penalty in (1.0, rng.uniform(0.5, 1.0, 40)):
                problem = solvers.LassoProblem(dictionary, signals, penalty, positive=positive, gram=gram)
                for name in ("spiking_rate", "spiking_current", "active_set_from_spikes"):
                    spiking = solvers.solve(problem, solvers.METHODS[name], n_jobs=2, tol=1e-2)
                for start in (None, spiking, spiking.codes, spiking.sparse_codes):
                    solvers.solve_active_set(problem, start=start, n_jobs=2)
                snn.simulate(solvers.lasso_network(problem), 2.0)
# NumPy forgets on the way that arrays are read-only.
for other in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
    solvers.solve(other, solvers.METHODS["active_set_from_spikes"], tol=1e-2)
    solvers.solve_active_set(other)
    snn.simulate(pickle.loads(pickle.dumps(solvers.lasso_network(other))), 2.0)
kernels = solvers.ConvolutionalDictionary(rng.standard_normal((3, 4, 4)), (12, 12), 2)
images = rng.standard_normal((2, 144))
for positive in (False, True):
    problem = solvers.LassoProblem(kernels, images, 1.0, positive=positive)
    spiking = solvers.solve(problem, solvers.METHODS["active_set_from_spikes"])
    for start in (None, spiking, spiking.codes):
        assert (solvers.solve_active_set(problem, start=start).support_size > 0).all()
"""
# The problem has enough neurons for an active set of neurons, which needs at least 64.
WARM_SPIKING = """
import numpy as np, solvers
solvers.warm_up(progress=False)
warm = signatures()
rng = np.random.default_rng(0)
problem = solvers.LassoProblem(rng.standard_normal((70, 20)), rng.standard_normal((2, 20)), 1.0)
for signals in (slice(None), slice(1)):
    solvers.solve_spiking(problem.subset(signals), tol=1e-2)
"""
WARM_WAYS = """
import numpy as np, snn, solvers
solvers.warm_up(progress=False)
warm = signatures()
rng = np.random.default_rng(0)
atoms, signals = rng.standard_normal((11, 20)), rng.standard_normal((2, 20))
solvers.path(solvers.LassoProblem(atoms, signals[:1], np.append(np.ones(10), 0.0)), n_multiples=5)
solvers.path(solvers.LassoProblem(atoms, signals, 1.0), n_multiples=5)
stream = solvers.SparseCodingStream(atoms, 0.5)
for signal in signals:
    stream.code(signal)
problem = solvers.LassoProblem(atoms, signals, 1.0)
solvers.solve_spiking(problem, time=snn.Clock(0.25), tol=0.05)
solvers.solve_digital(problem, tol=0.1)
solvers.SpikingSparseCoder(atoms, alpha=0.5).transform(signals)
result = solvers.solve_active_set(problem)
result.vjp(result.codes, undefined="leave out")
solvers.held_out_score(problem)
"""
WARM_DICTLEARN = """
import dictlearn, snn
dictlearn.warm_up(progress=False)
warm = signatures()
import numpy as np
rng = np.random.default_rng(0)
signals = rng.uniform(size=(300, 16))
for rule in (dictlearn.UsageSteps(), dictlearn.PaperSteps()):
    for time in (snn.Exact(), snn.Clock(1 / 32)):
        for readout, inputs in (("rate", "spiking"), ("current", "spiking"), ("current", "graded")):
            for batch_size in (1, 5, 300):
                settings = dictlearn.LearningSettings(
                    penalty=0.1, duration=4.0, rule=rule, readout=readout, inputs=inputs, time=time,
                    batch_size=batch_size)
                dictlearn.learn_dictionary(
                    signals, 9, settings=settings, n_samples=max(23, batch_size), rng=0, n_jobs=2)
dictlearn.learn_dictionary(signals, 200, penalty=0.1, n_samples=40, rng=0, n_jobs=1)
dictlearn.mean_objective(dictlearn.random_dictionary(9, 16, rng=0), signals, penalty=0.1)
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(WARM_SNN, id="snn"),
        pytest.param(WARM_SOLVERS, id="solvers"),
        pytest.param(WARM_SPIKING, id="solve_spiking"),
        pytest.param(WARM_WAYS, id="ways"),
        pytest.param(WARM_DICTLEARN, id="dictlearn"),
    ],
)
def test_nothing_is_left_to_compile_after_warming_up(program):
    check = "added = signatures() - warm\nassert not added, added\nprint(len(warm))"
    assert int(run(SIGNATURES + program + check)[0]) > 5


def test_threading_layers_of_numba_make_no_difference():
    """No threading layer is ever started, so none can abort when threads nest."""
    program = """
import hashlib, numba, numpy as np, solvers
rng = np.random.default_rng(0)
problem = solvers.LassoProblem(rng.standard_normal((40, 20)), rng.standard_normal((600, 20)), 4.0)
result = solvers.solve_spiking(problem, tol=0.05, n_jobs=2)
try:
    print("started", numba.threading_layer())
except ValueError:
    print("none", hashlib.sha256(result.codes.tobytes()).hexdigest())
"""
    answers = [run(program, NUMBA_THREADING_LAYER=layer) for layer in ("workqueue", "omp", "tbb")]
    assert answers[0][0] == "none"
    assert answers[0] == answers[1] == answers[2]
