"""What a Dask cluster costs, and what that predicts: ``python -m tests.benchmarks.scale_out``.

Measured on two worker processes of this machine.  The tables of docs/scale_out.md are written from it.
"""

import os
import sys

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
if __name__ == "__main__" and any(os.environ.get(name) != "1" for name in ONE_THREAD):
    # From the start: libraries count their threads when they are loaded, those of workers too.
    command = [sys.executable, "-m", "tests.benchmarks.scale_out", *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})

import argparse  # noqa: E402
import copy  # noqa: E402
import json  # noqa: E402
import pickle  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

import joblib  # noqa: E402
import numpy as np  # noqa: E402

from dictlearn import LearningSettings, new_learner  # noqa: E402
from dictlearn.distributed.data import NpyFile, Rows  # noqa: E402
from dictlearn.distributed.learning import _run  # noqa: E402
from dictlearn.distributed.parts import run_part  # noqa: E402
from examples._results import write_results  # noqa: E402
from solvers import LassoProblem, penalty_max, solve_spiking  # noqa: E402
from solvers.gram.gram import gram_of  # noqa: E402
from solvers.methods.spiking import ActiveSetFromSpikes  # noqa: E402
from solvers.spiking.network import LassoNetwork  # noqa: E402
from solvers.workers.cluster import run_on_cluster  # noqa: E402
from solvers.workers.spread import batch_slices  # noqa: E402
from solvers.workers.transport import Shared  # noqa: E402
from tests.benchmarks.timing import milliseconds, processor, table, versions  # noqa: E402
from tests.cluster import local_cluster  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "scale_out.md"
FIGURES = Path(__file__).parents[2] / "docs" / "benchmarks" / "scale_out.json"
# Bandwidth between machines, assumed: 10 Gbit/s.
BANDWIDTH = 1.25e9
WORKERS = (1, 2, 10, 100)
N_TASKS = 64
# Whose coding is predicted.
N_SIGNALS = 1_000_000


