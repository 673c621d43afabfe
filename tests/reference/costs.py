"""Other thresholds for `solvers.plan`, so that small problems test choices made for large problems."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from solvers import plan


@contextmanager
def costs(**changes: float) -> Iterator[None]:
    """Change thresholds of `solvers.plan` within a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "COSTS", replace(plan.COSTS, **changes))
        yield
