"""Lava's networks pass the checks of Lava, equal a slow twin bit for bit, and solve their LASSO."""

import math

import numpy as np
import pytest

from examples.lava_lca import LCA1Layer, LCA2Layer
from solvers import LassoProblem, solve_active_set
from solvers.certificate.optimality import duality_gap

pytestmark = pytest.mark.thorough

# -- what lava-optimization tests of its processes: 1000 steps, and how near codes must be ---------------

THIRD, HALF = math.sqrt(1 / 3), math.sqrt(1 / 2)
COMPETING = np.array([[0.0, HALF, HALF], [THIRD, THIRD, THIRD]])
"""The first atom by itself explains the signal, and must silence the second."""
EXCITING = np.array([[-THIRD, THIRD, THIRD], [1.0, 0.0, 0.0]])
"""The second atom is needed only to compensate for the first one."""


def lateral(atoms):
    return (np.eye(len(atoms)) - atoms @ atoms.T) * 0.1


@pytest.mark.parametrize(
    ("atoms", "expected", "rtol"), [(COMPETING, [1 / HALF, 0.0], 1e-5), (EXCITING, [1 / THIRD, 1.0], 1e-2)]
)
def test_layers_in_floats_compete_and_excite(atoms, expected, rtol):
    signal = np.array([0.0, 1.0, 1.0])
    two = LCA2Layer(atoms, signal, threshold=0.001, spike_height=0, arithmetic="float").run(1000)
    one = LCA1Layer(lateral(atoms), signal @ atoms.T * 0.1, threshold=0.001, arithmetic="float").run(1000)
    for run in (two, one):
        np.testing.assert_allclose(run.v1, expected, atol=0.001, rtol=rtol)


@pytest.mark.parametrize(
    ("atoms", "expected", "rtol"),
    [(COMPETING, [2**14 / HALF, 0.0], 1e-2), (EXCITING, [2**14 / THIRD, 2**14], 1e-1)],
)
def test_two_layers_in_integers_compete_and_excite(atoms, expected, rtol):
    run = LCA2Layer(atoms * 2**8, [0, 2**14, 2**14], weights_exp=-8).run(1000)
    np.testing.assert_allclose(run.v1, expected, atol=600, rtol=rtol)


# -- the bits ------------------------------------------------------------------------------------------


