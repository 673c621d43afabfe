"""Codes as a function of JAX, with their gradients: ``pip install "sparsespike[jax]"``.

`solve_active_set` computes the codes, and ``result.vjp`` the gradients; both run on the host,
called back from compiled code.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers.derivatives import LEAVE_OUT, REFUSE, CodeDerivatives
from solvers.methods.active_set import solve_active_set
from solvers.problem.lasso import LassoProblem
from solvers.problem.penalty import ElasticNet


def sparse_codes(
    signals: Any,
    dictionary: Any,
    penalty: Any,
    *,
    l2: Any = 0.0,
    positive: bool = False,
    undefined: str = REFUSE,
) -> Any:
    """Return the codes of signals, differentiable in all arrays that are passed.

    This function works under ``jax.jit``, ``jax.grad`` and ``jax.vmap``.  Under ``vmap``, problems are solved
    one after the other.  For signals that share a dictionary, one call with all signals in an array is
    faster.

    Shapes: signals (n_signals, n_features); dictionary (n_atoms, n_features); penalty (); l2 ().

    Examples
    --------
    >>> import jax.numpy as jnp, jax
    >>> from solvers.jax_codes import sparse_codes
    >>> def loss(signal, penalty):
    ...     return sparse_codes(signal, jnp.eye(3), penalty).sum()
    >>> signal = jnp.array([3.0, 0.2, 2.0])
    >>> print(jax.grad(loss)(signal, 1.0), jax.grad(loss, argnums=1)(signal, 1.0))
    [1. 0. 1.] -2.0
    """
    positive = checks.flag("positive", positive)
    undefined = checks.one_of("undefined", undefined, (REFUSE, LEAVE_OUT))
    jnp = checks.installed("jax", extra="jax").numpy
    signals, dictionary = jnp.asarray(signals), jnp.asarray(dictionary)
    kind = jnp.promote_types(jnp.result_type(signals, dictionary), jnp.float32)
    rows = jnp.atleast_2d(signals).astype(kind)
    n_atoms = dictionary.shape[0]
    l1, curvatures = (jnp.broadcast_to(jnp.asarray(each, dtype=kind), (n_atoms,)) for each in (penalty, l2))
    codes = _differentiable(positive, undefined)(rows, dictionary.astype(kind), l1, curvatures)
    return codes[0] if signals.ndim == 1 else codes


@cache
def _differentiable(positive: bool, undefined: str) -> Callable[..., Any]:
    """Return a differentiable function of JAX: codes from signals, dictionary, l1 weights and curvatures."""
    jax = checks.installed("jax", extra="jax")

    called_back = partial(jax.pure_callback, vmap_method="sequential")

    @jax.custom_vjp
    def codes(signals: Any, dictionary: Any, l1: Any, l2: Any) -> Any:
        shape = jax.ShapeDtypeStruct((signals.shape[0], dictionary.shape[0]), signals.dtype)
        return called_back(partial(_solved, positive=positive), shape, signals, dictionary, l1, l2)

    def forward(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
        values = codes(*arrays)
        return values, (*arrays, values)

    def backward(kept: tuple[Any, ...], upstream: Any) -> Any:
        shapes = tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in kept[:4])
        gradients = partial(_gradients, positive=positive, undefined=undefined)
        return called_back(gradients, shapes, *kept, upstream)

    codes.defvjp(forward, backward)
    return codes


def _problem(
    signals: Any, dictionary: Any, l1: Any, l2: Any, positive: bool
) -> tuple[LassoProblem, np.dtype[Any]]:
    arrays = [np.asarray(array, dtype=np.float64) for array in (signals, dictionary, l1, l2)]
    problem = LassoProblem(arrays[1], arrays[0], ElasticNet(arrays[2], arrays[3]), positive=positive)
    return problem, np.asarray(signals).dtype


def _solved(signals: Any, dictionary: Any, l1: Any, l2: Any, *, positive: bool) -> np.ndarray:
    problem, kind = _problem(signals, dictionary, l1, l2, positive)
    return solve_active_set(problem).codes.astype(kind)


def _gradients(
    signals: Any,
    dictionary: Any,
    l1: Any,
    l2: Any,
    codes: Any,
    upstream: Any,
    *,
    positive: bool,
    undefined: str,
) -> tuple[np.ndarray, ...]:
    problem, kind = _problem(signals, dictionary, l1, l2, positive)
    rows = sparse.csr_array(np.asarray(codes, dtype=np.float64))
    of = CodeDerivatives(problem, rows).vjp(np.asarray(upstream, dtype=np.float64), undefined=undefined)
    return tuple(part.astype(kind) for part in (of.signals, of.dictionary, of.l1, of.l2))
