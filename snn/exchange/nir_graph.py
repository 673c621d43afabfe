"""A NIR graph as it came: sub-graphs made flat, edges checked, nodes in an order to work through."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from snn.base import checks

DEEPEST = 32
"""Levels of graphs within graphs: more is a graph that contains itself."""


class FlatGraph(NamedTuple):
    """The nodes and edges of a graph, in which graphs within it are dissolved."""

    nodes: dict[str, Any]
    """Nodes by name; a node of a graph within the graph is named "graph.node"."""
    before: dict[str, list[str]]
    """For each node the names of the nodes with an edge into it."""


def kind_of(node: Any) -> str:
    """Return the name of the class of NIR that an object is of, or of its own class if it is of none."""
    classes = (kind for kind in type(node).__mro__ if kind.__module__.split(".")[0] == "nir")
    return next(classes, type(node)).__name__


def flat_graph(nir: Any, graph: Any) -> FlatGraph:
    """Check a graph of NIR, and return its nodes and edges."""
    flat = FlatGraph({}, {})
    _add(nir, graph, "", flat, 0)
    return flat


def in_order(graph: FlatGraph, roots: Iterable[str]) -> list[str]:
    """Return all nodes, each after those before it; nodes before a root do not count.

    A loop without a root is refused.
    """
    roots = set(roots)
    dependencies = {name: () if name in roots else graph.before[name] for name in graph.nodes}
    try:
        return list(TopologicalSorter(dependencies).static_order())
    except CycleError as error:
        raise ValueError(
            f"graph must have a spiking node, nir.IF, in each of its loops; got {' -> '.join(error.args[1])}"
        ) from None


def ancestors(graph: FlatGraph, names: Iterable[str]) -> set[str]:
    """Return the nodes from which a path leads to one of some nodes, these included."""
    found = set(names)
    waiting = list(found)
    while waiting:
        new = set(graph.before[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def _add(nir: Any, graph: Any, prefix: str, flat: FlatGraph, depth: int) -> None:
    """Add the nodes and edges of a graph, under names that begin with `prefix`."""
    if depth > DEEPEST:
        raise ValueError(f"graph must not have more than {DEEPEST} graphs within one another")
    where = f"graph {prefix[:-1]!r}" if prefix else "graph"
    checks.instance_of(where, graph, nir.NIRGraph)
    if not isinstance(graph.nodes, dict) or not graph.nodes:
        raise ValueError(f"{where} must have nodes, in a dict by name; got {graph.nodes!r:.80}")
    for name, node in graph.nodes.items():
        full = f"{prefix}{name}"
        checks.instance_of(f"node {full!r}", node, nir.NIRNode)
        if kind_of(node) == "NIRGraph":
            _add(nir, node, f"{full}.", flat, depth + 1)
        elif full in flat.nodes:
            raise ValueError(f"graph must have one node of a name; got {full!r} twice")
        else:
            flat.nodes[full], flat.before[full] = node, []
    seen = set()
    for edge in graph.edges:
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise TypeError(f"edges of {where} must be pairs of names; got {edge!r:.80}")
        source, target = edge
        for name in edge:
            if name not in graph.nodes:
                raise ValueError(f"edges of {where} must join its nodes; got {edge!r}, without node {name!r}")
        if (source, target) in seen:
            raise ValueError(
                f"edges of {where} must differ, since readers disagree whether equal ones add up; got "
                f"{edge!r} twice"
            )
        seen.add((source, target))
        flat.before[_end(graph, target, prefix, "Input")].append(_end(graph, source, prefix, "Output"))


def _end(graph: Any, name: str, prefix: str, kind: str) -> str:
    """Return the flat name of the node where an edge ends or begins: the Input or Output of a graph."""
    full, node = f"{prefix}{name}", graph.nodes[name]
    while kind_of(node) == "NIRGraph":
        ends = [inner for inner, one in node.nodes.items() if kind_of(one) == kind]
        if len(ends) != 1:
            raise ValueError(
                f"graph {full!r} must have one {kind} for the edges that it is an end of; got {len(ends)}"
            )
        full, node = f"{full}.{ends[0]}", node.nodes[ends[0]]
    return full
