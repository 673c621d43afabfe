"""Graphs that others made: what is taken, what is refused, and the sentence that says why."""

# ruff: noqa: E501 - a case a line reads better

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from snn import SpikingNetwork, simulate
from snn.exchange import from_nir, to_nir
from tests.reference.networks import random_network, random_weights
from tests.snn.exchange.graphs import chain, network_graph, neurons, synapses

W = np.array([[0.0, -0.5, 0.25], [0.4, 0.0, -1.0], [-0.125, 0.3, 0.0]])  # [source, target]
BIAS = np.array([0.5, 1.0, 0.75])
THETA = np.array([1.0, 1.5, 2.0])
ONES = np.ones(3)


def require(graph, *, weights=W, bias=BIAS, threshold=THETA, time_constant=1.0, **options):
    came = from_nir(graph, **options)
    np.testing.assert_allclose(came.network.weights.toarray(), weights, rtol=1e-15, atol=0)
    np.testing.assert_allclose(came.network.soma_bias, bias, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(came.network.firing_threshold, threshold)
    assert came.time_constant == time_constant
    return came


# -- taken --


def test_a_graph_made_by_hand():
    came = require(network_graph(W, BIAS, THETA))
    np.testing.assert_array_equal(came.populations["cells"], [0, 1, 2])
    assert came.ignored == ()


@pytest.mark.parametrize("seed", range(5))
def test_order_of_nodes_and_edges_does_not_matter(seed):
    graph, rng = network_graph(W, BIAS, THETA), np.random.default_rng(seed)
    names = rng.permutation(list(graph.nodes))
    edges = [graph.edges[i] for i in rng.permutation(len(graph.edges))]
    require(nir.NIRGraph(nodes={str(n): graph.nodes[str(n)] for n in names}, edges=edges))


def test_linear_in_place_of_affine():
    require(network_graph(W, BIAS, THETA, w=nir.Linear(W.T.copy())))


def test_weights_before_the_synapses():
    """Spikes, weights, LI: the order does not matter, as both are linear and all LI have one tau."""
    nodes = {
        "drive": nir.Affine(np.zeros((3, 1)), BIAS),
        "cells": neurons(THETA),
        "w": nir.Affine(W.T.copy(), np.zeros(3)),
        "li": synapses(3),
    }
    edges = [("drive", "cells"), ("cells", "w"), ("w", "li"), ("li", "cells")]
    require(nir.NIRGraph(nodes=nodes, edges=edges, type_check=False))


def test_bias_behind_the_synapses_is_a_drive():
    extra = np.array([0.25, -0.5, 1.0])
    require(network_graph(W, BIAS, THETA, w=nir.Affine(W.T.copy(), extra)), bias=BIAS + extra)


def test_a_chain_of_linear_nodes():
    rng = np.random.default_rng(2)
    down, up = rng.standard_normal((2, 3)), rng.standard_normal((3, 2))
    product = up @ down
    # Of low rank, but nothing to itself: what is missing goes another way.
    graph = network_graph(-np.diag(np.diag(product)), BIAS, THETA)
    nodes = {**graph.nodes, "down": nir.Linear(down), "up": nir.Linear(up)}
    edges = [*graph.edges, ("li", "down"), ("down", "up"), ("up", "cells")]
    require_close(nir.NIRGraph(nodes=nodes, edges=edges), (product - np.diag(np.diag(product))).T)


def require_close(graph, weights):
    came = from_nir(graph).network.weights.toarray()
    np.testing.assert_allclose(came, weights, rtol=0, atol=1e-15)


def test_edges_into_one_node_add_up():
    graph = network_graph(W, BIAS, THETA)
    other = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    nodes = {
        **graph.nodes,
        "second": nir.Linear(other.T.copy()),
        "more": nir.Affine(np.zeros((3, 1)), np.array([0.25, 0.0, 0.0])),
    }
    edges = [*graph.edges, ("li", "second"), ("second", "cells"), ("in", "more"), ("more", "cells")]
    require(nir.NIRGraph(nodes=nodes, edges=edges), weights=W + other, bias=BIAS + np.array([0.25, 0.0, 0.0]))


def test_resistances_are_factors():
    r_neuron, r_synapse = np.array([2.0, 0.5, 1.0]), np.array([1.0, 3.0, 0.25])
    graph = network_graph(W, BIAS, THETA, cells=neurons(THETA, r=r_neuron), li=synapses(3, r=r_synapse))
    require(graph, weights=r_synapse[:, np.newaxis] * W * r_neuron, bias=r_neuron * BIAS)


def test_one_time_constant_becomes_the_unit_of_time():
    """dv/dt = beta in the graph's unit of time: tau beta in units of tau."""
    graph = network_graph(W, BIAS, THETA, li=synapses(3, tau=np.full(3, 0.25)))
    require(graph, bias=0.25 * BIAS, time_constant=0.25)


def test_float32_and_integer_parameters():
    graph = network_graph(W, BIAS, THETA)
    graph.nodes["w"].weight = W.T.astype(np.float32)
    graph.nodes["cells"].v_threshold = np.array([1, 2, 3])
    require(graph, weights=W.astype(np.float32).astype(float), threshold=[1.0, 2.0, 3.0])


def test_graphs_within_the_graph():
    """The loop of IF, LI and weights as a graph of its own, two levels deep."""
    inner = network_graph(W, np.zeros(3), THETA)
    nodes = {"into": nir.Input(np.array([3])), **{n: inner.nodes[n] for n in ("cells", "li", "w", "out")}}
    edges = [("into", "cells"), ("cells", "li"), ("li", "w"), ("w", "cells"), ("cells", "out")]
    middle = chain(
        start=nir.Input(np.array([3])),
        inner=nir.NIRGraph(nodes=nodes, edges=edges),
        stop=nir.Output(np.array([3])),
    )
    outer = chain(
        image=nir.Input(np.array([2])),
        drive=nir.Affine(np.eye(3, 2), BIAS),
        middle=middle,
        end=nir.Output(np.array([3])),
    )
    came = require(outer, signal=[0.5, 0.25], bias=BIAS + np.array([0.5, 0.25, 0.0]))
    assert list(came.populations) == ["middle.inner.cells"]


def test_convolution_with_all_its_options():
    """Stride, padding, dilation and groups, from an image to neurons, against sums written out."""
    rng = np.random.default_rng(3)
    kernel, bias = rng.standard_normal((4, 3, 2, 2)), rng.standard_normal(4)
    image = rng.standard_normal((6, 5, 7))
    nodes = {
        "image": nir.Input(np.array([6, 5, 7])),
        "conv": nir.Conv2d((5, 7), kernel, (2, 1), (1, 2), (3, 2), 2, bias),
        "cells": neurons(np.ones((4, 2, 9))),
    }
    # NIR 1.0.8 infers the shapes of convolutions without groups, and of square kernels, alone.
    graph = unchecked(nodes, [("image", "conv"), ("conv", "cells")])
    padded = np.pad(image, ((0, 0), (1, 1), (2, 2)))
    expected = np.empty((4, 2, 9))
    for target, i, j in np.ndindex(expected.shape):
        first = 3 * (target // 2)
        patch = padded[first : first + 3, 2 * i : 2 * i + 4 : 3, j : j + 3 : 2]
        expected[target, i, j] = bias[target] + np.sum(kernel[target] * patch)
    came = from_nir(graph, signal=image)
    np.testing.assert_allclose(
        came.network.soma_bias[came.populations["cells"]], expected, rtol=0, atol=1e-12
    )


def test_convolution_between_two_populations():
    """It becomes sparse weights: against the same convolution of one spike after the other."""
    rng = np.random.default_rng(4)
    kernel = rng.standard_normal((2, 3, 3, 3))
    conv = nir.Conv2d((4, 5), kernel, 1, "same", 1, 1, np.zeros(2))
    first, second = neurons(np.ones((3, 4, 5))), neurons(np.ones((2, 4, 5)))
    names = ["image", "first", "li", "conv", "second"]
    nodes = [nir.Input(np.array([3, 4, 5])), first, synapses((3, 4, 5)), conv, second]
    graph = nir.NIRGraph(nodes=dict(zip(names, nodes, strict=True)), edges=list(pairwise(names)))
    came = from_nir(graph, signal=np.zeros(60))
    weights = came.network.weights.toarray()
    for channel, row, column in np.ndindex(3, 4, 5):
        spike = np.zeros((3, 6, 7))
        spike[channel, row + 1, column + 1] = 1.0
        source = came.populations["first"][channel, row, column]
        for target, i, j in np.ndindex(2, 4, 5):
            expected = np.sum(kernel[target] * spike[:, i : i + 3, j : j + 3])
            assert weights[source, came.populations["second"][target, i, j]] == expected
    assert sparse.issparse(sparse.csr_array(weights))
    assert not weights[came.populations["second"].ravel()].any()


def test_several_inputs_by_name():
    graph = network_graph(W, BIAS, THETA)
    nodes = {**graph.nodes, "other": nir.Input(np.array([2])), "u": nir.Linear(np.ones((3, 2)))}
    graph = nir.NIRGraph(nodes=nodes, edges=[*graph.edges, ("other", "u"), ("u", "cells")])
    require(graph, signal={"other": [1.0, 2.0]}, bias=BIAS + 3.0)


def test_filter_of_the_output_is_left_out_and_named():
    graph = network_graph(W, BIAS, THETA)
    nodes = {**graph.nodes, "trace": synapses(3, tau=np.full(3, 7.0)), "read": nir.Linear(np.ones((1, 3)))}
    graph = nir.NIRGraph(nodes=nodes, edges=[*graph.edges, ("cells", "trace"), ("trace", "read")])
    assert set(require(graph).ignored) == {"trace", "read"}


def test_spikes_are_those_of_the_network_by_hand():
    came = from_nir(network_graph(W, BIAS, THETA)).network
    ours = simulate(SpikingNetwork(W, BIAS, THETA), 20.0, record_spikes=True).spikes
    theirs = simulate(came, 20.0, record_spikes=True).spikes
    np.testing.assert_array_equal(ours.times, theirs.times)
    np.testing.assert_array_equal(ours.neurons, theirs.neurons)


# -- refused --


def unchecked(nodes, edges):
    return nir.NIRGraph(nodes=nodes, edges=edges, type_check=False)


def with_cells(node):
    return network_graph(W, BIAS, THETA, cells=node)


def with_values(name, **values):
    """The graph with parameters that the constructor would refuse."""
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
    (lambda: "graph.nir", TypeError, "graph must be an NIRGraph; got str"),
    (lambda: neurons(THETA), TypeError, "graph must be an NIRGraph; got IF"),
    (lambda: unchecked({}, []), ValueError, "graph must have nodes, in a dict by name; got {}"),
    (lambda: chain(a=nir.Input(np.array([3])), b=nir.Output(np.array([3]))), ValueError, "graph must have a spiking node, nir.IF; got Input, Output"),
    (lambda: unchecked({"a": 3}, []), TypeError, "node 'a' must be an NIRNode; got int"),
    (lambda: with_edges(("cells", "nowhere")), ValueError, "edges of graph must join its nodes; got ('cells', 'nowhere'), without node 'nowhere'"),
    (lambda: with_edges(("cells",)), TypeError, "edges of graph must be pairs of names; got ('cells',)"),
    (lambda: with_edges(("li", "w")), ValueError, "edges of graph must differ, since readers disagree whether equal ones add up; got ('li', 'w') twice"),
    (contains_itself, ValueError, "graph must not have more than 32 graphs within one another"),
    (lambda: with_cells(nir.LIF(v_threshold=THETA, **THREE)), ValueError, "node 'cells' must not be a LIF: its membrane potential leaks"),
    (lambda: with_cells(nir.CubaLIF(tau_syn=ONES, tau_mem=ONES, r=ONES, v_leak=0 * ONES, v_threshold=THETA)), ValueError, "node 'cells' must not be a CubaLIF: its membrane potential leaks"),
    (lambda: network_graph(W, BIAS, THETA, li=nir.CubaLI(tau_syn=ONES, tau_mem=ONES, r=ONES, v_leak=0 * ONES)), ValueError, "node 'li' must not be a CubaLI: it filters spikes twice"),
    (lambda: network_graph(W, BIAS, THETA, before=nir.Delay(ONES)), ValueError, "node 'before' must not be a Delay: spikes act at once here"),
    (lambda: network_graph(W, BIAS, THETA, li=nir.I(ONES)), ValueError, "node 'li' must not be a I: it integrates and never fires"),
    (lambda: network_graph(W, BIAS, THETA, behind=nir.Threshold(ONES)), ValueError, "node 'behind' must not be a Threshold: it fires without a reset"),
    (lambda: with_cells(neurons(THETA, v_reset=-ONES)), ValueError, "v_reset of node 'cells' must be zero; got -1.0: neurons here are reset to zero and start at zero"),
    (lambda: with_cells(neurons([1.0, 0.0, 1.0])), ValueError, "v_threshold of node 'cells' must be positive; got 0.0"),
    (lambda: with_cells(neurons([1.0, np.nan, 1.0])), ValueError, "v_threshold of node 'cells' must be finite; got nan at [1]"),
    (lambda: with_values("cells", r=np.ones(2)), ValueError, "r of node 'cells' must have shape (3,), as v_threshold; got shape (2,)"),
    (lambda: with_values("cells", v_threshold=np.array(["a", "b", "c"])), TypeError, "v_threshold of node 'cells' must be an array of real numbers"),
    (lambda: network_graph(W, BIAS, THETA, li=synapses(3, v_leak=ONES)), ValueError, "v_leak of node 'li' must be zero; got 1.0"),
    (lambda: network_graph(W, BIAS, THETA, li=synapses(3, tau=np.array([1.0, 2.0, 1.0]))), ValueError, "tau of node 'li' must be one positive number for all synapses; got 1.0 to 2.0"),
    (lambda: network_graph(W, BIAS, THETA, li=synapses(3, tau=-ONES)), ValueError, "tau of node 'li' must be one positive number for all synapses"),
    (lambda: network_graph(W, BIAS, THETA, before=synapses(3)), ValueError, "node 'li' must get spikes that no other LI has filtered; got those of ['cells']"),
    (lambda: network_graph(W, BIAS, THETA, before=nir.Affine(np.eye(3), ONES)), ValueError, "node 'li' must get spikes of neurons and nothing else; got a constant"),
    (lambda: with_edges(("cells", "w")), ValueError, "node 'cells' must get spikes through a leaky integrator, nir.LI; got those of ['cells'] as they are"),
    (lambda: with_edges(("in", "li")), ValueError, "node 'li' must get values of one length from all nodes before it; got 3 and, from 'in', 1"),
    (lambda: with_edges(("li", "cells")), ValueError, "node 'cells' must not reach its own neurons, only others; got a weight of 1.0 from element 0 to itself"),
    (lambda: network_graph(W + np.diag([0.0, 2.0, 0.0]), BIAS, THETA), ValueError, "node 'cells' must not reach its own neurons, only others; got a weight of 2.0 from element 1 to itself"),
    (lambda: with_edges(("w", "w")), ValueError, "graph must have a spiking node, nir.IF, in each of its loops; got w -> w"),
    (lambda: with_values("w", weight=np.ones((3, 4))), ValueError, "node 'w' must get 4 values; got 3"),
    (lambda: with_values("w", weight=np.ones((3, 3, 3))), ValueError, "weight of node 'w' must be 2-D, (targets, sources); got shape (3, 3, 3)"),
    (lambda: with_values("w", weight=np.full((3, 3), np.inf)), ValueError, "weight of node 'w' must be finite; got inf at [0, 0]"),
    (lambda: with_values("w", weight=np.full((3, 3), 1j)), TypeError, "weight of node 'w' must be an array of real numbers; got dtype complex128"),
    (lambda: with_values("w", weight=None), TypeError, "weight of node 'w' must be"),
    (lambda: with_values("w", bias=np.ones(2)), ValueError, "bias of node 'w' must have shape (3,), one for each target; got shape (2,)"),
    (lambda: with_values("w", weight=np.zeros((3, 0))), ValueError, "weight of node 'w' must not be empty; got shape (3, 0)"),
    (lambda: with_values("w", weight=1e300 * W.T), ValueError, "weights must be at most 1.1e+12 times the firing threshold"),
    (lambda: with_values("drive", weight=np.ones((3, 1))), ValueError, "signal must be given: node 'cells' depends on the input ['in']; for none pass zeros"),
    (lambda: with_values("in", input_type={"input": np.array([0])}), ValueError, "node 'in' must have a shape of positive integers"),
    (lambda: with_values("in", input_type=None), ValueError, "node 'in' must have a shape of positive integers; got None"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[m[:60] for *_, m in REFUSED])
def test_what_this_neuron_cannot_be_is_refused(make, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        from_nir(make())
    assert "\n" not in str(caught.value)


def image_to(shape, **nodes):
    """The graph of an image of a shape, and what is behind it."""
    names = ["image", *nodes]
    return unchecked({"image": nir.Input(np.array(shape)), **nodes}, list(pairwise(names)))


def rearranged_synapses():
    nodes = {"cells": neurons(np.ones((1, 2, 3))), "li": synapses((1, 3, 2))}
    graph = network_graph(np.zeros((6, 6)), np.ones(6), np.ones(6))
    return unchecked({**graph.nodes, **nodes}, graph.edges)


def two_shapes():
    nodes = {"one": nir.Scale(np.ones((1, 2, 3))), "other": nir.Scale(np.ones((1, 3, 2)))}
    nodes = {
        "a": nir.Input(np.array([1, 2, 3])),
        "b": nir.Input(np.array([1, 3, 2])),
        **nodes,
        "cells": neurons(np.ones(6)),
    }
    return unchecked(nodes, [("a", "one"), ("b", "other"), ("one", "cells"), ("other", "cells")])


def image_in_a_graph():
    inner = chain(
        within=nir.Input(np.array([1, 4, 6])),
        cells=neurons(np.ones((1, 4, 6))),
        out=nir.Output(np.array([1, 4, 6])),
    )
    return image_to((1, 6, 4), inner=inner)


CONV = nir.Conv2d((4, 6), np.ones((1, 1, 1, 1)), 1, 0, 1, 1, np.zeros(1))


def test_two_time_constants_are_refused():
    graph = network_graph(W, BIAS, THETA)
    nodes = {**graph.nodes, "slow": synapses(3, tau=2 * ONES)}
    graph = nir.NIRGraph(nodes=nodes, edges=[*graph.edges, ("cells", "slow"), ("slow", "w")])
    with pytest.raises(ValueError, match=r"tau of node '(slow|li)' must be that of node"):
        from_nir(graph)


CONVOLUTION = {
    "input_shape": (3, 3),
    "weight": np.ones((1, 1, 3, 3)),
    "stride": 1,
    "padding": 1,
    "dilation": 1,
    "groups": 1,
    "bias": np.zeros(1),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stride": np.array([0, 1])}, "stride of node 'conv' must be one or two integers of at least 1"),
        (
            {"padding": np.array([1, 1, 1])},
            "padding of node 'conv' must be one or two integers of at least 0",
        ),
        ({"dilation": 1.5}, "dilation of node 'conv' must be one or two integers of at least 1"),
        ({"groups": 2}, "groups of node 'conv' must divide 1 channels; got 2"),
        ({"weight": np.ones((1, 1, 9, 3))}, "node 'conv' must have kernels no larger than its image"),
        ({"weight": np.ones((1, 1, 3))}, "weight of node 'conv' must be 4-D"),
        ({"padding": "same", "stride": (2, 2)}, "padding of node 'conv' must be numbers, not 'same'"),
        ({"weight": np.ones((1, 2, 3, 3))}, "node 'conv' must get 18 values; got 9"),
    ],
)
def test_convolutions_that_are_none(changes, message):
    conv = nir.Conv2d(**CONVOLUTION)
    for what, value in changes.items():
        setattr(conv, what, value)
    nodes = {"image": nir.Input(np.array([1, 3, 3])), "conv": conv, "cells": neurons(np.ones((1, 3, 3)))}
    graph = unchecked(nodes, [("image", "conv"), ("conv", "cells")])
    with pytest.raises(ValueError, match=re.escape(message)):
        from_nir(graph, signal=np.zeros(9))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"signal": [1.0, 2.0]}, ValueError, "signal must have the shape (1,) of the input 'in'; got (2,)"),
        ({"signal": "light"}, TypeError, "signal must be an array of real numbers"),
        ({"signal": [np.nan]}, ValueError, "signal must be finite"),
        ({"signal": {"sound": [1.0]}}, ValueError, "signal must be for the inputs ['in']; got 'sound'"),
        ({"order": "cells"}, TypeError, "order must be a sequence of names; got str"),
        ({"order": [1]}, TypeError, "a name in order must be a str; got int"),
        ({"order": ["cells", "li"]}, ValueError, "order must have each IF node once, ['cells']"),
    ],
)
def test_nonsense_of_other_arguments(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        from_nir(network_graph(W, BIAS, THETA), **options)


def test_one_array_for_several_inputs_is_refused():
    graph = network_graph(W, BIAS, THETA)
    nodes = {**graph.nodes, "other": nir.Input(np.array([3]))}
    graph = nir.NIRGraph(nodes=nodes, edges=[*graph.edges, ("other", "cells")])
    with pytest.raises(
        ValueError, match=r"signal must be a mapping of names to arrays for a graph with the inputs"
    ):
        from_nir(graph, signal=np.zeros(3))


# -- fuzz --

JUNK = [None, 3, -1.0, "x", b"y", np.nan, [], {}, np.zeros(0), np.array([[1.0, np.inf]]), np.array(1.0), np.array([1, 2], object), object()]  # fmt: skip


def damage(rng, graph):
    """Change one thing of a graph to another: a parameter, an edge, or a node."""
    names = list(graph.nodes)
    kind = rng.integers(5)
    name = names[rng.integers(len(names))]
    if kind == 0 and isinstance(graph.nodes[name], nir.NIRNode):
        node = graph.nodes[name]
        fields = [f for f in vars(node) if f not in ("metadata",)]
        setattr(node, fields[rng.integers(len(fields))], JUNK[rng.integers(len(JUNK))])
    elif kind == 1:
        graph.edges.append((name, names[rng.integers(len(names))]))
    elif kind == 2 or kind == 0:
        graph.edges.pop(rng.integers(len(graph.edges)))
    elif kind == 3:
        del graph.nodes[name]
    else:
        others = [
            neurons(THETA),
            synapses(3),
            nir.Linear(np.ones((3, 3))),
            nir.Scale(ONES),
            JUNK[rng.integers(len(JUNK))],
        ]
        graph.nodes[name] = others[rng.integers(len(others))]


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
            message = str(error)
            assert "\n" not in message
            assert " must " in message, message
            outcomes["refused"] += 1
        else:
            assert isinstance(came.network, SpikingNetwork)
            outcomes["network"] += 1
    assert min(outcomes.values()) > 30, outcomes


def test_a_file_that_ends_early_is_no_graph(tmp_path):
    network = SpikingNetwork(random_weights(np.random.default_rng(1), 4), np.ones(4))
    nir.write(tmp_path / "whole.nir", to_nir(network))
    whole = (tmp_path / "whole.nir").read_bytes()
    (tmp_path / "half.nir").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OSError, match="truncated"):
        nir.read(tmp_path / "half.nir")
