"""The library beside its peers, in one command: ``python -m tests.benchmarks [SECTION ...] [--quick]``.

Each section writes its figures as JSON and a picture, and the page of them all is made from those.
"""

import os
import sys

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
if __name__ == "__main__" and any(os.environ.get(name) != "1" for name in ONE_THREAD):
    # From the start: libraries count their threads when they are loaded.
    os.execve(
        sys.executable,
        [sys.executable, "-m", "tests.benchmarks", *sys.argv[1:]],
        {**os.environ, **ONE_THREAD},
    )

import argparse  # noqa: E402
import importlib  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Iterable  # noqa: E402
from pathlib import Path  # noqa: E402
from types import ModuleType  # noqa: E402

from threadpoolctl import threadpool_limits  # noqa: E402

from tests.benchmarks import quoted, report  # noqa: E402
from tests.benchmarks.peers import present  # noqa: E402
from tests.benchmarks.problems import planted_problems, random_dictionary  # noqa: E402
from tests.benchmarks.timing import first_call, processor, versions  # noqa: E402

SECTIONS = {
    "spikes": "spikes_alone",
    "convergence": "convergence",
    "proved": "proved_rates",
    "simulator": "simulator",
    "random": "random_designs",
    "hard": "hard_designs",
    "regression": "regression",
    "patches": "patches",
    "time": "gap_curves",
    "size": "dictionary_size",
    "support": "support_size",
    "threads": "threads",
    "finish": "finish_time",
    "floor": "floor",
    "clock": "coarse_clock",
    "startup": "startup",
    "convolution": "convolution",
    "long": "long_signals",
    "stream": "stream",
    "path": "paths",
    "masks": "masks",
    "many": "many_atoms",
    "least_squares": "least_squares",
    "derivatives": "derivatives",
    "operations": "operation_counts",
}
PEERS = ("celer", "skglm", "spams-bin", "Brian2")


def sections() -> dict[str, ModuleType]:
    """Return the module of each section."""
    return {
        name: importlib.import_module(f"tests.benchmarks.{module}")
        for name, module in SECTIONS.items()
        if (Path(__file__).parent / f"{module}.py").exists()
    }


def main(arguments: list[str] | None = None) -> int:
    modules = sections()
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(modules)}; by default all"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument(
        "--output", type=Path, help="folder; by default docs/benchmarks, and out/benchmarks with --quick"
    )
    parser.add_argument("--render", action="store_true", help="measure nothing, make page and pictures anew")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sections if name not in modules]
    if unknown:
        parser.error(f"sections must be of {', '.join(modules)}; got {', '.join(unknown)}")
    output = options.output or Path("out/benchmarks" if options.quick else "docs/benchmarks")

    failed = []
    if options.render:
        for name, data in report.figures(output, modules).items():
            report.draw(output, name, modules[name], data)
    else:
        with threadpool_limits(limits=1):
            compiling = compile_peers(modules[name] for name in options.sections or modules)
            for name in options.sections or modules:
                if not measure(name, modules[name], output, compiling, quick=options.quick):
                    failed.append(name)
    print(report.write_page(output, modules))
    if output.resolve() == quoted.FIGURES:
        quoted.fill_documentation()
    if failed:
        print(f"these sections failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def compile_peers(modules: Iterable[ModuleType]) -> dict[str, float]:
    """Return the seconds of the first call of each peer that the sections ask, imports and all.

    That is where Numba compiles for some.  For the library it is mostly loading from the disk cache.
    """
    peers = {peer.name: peer for module in modules for peer in getattr(module, "ENTRANTS", ())}
    (problem,) = planted_problems(random_dictionary(16, 32), support=2, n_signals=1)
    return {
        peer.name: first_call(lambda peer=peer: peer.ask(problem)(1e-2)) for peer in present(peers.values())
    }


def measure(
    name: str, section: ModuleType, output: Path, compiling: dict[str, float], *, quick: bool
) -> bool:
    """Run a section and write what it measured; return whether it went through."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    try:
        if not hasattr(section, "run"):
            # A program of its own, with a report of its own.
            section.main(["--quick"] if quick else [])
            return True
        asked = {peer.name for peer in getattr(section, "ENTRANTS", ())}
        data = section.run(quick=quick)
        data |= {"quick": quick, "processor": processor(), "versions": versions(*PEERS)}
        data["first_calls"] = {peer: seconds for peer, seconds in compiling.items() if peer in asked}
        data["seconds"] = time.perf_counter() - begin
        report.save(output, name, section, data)
    except Exception:
        # A night's work is not lost for the sake of one section; the exit status tells.
        traceback.print_exc()
        return False
    print(f"{name}: {data['seconds']:.0f} s", file=sys.stderr, flush=True)
    return True


if __name__ == "__main__":
    raise SystemExit(main())
