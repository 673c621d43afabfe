"""Learned dictionaries and unseen combinations: ``python -m tests.benchmarks.unseen_combinations``.

The benchmark of arXiv:2603.28744 (https://github.com/shrutij01/compositional-sparse-ood), with the same
samples: x = A z, A unit columns of either sign, z with ten entries uniform in [0, 1].  Samples
to learn from hold the first atom only together with the first half of the others; in samples to be tested by
it is always there, with atoms of the second half alone.  The score is the mean correlation of the entries
of found and true codes, each paired with one.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from scipy.optimize import linear_sum_assignment  # noqa: E402

from dictlearn import LearningSettings, UsageSteps, learn_dictionary, rules  # noqa: E402
from dictlearn.atoms import unit_norm  # noqa: E402
from dictlearn.resumable import batches_in_order, seed_of_order  # noqa: E402
from dictlearn.two_phase.steps import CodeStatistics, LearnedBatch  # noqa: E402
from examples._baselines import learn_with_scikit_learn  # noqa: E402
from examples._pictures import save_picture  # noqa: E402
from examples._results import write_results  # noqa: E402
from solvers import LassoProblem, solve_active_set  # noqa: E402
from tests.benchmarks.timing import table, versions  # noqa: E402
from tests.reference import spams_dictionary  # noqa: E402

SUPPORT = 10
N_SAMPLES = 2_500
PENALTY = 0.1
BATCH = 32
UNLEARNED = "random atoms, nothing learned"
# Their results/exp_vary_latents.json and exp_vary_latents_10k.json, "mcc_ood", seeds 0 to 2: FISTA and least
# squares in turn for 50,000 steps, and FISTA with the true dictionary.
PUBLISHED = {
    50: ((0.974, 0.861, 0.916), (0.978, 0.966, 0.970)),
    100: ((0.979, 0.944, 0.913), (0.986, 0.983, 0.988)),
    500: ((0.958, 0.962, 0.944), (0.992, 0.992, 0.992)),
    1_000: ((0.462, 0.471, 0.491), (0.993, 0.993, 0.993)),
    5_000: ((0.268, 0.224, 0.293), (0.992, 0.992, 0.992)),
    10_000: ((0.331, 0.344, 0.338), (0.982, 0.982, 0.982)),
}

HEAD = """# Learned dictionaries and unseen combinations

