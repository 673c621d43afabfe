"""Atoms for a task: they are better at it, and the unrolled gradient converges to the exact one."""

import re

import numpy as np
import pytest

from examples import task_driven

pytestmark = pytest.mark.thorough


def test_example_draws_and_learns(tmp_path, capsys):
    assert task_driven.main(["--output", str(tmp_path), "--atoms", "12", "--epochs", "6"]) == 0
    assert (tmp_path / "task_driven.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    before, after = (
        float(re.search(rf"^{name} +([\d.]+) %", report, re.M)[1]) for name in ("unsupervised", "task-driven")
    )
    assert after < 0.9 * before
    errors = [float(wrong) for wrong in re.findall(r"iterations of FISTA.* ([\d.e+-]+)$", report, re.M)]
    assert len(errors) == len(task_driven.ITERATIONS)
    assert errors[-1] < 0.1 * errors[0]


def test_the_unrolled_gradient_converges_to_that_of_the_result():
    training, _ = task_driven.digits()
    atoms = training.signals[:12]
    few = task_driven.Data(*(part[:50] for part in training))
    classifier = task_driven.fitted(atoms, training)
    unrolled = task_driven.unrolled_gradient(atoms, few, classifier, 5000)
    result = task_driven.solve_active_set(task_driven.LassoProblem(atoms, few.signals, task_driven.PENALTY))
    upstream = task_driven.loss_gradient(classifier, result.codes, few.labels)
    exact = result.vjp(upstream, undefined="leave out").dictionary
    # The atoms are digits, whose own codes are no kinks.
    np.testing.assert_allclose(unrolled, exact, atol=1e-6 * np.abs(exact).max())


@pytest.mark.parametrize("arguments", [["--atoms", "1"], ["--epochs", "0"]])
def test_nonsense_is_refused(arguments, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        task_driven.main(["--output", str(tmp_path), *arguments])
    assert refusal.value.code != 0
