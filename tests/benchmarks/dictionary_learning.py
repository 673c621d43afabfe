"""Two-phase learning timed and taken apart: ``python -m tests.benchmarks.dictionary_learning``.

8 x 8 patches of photographs, 256 atoms (task A).  Speed: the network beside SPAMS, and on two threads; events
beside clocks of several steps.  Ablations: what each choice is worth.
"""

import argparse
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

from dictlearn import (  # noqa: E402
    LearningSettings,
    PaperSteps,
    RunawayFeedbackError,
    TwoPhaseLearner,
    UsageSteps,
    continue_learning,
    learn_dictionary,
    mean_objective,
    new_learner,
    random_dictionary,
)
from examples.learn_photographs import task as photographs  # noqa: E402
from tests.benchmarks.timing import table, versions  # noqa: E402
from tests.reference import spams_dictionary  # noqa: E402

SEED = 0
# Steps of the clock; None: from event to event.
STEPS = (None, 1 / 64, 1 / 32, 1 / 16, 1 / 8)
# (amplitude, duration of a phase), from many spikes in a short time to the opposite.
TRADES = ((5.0, 5.0), (5.0, 10.0), (3.0, 10.0), (2.0, 20.0), (1.0, 40.0))
PAPER = PaperSteps()
# What `LearningSettings` take for gradients from spike counts, and for the paper's steps.
COUNTED_KAPPA = 0.7
QUICK = ("as it comes", "the paper's settings")


def ablations(base: LearningSettings) -> dict[str, LearningSettings]:
    """Return the settings of each line of the table."""
    lines = {
        "as it comes": base,
        "spike counts": replace(base, readout="rate", kappa=COUNTED_KAPPA),
        "potentials from empty": replace(base, initial_potential=0.0),
        "spike counts from empty": replace(base, readout="rate", kappa=COUNTED_KAPPA, initial_potential=0.0),
        "no probes": replace(base, steps=UsageSteps(probes=0.0)),
        "no recovery of the silent": replace(base, steps=UsageSteps(patience=1e12)),
        "gain 1": replace(base, steps=UsageSteps(gain=1.0)),
        "one sample at a time": replace(base, batch_size=1),
        "batches of 256": replace(base, batch_size=256),
        "paper's rule": replace(base, steps=PAPER, kappa=COUNTED_KAPPA),
        "paper's rule, s = 1": replace(base, steps=PaperSteps(reweighting=False), kappa=COUNTED_KAPPA),
        "paper's rule, eta_H = eta_D": replace(
            base, steps=PaperSteps(lateral_ratio=1.0), kappa=COUNTED_KAPPA
        ),
        "the paper's settings": LearningSettings.paper(base.penalty),
    }
    lines |= {f"kappa {kappa}": replace(base, kappa=kappa) for kappa in (0.3, 0.5, 0.7, 0.9)}
    lines |= {f"T = {time:g} a phase": replace(base, duration=time) for time in (2.0, 10.0, 20.0, 40.0)}
    return lines


def learn(
    data, settings: LearningSettings, n_samples: int, n_jobs: int = 1
) -> tuple[TwoPhaseLearner, float, str]:
    """Return the learner, its seconds a sample, and what went wrong."""
    start = random_dictionary(data.n_atoms, data.signals.shape[1], rng=SEED)
    # Compiled, and the caches warm, before the clock runs.
    with suppress(RunawayFeedbackError):
        learn_dictionary(data.signals, start=start, settings=settings, n_samples=64, rng=SEED, n_jobs=n_jobs)
    begin = time.perf_counter()
    learner = new_learner(data.signals, start=start, settings=settings)
    try:
        continue_learning(learner, data.signals, n_samples=n_samples, rng=SEED, n_jobs=n_jobs)
    except RunawayFeedbackError:
        return learner, np.nan, f"ran away after {learner.n_samples:,}"
    return learner, (time.perf_counter() - begin) / n_samples, ""


def ablation_table(data, n_samples: int, n_held_out: int, chosen: tuple[str, ...] | None) -> str:
    rows = []
    for name, settings in ablations(LearningSettings(penalty=data.penalty)).items():
        if chosen is not None and name not in chosen:
            continue
        learner, seconds, fault = learn(data, settings, n_samples)
        history = learner.history
        if fault or not len(history["n_samples"]):
            rows.append([name, fault, "", "", "", ""])
            continue
        score = mean_objective(learner.dictionary, data.held_out[:n_held_out], penalty=data.penalty)
        rows.append(
            [
                name,
                f"{score.objective:.4f}",
                f"{history['consistency'].min():.2f}, {history['consistency'][-1]:.2f}",
                f"{history['least_norm'][-1]:.2f}, {history['median_norm'][-1]:.2f}, "
                f"{history['largest_norm'][-1]:.2f}",
                f"{learner.n_spikes / learner.n_samples:.0f}",
                f"{1e6 * seconds:.0f}",
            ]
        )
        print(rows[-1], flush=True)
    header = [
        "", "held-out objective", "consistency: least, last", "norms: least, median, largest",
        "spikes a sample", "us a sample",
    ]  # fmt: skip
    return table(header, rows)


