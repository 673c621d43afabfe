"""A NIR graph as it came: sub-graphs made flat, edges checked, nodes in an order to work through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from snn.base import checks
from snn.base.extras import require

DEEPEST = 32
"""Levels of graphs within graphs: more is a graph that contains itself."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatGraph:
    """Nodes by name, and for each the names of the nodes before it.

    Attributes
    ----------
    nodes : dict of str to nir.NIRNode
        Without graphs; a node of a graph within the graph is named "graph.node".
    before : dict of str to list of str
        The nodes with an edge into each.
    """

    nodes: dict[str, Any]
    before: dict[str, list[str]]

    def kind(self, name: str) -> str:
        """Return the kind of a node, the name of its class."""
        return kind_of(self.nodes[name])


def kind_of(node: Any) -> str:
    """Return the kind of a NIR node: the name of its class, as in files."""
    return type(node).__name__


def flat_graph(graph: Any) -> FlatGraph:
    """Return the nodes and edges of a graph, those of graphs within it included.

    Raises
    ------
    TypeError, ValueError
        If it is not a graph of NIR, or its edges do not join its nodes.
    """
    nir = require("nir", extra="nir")
    checks.instance_of("graph", graph, nir.NIRGraph)
    nodes: dict[str, Any] = {}
    before: dict[str, list[str]] = {}
    _add(nir, graph, "", nodes, before, 0)
    return FlatGraph(nodes=nodes, before=before)


def require_not_adapted(graph: Any, *, where: str = "graph") -> None:
    """Raise ValueError if the numbers of a graph are those for one reader, as `for_reader` scales them.

    Parameters
    ----------
    graph : nir.NIRGraph
        The graph.
    where : str, default "graph"
        What an error calls it.
    """
    if isinstance(graph.metadata, dict) and "reader" in graph.metadata:
        raise ValueError(
            f"{where} must have the numbers that NIR says; got one that for_reader has scaled for "
            f"{graph.metadata['reader']!r}: pass the graph that it was made from"
        )


def in_order(graph: FlatGraph, roots: Iterable[str]) -> list[str]:
    """Return all nodes, each after those before it; what is before a root does not count.

    Raises
    ------
    ValueError
        If there is a loop without a root.
    """
    roots = set(roots)
    dependencies = {name: () if name in roots else graph.before[name] for name in graph.nodes}
    try:
        return list(TopologicalSorter(dependencies).static_order())
    except CycleError as error:
        raise ValueError(
            f"graph must have a spiking node, nir.IF, in each of its loops; got {' -> '.join(error.args[1])}"
        ) from None


def _add(
    nir: Any, graph: Any, prefix: str, nodes: dict[str, Any], before: dict[str, list[str]], depth: int
) -> None:
    """Add the nodes and edges of a graph, under names that begin with `prefix`."""
    if depth > DEEPEST:
        raise ValueError(f"graph must not have more than {DEEPEST} graphs within one another")
    where = f"graph {prefix[:-1]!r}" if prefix else "graph"
    require_not_adapted(graph, where=where)
    if not isinstance(graph.nodes, dict) or not graph.nodes:
        raise ValueError(f"{where} must have nodes, in a dict by name; got {graph.nodes!r:.80}")
    for name, node in graph.nodes.items():
        full = f"{prefix}{name}"
        checks.instance_of(f"node {full!r}", node, nir.NIRNode)
        if kind_of(node) == "NIRGraph":
            _add(nir, node, f"{full}.", nodes, before, depth + 1)
            continue
        if full in nodes:
            raise ValueError(f"graph must have one node of a name; got {full!r} twice")
        nodes[full] = node
        before[full] = []
    seen = set()
    for edge in graph.edges:
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise TypeError(f"edges of {where} must be pairs of names; got {edge!r:.80}")
        source, target = edge
        for name in (source, target):
            if name not in graph.nodes:
                raise ValueError(f"edges of {where} must join its nodes; got {edge!r}, without node {name!r}")
        if (source, target) in seen:
            raise ValueError(
                f"edges of {where} must differ, since readers disagree whether equal ones add up; got "
                f"{edge!r} twice"
            )
        seen.add((source, target))
        before[_end(graph, target, prefix, "Input")].append(_end(graph, source, prefix, "Output"))


def _end(graph: Any, name: str, prefix: str, kind: str) -> str:
    """Return the flat name of the node at the end of an edge: in a graph within the graph, of its `kind`."""
    full, node = f"{prefix}{name}", graph.nodes[name]
    while kind_of(node) == "NIRGraph":
        ends = [inner for inner, one in node.nodes.items() if kind_of(one) == kind]
        if len(ends) != 1:
            raise ValueError(
                f"graph {full!r} must have one {kind} for the edges that it is an end of; got {len(ends)}"
            )
        full, node = f"{full}.{ends[0]}", node.nodes[ends[0]]
    return full
