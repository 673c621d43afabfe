"""The same network in Brian2, as a C++ program of its own (standalone mode)."""

import logging
import tempfile
import time

import numpy as np

from snn import SpikingNetwork
from snn.exchange import to_brian2

TIME_STEP = 1e-3


def brian2_run(
    network: SpikingNetwork, duration: float, *, repeats: int
) -> tuple[np.ndarray, list[float], float]:
    """Return (spike counts, seconds of each run, seconds of the compilation); ImportError without Brian2."""
    import brian2

    brian2.BrianLogger.suppress_hierarchy("brian2")
    logging.getLogger("brian2").setLevel(logging.ERROR)
    # Brian2 captures all warnings of the process: undo this.
    logging.captureWarnings(False)
    with tempfile.TemporaryDirectory(prefix="brian2-benchmark-") as directory:
        brian2.set_device("cpp_standalone", directory=directory, build_on_run=False)
        brian2.prefs.devices.cpp_standalone.openmp_threads = 0
        model = to_brian2(network, time_step=TIME_STEP)
        model.network.run(duration * brian2.second)
        begin = time.perf_counter()
        brian2.device.build(directory=directory, compile=True, run=False, debug=False)
        compile_seconds = time.perf_counter() - begin
        seconds = []
        for _ in range(repeats):
            brian2.device.run(directory=directory, with_output=False)
            # Time only the loop by the clock of the program, without the start, the input and the output.
            seconds.append(float(brian2.device._last_run_time))
        counts = model.spike_counts
        brian2.device.reinit()
    return counts, seconds, compile_seconds
