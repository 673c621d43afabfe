"""Spikes as NIR's EventData, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from snn.base import checks
from snn.base.extras import require
from snn.record.spikes import SpikeTrain, require_record

if TYPE_CHECKING:
    import nir


def kind_of(node: Any) -> str:
    """Return the name of the class of NIR that an object is of, or of its own class if it is of none."""
    classes = (kind for kind in type(node).__mro__ if kind.__module__.split(".")[0] == "nir")
    return next(classes, type(node)).__name__


def to_event_data(spikes: SpikeTrain) -> nir.EventData:
    """Return spikes as NIR's EventData of one sample.

    Parameters
    ----------
    spikes : SpikeTrain
        Recorded from time 0 on, since EventData has no start.

    Returns
    -------
    nir.EventData
        ``idx`` and ``time`` of shape (1, n_spikes), ``t_max`` the end of the record.
    """
    require_record(spikes)
    if spikes.start != 0.0:
        raise ValueError(
            f"spikes must be recorded from time 0 on, since EventData has no start; got {spikes.start}: make "
            "a SpikeTrain of the times since then"
        )
    nir = require("nir", extra="nir")
    return nir.EventData(
        idx=spikes.neurons[np.newaxis].copy(),
        time=spikes.times[np.newaxis].copy(),
        n_neurons=spikes.n_neurons,
        t_max=spikes.stop,
    )


def from_event_data(data: nir.EventData, *, sample: int = 0) -> SpikeTrain:
    """Return the spikes of one sample of NIR's EventData, from time 0 to its ``t_max``.

    Parameters
    ----------
    data : nir.EventData
        Events; those with index -1 fill rows up and are left out.  They need not be in the order of time.
    sample : int, default 0
        Which sample.
    """
    nir = require("nir", extra="nir")
    kind = kind_of(data)
    if kind == "ValuedEventData":
        raise TypeError("data must be events without values, as spikes are; got ValuedEventData")
    hint = ": pass what its to_event returns" if kind == "TimeGriddedData" else ""
    checks.instance_of("data", data, nir.EventData, hint=hint)
    idx, times = np.asarray(data.idx), np.asarray(data.time)
    if idx.ndim != 2 or idx.shape != times.shape:
        raise ValueError(
            f"data must have idx and time of one shape, (n_samples, n_events); got {idx.shape} and "
            f"{times.shape}"
        )
    if idx.dtype.kind not in "iu" or times.dtype.kind not in "fiu":
        raise TypeError(
            f"data must have integers for idx and real numbers for time; got {idx.dtype} and {times.dtype}"
        )
    sample = checks.index("sample", sample, len(idx))
    is_event = idx[sample] != -1
    neurons, times = idx[sample][is_event], times[sample][is_event].astype(np.float64)
    n_neurons = checks.positive_integer("n_neurons of data", data.n_neurons)
    stop = checks.non_negative_number("t_max of data", data.t_max)
    if neurons.size and (neurons.min() < 0 or neurons.max() >= n_neurons):
        raise ValueError(
            f"idx of data must lie in [0, {n_neurons}), or be -1; got {neurons.min()} to {neurons.max()}"
        )
    if not ((times >= 0.0) & (times <= stop)).all():
        wrong = times[~((times >= 0.0) & (times <= stop))][0]
        raise ValueError(f"time of data must lie in [0, t_max] = [0, {stop}]; got {wrong}")
    order = np.argsort(times, kind="stable")
    return SpikeTrain(times=times[order], neurons=neurons[order], n_neurons=n_neurons, start=0.0, stop=stop)
