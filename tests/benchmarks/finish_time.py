"""When should the exact read-out leave the network?  ``python -m tests.benchmarks.finish_time``.

Total time of a solve, and the corrections it needed, against the simulated time before the finish.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from unittest import mock  # noqa: E402

from dictlearn import extract_patches, overcomplete_dct, remove_mean  # noqa: E402
from examples._common import photograph  # noqa: E402
from solvers import LassoProblem, solve_spiking, spiking  # noqa: E402
from tests.benchmarks.spiking_lasso import random_problem  # noqa: E402
from tests.benchmarks.timing import median_seconds, milliseconds, table  # noqa: E402

FINISH_TIMES = (1.0, 2.0, 4.0, 8.0, 16.0)


def problems() -> dict[str, LassoProblem]:
    patches, _ = remove_mean(extract_patches(photograph(424, 640), 8, stride=16))
    return {
        "64 x 256": random_problem(64, 256, support=6),
        "256 x 1024": random_problem(256, 1024, support=25),
        "1024 x 4096": random_problem(1024, 4096, support=100),
        f"{len(patches)} patches, signed": LassoProblem(overcomplete_dct(8, 256), patches, 0.05),
    }


def main() -> None:
    rows = []
    for name, problem in problems().items():
        row = [name]
        for finish_time in FINISH_TIMES:
            with mock.patch.object(spiking, "FINISH_TIME", finish_time):
                result = solve_spiking(problem, readout="exact")
                seconds = median_seconds({"": lambda p=problem: solve_spiking(p, readout="exact")}, 7)
            row.append(f"{milliseconds(seconds[''][0])}, {result.n_corrections.mean():.0f}")
        rows.append(row)
    print("Time of a solve, mean corrections a signal\n")
    print(table(["problem", *(f"t = {time:g}" for time in FINISH_TIMES)], rows))


if __name__ == "__main__":
    main()
