"""Programs that read NIR graphs otherwise than its specification says: what their graphs must look like.

A reader is a class here, and one line of `READERS`.  What it does was read in its source code, and where the
program could be installed, run: docs/exchange.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from snn.base import checks
from snn.base.extras import require
from snn.exchange.nir_graph import require_not_adapted

if TYPE_CHECKING:
    import nir


class Reader(ABC):
    """How a program deviates, as factors for the numbers of a graph.

    Parameters
    ----------
    time_step : float
        Of the program's clock, in the graph's unit of time.
    """

    def __init__(self, time_step: float) -> None:
        self.time_step = time_step

    @property
    @abstractmethod
    def drive_factor(self) -> float:
        """For biases, and for weights of inputs."""

    @abstractmethod
    def synapse_factor(self, time_constant: float) -> float:
        """For weights behind an LI."""

    @abstractmethod
    def time_constant(self, time_constant: float) -> float:
        """The tau of an LI, as the program wants it."""

    @abstractmethod
    def require(self, nir: Any, graph: nir.NIRGraph) -> None:
        """Raise ValueError if the program would run another network, whatever its numbers."""


class Norse(Reader):
    """Norse: ``norse.torch.from_nir(graph, dt=time_step)``.

    Its IF adds what it gets to the potential at each step, v <- v + x, without a factor dt.  So biases, and
    weights of inputs, are multiplied by dt.  Its LI has the factor, v <- v + (x - v) dt / tau, and the charge
    of a spike is right as it is.  It ignores r and v_reset, has no Linear, and computes in float32.

    It is a clock of Euler's steps throughout that resets potentials to zero: that of `simulate_clocked` with
    ``reset="zero"``, in steps of -log(1 - dt).
    """

    @property
    def drive_factor(self) -> float:
        """See `Reader`."""
        return self.time_step

    def synapse_factor(self, time_constant: float) -> float:
        """See `Reader`."""
        return 1.0

    def time_constant(self, time_constant: float) -> float:
        """See `Reader`."""
        if self.time_step >= time_constant:
            raise ValueError(
                f"time_step must be smaller than tau, {time_constant}, for Norse; got {self.time_step}"
            )
        return time_constant

    def require(self, nir: Any, graph: nir.NIRGraph) -> None:
        """See `Reader`: nothing else."""


class SinabsWithoutBound(Reader):
    """Sinabs, after ``min_v_mem`` of all its layers has been set to None.

    It counts time in steps: tau becomes tau / dt.  Its LI adds a spike in full, v <- e^-(dt / tau) v + x, so
    that weights behind it are multiplied by 1 - e^-(dt / tau), which keeps the charge of a spike.  Its IF
    adds what it gets: biases, and weights of inputs, are multiplied by dt.  Where a neuron fires it subtracts
    the threshold, and it may fire several times in a step.  It ignores r of IF, and computes in float32.

    It is a clock that keeps charge: that of `simulate_clocked` with its defaults.
    """

    @property
    def drive_factor(self) -> float:
        """See `Reader`."""
        return self.time_step

    def synapse_factor(self, time_constant: float) -> float:
        """See `Reader`."""
        return -float(np.expm1(-self.time_step / time_constant))

    def time_constant(self, time_constant: float) -> float:
        """See `Reader`."""
        return time_constant / self.time_step

    def require(self, nir: Any, graph: nir.NIRGraph) -> None:
        """See `Reader`: no image behind an LI, which fails where Sinabs reads it."""
        for name, node in graph.nodes.items():
            if isinstance(node, nir.LI) and np.ndim(node.tau) != 1:
                raise ValueError(
                    f"node {name!r} must have one axis for Sinabs, which cannot read an LI with more; got "
                    f"shape {np.shape(node.tau)}: export the network with weights.toarray()"
                )


class Sinabs(SinabsWithoutBound):
    """Sinabs as it reads a graph: potentials are also cut off at minus the threshold.

    A cut adds charge that no current brought, and rates are wrong from then on.  Without negative weights and
    biases no potential falls below zero.
    """

    def require(self, nir: Any, graph: nir.NIRGraph) -> None:
        """See `Reader`: no negative weights or biases either."""
        super().require(nir, graph)
        for name, node in graph.nodes.items():
            for what in ("weight", "bias"):
                values = getattr(node, what, None)
                if values is not None and np.min(values) < 0.0:
                    raise ValueError(
                        f"{what} of node {name!r} must not be negative for Sinabs, which cuts potentials off "
                        f"at minus the threshold; got {np.min(values)}: set min_v_mem of all its layers to "
                        "None after reading, and pass reader='sinabs without bound'"
                    )


READERS: dict[str, type[Reader]] = {
    "norse": Norse,
    "sinabs": Sinabs,
    "sinabs without bound": SinabsWithoutBound,
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
        Of the program's clock, in the graph's unit of time.  The graph is right for this step alone.

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
    if not isinstance(graph, nir.NIRGraph):
        raise TypeError(f"graph must be a nir.NIRGraph; got {type(graph).__name__}")
    reader = checks.one_of("reader", reader, (*READERS, *UNABLE))
    time_step = checks.positive_number("time_step", time_step)
    if reader in UNABLE:
        raise ValueError(f"reader {reader!r} cannot run such a network: {UNABLE[reader]}")
    require_not_adapted(graph)
    profile = READERS[reader](time_step)
    profile.require(nir, graph)
    nodes = {name: _adapted(nir, graph, profile, name) for name in graph.nodes}
    metadata = {**graph.metadata, "reader": reader, "time step": time_step}
    return nir.NIRGraph(nodes=nodes, edges=list(graph.edges), metadata=metadata)


def _adapted(nir: Any, graph: nir.NIRGraph, profile: Reader, name: str) -> Any:
    node = graph.nodes[name]
    if isinstance(node, nir.Input | nir.Output):
        return node
    if isinstance(node, nir.IF | nir.LI):
        fixed = {"r": 1.0, "v_reset": 0.0} if isinstance(node, nir.IF) else {"r": 1.0, "v_leak": 0.0}
        for what, only in fixed.items():
            if not (np.asarray(getattr(node, what)) == only).all():
                raise ValueError(
                    f"{what} of node {name!r} must be {only:g}, as to_nir writes it; got another"
                )
        if isinstance(node, nir.IF):
            return node
        tau = profile.time_constant(_time_constant(graph, [name]))
        return nir.LI(tau=np.full(np.shape(node.tau), tau), r=node.r, v_leak=node.v_leak)
    before = [source for source, target in graph.edges if target == name]
    kinds = {type(graph.nodes[source]) for source in before}
    if not isinstance(node, nir.Affine | nir.Conv2d) or kinds not in ({nir.Input}, {nir.LI}):
        raise ValueError(
            f"graph must be one that to_nir wrote; got a {type(node).__name__}, {name!r}, behind "
            f"{sorted(kind.__name__ for kind in kinds)}: import it by from_nir and export its network"
        )
    adapted = copy(node)
    adapted.bias = node.bias * profile.drive_factor
    adapted.weight = node.weight * (
        profile.drive_factor
        if kinds == {nir.Input}
        else profile.synapse_factor(_time_constant(graph, before))
    )
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
