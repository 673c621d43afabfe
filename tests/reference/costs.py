"""Plans of solvers with other thresholds, for tests of choices that need large problems else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from solvers import plan


@contextmanager
def costs(**changes: float) -> Iterator[None]:
    """Let `solvers.plan` have other thresholds within."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "COSTS", replace(plan.COSTS, **changes))
        yield
