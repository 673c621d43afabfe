"""Graphs that other programs made are read, or are refused with a sentence that says why."""

# ruff: noqa: E501 - a case a line reads better

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from snn import SpikingNetwork
from snn.exchange import from_nir, to_nir
from tests.reference.networks import random_network
from tests.tiers import examples

W = np.array([[0.0, -0.5, 0.25], [0.4, 0.0, -1.0], [-0.125, 0.3, 0.0]])  # [source, target]
BIAS = np.array([0.5, 1.0, 0.75])
THETA = np.array([1.0, 1.5, 2.0])
ONES = np.ones(3)


def neurons(threshold, **changes):
    threshold = np.asarray(threshold, dtype=float)
    values = {"r": np.ones(threshold.shape), "v_reset": np.zeros(threshold.shape), **changes}
    return nir.IF(v_threshold=threshold, **values)


def synapses(shape, **changes):
    values = {"tau": np.ones(shape), "r": np.ones(shape), "v_leak": np.zeros(shape), **changes}
    return nir.LI(**values)


def network_graph(weights, bias, threshold, *, before=None, **changes):
    """Return a graph like those of `to_nir`, built by hand from weights [source, target].

    `before` is a node between IF and LI; `changes` replace or add nodes.
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
    for name, node in (("before", before), ("li", nodes["li"]), ("w", nodes["w"])):
        if node is not None:
            nodes[name] = node
            loop.append(name)
    nodes.update(changes)
    edges = list(zip(loop, [*loop[1:], "cells"], strict=True))
    edges += [("in", "drive"), ("drive", "cells"), ("cells", "out")]
    return nir.NIRGraph(nodes=nodes, edges=edges)


def require(graph, *, weights=W, bias=BIAS, threshold=THETA, time_constant=1.0, **options):
    came = from_nir(graph, **options)
    np.testing.assert_allclose(came.network.weights.toarray(), weights, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(came.network.soma_bias, bias, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(came.network.firing_threshold, threshold)
    assert came.time_constant == time_constant
    return came


# -- taken --


def unchecked(nodes, edges):
    return nir.NIRGraph(nodes=nodes, edges=edges, type_check=False)


def and_nodes(edges=(), weights=W, **nodes):
    """Return the graph with additional nodes and edges."""
    graph = network_graph(weights, BIAS, THETA)
    return unchecked({**graph.nodes, **nodes}, [*graph.edges, *edges])


def of_integers():
    graph = network_graph(W, BIAS, THETA)
    graph.nodes["w"].weight = W.T.astype(np.float32)
    graph.nodes["cells"].v_threshold = np.array([1, 2, 3])
    return graph


def of_numbers(**changes):
    """Return the graph with parameters that are single numbers, valid for all neurons."""
    graph = network_graph(W, BIAS, 2.0 * ONES)
    parameters = {
        "cells": {"v_threshold": np.float32(2.0), "r": 1.0, "v_reset": 0},
        "li": {"tau": np.array(1.0), "r": 1, "v_leak": 0.0},
        "w": {"bias": 0.0},
    }
    for name, values in parameters.items():
        vars(graph.nodes[name]).update(values | changes.get(name, {}))
    return graph


EXTRA, RING = np.array([0.25, -0.5, 1.0]), np.roll(np.eye(3), 1, axis=1)
TAKEN = {
    "by hand": (network_graph(W, BIAS, THETA), {}),
    "Linear": (network_graph(W, BIAS, THETA, w=nir.Linear(W.T.copy())), {}),
    "a bias behind the synapses": (network_graph(W, BIAS, THETA, w=nir.Affine(W.T.copy(), EXTRA)), {"bias": BIAS + EXTRA}),
    # The graph's drive is per unit of the graph's time; in units of tau it is tau times as large.
    "a time constant": (
        network_graph(W, BIAS, THETA, li=synapses(3, tau=np.full(3, 0.25))), {"bias": 0.25 * BIAS, "time_constant": 0.25},
    ),
    "float32 and integers": (of_integers(), {"weights": W.astype(np.float32), "threshold": [1.0, 2.0, 3.0]}),
    "numbers for all": (of_numbers(), {"threshold": 2.0 * ONES}),
    "a number for all, thresholds for each": (of_numbers(cells={"v_threshold": THETA}), {}),
    "a threshold for all, the others for each": (of_numbers(cells={"r": ONES, "v_reset": 0 * ONES}), {"threshold": 2.0 * ONES}),
    "edges add up": (
        and_nodes([("li", "second"), ("second", "cells"), ("in", "more"), ("more", "cells")],
                  second=nir.Linear(RING.T.copy()), more=nir.Affine(np.zeros((3, 1)), EXTRA)),
        {"weights": W + RING, "bias": BIAS + EXTRA},
    ),
    "a filter of the output": (
        and_nodes([("cells", "trace"), ("trace", "read"), ("read", "out")], trace=synapses(3), read=nir.Linear(np.eye(3))), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("graph", "expected"), TAKEN.values(), ids=TAKEN)
def test_these_are_the_network(graph, expected):
    """The order of nodes and edges does not matter."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        names, order = rng.permutation(list(graph.nodes)), rng.permutation(len(graph.edges))
        nodes = {str(name): graph.nodes[str(name)] for name in names}
        came = require(unchecked(nodes, [graph.edges[i] for i in order]), **expected)
        np.testing.assert_array_equal(came.populations["cells"], [0, 1, 2])


