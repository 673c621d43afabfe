"""Spiking LASSO beside its peers, in one run: ``python -m tests.benchmarks.spiking_lasso``.

Two questions.  How fast is the simulator (beside Brian2's C++ standalone mode), and how soon does a
code reach a duality gap (beside FISTA and scikit-learn)?  Every answer is verified before it is
timed: spike counts must be equal, and every code is judged.
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

# One thread for everybody, before any library starts its own.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from snn import simulate  # noqa: E402
from snn.weights import in_full  # noqa: E402
from solvers import (  # noqa: E402
    LassoProblem,
    lasso_network,
    solve_coordinate_descent,
    solve_fista,
    solve_lars,
    solve_spiking,
)
from solvers.optimality import penalty_max  # noqa: E402
from tests.benchmarks.timing import median_seconds, milliseconds, table, versions  # noqa: E402

BRIAN2_TIME_STEP = 1e-3


def random_problem(n_features: int, n_atoms: int, *, support: int, seed: int = 0) -> LassoProblem:
    """Return a CLASSO with unit-norm Gaussian atoms, a planted sparse code, a little noise."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    code = np.zeros(n_atoms)
    code[rng.choice(n_atoms, support, replace=False)] = rng.uniform(0.5, 1.5, support)
    signals = (code @ dictionary + 0.01 * rng.standard_normal(n_features))[np.newaxis]
    penalty = 0.1 * penalty_max(dictionary, signals, positive=True)[0]
    return LassoProblem(dictionary, signals, penalty, positive=True, gram=dictionary @ dictionary.T)


# -- the simulator -------------------------------------------------------------------------------


def brian2_run(network, duration: float) -> tuple[np.ndarray, float, float]:
    """Return (spike counts, seconds of the run, seconds of the compilation) of Brian2 C++ standalone."""
    import brian2

    directory = tempfile.mkdtemp(prefix="brian2-benchmark-")
    brian2.set_device("cpp_standalone", directory=directory, build_on_run=False)
    brian2.prefs.devices.cpp_standalone.openmp_threads = 0
    brian2.defaultclock.dt = BRIAN2_TIME_STEP * brian2.second
    model = """
    dv/dt = (bias + h) / second : 1
    dh/dt = -h / second : 1
    bias : 1 (constant)
    theta : 1 (constant)
    """
    group = brian2.NeuronGroup(
        network.n_neurons, model, threshold="v >= theta", reset="v = 0", method="rk4", name="neurons"
    )
    synapses = brian2.Synapses(group, group, "w : 1", on_pre="h_post += w", name="synapses")
    weights = in_full(network.weights)
    sources, targets = np.nonzero(weights)
    synapses.connect(i=sources, j=targets)
    synapses.w = weights[sources, targets]
    group.bias = network.soma_bias
    group.theta = network.firing_threshold
    monitor = brian2.SpikeMonitor(group, record=False, name="spikes")
    brian2.run(duration * brian2.second)
    begin = time.perf_counter()
    brian2.device.build(directory=directory, compile=True, run=False, debug=False)
    compile_seconds = time.perf_counter() - begin
    seconds = []
    for _ in range(5):
        brian2.device.run(directory=directory, with_output=False)
        seconds.append(brian2.device._last_run_time)
    counts = np.array(monitor.count[:])
    brian2.device.reinit()
    return counts, float(np.median(seconds)), compile_seconds


def simulator_report(*, quick: bool) -> str:
    sizes = [(64, 128, 6)] if quick else [(64, 256, 12), (256, 1024, 25), (1024, 4096, 100)]
    duration = 20.0 if quick else 100.0
    rows = []
    lines = []
    for n_features, n_atoms, support in sizes:
        network = lasso_network(random_problem(n_features, n_atoms, support=support))
        begin = time.perf_counter()
        result = simulate(network, duration)
        first_call = time.perf_counter() - begin
        ((_, (seconds, spread)),) = median_seconds(
            {"sparsespike": lambda network=network: simulate(network, duration)}, 3 if quick else 15
        ).items()
        peer, ratio = "", ""
        if n_atoms == sizes[0][1]:
            lines.append(
                f"First call, compilation or loading from the disk cache included: {first_call:.2f} s."
            )
            try:
                counts, brian2_seconds, compile_seconds = brian2_run(network, duration)
            except ImportError:
                lines.append("Brian2 is not installed: its column is empty.")
            else:
                if not np.array_equal(counts, result.spike_counts):
                    raise AssertionError("Brian2 and the exact simulation disagree on spike counts")
                peer, ratio = milliseconds(brian2_seconds), f"{brian2_seconds / seconds:.0f}x"
                lines.append(
                    f"Brian2 C++ standalone, rk4 at dt = {BRIAN2_TIME_STEP:g}: the same spike counts; "
                    f"compilation ({compile_seconds:.0f} s) not counted."
                )
        rows.append(
            [
                f"{n_atoms}", f"{result.n_spikes:,}", f"{milliseconds(seconds)} +-{50 * spread:.0f} %",
                f"{1e6 * seconds / result.n_spikes:.2f} us", f"{result.n_spikes / seconds:,.0f}",
                f"{result.n_synaptic_events / seconds:.2g}", peer, ratio,
            ]
        )  # fmt: skip
    header = [
        "neurons", "spikes", "time", "a spike", "spikes/s", "synaptic events/s", "Brian2", "Brian2 / ours",
    ]  # fmt: skip
    return (
        f"## Simulator: CLASSO networks, t = {duration:g}\n\n"
        + table(header, rows)
        + "\n\n"
        + "\n".join(lines)
    )


