"""Random networks of all forms of weights and all regimes: every spike judged in 106 bits.

    python -m tests.stress.random_networks --networks 100000 --seed 0

Each network is run, and its record judged by `tests.reference.exact_spikes`, spike by spike.  Beside that an
event simulator in 106 bits (`tests.reference.precise_simulator`) runs free, and its spikes are compared with
the record to the end.  Then the network is run once more in another way, drawn for each: without recording,
paused after every window, as one of several copies, or in two threads, which must change no bit; or step by
step, or continued from its end, which is judged as well.

Started again with the same seed, it goes on where it was.  ``--only NUMBER`` runs one network and says what
is wrong with it; a network that fails is made smaller, neuron by neuron, as long as it fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from examples._results import compact
from tests.reference.weight_forms import FORMS
from tests.stress.network_cases import Case
from tests.stress.network_checks import draw, examine, new_count

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "docs" / "results" / "reliability_networks.json"
COMMAND = "python -m tests.stress.random_networks"
SAVE_EVERY = 500
MOST_FAILURES = 20


# -- a network that fails ------------------------------------------------------------------------


def without(this: Case, removed: np.ndarray) -> Case:
    """Return the network without some neurons."""
    kept = np.setdiff1d(np.arange(len(this.weights)), removed)
    state = this.state
    if state is not None:
        state = type(state)(
            membrane_potential=state.membrane_potential[kept],
            synaptic_current=state.synaptic_current[kept],
            time=state.time,
        )
    return this._replace(
        weights=this.weights[np.ix_(kept, kept)],
        soma_bias=this.soma_bias[kept],
        firing_threshold=this.firing_threshold[kept],
        state=state,
    )


def fails(this: Case, way: str | None, seed: int, number: int) -> str:
    """Return what is wrong with a network, "" if nothing."""
    try:
        examine(this, way, np.random.default_rng([seed, number, 2]), new_count())
    except Exception as error:  # whatever it is, it should not be
        return f"{type(error).__name__}: {error}"
    return ""


def shrunk(this: Case, way: str | None, seed: int, number: int) -> Case:
    """Remove neurons, those that the form has to keep together at once, as long as the network fails."""
    position = 0
    while len(this.weights) > max(FORMS[this.form].multiple, 1):
        n = len(this.weights)
        unit = n // FORMS[this.form].multiple  # neurons in one half, or at one position
        if position >= unit:
            break
        smaller = without(this, np.arange(position, n, unit))
        if fails(smaller, way, seed, number):
            this = smaller
        else:
            position += 1
    return this


def describe(this: Case, way: str | None, seed: int, number: int) -> str:
    """Return how to see a failure again."""
    small = shrunk(this, way, seed, number)
    start = "at rest"
    if small.state is not None:
        start = (
            f"v = {small.state.membrane_potential.tolist()}, h = {small.state.synaptic_current.tolist()}, "
            f"time = {small.state.time}"
        )
    return (
        f"network {number}, {this.form}, {this.regime}, {len(this.weights)} neurons, {way}: "
        f"{fails(this, way, seed, number)}\n"
        f"  {COMMAND} --seed {seed} --only {number}\n"
        f"  smallest that fails, {len(small.weights)} neurons ({fails(small, way, seed, number)}):\n"
        f"  weights = {small.weights.tolist()}\n  soma_bias = {small.soma_bias.tolist()}\n"
        f"  firing_threshold = {small.firing_threshold.tolist()}\n  {start}; duration = {small.duration!r}"
    )


# -- many networks -------------------------------------------------------------------------------


class Tally:
    """What happened, by form of weights and by regime."""

    def __init__(self, seed: int) -> None:
        self.seed, self.done, self.seconds = seed, 0, 0.0
        self.forms: dict[str, dict] = {}
        self.regimes: dict[str, dict] = {}
        self.ways: dict[str, int] = {}
        self.failures: list[str] = []

    def add(self, this: Case, seen: dict) -> None:
        seen["networks"] = 1
        for table, key in ((self.forms, this.form), (self.regimes, this.regime)):
            total = table.setdefault(key, new_count())
            for name, value in total.items():
                total[name] = max(value, seen[name]) if name.startswith("worst") else value + seen[name]
        if "way" in seen:
            self.ways[seen["way"]] = self.ways.get(seen["way"], 0) + 1
        self.done += 1

    def as_json(self) -> str:
        def plain(value):
            return value.tolist() if isinstance(value, np.ndarray) else value

        tables = {
            name: {key: {k: plain(v) for k, v in count.items()} for key, count in table.items()}
            for name, table in (("forms", self.forms), ("regimes", self.regimes))
        }
        return compact(
            {
                "command": f"{COMMAND} --networks {self.done} --seed {self.seed}",
                "seed": self.seed,
                "networks": self.done,
                "seconds": round(self.seconds),
                "failures": self.failures,
                "ways": dict(sorted(self.ways.items())),
                **tables,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Tally:
        data = json.loads(text)
        tally = cls(data["seed"])
        tally.done, tally.seconds = data["networks"], data["seconds"]
        tally.ways, tally.failures = data["ways"], data["failures"]
        for name in ("forms", "regimes"):
            table = getattr(tally, name)
            for key, count in data[name].items():
                table[key] = {k: np.array(v) if isinstance(v, list) else v for k, v in count.items()}
        return tally

    def __str__(self) -> str:
        def total(name):
            return sum(count[name] for count in self.forms.values())

        worst = max((count["worst error"] for count in self.forms.values()), default=0.0)
        return (
            f"{self.done:,} networks, {total('spikes'):,} spikes, the worst off by {worst:.2g} roundings; "
            f"{total('ties'):,} instants with ties, {total('undecided'):,} neurons undecided; "
            f"{total('runaways'):,} runaways, {total('refused'):,} refused; failures: {len(self.failures)}"
        )


def play(tally: Tally, n_networks: int, *, quiet: bool, save: Callable[[Tally], None]) -> None:
    """Examine networks from where the tally is up to `n_networks`."""
    started, before = time.monotonic(), tally.seconds
    for number in tqdm(range(tally.done, n_networks), disable=quiet, unit="network"):
        this, way = draw(tally.seed, number)
        seen = new_count()
        try:
            examine(this, way, np.random.default_rng([tally.seed, number, 2]), seen)
        except Exception:  # whatever it is, it should not be
            tally.failures.append(describe(this, way, tally.seed, number))
            print(tally.failures[-1], file=sys.stderr)
        tally.add(this, seen)
        tally.seconds = before + time.monotonic() - started
        if tally.done % SAVE_EVERY == 0:
            save(tally)
        if len(tally.failures) >= MOST_FAILURES:
            break
    save(tally)


def main() -> int:
    """Return 0 if all networks were right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--only", type=int, help="examine this one, and write nothing")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: %(default)s")
    parser.add_argument("--anew", action="store_true", help="begin with the first network again")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    if options.only is not None:
        this, way = draw(options.seed, options.only)
        wrong = fails(this, way, options.seed, options.only)
        print(describe(this, way, options.seed, options.only) if wrong else "right")
        return int(bool(wrong))
    tally = Tally(options.seed)
    if options.output.exists() and not options.anew:
        before = Tally.from_json(options.output.read_text())
        tally = before if before.seed == options.seed else tally

    def save(tally: Tally) -> None:
        options.output.write_text(tally.as_json() + "\n")

    play(tally, options.networks, quiet=options.quiet, save=save)
    print(f"{tally}  ({tally.seconds:.0f} s)")
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