def clock_table(data, n_samples: int, n_held_out: int, trades: tuple = TRADES, steps: tuple = STEPS) -> str:
    """Return objective and time for every duration of phases, from event to event and on clocks."""
    rows = []
    for amplitude, duration in trades:
        base = LearningSettings(penalty=data.penalty, amplitude=amplitude, duration=duration)
        row = [f"{amplitude:g}, {duration:g}"]
        for step in steps:
            learner, seconds, fault = learn(data, replace(base, time_step=step), n_samples)
            score = mean_objective(learner.dictionary, data.held_out[:n_held_out], penalty=data.penalty)
            if step is None:
                row.append(f"{learner.n_spikes / learner.n_samples:.0f}")
            row.append(fault or f"{score.objective:.4f}: {1e6 * seconds:.0f} us")
        rows.append(row)
        print(rows[-1], flush=True)
    names = ["events" if step is None else f"step 1/{1 / step:g}" for step in steps]
    return table(["amplitude, T", "spikes a sample", *names], rows)


def speed_table(data, n_samples: int, n_held_out: int) -> str:
    base = LearningSettings(penalty=data.penalty)
    start = random_dictionary(data.n_atoms, data.signals.shape[1], rng=SEED)
    rows = []
    runs = {
        "two-phase network": (base, 1),
        "two-phase network, two threads": (base, 2),
        "two-phase network, batches of 256": (replace(base, batch_size=256), 1),
        "two-phase network, batches of 256, two threads": (replace(base, batch_size=256), 2),
    }
    for name, (settings, n_jobs) in runs.items():
        learner, seconds, fault = learn(data, settings, n_samples, n_jobs)
        rows.append([name, learner.dictionary, seconds, fault])
        print(name, seconds, flush=True)
    if spams_dictionary.spams is not None:
        for batch in (16, 32, 512):
            curve = spams_dictionary.learn_with_spams(
                data.signals,
                start=start,
                penalty=data.penalty,
                n_samples=n_samples,
                batch_size=batch,
                rng=SEED,
            )
            rows.append([f"SPAMS, batches of {batch}", curve.dictionary, curve.seconds[-1] / n_samples, ""])
            print(rows[-1][0], rows[-1][2], flush=True)
    lines = [
        [
            name,
            f"{mean_objective(dictionary, data.held_out[:n_held_out], penalty=data.penalty).objective:.4f}",
            f"{seconds * n_samples:.1f} s",
            f"{1e6 * seconds:.0f}",
            fault,
        ]
        for name, dictionary, seconds, fault in rows
    ]
    return table(["learner", "held-out objective", f"{n_samples:,} samples", "us a sample", ""], lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=int, default=100_000, help="for the comparison with SPAMS")
    options.add_argument("--ablated", type=int, default=20_000, help="samples of each ablation")
    options.add_argument("--held-out", type=int, default=5_000)
    options.add_argument("--quick", action="store_true", help="the first lines of each table only")
    options.add_argument("--output", type=Path, default=Path("out/benchmark_dictionary_learning.md"))
    arguments = options.parse_args()
    data = photographs(
        n_signals=min(100_000, max(arguments.samples, arguments.ablated)), n_held_out=arguments.held_out
    )
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Two-phase dictionary learning: speed and ablations",
        f"8 x 8 patches of photographs, 256 atoms, penalty 0.1; {versions().split('; one thread')[0]}; "
        "single runs, one thread unless said.  Made by "
        "`python -m tests.benchmarks.dictionary_learning`.",
        "## Beside SPAMS, and on two threads",
        speed_table(data, arguments.samples, arguments.held_out),
        f"## Events against clocks: objective and time a sample ({arguments.ablated:,} samples each)",
        clock_table(
            data,
            arguments.ablated,
            arguments.held_out,
            *((TRADES[:1], STEPS[:3]) if arguments.quick else ()),
        ),
        f"## Ablations ({arguments.ablated:,} samples each)",
        ablation_table(data, arguments.ablated, arguments.held_out, QUICK if arguments.quick else None),
    ]
    arguments.output.write_text("\n\n".join(parts) + "\n")
    print(arguments.output)


if __name__ == "__main__":
    main()