def lavas_mantissas(weights):
    """Return the mantissas, computed one by one in Python's integers."""
    whole = [[int(w) for w in row] for row in weights]
    positive = all(w >= 0 for row in whole for w in row)
    negative = all(w <= 0 for row in whole for w in row)
    if positive or negative:
        return [[max(-255, min(255, w)) for w in row] for row in whole]
    return [[max(-256, min(255, w)) // 2 * 2 for w in row] for row in whole]


def shifted(number, exponent):
    return number * 2**exponent if exponent >= 0 else number // 2**-exponent


def soft(v, threshold):
    return 0 if abs(v) <= threshold else (abs(v) - threshold) * (1 if v > 0 else -1)


def twin_one_layer(weights, bias, exponent, threshold, tau, n_steps):
    n, mantissas = len(bias), lavas_mantissas(weights)
    decay = int(tau * 2**24)
    v, arriving, a = [0] * n, [0] * n, [0] * n
    for _ in range(n_steps):
        a = [soft(x, threshold) for x in v]
        v = [(x * (2**24 - decay)) // 2**24 + y + int(b) for x, y, b in zip(v, arriving, bias, strict=True)]
        arriving = [shifted(sum(w * x for w, x in zip(row, a, strict=True)), exponent) for row in mantissas]
    return a, v


def twin_two_layers(weights, signal, exponent, threshold, tau, height, n_steps):
    n, d = len(weights), len(signal)
    decay = int(tau * 2**24)
    back = lavas_mantissas([[-weights[i][k] for i in range(n)] for k in range(d)])
    forth = lavas_mantissas([[weights[i][k] * tau for k in range(d)] for i in range(n)])
    v, to_v, r, to_r = [0] * n, [0] * n, [0] * d, [0] * d
    for _ in range(n_steps):
        a = [soft(x, threshold) for x in v]
        r = [x + y + s for x, y, s in zip(r, to_r, signal, strict=True)]
        sent = [x if abs(x) > height else 0 for x in r]
        r = [0 if abs(x) > height else x for x in r]
        v = [
            (x * (2**24 - decay)) // 2**24 + y + z * decay // 2**24
            for x, y, z in zip(v, to_v, a, strict=True)
        ]
        to_r = [shifted(sum(w * x for w, x in zip(row, a, strict=True)), exponent) for row in back]
        to_v = [shifted(sum(w * x for w, x in zip(row, sent, strict=True)), exponent) for row in forth]
    return a, v, sent


def test_integers_are_those_of_a_slow_twin():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, d = rng.integers(1, 6, 2)
        atoms = rng.standard_normal((n, d))
        atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
        threshold, tau = int(rng.integers(0, 2000)), float(rng.uniform(0.02, 0.2))
        exponent = int(rng.integers(-12, -6))
        weights = (np.eye(n) - atoms @ atoms.T) * tau * 2.0**-exponent
        bias = rng.integers(-(2**14), 2**14, n)
        run = LCA1Layer(weights, bias, exponent, threshold, tau).run(50)
        a, v = twin_one_layer(weights.tolist(), bias.tolist(), exponent, threshold, tau, 50)
        assert run.n_saturated == 0
        assert run.v1.tolist() == a
        assert run.voltage.tolist() == v
        weights, height = atoms * 2.0**-exponent / 4, int(rng.integers(0, 500))
        signal = rng.integers(-3000, 3000, d)
        run = LCA2Layer(weights, signal, exponent, 0, threshold, tau, spike_height=height).run(50)
        a, v, sent = twin_two_layers(weights.tolist(), signal.tolist(), exponent, threshold, tau, height, 50)
        assert run.v1.tolist() == a
        assert run.voltage.tolist() == v
        assert run.residual.tolist() == sent


def test_messages_beyond_24_bits_saturate_and_are_counted():
    run = LCA1Layer([[0.0]], [2**22], tau=0.1).run(50)
    assert run.n_saturated > 0
    assert run.v1.tolist() == [2**23 - 1]


# -- the LASSO -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    atoms = rng.standard_normal((64, 32))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    signals = atoms[:4].sum(axis=0) + 0.05 * rng.standard_normal((2, 32))
    return LassoProblem(atoms, signals, 0.2)


def test_one_layer_in_floats_solves_the_lasso(problem):
    for signal in range(2):
        run = LCA1Layer.of(problem, signal, tau=0.05, arithmetic="float").run(4000)
        exact = solve_active_set(problem).codes[signal]
        np.testing.assert_allclose(run.v1, exact, atol=1e-9)


@pytest.mark.parametrize("kind", [LCA1Layer, LCA2Layer])
def test_integers_come_near_and_the_gap_says_how_near(problem, kind):
    one = problem.subset(slice(0, 1))
    network = kind.of(one, tau=0.05)
    run = network.run(2000)
    assert run.n_saturated == 0
    gap = duality_gap(one, run.v1[np.newaxis] * network.unit)[0] / one.energies[0]
    assert 1e-6 < gap < 0.05


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: LCA1Layer(np.eye(2), [0, 2**23]), "bias"),
        (lambda: LCA1Layer(np.eye(2), [0, 0], tau=1e-9), "tau"),
        (lambda: LCA1Layer(np.eye(2), [0, 0], threshold=0.5), "threshold"),
        (lambda: LCA1Layer(np.eye(2), [0, 0], 30), "exponent of weights"),
        (lambda: LCA2Layer(np.eye(2), [2**16, 0]), "input_vec"),
        (lambda: LCA2Layer.of(LassoProblem(2 * np.eye(2), [[1.0, 2.0]], 0.1)), "problem"),
        (lambda: LCA1Layer.of(LassoProblem(np.eye(2), [[1.0, 2.0]], 0.1, mask=[True, False])), "problem"),
    ],
)
def test_bad_arguments(make, name):
    with pytest.raises(ValueError, match=name):
        make()


def test_unstable_networks_end_in_a_sentence():
    with pytest.raises(OverflowError, match=r"grew beyond 6.87e.10; the network is unstable"):
        LCA1Layer([[200.0]], [100], 8, tau=0.1).run(1000)
    with pytest.raises(OverflowError, match=r"grew beyond 1.8e.308; the network is unstable"):
        LCA1Layer([[3.0]], [100], tau=0.1, arithmetic="float").run(1000)
