"""NIR graphs to test on; this module is imported where NIR is installed."""

from itertools import pairwise

import nir
import numpy as np


def chain(*nodes, **named):
    """Return the graph of some named nodes, each behind the one before."""
    names = list(named)
    return nir.NIRGraph(nodes=named, edges=list(pairwise(names)))


def neurons(threshold, **changes):
    threshold = np.asarray(threshold, dtype=float)
    values = {"r": np.ones(threshold.shape), "v_reset": np.zeros(threshold.shape), **changes}
    return nir.IF(v_threshold=threshold, **values)


def synapses(shape, **changes):
    values = {"tau": np.ones(shape), "r": np.ones(shape), "v_leak": np.zeros(shape), **changes}
    return nir.LI(**values)


def network_graph(weights, bias, threshold, *, before=None, between=None, behind=None, **changes):
    """Return a graph as `to_nir` makes it, by hand, with nodes replaced or put in where tests want them.

    Parameters
    ----------
    weights : array_like, shape (n, n)
        [source, target].
    before, between, behind : nir.NIRNode, optional
        A node between IF and LI, between LI and the weights, and behind the weights.
    changes : nir.NIRNode
        Nodes that replace others, by name, or new ones.
    """
    weights = np.asarray(weights, dtype=float)
    n = len(weights)
    nodes = {
        "in": nir.Input(np.array([1])),
        "drive": nir.Affine(np.zeros((n, 1)), np.asarray(bias, dtype=float)),
        "cells": neurons(threshold),
        "li": synapses((n,)),
        "w": nir.Affine(weights.T.copy(), np.zeros(n)),
        "out": nir.Output(np.array([n])),
    }
    loop = ["cells"]
    for name, node in (("before", before), ("li", nodes["li"]), ("between", between), ("w", nodes["w"])):
        if node is not None:
            nodes[name] = node
            loop.append(name)
    if behind is not None:
        nodes["behind"] = behind
        loop.append("behind")
    nodes.update(changes)
    edges = list(zip(loop, [*loop[1:], "cells"], strict=True))
    edges += [("in", "drive"), ("drive", "cells"), ("cells", "out")]
    return nir.NIRGraph(nodes=nodes, edges=edges)