def convolved(image, kernel, stride, padding, bias):
    """Return a convolution as sums that are written out."""
    padded = np.pad(image, [(0, 0), *((p, p) for p in padding)])
    sides = [(n - k) // s + 1 for n, k, s in zip(padded.shape[1:], kernel.shape[2:], stride, strict=True)]
    result = np.empty((len(kernel), *sides))
    for target, i, j in np.ndindex(result.shape):
        rows, columns = (
            slice(s * k, s * k + side) for s, k, side in zip(stride, (i, j), kernel.shape[2:], strict=True)
        )
        result[target, i, j] = bias[target] + np.sum(kernel[target] * padded[:, rows, columns])
    return result


@pytest.mark.property
@examples(25)
@given(seed=st.integers(0, 2**32))
def test_convolutions_of_inputs_are_sums(seed):
    rng = np.random.default_rng(seed)
    stride, padding = (tuple(rng.integers(low, low + 2, 2).tolist()) for low in (1, 0))
    kernel = rng.standard_normal((rng.integers(1, 3), rng.integers(1, 3), *rng.integers(1, 4, 2)))
    shape = kernel.shape[1], *rng.integers(5, 7, 2).tolist()
    image, bias = rng.standard_normal(shape), rng.standard_normal(len(kernel))
    expected = convolved(image, kernel, stride, padding, bias)
    nodes = {
        "image": nir.Input(np.array(shape)),
        "conv": nir.Conv2d(shape[1:], kernel, stride, padding, 1, 1, bias),
        "cells": neurons(np.ones(expected.shape)),
    }
    # NIR 1.0.8 infers shapes only for convolutions with square kernels.
    came = from_nir(unchecked(nodes, pairwise(nodes)), signal=image)
    found = came.network.soma_bias[came.populations["cells"]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


# -- refused --


def with_cells(node):
    return network_graph(W, BIAS, THETA, cells=node)


def with_values(name, **values):
    """Return the graph with parameters that the constructor of NIR's node would refuse."""
    graph = network_graph(W, BIAS, THETA)
    for what, value in values.items():
        setattr(graph.nodes[name], what, value)
    return graph


def with_edges(*edges):
    graph = network_graph(W, BIAS, THETA)
    return unchecked(graph.nodes, [*graph.edges, *edges])


def contains_itself():
    graph = network_graph(W, BIAS, THETA)
    graph.nodes["self"] = graph
    return graph


THREE = {"tau": ONES, "r": ONES, "v_leak": 0 * ONES}
REFUSED = [
    (lambda: "graph.nir", TypeError, "graph"),
    (lambda: unchecked({}, []), ValueError, "graph"),
    (lambda: unchecked({"a": nir.Input(np.array([3]))}, []), ValueError, "graph"),
    (lambda: unchecked({"a": 3}, []), TypeError, "node 'a'"),
    (lambda: with_edges(("cells", "nowhere")), ValueError, "edges of graph"),
    (lambda: with_edges(("cells",)), TypeError, "edges of graph"),
    (lambda: with_edges(("li", "w")), ValueError, "edges of graph"),
    (contains_itself, ValueError, "node 'self'"),
    (lambda: with_cells(nir.LIF(v_threshold=THETA, **THREE)), ValueError, "node 'cells'"),
    (lambda: with_cells(neurons(THETA, v_reset=-ONES)), ValueError, "v_reset of node 'cells'"),
    (lambda: with_cells(neurons([1.0, 0.0, 1.0])), ValueError, "v_threshold of node 'cells'"),
    (lambda: with_values("cells", v_threshold=np.array(["a", "b", "c"])), TypeError, "v_threshold of node 'cells'"),
    (lambda: with_values("w", weight=np.ones((3, 3, 3))), ValueError, "weight of node 'w'"),
    (lambda: with_values("w", weight=np.zeros((3, 0))), ValueError, "weight of node 'w'"),
    (lambda: with_values("cells", r=np.ones(2)), ValueError, "r of node 'cells'"),
    (lambda: network_graph(W, BIAS, THETA, li=synapses(3, v_leak=ONES)), ValueError, "v_leak of node 'li'"),
    (lambda: network_graph(W, BIAS, THETA, li=synapses(3, tau=np.array([1.0, 2.0, 1.0]))), ValueError, "tau of LI nodes"),
    (lambda: network_graph(W, BIAS, THETA, li=synapses(3, r=2 * ONES)), ValueError, "r of node 'li'"),
    (lambda: with_cells(neurons(THETA, r=0.5 * ONES)), ValueError, "r of node 'cells'"),
    (lambda: and_nodes(other=nir.Input(np.array([2]))), ValueError, "graph must have one node"),
    (lambda: network_graph(W, BIAS, THETA, li=synapses(3, tau=-ONES)), ValueError, "tau of node 'li'"),
    (lambda: network_graph(W, BIAS, THETA, before=synapses(3)), ValueError, "node 'li'"),
    (lambda: network_graph(W, BIAS, THETA, before=nir.Affine(np.eye(3), ONES)), ValueError, "node 'before'"),
    (lambda: with_edges(("cells", "w")), ValueError, "node 'w'"),
    (lambda: with_edges(("in", "li")), ValueError, "node 'li'"),
    (lambda: with_edges(("li", "cells")), ValueError, "node 'cells'"),
    (lambda: network_graph(W + np.diag([0.0, 2.0, 0.0]), BIAS, THETA), ValueError, "weights"),
    (lambda: with_edges(("w", "w")), ValueError, "node 'w'"),
    (lambda: of_numbers(cells={"v_threshold": -1.0}), ValueError, "v_threshold of node 'cells'"),
    (lambda: of_numbers(cells={"r": 2.0}), ValueError, "r of node 'cells'"),
    (lambda: of_numbers(li={"r": np.ones(2)}), ValueError, "node 'li'"),
    (lambda: of_numbers(w={"weight": 1.0}), ValueError, "weight of node 'w'"),
    (lambda: with_values("w", weight=np.ones((3, 4))), ValueError, "node 'w'"),
    (lambda: with_values("w", weight=np.full((3, 3), np.inf)), ValueError, "weight of node 'w'"),
    (lambda: with_values("w", bias=np.ones(2)), ValueError, "bias of node 'w'"),
    (lambda: with_values("w", weight=1e300 * W.T), ValueError, "weights"),
    (lambda: with_values("drive", weight=np.ones((3, 1))), ValueError, "signal"),
    (lambda: with_values("in", input_type={"input": np.array([0])}), ValueError, "input_type of node 'in'"),
    (lambda: and_nodes([("cells", "slow"), ("slow", "w")], slow=synapses(3, tau=2 * ONES)), ValueError, "tau of LI nodes"),
    *((lambda node=node: and_nodes([("cells", "other")], other=node), ValueError, "node 'other'") for node in (
        nir.Delay(ONES), nir.I(ONES), nir.Threshold(ONES), nir.CubaLI(tau_syn=ONES, tau_mem=ONES, r=ONES, v_leak=0 * ONES),
        nir.CubaLIF(tau_syn=ONES, tau_mem=ONES, r=ONES, v_leak=0 * ONES, v_threshold=THETA),
    )),
    *((lambda changes=changes: convolution(**changes), ValueError, name) for name, changes in (
        ("stride of node 'conv'", {"stride": np.array([0, 1])}), ("padding of node 'conv'", {"padding": np.array([1, 1, 1])}),
        ("dilation of node 'conv'", {"dilation": 1.5}), ("node 'conv'", {"groups": 2}),
        ("node 'conv'", {"weight": np.ones((1, 1, 9, 3))}), ("weight of node 'conv'", {"weight": np.ones((1, 1, 3))}),
        ("padding of node 'conv'", {"padding": "same", "stride": (2, 2)}), ("node 'conv'", {"weight": np.ones((1, 2, 3, 3))}),
    )),
]  # fmt: skip


def convolution(**changes):
    """Return a graph with one convolution, whose fields may be changed to wrong values."""
    conv = nir.Conv2d((3, 3), np.ones((1, 1, 3, 3)), 1, 1, 1, 1, np.zeros(1))
    vars(conv).update(changes)
    nodes = {"image": nir.Input(np.array([1, 3, 3])), "conv": conv, "cells": neurons(np.ones((1, 3, 3)))}
    return unchecked(nodes, [("image", "conv"), ("conv", "cells")])


WRONG_OPTIONS = [
    ({"signal": [1.0, 2.0]}, ValueError, "signal"),
    ({"signal": "light"}, TypeError, "signal"),
    ({"signal": [np.nan]}, ValueError, "signal"),
    *(({"graph": make}, *refusal) for make, *refusal in REFUSED),
]


@pytest.mark.parametrize(("options", "error", "name"), WRONG_OPTIONS)
def test_what_this_neuron_cannot_be_is_refused_by_name(options, error, name):
    options = {"graph": network_graph(W, BIAS, THETA), **options}
    if callable(options["graph"]):
        options["graph"] = options["graph"]()
    with pytest.raises(error, match="^" + re.escape(name)) as caught:
        from_nir(**options)
    assert "\n" not in str(caught.value)


# -- fuzz --

JUNK = [None, 3, -1.0, "x", np.nan, [], {}, np.zeros(0), np.array([[1.0, np.inf]]), np.array([1, 2], object), object()]  # fmt: skip


def damage(rng, graph):
    """Damage one part of a graph: a parameter, an edge, or a node."""
    name, kind = str(rng.choice(list(graph.nodes))), rng.integers(5)
    junk = JUNK[rng.integers(len(JUNK))]
    if kind == 0 and isinstance(graph.nodes[name], nir.NIRNode):
        fields = sorted(vars(graph.nodes[name]).keys() - {"metadata"})
        setattr(graph.nodes[name], fields[rng.integers(len(fields))], junk)
    elif kind == 1:
        graph.edges.append((name, str(rng.choice(list(graph.nodes)))))
    elif kind == 2:
        graph.edges.pop(rng.integers(len(graph.edges)))
    elif kind == 3:
        del graph.nodes[name]
    else:
        others = neurons(THETA), synapses(3), nir.Linear(np.ones((3, 3))), nir.Scale(ONES), junk
        graph.nodes[name] = others[rng.integers(5)]


def test_damaged_graphs_end_in_one_sentence_or_a_network():
    outcomes = {"network": 0, "refused": 0}
    for seed in range(600):
        rng = np.random.default_rng(seed)
        graph = to_nir(random_network(rng, 3)) if seed % 2 else network_graph(W, BIAS, THETA)
        for _ in range(rng.integers(1, 4)):
            if graph.nodes and graph.edges:
                damage(rng, graph)
        try:
            came = from_nir(graph)
        except (TypeError, ValueError) as error:
            if "\n" in str(error) or " must " not in str(error):
                raise
            outcomes["refused"] += 1
        else:
            assert isinstance(came.network, SpikingNetwork)
            outcomes["network"] += 1
    assert min(outcomes.values()) > 30, outcomes
