"""The judge of codes in a file."""

import subprocess
import sys

import numpy as np
import pytest

from solvers import ElasticNet, LassoProblem, certify, solve_active_set
from solvers.judge import NEEDED, OPTIONAL, main
from tests.reference.problems import random_problem

NO_FILE = "the file must be whole, with named arrays of numbers, as numpy.savez writes them"


def arrays_of(problem, **codes):
    return {"dictionary": problem.dictionary, "signals": problem.signals, "penalty": np.array(1.0)} | codes


def test_codes_of_several_programs_are_judged(tmp_path, capsys):
    problem = random_problem()
    good = solve_active_set(problem).codes
    np.savez(tmp_path / "codes.npz", **arrays_of(problem, codes_good=good, codes_poor=0.9 * good))
    assert main([str(tmp_path / "codes.npz")]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("codes_good: 3 of 3 signals within 1e-06")
    assert second.startswith("codes_poor: 0 of 3 signals within 1e-06")
    assert f"{certify(problem, 0.9 * good).relative_gap.max():.1e}" in second
    assert main([str(tmp_path / "codes.npz"), "--tol", "1"]) == 0


def test_all_that_a_problem_takes_is_read(tmp_path):
    whole = random_problem(positive=True)
    mask = np.arange(whole.n_features) % 5 > 0
    problem = LassoProblem(whole.dictionary, whole.signals, ElasticNet(1.0, 0.1), positive=True, mask=mask)
    codes = solve_active_set(problem).codes
    more = {"l2": np.array(0.1), "positive": np.array(True), "mask": mask}
    np.savez(tmp_path / "codes.npz", **arrays_of(problem, codes=codes), **more)
    assert main([str(tmp_path / "codes.npz")]) == 0
    np.savez(tmp_path / "codes.npz", **arrays_of(problem, codes=codes))
    assert main([str(tmp_path / "codes.npz")]) == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"penalty": None}, "the file must have dictionary, signals, penalty and codes; got no penalty"),
        ({"codes": None}, "the file must have dictionary, signals, penalty and codes; got no codes"),
        (
            {"alpha": np.ones(1)},
            "the file must have no other arrays than l2, positive, mask, feature_weights; got alpha",
        ),
        (
            {"codes": np.zeros((3, 2))},
            "codes must have shape (3, 40), (n_signals, n_atoms); got shape (3, 2)",
        ),
        (
            {"codes": None, "codes_theirs": np.full((3, 40), np.nan)},
            "codes_theirs must be finite; got nan at [0, 0]",
        ),
        ({"codes": np.array([{"a": 1}])}, NO_FILE),
    ],
)
def test_what_is_missing_or_wrong_is_one_sentence(tmp_path, capsys, changes, sentence):
    problem = random_problem()
    arrays = arrays_of(problem, codes=np.zeros((3, 40))) | changes
    path = tmp_path / "codes.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    assert main([str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"{path}: {sentence}\n"
    assert not printed.out


def test_a_file_of_something_else_is_said_in_one_sentence(tmp_path, capsys):
    whole = tmp_path / "whole.npz"
    np.savez(whole, **arrays_of(random_problem(), codes=np.zeros((3, 40))))
    np.save(tmp_path / "one.npy", np.ones(3))
    contents = [b"", b"text", (tmp_path / "one.npy").read_bytes()]
    contents += [whole.read_bytes()[:size] for size in (10, 500, -10)]
    path = tmp_path / "codes.npz"
    for content in contents:
        path.write_bytes(content)
        assert main([str(path)]) == 2
        assert capsys.readouterr() == ("", f"{path}: {NO_FILE}\n")


def test_a_damaged_file_is_said(tmp_path, capsys):
    path = tmp_path / "codes.npz"
    np.savez_compressed(path, **arrays_of(random_problem(), codes=np.zeros((3, 40))))
    content = path.read_bytes()
    for place in range(20, 200, 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        assert main([str(path)]) in (1, 2)
        assert "Traceback" not in capsys.readouterr().err


def test_help_names_the_arrays(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    for name in (*NEEDED, *OPTIONAL, "codes_NAME"):
        assert name in printed


def test_a_file_that_is_not_there_is_said(tmp_path):
    path = tmp_path / "nothing.npz"
    run = subprocess.run(
        [sys.executable, "-m", "solvers.judge", path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stderr.startswith(f"{path}: ")
    assert "Traceback" not in run.stderr
