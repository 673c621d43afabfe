"""Graphs for programs that read NIR otherwise than its specification says.

What a program does was read in its source code, and where it could be installed, run: docs/exchange.md.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from snn.base import checks
from snn.base.extras import require
from snn.exchange.nir_graph import kind_of, require_graph

if TYPE_CHECKING:
    import nir


class Reader(NamedTuple):
    """How a program deviates.  All of them need biases and weights of inputs times the time step."""

    synapse_factor: Callable[[float], float]
    """For weights behind an LI, as a function of the time step in units of its tau."""
    counts_steps: bool
    """Whether the program wants tau in time steps."""
    requirements: tuple[Callable[[nir.NIRGraph, float], None], ...]
    """Functions of a graph and the time step; they raise ValueError if the program cannot run it."""


def _steps_shorter_than_tau(graph: nir.NIRGraph, time_step: float) -> None:
    for name, node in graph.nodes.items():
        if kind_of(node) == "LI" and time_step >= _time_constant(graph, [name]):
            tau = _time_constant(graph, [name])
            raise ValueError(f"time_step must be smaller than tau, {tau}, for Norse; got {time_step}")


def _one_axis(graph: nir.NIRGraph, time_step: float) -> None:
    for name, node in graph.nodes.items():
        if kind_of(node) == "LI" and np.ndim(node.tau) != 1:
            raise ValueError(
                f"node {name!r} must have one axis for Sinabs, which cannot read an LI with more; got "
                f"shape {np.shape(node.tau)}: export the network with weights.toarray()"
            )


def _nothing_negative(graph: nir.NIRGraph, time_step: float) -> None:
    """Without negative weights and biases no potential falls to the bound, minus the threshold."""
    for name, node in graph.nodes.items():
        for what in ("weight", "bias"):
            values = getattr(node, what, None)
            if values is not None and np.min(values) < 0.0:
                raise ValueError(
                    f"{what} of node {name!r} must not be negative for Sinabs, which cuts potentials off "
                    f"at minus the threshold; got {np.min(values)}: set min_v_mem of all its layers to "
                    "None after reading, and pass reader='sinabs without bound'"
                )


def _charge_of_a_step(steps: float) -> float:
    """Return 1 - e^-x: an LI that adds a spike in full, v <- e^-x v + 1, then keeps its charge."""
    return -float(np.expm1(-steps))


READERS: dict[str, Reader] = {
    # Euler's steps, potentials reset to zero: `simulate_clocked` with reset="zero", steps of -log(1 - dt).
    "norse": Reader(lambda steps: 1.0, False, (_steps_shorter_than_tau,)),
    # A clock that keeps charge: `simulate_clocked` with its defaults.
    "sinabs": Reader(_charge_of_a_step, True, (_one_axis, _nothing_negative)),
    "sinabs without bound": Reader(_charge_of_a_step, True, (_one_axis,)),
}
UNABLE = {
    "jaxsnn": "it reads Input, CubaLIF and Linear alone, and takes the first entry of each parameter for all "
    "neurons: it has no neuron whose potential does not leak"
}


def for_reader(graph: nir.NIRGraph, reader: str, *, time_step: float) -> nir.NIRGraph:
    """Return a graph that a program, which deviates from NIR's specification, runs as the given one.

    Parameters
    ----------
    graph : nir.NIRGraph
        As `to_nir` returns it; import another one by `from_nir` first, and export it again.
    reader : {"norse", "sinabs", "sinabs without bound", "jaxsnn"}
        The program.  "sinabs without bound" is for graphs with inhibition: set ``min_v_mem = None`` in all
        of its layers after it has read the graph.
    time_step : float
        Step of the program's clock, in the graph's unit of time.  The graph is right for this step alone.

    Returns
    -------
    nir.NIRGraph

    Raises
    ------
    ImportError
        If NIR is not installed: ``pip install 'sparsespike[nir]'``.
    TypeError, ValueError
        If an argument is of the wrong kind or value, the graph was adapted before, or the program cannot run
        this network.
    """
    nir = require("nir", extra="nir")
    require_graph(nir, graph)
    reader = checks.one_of("reader", reader, (*READERS, *UNABLE))
    time_step = checks.positive_number("time_step", time_step)
    if reader in UNABLE:
        raise ValueError(f"reader {reader!r} cannot run such a network: {UNABLE[reader]}")
    for require_that in READERS[reader].requirements:
        require_that(graph, time_step)
    nodes = {name: _adapted(nir, graph, READERS[reader], time_step, name) for name in graph.nodes}
    metadata = {**graph.metadata, "reader": reader, "time step": time_step}
    return nir.NIRGraph(nodes=nodes, edges=list(graph.edges), metadata=metadata)


def _adapted(nir: Any, graph: nir.NIRGraph, reader: Reader, time_step: float, name: str) -> Any:
    node = graph.nodes[name]
    kind = kind_of(node)
    if kind in ("Input", "Output"):
        return node
    if kind in ("IF", "LI"):
        fixed = {"r": 1.0, "v_reset": 0.0} if kind == "IF" else {"r": 1.0, "v_leak": 0.0}
        for what, only in fixed.items():
            if not (np.asarray(getattr(node, what)) == only).all():
                raise ValueError(
                    f"{what} of node {name!r} must be {only:g}, as to_nir writes it; got another"
                )
        if kind == "IF":
            return node
        tau = _time_constant(graph, [name]) / (time_step if reader.counts_steps else 1.0)
        return nir.LI(tau=np.full(np.shape(node.tau), tau), r=node.r, v_leak=node.v_leak)
    before = [source for source, target in graph.edges if target == name]
    kinds = {kind_of(graph.nodes[source]) for source in before}
    if kind not in ("Affine", "Conv2d") or kinds not in ({"Input"}, {"LI"}):
        raise ValueError(
            f"graph must be one that to_nir wrote; got {checks.a_or_an(kind)}, {name!r}, behind "
            f"{sorted(kinds)}: import it by from_nir and export its network"
        )
    factor = time_step
    if kinds == {"LI"}:
        factor = reader.synapse_factor(time_step / _time_constant(graph, before))
    adapted = copy(node)
    adapted.bias = node.bias * time_step
    adapted.weight = node.weight * factor
    return adapted


def _time_constant(graph: nir.NIRGraph, names: list[str]) -> float:
    """Return the one tau of some LI: weights behind them have one factor."""
    found = np.unique(np.concatenate([np.ravel(graph.nodes[name].tau) for name in names]))
    listed = " and ".join(repr(name) for name in names)
    if len(found) != 1:
        raise ValueError(
            f"tau of {listed} must be one number for all synapses, as to_nir writes it; got {found.min()} to "
            f"{found.max()}"
        )
    return checks.positive_number(f"tau of {listed}", float(found[0]))
