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
    require_record("spikes", spikes)
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
    require("nir", extra="nir")
    if kind_of(data) != "EventData":
        raise TypeError(
            f"data must be an EventData of NIR, without values; got {type(data).__name__}: to_event of a "
            "TimeGriddedData returns one"
        )
    idx, times = np.asarray(data.idx), np.asarray(data.time)
    if idx.ndim != 2 or idx.shape != times.shape:
        raise ValueError(
            f"data must have idx and time of one shape, (n_samples, n_events); got {idx.shape} and "
            f"{times.shape}"
        )
    sample = checks.index("sample", sample, len(idx))
    is_event = idx[sample] != -1
    neurons, times = idx[sample][is_event], times[sample][is_event]
    order = np.argsort(times, kind="stable")
    with checks.called(neurons="idx of data", times="time of data", stop="t_max of data"):
        return SpikeTrain(
            times=times[order], neurons=neurons[order], n_neurons=data.n_neurons, start=0.0, stop=data.t_max
        )