def best_of(call, repeats):
    """Return the least seconds of some calls: on a busy machine the others measure its other users."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def nothing(key, packed, number):
    return number


def dispatch(client, *, quick):
    """Seconds of a task that does nothing, and of what tasks share, by its size."""
    empty, repeats = Shared(None), 3 if quick else 9

    def rounds(n_tasks):
        return lambda: run_on_cluster(client, nothing, empty, lambda k: (k,), n_tasks, all_at_once=True)

    rounds(4)()
    one, many = best_of(rounds(1), repeats), best_of(rounds(N_TASKS + 1), repeats)
    sizes = (1_000_000,) if quick else (1_000_000, 10_000_000, 100_000_000)
    sent = {}
    for size in sizes:
        shared = Shared(np.zeros(size // 8))
        call = partial(run_on_cluster, client, nothing, shared, lambda k: (k,), 2, all_at_once=True)
        sent[str(size)] = best_of(call, 3 if quick else 5) - one
    return {"round": one, "task": max(many - one, 0.0) / N_TASKS, "sent": sent}


def planted(n_atoms, n_features, n_signals):
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((n_atoms, n_features))
    dictionary /= np.linalg.norm(dictionary, axis=1)[:, np.newaxis]
    codes = rng.standard_normal((n_signals, n_atoms)) * (rng.random((n_signals, n_atoms)) < 10 / n_atoms)
    signals = codes @ dictionary + 0.01 * rng.standard_normal((n_signals, n_features))
    return LassoProblem(dictionary, signals, 0.1 * float(np.median(penalty_max(dictionary, signals))))


def coding(client, *, quick):
    """Bytes of a task, before and now, and seconds of all signals here, on processes and on the cluster."""
    sizes = ((64, 32, 40),) if quick else ((256, 64, 10_000), (1024, 256, 2_000), (4096, 1024, 200))
    rows = []
    for n_atoms, n_features, n_signals in sizes:
        problem = planted(n_atoms, n_features, n_signals)
        network = LassoNetwork(gram_of(problem), positive=False)
        solve = partial(ActiveSetFromSpikes().solve, prepared=network, start=None, tol=1e-3)
        # A new problem, of which nothing is known but the dictionary.
        batch = problem.with_signals(problem.signals[batch_slices(n_signals, 2 * n_atoms, 2)[0]])
        shared = Shared((solve, problem.model))
        seconds, codes = {}, {}
        for _ in range(2 if quick else 3):
            for backend in ("serial", "loky", "dask"):
                options = {"client": client} if backend == "dask" else {}
                name = "sequential" if backend == "serial" else backend
                fresh = problem.with_signals(problem.signals)
                with joblib.parallel_config(backend=name, n_jobs=1 if backend == "serial" else 2, **options):
                    begin = time.perf_counter()
                    codes[backend] = solve_spiking(fresh, polish=True).codes
                    taken = time.perf_counter() - begin
                seconds[backend] = min(taken, seconds.get(backend, np.inf))
        if any(code.tobytes() != codes["serial"].tobytes() for code in codes.values()):
            raise AssertionError("codes must have the same bits on all backends")
        rows.append(
            {
                "atoms": n_atoms,
                "features": n_features,
                "signals": n_signals,
                "before": len(pickle.dumps((solve, batch), protocol=5)),
                "task": len(shared.task(batch).pickled),
                "shared": shared.packed.nbytes,
                "batch": batch.signals.nbytes,
                "seconds": seconds,
            }
        )
    return rows


def learning(client, folder, *, quick):
    """Of updates of some sizes, what `update` says."""
    sizes = ((16, 20, 64),) if quick else ((128, 256, 256), (128, 256, 1024), (256, 512, 1024))
    return [update(client, folder, *size) for size in sizes]


def update(client, folder, n_inputs, n_atoms, batch_size):
    """Bytes of an update, and seconds of the run, here and on the cluster, and of the weights' change."""
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(n_atoms, n_inputs)) * (rng.random((n_atoms, n_inputs)) < 0.1)
    codes = rng.uniform(size=(batch_size, n_atoms)) * (rng.random((batch_size, n_atoms)) < 0.03)
    signals = codes @ atoms + 0.01
    path = Path(folder) / f"signals-{n_inputs}-{batch_size}.npy"
    np.save(path, signals)
    settings = LearningSettings(penalty=0.1, batch_size=batch_size)
    learner = new_learner(signals, n_atoms, settings=settings, rng=0)
    for _ in range(2):
        learner.learn(signals)
    plan, file, rows = learner.plan(batch_size), NpyFile(path), Rows(0, np.arange(batch_size))
    shared = Shared((plan, learner.synapses))
    phases = plan.run(learner.synapses, signals)
    sent = run_part(shared.key, shared.packed, 0, plan.n_rows, file, rows.numbers)
    copies = [copy.deepcopy(learner) for _ in range(3)]
    return {
        "inputs": n_inputs,
        "atoms": n_atoms,
        "batch": batch_size,
        "network": shared.packed.nbytes,
        "back": len(pickle.dumps(sent, protocol=5)),
        "whole": len(pickle.dumps(phases, protocol=5)),
        "run": best_of(lambda: plan.run(learner.synapses, signals), 2),
        "cluster": best_of(lambda: _run(client, learner, file, rows, 64, plan), 3),
        "apply": best_of(lambda: copies.pop().apply(plan, phases), 3),
    }