A benchmark that others published ([arXiv:2603.28744](https://arxiv.org/abs/2603.28744),
[code](https://github.com/shrutij01/compositional-sparse-ood)), with the same samples and the same
score. Signals are combinations of ten of the atoms, which are unit vectors of either sign; the ten
entries of a code are uniform in [0, 1].  Every learner sees the same 2,500 signals in the same order
from the same random start, and has the penalty {penalty}.  In the signals that the score is measured
on, the first atom comes together with atoms that it was never seen with.  Codes are exact, in learned
atoms made unit; the score is the mean correlation of true and found entries, paired one to one.
*Objective* is the mean of 1/2 ||x - a D||² + {penalty} ||a||₁ over the same signals.  Seconds are of
one thread, some of them taken beside other work; none are given where that was much.  The network has the
settings that it comes with.

{versions}.  Made by `python -m tests.benchmarks.unseen_combinations`."""

LIMITS = """## What limits

**At 50 and 100 atoms, local minima.** Two to five atoms lie between two true ones, or follow one that
another has already. More passes change nothing, and the objective of the samples that were seen is below
that of the true atoms. Correlations of one draw change by about .05 with anything that changes the order
of events.

**At 500, the phases, and then the rule.** With phases of 20 time constants the network learns as exact codes
do with its rule and its steps, and both go past SPAMS. With those that it comes with, of 10, it finds fewer;
with phases of 5 and feedback of 0.7, as it was before, the first draw had .670. Some fifty atoms are active
at first, and a short run does not tell which of them stay."""


FROM_A_THOUSAND_ON = """**From 1,000 atoms on, the samples.** 2,500 samples use each of 1,000 atoms 25 times,
each of 5,000 atoms five times, each of 10,000 two or three times. Below are exact codes with the network's
rule, one draw. A true atom is found if a learned one has a cosine of .9 with it. *Objective, seen* is of what
was learned from.

- *A better minimum is not a better dictionary.* From the true atoms learning goes away from them, to a lower
  objective. A penalty that falls finds lower minima as well, and after 160 passes the correlation is lower
  for it. With 5,000 atoms the samples themselves, as atoms, have less than half of the objective of the true
  atoms, and there is nothing left to learn.
- *More samples are the remedy*, with as many shown in all. At 1,000 atoms random atoms end at .28 with 2,500
  samples, each shown 40 times, and at .90 with 10,000, each shown ten times: 95 % of the atoms are found.
- *Passes and starts* decide how far learning comes with few samples. At 1,000 atoms 160 passes from random
  atoms reach what was published after 50,000 steps.
- *At 5,000 and 10,000 atoms the published figures are those of chance.* Random atoms that learned nothing
  have .26 and .37; published are .26 and .34. The score pairs each true entry with one of thousands, and
  the best of thousands is similar by chance. From random atoms no learner can be told from another there.

Passes were what a few minutes of one core allow: ten at 5,000 atoms, four at 10,000. SPAMS was not run with
10,000."""


class Samples(NamedTuple):
    """Signals and the codes that they were made of, one a row."""

    signals: np.ndarray
    codes: np.ndarray


class Data(NamedTuple):
    """What is learned from, what is tested by, and the atoms, unit rows."""

    seen: Samples
    unseen: Samples
    dictionary: np.ndarray


def generate(n_atoms: int, seed: int, n_samples: int = N_SAMPLES) -> Data:
    """Return the published samples: drawn in the same order, by the same generator.

    Theirs are twice as many, of which they learn from and score the second half.
    """
    rng = np.random.RandomState(seed)
    n_features = math.ceil(2 * SUPPORT * math.log(n_atoms / SUPPORT))
    atoms = rng.normal(0.0, 1.0, (n_features, n_atoms))
    atoms /= np.linalg.norm(atoms, axis=0)
    n_late = n_atoms // 2

    def with_first(low: int, high: int) -> np.ndarray:
        others = rng.choice(np.arange(low, high), SUPPORT - 1, replace=False)
        return np.concatenate([[0], others])

    def code(atoms_of_code: np.ndarray) -> np.ndarray:
        values = np.zeros(n_atoms)
        values[atoms_of_code] = rng.uniform(0.0, 1.0, SUPPORT)
        return values

    def seen() -> np.ndarray:
        if rng.binomial(n=1, p=0.5):
            return code(with_first(1, n_atoms - n_late))
        return code(rng.choice(np.arange(1, n_atoms), SUPPORT, replace=False))

    codes = np.array([seen() for _ in range(2 * n_samples)])[n_samples:]
    others = np.array([code(with_first(n_atoms - n_late, n_atoms)) for _ in range(n_samples)])
    return Data(Samples(codes @ atoms.T, codes), Samples(others @ atoms.T, others), atoms.T.copy())


def mean_correlation(true: np.ndarray, found: np.ndarray) -> float:
    """Return the mean of |correlation| of the columns of true codes, each paired with another column found.

    Only true columns that vary count, and as many of those found: the ones that vary most.
    """
    true = true[:, true.var(axis=0) > 1e-8]
    found = found[:, np.argsort(-found.var(axis=0))[: true.shape[1]]]
    correlation = np.abs(_standardised(true).T @ _standardised(found))
    return float(correlation[linear_sum_assignment(-correlation)].mean())


def _standardised(columns: np.ndarray) -> np.ndarray:
    columns = columns - columns.mean(axis=0)
    norms = np.linalg.norm(columns, axis=0)
    return columns / np.where(norms < 1e-8, 1.0, norms)


class Score(NamedTuple):
    """Of a dictionary, with exact codes of the samples of unseen combinations."""

    correlation: float
    objective: float


def score(dictionary: np.ndarray, data: Data) -> Score:
    """Return what exact codes in the atoms, made unit, are worth."""
    found = solve_active_set(LassoProblem(unit_norm(dictionary), data.unseen.signals, PENALTY, positive=True))
    return Score(mean_correlation(data.unseen.codes, found.codes), float(found.objective.mean()))


Learn = Callable[[Data, np.ndarray, int, int], np.ndarray]
"""(data, start, samples to be shown, seed) -> dictionary."""


def alternate(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Learn by exact codes of all samples and least squares, in turn: the published method, codes exact."""
    del seed
    signals, dictionary = data.seen.signals, start
    for _ in range(n_samples // len(signals)):
        codes = solve_active_set(LassoProblem(dictionary, signals, PENALTY, positive=True)).codes
        gram = codes.T @ codes + 1e-6 * np.eye(len(dictionary))
        dictionary = np.linalg.solve(gram, codes.T @ signals)
        dictionary /= np.maximum(np.linalg.norm(dictionary, axis=1, keepdims=True), 1e-8)
        # An atom that no code uses has become zero; it starts again.
        lost = np.flatnonzero(np.linalg.norm(dictionary, axis=1) < 0.5)
        dictionary[lost] = start[lost]
    return dictionary


def by_spams(batch_size: int) -> Learn:
    """Return how SPAMS learns."""

    def learn(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
        return spams_dictionary.learn_with_spams(
            data.seen.signals, start=start, penalty=PENALTY, n_samples=n_samples, batch_size=batch_size,
            rng=seed, positive_atoms=False,
        ).dictionary  # fmt: skip

    return learn


def by_scikit_learn(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
    """Learn with `MiniBatchDictionaryLearning`."""
    return learn_with_scikit_learn(
        data.seen.signals, start=start, penalty=PENALTY, n_samples=n_samples, batch_size=BATCH, rng=seed,
        positive_atoms=False,
    ).dictionary  # fmt: skip


def by_network(**phases: float) -> Learn:
    """Return how the two-phase network learns; its settings are as they come, but for those of its phases."""
    settings = LearningSettings(penalty=PENALTY, positive_atoms=False, batch_size=BATCH, **phases)

    def learn(data: Data, start: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
        return learn_dictionary(
            data.seen.signals, start=start, settings=settings, n_samples=n_samples, rng=seed, n_jobs=1
        ).dictionary

    return learn


def by_exact_codes(
    data: Data, start: np.ndarray, n_samples: int, seed: int, *, first_penalty: float = PENALTY
) -> np.ndarray:
    """Learn by the network's own rule and steps from exact codes: a network whose phases never end.

    A penalty that is larger at first falls to PENALTY until half of the samples were shown.
    """
    signals, atoms, average, steps = data.seen.signals, start.copy(), start.copy(), UsageSteps()
    n_atoms, n_learned, energy = len(atoms), 0, float(np.square(signals).sum(axis=1).mean())
    statistics = CodeStatistics(usage=np.zeros(n_atoms), movement=np.zeros(n_atoms))
    last_fired = np.zeros(n_atoms)
    for rows in batches_in_order(len(signals), n_samples, batch_size=BATCH, seed=seed_of_order(seed)):
        weights = steps.penalty_weights(np.ones(n_atoms), n_learned - last_fired)
        falls = max(1.0 - 2.0 * n_learned / n_samples, 0.0)
        penalty = PENALTY * (first_penalty / PENALTY) ** falls
        excitable = penalty * np.maximum(weights, 1e-3)
        codes = solve_active_set(LassoProblem(atoms, signals[rows], excitable, positive=True)).codes
        error = codes @ atoms - signals[rows]
        batch = LearnedBatch(
            codes=codes,
            all_codes=codes,
            errors=np.square(error).sum(axis=1),
            observed_penalty=lambda error=error: rules.observed_penalty(atoms, error, kappa=1.0),
            lateral_gradient=lambda codes=codes: np.zeros_like(codes),
            inhibition=lambda codes=codes: np.zeros_like(codes),
            n_samples=n_learned,
            energy=energy,
            penalty=np.full(n_atoms, penalty),
            thresholds=np.square(atoms).sum(axis=1),
            kappa=1.0,
            readout="current",
            positive_atoms=False,
        )
        sizes = steps.of_batch(batch, statistics)
        rules.update_feedback(
            atoms.T, codes, error, kappa=1.0, step=sizes.step, keep=sizes.keep, least=-np.inf
        )
        assert sizes.averaged is not None
        average += sizes.averaged[:, np.newaxis] * (atoms - average)
        n_learned += len(rows)
        last_fired[codes.any(axis=0)] = n_learned
    return average


LEARNERS: dict[str, Learn] = {
    "two-phase network": by_network(),
    "two-phase network, phases of 20": by_network(duration=20.0, time_step=1 / 8),
    "exact codes, the network's rule": by_exact_codes,
    "SPAMS, batches of 32": by_spams(32),
    "SPAMS, batches of 512": by_spams(512),
    "scikit-learn, batches of 32": by_scikit_learn,
    "exact codes and least squares in turn": alternate,
}


def measure(n_atoms: int, seed: int, n_passes: int, learners: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the scores of each learner, and of the true dictionary, for one draw of the samples."""
    data = generate(n_atoms, seed)
    start = unit_norm(np.random.default_rng(seed).standard_normal(data.dictionary.shape))
    results = {
        name: {**score(dictionary, data)._asdict(), "seconds": 0.0}
        for name, dictionary in (("the true dictionary", data.dictionary), (UNLEARNED, start))
    }
    for name in learners:
        begin = time.perf_counter()
        dictionary = LEARNERS[name](data, start.copy(), n_passes * N_SAMPLES, seed)
        seconds = time.perf_counter() - begin
        results[name] = {**score(dictionary, data)._asdict(), "seconds": seconds}
        print(n_atoms, seed, name, results[name], flush=True)
    return results


class Trial(NamedTuple):
    """Exact codes with the network's rule: what they start from, and what is learned from."""

    n_atoms: int
    start: str
    n_samples: int = N_SAMPLES
    n_passes: int = 40
    first_penalty: float = PENALTY

    def __str__(self) -> str:
        falls = "" if self.first_penalty == PENALTY else f", penalty falling from {self.first_penalty}"
        passes = f"{self.n_passes} passes over" if self.n_passes else "nothing learned from"
        return f"{self.n_atoms:,} atoms, {self.start}, {passes} {self.n_samples:,} samples{falls}"

    def begin(self, data: Data) -> np.ndarray:
        """Return the atoms to start from."""
        truth = data.dictionary
        random = unit_norm(np.random.default_rng(0).standard_normal(truth.shape))
        if self.start == SAMPLES:
            n = min(len(truth), len(data.seen.signals))
            return np.vstack([unit_norm(data.seen.signals[:n]), random[n:]])
        # Two random directions are nearly orthogonal: the cosine with the true atom.
        cosine = {RANDOM: 0.0, NEAR: 0.7, TRUE: 1.0}[self.start]
        return unit_norm(cosine * truth + math.sqrt(1.0 - cosine**2) * random)


RANDOM, SAMPLES, NEAR, TRUE = STARTS = (
    "random atoms",
    "samples as atoms",
    "a cosine of .7 with the true",
    "the true atoms",
)
TRIALS = (
    *(Trial(n_atoms, RANDOM, n_passes=0) for n_atoms in (50, 100, 500)),
    *(Trial(1_000, start, n_passes=0) for start in STARTS),
    *(Trial(1_000, start) for start in STARTS),
    Trial(1_000, RANDOM, first_penalty=0.4),
    Trial(1_000, RANDOM, n_passes=160),
    Trial(1_000, RANDOM, n_passes=160, first_penalty=0.4),
    *(Trial(1_000, NEAR, n_samples, 100_000 // n_samples) for n_samples in (5_000, 10_000, 25_000)),
    *(Trial(1_000, RANDOM, n_samples, 100_000 // n_samples) for n_samples in (10_000, 25_000)),
    *(Trial(5_000, start, n_passes=0) for start in STARTS),
    *(Trial(5_000, start, n_passes=10) for start in STARTS),
    *(Trial(5_000, start, 25_000, 1) for start in (RANDOM, NEAR)),
    *(Trial(10_000, start, n_passes=0) for start in (RANDOM, TRUE, SAMPLES)),
    Trial(10_000, RANDOM, n_passes=4),
)
"""What may limit learning from 2,500 samples, one at a time."""


def measure_trial(trial: Trial) -> dict[str, float]:
    """Return what a trial ends with, for the first draw; also the objective of what was learned from."""
    standard = generate(trial.n_atoms, 0)
    data = standard
    if trial.n_samples != N_SAMPLES:
        data = standard._replace(seen=generate(trial.n_atoms, 0, trial.n_samples).seen)
    dictionary, begin = trial.begin(data), time.perf_counter()
    if trial.n_passes:
        dictionary = by_exact_codes(
            data, dictionary, trial.n_passes * trial.n_samples, 0, first_penalty=trial.first_penalty
        )
    seconds = time.perf_counter() - begin if trial.n_passes else 0.0
    seen = data.seen.signals[:N_SAMPLES]
    found = solve_active_set(LassoProblem(unit_norm(dictionary), seen, PENALTY, positive=True))
    cosines = np.abs(unit_norm(dictionary) @ data.dictionary.T).max(axis=0)
    return {
        **score(dictionary, standard)._asdict(),
        "objective of samples seen": float(found.objective.mean()),
        "true atoms found": float(np.mean(cosines > 0.9)),
        "seconds": seconds,
    }


def _read(path: Path) -> dict:
    """Return what the file has."""
    return json.loads(path.read_text()) if path.exists() else {"runs": {}}


def _write(path: Path, data: dict) -> None:
    """Write what was measured, and with what."""
    data["versions"] = versions().split("; one thread")[0]
    write_results(path, data)


def collect_trials(sizes: Sequence[int], path: Path) -> dict:
    """Measure the trials that are not in the file yet, and write it."""
    data = _read(path)
    known = data.setdefault("trials", {})
    for trial in TRIALS:
        if trial.n_atoms in sizes and str(trial) not in known:
            known[str(trial)] = measure_trial(trial)
            print(trial, known[str(trial)], flush=True)
            _write(path, data)
    return data


def collect(
    sizes: Sequence[int], seeds: Sequence[int], n_passes: int, learners: Sequence[str], path: Path
) -> dict:
    """Measure what is not in the file yet, and write it."""
    data = _read(path)
    for n_atoms in sizes:
        for seed in seeds:
            key = f"{n_atoms} atoms, {n_passes} passes, seed {seed}"
            known = data["runs"].setdefault(key, {})
            known |= measure(n_atoms, seed, n_passes, [name for name in learners if name not in known])
            _write(path, data)
    return data


def page(data: dict) -> str:
    """Return the page: a table for each number of atoms and of passes."""
    groups: dict[tuple[int, int], list[dict]] = {}
    for key, results in data["runs"].items():
        n_atoms, n_passes = (int(part.split()[0]) for part in key.split(", ")[:2])
        groups.setdefault((n_atoms, n_passes), []).append(results)
    parts = [
        HEAD.format(versions=data["versions"], penalty=PENALTY),
        "![Correlation of found and true codes, by the number of atoms](benchmarks/unseen_combinations.png)",
    ]
    for (n_atoms, n_passes), runs in sorted(groups.items()):
        published, oracle = PUBLISHED[n_atoms]
        rows = [
            ["published: FISTA and least squares in turn", *_cells(published), "", ""],
            ["published: the true dictionary", *_cells(oracle), "", ""],
        ]
        for name in runs[0]:
            here = [results[name] for results in runs if name in results]
            timed = [each["seconds"] for each in here if each["seconds"]]
            rows.append(
                [
                    name,
                    *_cells([each["correlation"] for each in here]),
                    f"{np.mean([each['objective'] for each in here]):.4f}",
                    f"{np.mean(timed):.1f}" if timed else "",
                ]
            )
        header = ["learner", "correlation: mean", "each draw", "objective", "seconds"]
        n_features = math.ceil(2 * SUPPORT * math.log(n_atoms / SUPPORT))
        parts += [
            f"## {n_atoms:,} atoms in {n_features} dimensions, {n_passes} passes over {N_SAMPLES:,} samples",
            table(header, rows),
        ]
    parts += [LIMITS, *_trials(data.get("trials", {}))]
    return "\n\n".join(parts) + "\n"


def _trials(trials: dict[str, dict[str, float]]) -> list[str]:
    """Return the text and the table of the trials that were made."""
    rows = []
    for trial in TRIALS:
        if str(trial) not in trials or trial.n_atoms < 1_000:
            continue
        found = trials[str(trial)]
        falls = "" if trial.first_penalty == PENALTY else f", penalty falls from {trial.first_penalty}"
        rows.append(
            [
                f"{trial.n_atoms:,}",
                f"{trial.start}{falls}",
                f"{trial.n_passes} x {trial.n_samples:,}" if trial.n_passes else "none",
                f"{found['correlation']:.3f}",
                f"{100 * found['true atoms found']:.0f} %",
                f"{found['objective of samples seen']:.4f}",
            ]
        )
    header = ["atoms", "start", "passes x samples", "correlation", "true atoms found", "objective, seen"]
    return [FROM_A_THOUSAND_ON, table(header, rows)] if rows else []


def _cells(draws: Sequence[float]) -> list[str]:
    return [f"{np.mean(draws):.3f}", ", ".join(f"{value:.3f}" for value in draws)]


def picture(data: dict) -> Figure:
    """Return the correlations of each learner, a point for each draw, by the number of atoms."""
    drawn = Figure(figsize=(7.5, 4.0), layout="constrained")
    axes = drawn.subplots()
    points: dict[str, list[tuple[int, float]]] = {}
    for key, results in data["runs"].items():
        n_atoms = int(key.split()[0])
        for name, result in results.items():
            if name == UNLEARNED:
                continue
            points.setdefault(name, []).append((n_atoms, result["correlation"]))
    for n_atoms, (published, _) in PUBLISHED.items():
        points.setdefault("published: FISTA and least squares", []).extend(
            (n_atoms, value) for value in published
        )
    for k, (name, values) in enumerate(points.items()):
        sizes, correlations = np.array(values).T
        axes.plot(
            sizes * 1.04 ** (k - len(points) / 2),
            correlations,
            "osD^vPX*p"[k % 9],
            ms=5,
            alpha=0.8,
            label=name,
        )
    trials = data.get("trials", {})
    unlearned = [trial for trial in TRIALS if trial.start == RANDOM and not trial.n_passes]
    chance = {trial.n_atoms: trials[str(trial)]["correlation"] for trial in unlearned if str(trial) in trials}
    axes.plot(list(chance), list(chance.values()), "--", color="0.5", linewidth=1.0, label=UNLEARNED)
    axes.set(xscale="log", xlabel="atoms", ylabel="correlation, unseen combinations", ylim=(0.0, 1.02))
    axes.set_xticks(list(PUBLISHED), [f"{n_atoms:,}" for n_atoms in PUBLISHED])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--atoms", type=int, nargs="+", default=[50, 100], choices=list(PUBLISHED))
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], choices=[0, 1, 2])
    options.add_argument("--passes", type=int, default=40, help="over the samples, for each learner")
    options.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    options.add_argument("--trials", action="store_true", help="measure what limits, from 1,000 atoms on")
    options.add_argument("--render", action="store_true", help="measure nothing, make page and picture anew")
    options.add_argument("--output", type=Path, default=Path("docs"))
    arguments = options.parse_args()
    folder = arguments.output / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "unseen_combinations.json"
    if arguments.render:
        data = _read(path)
    elif arguments.trials:
        data = collect_trials(arguments.atoms, path)
    else:
        data = collect(arguments.atoms, arguments.seeds, arguments.passes, arguments.learners, path)
    save_picture(picture(data), path.with_suffix(".png"), dpi=110)
    (arguments.output / "benchmark_unseen_combinations.md").write_text(page(data))


if __name__ == "__main__":
    main()
