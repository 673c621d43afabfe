"""A bar moves within one large problem, and never back."""

import io
import re
import signal
import threading

import numpy as np
import pytest
from tqdm import tqdm

from snn.run import exact
from solvers import METHODS, LassoProblem, solve_active_set
from solvers.workers import progress
from solvers.workers.progress import Progress, progress_bar
from tests.reference.convolutions import GEOMETRIES, random_dictionary


def test_a_bar_counts_and_moves_within():
    bar = tqdm(total=2, file=io.StringIO())
    shown = Progress(bar)
    seen = []
    for share in (0.2, 0.6, 0.4):
        shown.within(share, "text")
        seen.append(bar.n)
    shown.update()
    shown.within(0.5, "text")
    assert [*seen, bar.n] == [0.2, 0.6, 0.6, 1.5]
    shown.update()
    assert bar.n == 2


def test_workers_of_another_thread_do_not_move_the_bar_within():
    with progress_bar(1, unit="batch", description="solver", shown=True):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(progress.is_shown()))
        thread.start()
        thread.join()
        assert seen == [False]
        assert progress.is_shown()


def one_problem():
    dictionary = random_dictionary(GEOMETRIES[0])
    return LassoProblem(dictionary, np.random.default_rng(1).standard_normal((1, dictionary.shape[1])), 0.5)


@pytest.mark.parametrize("name", ["active_set", "fista", "active_set_from_spikes", "spiking"])
def test_one_problem_moves_the_bar(name, capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", 0.0)
    # Of a tenth of a second of work in a call this problem takes a part.
    monkeypatch.setattr(exact, "MOST_WORK_PER_CALL", exact.LEAST_WORK_PER_CALL)
    shown = METHODS[name](one_problem(), tol=1e-3, progress=True)
    drawn = [float(each) for each in re.findall(r"\| ([\d.]+)/1 ", capsys.readouterr().err)]
    assert len(set(drawn)) > 3
    assert drawn == sorted(drawn)
    assert drawn[-1] == 1.0
    np.testing.assert_array_equal(shown.codes, METHODS[name](one_problem(), tol=1e-3).codes)


def test_ctrl_c_ends_a_search(monkeypatch):
    """Between two sweeps; nothing waits for the end of the search."""
    dictionary = random_dictionary(((200, 200), (8, 8), 2), n_kernels=16)
    image = np.random.default_rng(1).standard_normal((1, dictionary.shape[1]))
    problem = LassoProblem(dictionary, image, 1e-3)
    solve_active_set(one_problem())
    main = threading.main_thread().ident
    # Programs in the background of a shell ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            solve_active_set(problem)
    finally:
        signal.signal(signal.SIGINT, before)