def predicted(row, dispatched, n_workers):
    """Return the seconds of an update on `n_workers` workers of one thread, by the model of the page."""
    n_tasks = -(-row["batch"] // 64)
    rounds = -(-n_tasks // min(n_workers, n_tasks)) / n_tasks
    copies = int(np.ceil(np.log2(n_workers + 1)))
    sent = (copies * row["network"] + row["back"]) / BANDWIDTH
    return row["run"] * rounds + dispatched["round"] + n_tasks * dispatched["task"] + sent + row["apply"]


def predicted_coding(row, dispatched, n_workers, n_signals=N_SIGNALS):
    """Return the seconds of coding signals on several workers, by the model of the page."""
    n_tasks = -(-n_signals * 8 * row["features"] // row["batch"])
    copies = int(np.ceil(np.log2(n_workers + 1)))
    sent = (copies * row["shared"] + n_tasks * row["task"]) / BANDWIDTH
    alone = row["seconds"]["serial"] / row["signals"] * n_signals
    # Workers code while the scheduler deals with other tasks: the slower of the two decides.
    return max(alone / n_workers, n_tasks * dispatched["task"]) + dispatched["round"] + sent


def tables(data):
    """Return the tables of the page."""
    dispatched = data["dispatch"]
    named = data["versions"].split(";")[0]
    parts = [f"{data['processor']}. {named}. One thread a process; the least of a few repeats."]
    cost = [["an update or a call, its tasks apart", milliseconds(dispatched["round"])]]
    cost += [["a task more", milliseconds(dispatched["task"])]]
    cost += [
        [f"{int(size) / 1e6:.0f} MB that tasks share, to two workers", milliseconds(seconds)]
        for size, seconds in dispatched["sent"].items()
    ]
    parts.append("**Dispatch**\n\n" + table(["what", "takes"], cost))
    coded = [
        [
            f"{row['atoms']} x {row['features']}, {row['signals']:,} signals",
            megabytes(row["before"]),
            megabytes(row["task"]),
            megabytes(row["shared"]),
            *(milliseconds(row["seconds"][name]) for name in ("serial", "loky", "dask")),
        ]
        for row in data["coding"]
    ]
    header = ["work", "a task before", "a task now", "once a process", "one thread", "loky, 2", "Dask, 2"]
    parts.append('**Coding**, `"active_set_from_spikes"`\n\n' + table(header, coded))
    learned = [
        [
            f"{row['inputs']} inputs, {row['atoms']} atoms, batch {row['batch']}",
            megabytes(row["network"]),
            megabytes(row["back"]),
            megabytes(row["whole"]),
            milliseconds(row["run"]),
            milliseconds(row["cluster"]),
            milliseconds(row["apply"]),
        ]
        for row in data["learning"]
    ]
    header = ["update", "network", "back", "back, if whole", "run here", "run on 2", "change of weights"]
    parts.append("**Learning**, one update\n\n" + table(header, learned))
    forecast = []
    for row in data["learning"]:
        alone = row["run"] + row["apply"]
        times = [alone / predicted(row, dispatched, n_workers) for n_workers in WORKERS]
        name = f"{row['inputs']} inputs, {row['atoms']} atoms, batch {row['batch']}"
        forecast.append([name, *(f"{ratio:.1f}x" for ratio in times), f"{alone / row['apply']:.1f}x"])
    for row in data["coding"]:
        alone = row["seconds"]["serial"] / row["signals"] * N_SIGNALS
        times = [alone / predicted_coding(row, dispatched, n_workers) for n_workers in WORKERS]
        most = -(-N_SIGNALS * 8 * row["features"] // row["batch"]) * dispatched["task"]
        name = f"coding {N_SIGNALS:,} signals, {row['atoms']} x {row['features']}"
        forecast.append([name, *(f"{ratio:.1f}x" for ratio in times), f"{alone / most:.0f}x"])
    header = ["work", *(f"{n} worker{'s' * (n > 1)}" for n in WORKERS), "never more than"]
    parts.append("**Predicted**, not measured: times as fast as one thread\n\n" + table(header, forecast))
    return "\n\n".join(parts)


def megabytes(n_bytes):
    return f"{n_bytes / 1e6:.3g} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:.2g} kB"


def measured(client, folder, *, quick):
    """Return all figures."""
    data = {"quick": quick, "processor": processor(), "versions": versions("dask", "joblib")}
    data["dispatch"] = dispatch(client, quick=quick)
    data["learning"] = learning(client, folder, quick=quick)
    return {**data, "coding": coding(client, quick=quick)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, and no page is written")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the page anew")
    options = parser.parse_args()
    if options.render:
        data = json.loads(FIGURES.read_text())
    else:
        with tempfile.TemporaryDirectory() as folder, local_cluster(folder) as client:
            data = measured(client, folder, quick=options.quick)
    print(tables(data))
    if not options.quick:
        write_results(FIGURES, data)
        text = PAGE.read_text()
        begin, end = (text.index(f"<!-- {mark} -->") for mark in ("tables", "end of tables"))
        PAGE.write_text(f"{text[:begin]}<!-- tables -->\n\n{tables(data)}\n\n{text[end:]}")


if __name__ == "__main__":
    main()
