"""Solve and learn in many threads, under Ctrl-C, and in forks during other solves: the same bits.

    python -m tests.stress.threads_and_forks --rounds 300 --forks 200 --interrupts 2000

Threads solve one new problem at the same time.  A signal interrupts a method, which is then called again.  A
child that is forked while other threads solve has to solve, too.  Every kind of call that keeps state is
interrupted thousands of times: it raises only KeyboardInterrupt, and BLAS keeps its number of threads.
"""

import os

# BLAS gets four threads on any machine: no bit may depend on the number of threads.
os.environ["OPENBLAS_NUM_THREADS"] = "4"

import argparse
import json
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np

import snn
import solvers
from dictlearn import LearningSettings, continue_learning, new_learner
from tests.interrupting import blas_threads

N_THREADS, PATIENCE = 8, 60.0


def problem(n_atoms, n_features, n_signals, share, **options):
    rng = np.random.default_rng(n_atoms)
    dictionary, signals = (rng.standard_normal((n, n_features)) for n in (n_atoms, n_signals))
    return solvers.LassoProblem(
        dictionary, signals, share * solvers.penalty_max(dictionary, signals).max(), **options
    )


def learned(_, n_jobs):
    rng = np.random.default_rng(3)
    signals = rng.uniform(size=(200, 30)) * (rng.uniform(size=(200, 30)) < 0.5) + 0.01
    learner = new_learner(signals, 24, settings=LearningSettings(penalty=0.1, batch_size=16), rng=1)
    continue_learning(learner, signals, n_samples=160, rng=1, n_jobs=n_jobs)
    return learner.dictionary


PROBLEMS = {
    "dense": lambda: problem(80, 40, 24, 0.2),
    "long": lambda: problem(64, 5000, 4, 0.5, positive=True),  # BLAS divides such products among threads
    "wide": lambda: problem(900, 40, 1, 0.3),  # only parts of the Gram matrix are needed
}
METHODS = {
    "spikes": lambda problem, n_jobs: solvers.solve_spiking(problem, tol=1e-4, n_jobs=n_jobs).codes,
    "active set": lambda problem, n_jobs: solvers.solve_active_set(problem, n_jobs=n_jobs).codes,
    "path": lambda problem, n_jobs: solvers.path(problem, [1.0, 0.7, 0.5], n_jobs=n_jobs).codes,
    "learning": learned,
    "FISTA": lambda problem, n_jobs: solvers.solve_fista(problem, tol=1e-5).codes,
    "digital": lambda problem, n_jobs: solvers.solve_digital(problem, tol=0.05, n_jobs=n_jobs).codes,
}
# In a wide problem the last two methods would keep the whole Gram matrix, and so change bits of the others.
WORK = [(kind, name) for kind in PROBLEMS for name in list(METHODS)[: 4 if kind == "wide" else None]]


def bits(kind, name, n_jobs=1, shared=None):
    return METHODS[name](PROBLEMS[kind]() if shared is None else shared, n_jobs).tobytes()


def together(kind, names, rng, expected):
    """Let threads work on one problem at the same time; yield the faults."""
    shared, barrier, faults = PROBLEMS[kind](), threading.Barrier(N_THREADS), []

    def run(name, n_jobs):
        barrier.wait()
        try:
            if bits(kind, name, n_jobs, shared) != expected[kind, name]:
                faults.append(f"{name}, {kind}: other bits beside others")
        except BaseException:
            faults.append(f"{name}, {kind}: {traceback.format_exc()}")

    jobs = zip(rng.choice(names, N_THREADS), rng.integers(1, 5, N_THREADS).tolist(), strict=True)
    threads = [threading.Thread(target=run, args=job) for job in jobs]
    for act in (threading.Thread.start, threading.Thread.join):
        list(map(act, threads))
    yield from faults


def interrupted(kind, names, rng, expected):
    """Interrupt one call once or twice, and then let it finish; yield the faults."""
    name, shared = rng.choice(names), PROBLEMS[kind]()
    for latest in (0.02, 0.02, 0.0):
        error, found = amid(lambda: bits(kind, name, int(rng.integers(1, 5)), shared), rng, latest)
        if latest and error is not None:
            continue
        if error is not None or found != expected[kind, name]:
            yield f"{name}, {kind}: other bits after an interrupt, or {error!r}"


