"""Certify codes of any program from the command line: ``python -m solvers.judge codes.npz``.

The file has named arrays, as numpy.savez writes them: dictionary (n_atoms, n_features), signals (n_signals,
n_features), penalty, and codes (n_signals, n_atoms).  Several arrays of codes are called codes_NAME.
Optional arrays are l2 (of an elastic net), positive, mask and feature_weights, as solvers.LassoProblem takes
them.  The exit status is 0 if all codes are within the tolerance, 1 if some codes are not, and 2 if the file
cannot be judged.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from snn.base import checks
from solvers.problem.lasso import LassoProblem
from solvers.problem.penalty import ElasticNet
from solvers.results.result import SparseCodingResult, certify

NEEDED = ("dictionary", "signals", "penalty")
OPTIONAL = ("l2", "positive", "mask", "feature_weights")


def judged(arrays: Mapping[str, np.ndarray], tol: float) -> dict[str, SparseCodingResult]:
    """Certify each array of codes in `arrays`; return the results, with the names of the arrays."""
    codes = sorted(name for name in arrays if name == "codes" or name.startswith("codes_"))
    missing = [name for name in NEEDED if name not in arrays] + ([] if codes else ["codes"])
    if missing:
        raise ValueError(f"the file must have {', '.join(NEEDED)} and codes; got no {', '.join(missing)}")
    unknown = set(arrays) - {*NEEDED, *OPTIONAL, *codes}
    if unknown:
        raise ValueError(f"the file must have no other arrays than {', '.join(OPTIONAL)}; got {min(unknown)}")
    options = {name: arrays[name] for name in OPTIONAL[1:] if name in arrays}
    options = {name: array if array.ndim else array.item() for name, array in options.items()}
    penalty = ElasticNet(arrays["penalty"], arrays["l2"]) if "l2" in arrays else arrays["penalty"]
    problem = LassoProblem(arrays["dictionary"], arrays["signals"], penalty, **options)
    results = {}
    for name in codes:
        with checks.called(codes=name):
            results[name] = certify(problem, arrays[name], tol=tol)
    return results


def _read(path: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file."""
    with Path(path).open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except Exception as error:  # zipfile, zlib and tokenize raise errors of their own for damaged files
            raise ValueError(
                "the file must be whole, with named arrays of numbers, as numpy.savez writes them"
            ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each set of codes, and return the exit status."""
    parser = argparse.ArgumentParser("python -m solvers.judge", description=__doc__)
    parser.add_argument("file", help="arrays by name, as numpy.savez writes them")
    parser.add_argument(
        "--tol", type=float, default=1e-6, help="the largest gap, as a share of 1/2 ||signal||^2"
    )
    given = parser.parse_args(arguments)
    try:
        results = judged(_read(given.file), given.tol)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        print(f"{given.file}: {error}", file=sys.stderr)
        return 2
    for name, result in results.items():
        gaps = result.relative_gap
        print(
            f"{name}: {np.count_nonzero(result.reached)} of {len(gaps)} signals within {given.tol:g}; "
            f"certified gaps: median {np.median(gaps):.1e}, largest {gaps.max():.1e} (signal "
            f"{gaps.argmax()}); {result.support_size.mean():.1f} coefficients a signal"
        )
    return 0 if all(result.converged for result in results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
