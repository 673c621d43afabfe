"""The code that mypy checks as a user's own also runs; mypy itself is run by `tests/test_style.py`."""

import runpy
from pathlib import Path


def test_code_of_users_runs(capsys):
    functions = runpy.run_path(str(Path(__file__).with_name("user_code.py")))
    for name in ("simulate_a_network", "solve_a_problem", "use_an_estimator", "learn"):
        functions[name]()
    assert "fista" in capsys.readouterr().out