def amid(call, rng, latest):
    """Interrupt a call; return the KeyboardInterrupt and the result of the call, either may be None."""
    begin, error, found = time.monotonic(), None, None
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, latest) if latest else 0.0)
            found = call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt as interrupt:
        error = interrupt
    if time.monotonic() - begin > PATIENCE:
        raise TimeoutError(f"{call} took {time.monotonic() - begin:.0f} seconds")
    return error, found


def changed_again_and_again(n_interrupts, rng):
    """Interrupt calls of objects that keep state between calls; yield the faults."""
    atoms, signals = rng.standard_normal((24, 16)), np.abs(rng.standard_normal((40, 16)))
    model = solvers.LassoModel(atoms, 0.5)
    network = snn.SpikingNetwork(np.eye(9, k=1) - np.eye(9, k=-1), np.ones(9))
    stream, simulator = solvers.SparseCodingStream(atoms, 0.5), snn.Simulator(network)
    learner = new_learner(signals, 12, settings=LearningSettings(penalty=0.1, batch_size=4), rng=1)
    kinds = {
        "active set": lambda: solvers.solve_active_set(model.with_signals(signals)),
        "one signal": lambda: solvers.solve_active_set(model.with_signals(signals[:1])),
        "spikes": lambda: solvers.solve_spiking(model.with_signals(signals[:2]), tol=1e-2),
        "learning": lambda: learner.learn(signals[:4]),
        "stream": lambda: stream.code(signals[:2]),
        "simulate": lambda: snn.simulate(network, 20.0),
        "Simulator": lambda: simulator.advance(simulator.time + 1.0),
    }
    for name, call in kinds.items():
        call()
        begin = time.perf_counter()
        call()
        latest, n = 2.0 * (time.perf_counter() - begin), 0
        threads = blas_threads()
        while n < n_interrupts:
            try:
                error, _ = amid(call, rng, latest)
            except Exception:
                yield f"{name}, after {n} interrupts: {traceback.format_exc()}"
                break
            n += error is not None
            if blas_threads() != threads:
                yield f"{name}, after {n} interrupts: {blas_threads()} threads of BLAS"
                break


def forks(n_forks, expected):
    """Fork while other threads work; each child must solve and end."""
    is_over, usual = threading.Event(), [("dense", "spikes"), ("long", "active set"), ("dense", "FISTA")]

    def solve_on():
        while not is_over.is_set():
            for kind, name in usual:
                bits(kind, name, 2)

    threads = [threading.Thread(target=solve_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(n_forks):
        kind, name = usual[number % 3]
        time.sleep(1e-3 * (number % 17))
        child = os.fork()
        if not child:
            signal.alarm(int(PATIENCE))  # the alarm kills a child that hangs
            os._exit(0 if bits(kind, name, 2) == expected[kind, name] else 3)
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            yield f"{name}, {kind}: a forked child ended with {code}"
    is_over.set()
    for thread in threads:
        thread.join()


def main():
    """Return 0 if all answers were the same and no child hung."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("rounds", 300), ("forks", 200), ("interrupts", 2000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    parser.add_argument("--results", type=Path, help="file of what was found")
    parser.add_argument("--quiet", action="store_true", help="as other programs have it; little is printed")
    options = parser.parse_args()
    for _ in range(2):  # twice, because the first call may compile kernels
        expected = {work: bits(*work) for work in WORK}
    faults, rng = list(forks(options.forks, expected)), np.random.default_rng(options.seed)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    usual = sys.getswitchinterval()
    for act, interval in ((together, 2e-5), (interrupted, usual)):  # switch often, to meet races
        sys.setswitchinterval(interval)
        for kind in rng.choice(list(PROBLEMS), options.rounds):
            faults += act(kind, [name for other, name in WORK if other == kind], rng, expected)
    faults += changed_again_and_again(options.interrupts, rng)
    if options.results:
        options.results.write_text(json.dumps({"rounds": options.rounds, "faults": faults}))
    print(*faults, sep="\n", file=sys.stderr)
    print(f"{options.rounds} rounds of each, {options.forks} forks; faults: {len(faults)}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