# -- the solvers ---------------------------------------------------------------------------------

METHODS = {
    "spikes, rate": lambda problem, tol: solve_spiking(problem, tol=tol, readout="rate"),
    "spikes, average current": lambda problem, tol: solve_spiking(problem, tol=tol, readout="current"),
    "spikes, exact finish": lambda problem, tol: solve_spiking(problem, tol=tol, readout="exact"),
    "FISTA": lambda problem, tol: solve_fista(problem, tol=tol),
    "scikit-learn coordinate descent": lambda problem, tol: solve_coordinate_descent(problem, tol=tol),
    "scikit-learn LARS": lambda problem, tol: solve_lars(problem, tol=tol),
}
# Without a finish the gap falls like 1/t: past this it is not measured.
WITHOUT_FINISH = {"spikes, rate", "spikes, average current"}
SMALLEST_TOL_WITHOUT_FINISH = 1e-3


def solver_report(*, quick: bool) -> str:
    sizes = [(64, 128, 6)] if quick else [(64, 256, 6), (256, 1024, 25), (1024, 4096, 100)]
    tols = (1e-2, 1e-3, 1e-6)
    sections = []
    for n_features, n_atoms, support in sizes:
        problem = random_problem(n_features, n_atoms, support=support)
        best = solve_spiking(problem, tol=1e-10, readout="exact")
        rows = {name: [name] for name in METHODS}
        for tol in tols:
            calls = {
                name: (lambda method=method, problem=problem, tol=tol: method(problem, tol))
                for name, method in METHODS.items()
                if tol >= SMALLEST_TOL_WITHOUT_FINISH or name not in WITHOUT_FINISH
            }
            for name, call in calls.items():
                result = call()
                if not result.converged:
                    raise AssertionError(f"{name} did not reach {tol:g}")
                if result.objective - best.objective > tol * problem.energies + best.duality_gap:
                    raise AssertionError(f"{name} claims a gap it does not have at {tol:g}")
            seconds = median_seconds(calls, 3 if quick else 9)
            for name in METHODS:
                if name not in seconds:
                    rows[name] += ["-", "-"]
                    continue
                rows[name] += [
                    milliseconds(seconds[name][0]),
                    f"{seconds['FISTA'][0] / seconds[name][0]:.2g}x",
                ]
        header = ["method", *(cell for tol in tols for cell in (f"gap {tol:g}", "FISTA / this"))]
        sections.append(
            f"### {n_features} features, {n_atoms} atoms, {best.support_size[0]} active\n\n"
            + table(header, list(rows.values()))
        )
    intro = (
        "## Solvers: one random CLASSO signal, penalty a tenth of its maximum\n\n"
        "Time to a duality gap of so many 1/2 ||s||^2. The Gram matrix is given to all; making the result,\n"
        "judging it included, counts for all."
    )
    return "\n\n".join([intro, *sections])


def main(arguments: list[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--output", type=Path, help="Markdown file to write the report to")
    options = parser.parse_args(arguments)
    warnings.simplefilter("error", ConvergenceWarning)
    report = "\n\n".join(
        [
            "# Spiking LASSO beside its peers",
            f"Made by `python -m tests.benchmarks.spiking_lasso`. {versions()}.",
            simulator_report(quick=options.quick),
            solver_report(quick=options.quick),
        ]
    )
    print(report)
    if options.output:
        options.output.write_text(report + "\n")
    return report


if __name__ == "__main__":
    main()
