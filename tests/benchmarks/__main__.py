"""Times of the library, its peers and other checkouts: ``python -m tests.benchmarks [WORDS ...]``.

Cases whose names have one of the words are run, by default all. Answers are verified before they are timed,
calls take turns, compile time is apart, and the first call runs twice, as the control.  With
``--against CHECKOUT`` the library of another checkout does the same work in turn, round by round, by default
the cases of `cases.GATES`.  A line fails if the lower bound of its ratio is above 1.03.
"""

import os
import sys

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
if __name__ == "__main__" and any(os.environ.get(name) != "1" for name in ONE_THREAD):
    # Start anew with these variables, because libraries read their number of threads when they are loaded.
    os.execve(
        sys.executable, [sys.executable, "-m", "tests.benchmarks", *sys.argv[1:]], os.environ | ONE_THREAD
    )

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

from tests.benchmarks.cases import CASES, GATES, ROOT  # noqa: E402
from tests.benchmarks.timing import in_words, machine, table, timed  # noqa: E402

SLOWER = 1.03
# Seconds for which a short call is repeated, when two checkouts are compared.
SHORT = 0.03


def measure(name: str, *, small: bool, seconds: float) -> list[dict]:
    """Return a row for each call of a case."""
    work = CASES[name].make(small)
    calls = dict(work.calls)
    first = next(iter(calls))
    calls["control"] = calls[first]
    times = timed(calls, seconds=0.0 if small else seconds)
    rows = [
        {
            "case": name,
            "method": call,
            "seconds": times[call].median / work.n_signals,
            "spread": (times[call].high - times[call].low) / 2.0 / times[call].median,
            "ratio": times[call].median / times[first].median,
            "notes": work.notes.get(call, ""),
        }
        for call in calls
    ]
    for method, taken in work.seconds.items():
        ratio = taken / times[first].median
        rows.append(
            {"case": name, "method": method, "seconds": taken, "spread": 0.0, "ratio": ratio, "notes": ""}
        )
    return rows


def in_table(rows: list[dict]) -> str:
    """Return the rows of cases as Markdown."""
    cells = [
        [
            row["case"],
            row["method"],
            f"{in_words(row['seconds'])} ±{100 * row['spread']:.0f} %",
            f"{row['ratio']:.2f}",
            row["notes"],
        ]
        for row in rows
    ]
    return table(["case", "method", "median", "ratio", ""], cells)


# -- beside another checkout ---------------------------------------------------------------------


def serve(name: str, small: bool) -> None:
    """Run the first call of a case whenever a line is read, and print its seconds."""
    call = next(iter(CASES[name].make(small).calls.values()))
    call()
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        call()
        print(time.perf_counter() - begin, flush=True)


def server(name: str, product: Path, folder: str, *, small: bool) -> subprocess.Popen:
    """Start `serve` with the library and the cases of a checkout, or with our cases if it has none."""
    owner = product if (product / "tests" / "benchmarks" / "cases.py").exists() else ROOT
    folder = f"{folder}/{owner.name}"
    Path(folder).mkdir(exist_ok=True)
    for package in ("tests", "examples"):
        link = Path(folder) / package
        if not link.exists():
            link.symlink_to(owner / package)
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{product}"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks", name, "--serve"]
    return subprocess.Popen(
        command + ["--small"] * small,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def against(name: str, checkout: Path, *, small: bool, rounds: int) -> dict:
    """Return the ratio of times, this checkout over the other, its lower bound, and the control's ratio."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        servers = [server(name, product, folder, small=small) for product in (ROOT, checkout.resolve(), ROOT)]
        for each in servers:
            if each.stdout.readline().strip() != "ready":
                raise SystemExit(f"{name} fails in one of the checkouts")
        seconds = np.empty((rounds, 3))
        for row in seconds:
            for k in rng.permutation(3):
                # After other processes, first calls find empty caches: a short call is repeated, and the
                # median counts.
                taken: list[float] = []
                while sum(taken) < SHORT:
                    servers[k].stdin.write("\n")
                    servers[k].stdin.flush()
                    taken.append(float(servers[k].stdout.readline()))
                row[k] = np.median(taken)
        for each in servers:
            each.communicate()
    logs = np.log(seconds[:, :1] / seconds[:, 1:])
    drawn = np.median(logs[rng.integers(0, rounds, (2000, rounds))], axis=1)
    ratio, control = np.exp(np.median(logs, axis=0)).tolist()
    return {
        "case": name,
        "ratio": ratio,
        "at least": float(np.exp(np.quantile(drawn[:, 0], 0.05))),
        "control": control,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of the names of cases; by default all")
    parser.add_argument("--list", action="store_true", help="only say which cases there are")
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each call, and three rounds at least")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="the library of another checkout")
    parser.add_argument("--rounds", type=int, default=31, help="with --against")
    parser.add_argument("--output", type=Path, default=Path("out/benchmarks.json"))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    usual = GATES if options.against and not options.words else CASES
    names = [name for name in usual if not options.words or any(word in name for word in options.words)]
    if not names:
        parser.error(f"no case has one of these words in its name; cases: {'; '.join(CASES)}")
    if options.serve:
        serve(names[0], options.small)
        return 0
    if options.list:
        print("\n".join(f"{name}: {CASES[name].about}" for name in names))
        return 0
    print(machine(), flush=True)
    if options.against:
        found = []
        for name in names:
            found.append(against(name, options.against, small=options.small, rounds=options.rounds))
            print(found[-1], flush=True)
        slower = [row["case"] for row in found if row["at least"] > SLOWER]
        print(f"slower: {', '.join(slower) or 'none'}")
        rows = found
    else:
        rows, slower = [], []
        for name in names:
            rows += measure(name, small=options.small, seconds=options.seconds)
            print(in_table([row for row in rows if row["case"] == name]), "", sep="\n", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    return int(bool(slower))


if __name__ == "__main__":
    raise SystemExit(main())
