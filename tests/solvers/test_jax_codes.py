"""Codes as a function of JAX: gradients agree with those of results and with differences."""

import numpy as np
import pytest

from solvers import ElasticNet, LassoProblem, solve_active_set
from solvers.jax_codes import sparse_codes

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((3, 9)), rng.standard_normal((14, 9)), rng.uniform(0.3, 0.6, 14)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("l2", [0.0, 0.4])
def test_gradients_are_those_of_the_result(data, positive, l2):
    signals, dictionary, penalty = data
    target = np.random.default_rng(1).standard_normal((3, 14))

    def loss(signals, dictionary, penalty, l2):
        codes = sparse_codes(signals, dictionary, penalty, l2=l2, positive=positive)
        return jnp.sum((codes - target) ** 2) / 2

    result = solve_active_set(LassoProblem(dictionary, signals, ElasticNet(penalty, l2), positive=positive))
    gradients = result.vjp(result.codes - target)
    expected = (gradients.signals, gradients.dictionary, gradients.l1, gradients.l2.sum())
    for transform in (lambda f: f, jax.jit):
        value, found = transform(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(*data, l2)
        np.testing.assert_allclose(value, np.sum((result.codes - target) ** 2) / 2, rtol=1e-12)
        for of_jax, ours in zip(found, expected, strict=True):
            np.testing.assert_allclose(of_jax, ours, rtol=1e-10, atol=1e-10)


def test_signals_one_by_one_under_vmap(data):
    signals, dictionary, penalty = data
    together = sparse_codes(signals, dictionary, penalty)
    one_by_one = jax.jit(jax.vmap(lambda signal: sparse_codes(signal, dictionary, penalty)))(signals)
    np.testing.assert_allclose(one_by_one, together, atol=1e-12)
    # Dictionaries may also differ for each signal, with a gradient for each.
    several = jnp.stack([dictionary, 2.0 * dictionary])
    gradient = jax.vmap(jax.grad(lambda atoms: sparse_codes(signals, atoms, penalty).sum()))(several)
    alone = jax.grad(lambda atoms: sparse_codes(signals, atoms, penalty).sum())(several[1])
    np.testing.assert_allclose(gradient[1], alone, atol=1e-12)


def test_single_precision_is_returned_and_solved_in_double():
    signal = jnp.asarray([3.0, 0.2, 2.0], dtype=jnp.float32)
    codes = sparse_codes(signal, jnp.eye(3, dtype=jnp.float32), 1.0)
    assert codes.dtype == jnp.float32
    np.testing.assert_array_equal(codes, [2.0, 0.0, 1.0])


def test_kinks_and_nonsense_have_their_sentences(data):
    signals, dictionary, penalty = data
    signal = jnp.asarray([3.0, 1.0, 0.0])
    loss = lambda signal, **options: sparse_codes(signal, jnp.eye(3), 1.0, **options).sum()  # noqa: E731
    with pytest.raises(Exception, match="codes must have a derivative; got 1 of 1 signals without one"):
        jax.block_until_ready(jax.grad(loss)(signal))
    found = jax.grad(lambda signal: loss(signal, undefined="leave out"))(signal)
    assert np.isnan(found).all()
    with pytest.raises(ValueError, match=r"undefined must be .*'leave out'"):
        loss(signal, undefined="zero")
    with pytest.raises(TypeError, match="positive must be True or False; got 1"):
        loss(signal, positive=1)
    with pytest.raises(Exception, match="l1 must not be negative"):
        jax.block_until_ready(sparse_codes(signals, dictionary, -penalty))
