"""Cases that are run in processes that may die."""

import os
import signal
import time

import pytest

from tests.processes import LIMIT
from tests.stress.watched import CRASHED, HUNG, watched

pytestmark = pytest.mark.thorough


def die_or_wait(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 4:
        time.sleep(LIMIT)
    return number


def test_a_crash_and_a_hang_cost_one_case(capfd):
    told = dict(watched(die_or_wait, 0, 6, patience=20.0))
    assert told == {0: 0, 1: 1, 2: CRASHED, 3: 3, 4: HUNG, 5: 5}
