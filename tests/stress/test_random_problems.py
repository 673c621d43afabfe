"""The fuzzer of problems: a small run of it, and that it would find what it looks for."""

import os
import signal
import time
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import solvers.results.solved
from solvers import ConvolutionalDictionary, ElasticNet, LassoProblem
from solvers.certificate.optimality import Optimality
from tests.processes import LIMIT
from tests.reference.rationals import ExactProblem, rational
from tests.stress import random_problems
from tests.stress.exact_judge import Judge, Numbers, placed
from tests.stress.random_problems import Summary, run
from tests.stress.watched import CRASHED, HUNG, watched

pytestmark = pytest.mark.thorough


def test_nasty_problems_are_solved_honestly_or_refused():
    """The short form of ``python -m tests.stress.random_problems``."""
    summary = Summary(seed=1)
    for number in range(200):
        summary.add(number, run(1, number))
    assert not summary.failures, summary.failures[0]
    total = sum(summary.methods.values(), start=Counter())
    assert total["converged"] > 120
    assert total["not converged"] > 40
    assert 5 < total["refused"] < 60


@pytest.mark.parametrize("positive", [True, False])
def test_the_judge_agrees_with_another_exact_program(positive):
    rng = np.random.default_rng(0)
    for _ in range(30):
        dictionary = rng.standard_normal((5, 4)) * 10.0 ** rng.uniform(-9, 9, (5, 1))
        signal = rng.standard_normal((1, 4)) * 10.0 ** rng.uniform(-9, 9)
        weights = rng.uniform(0.5, 2.0, 4) * (rng.random(4) < 0.8)
        l1 = np.abs(dictionary @ signal[0]).max() * 10.0 ** rng.uniform(-6, 0, 5)
        l2 = (dictionary**2).sum(axis=1) * 10.0 ** rng.uniform(-9, 2, 5) * (rng.random(5) < 0.6)
        problem = LassoProblem(
            dictionary, signal, ElasticNet(l1, l2), positive=positive, feature_weights=weights
        )
        code = rng.standard_normal(5) * (rng.random(5) < 0.6) / np.abs(dictionary).max(axis=1)
        code = np.abs(code) if positive else code
        verdict = Judge(dictionary, signal, l1, l2, weights[np.newaxis], positive=positive).judge(code, 0)
        exact = ExactProblem(problem)
        assert verdict.objective == exact.objective(rational(code))
        assert verdict.gap == exact.gap(rational(code), exact.residual(rational(code)))
        assert verdict.energy == exact.product(exact.signal, exact.signal) / 2


def test_the_judge_places_kernels_as_dictionaries_do():
    kernels = np.random.default_rng(0).standard_normal((2, 3, 2, 2))
    dictionary = ConvolutionalDictionary(kernels, (7, 6), 2)
    np.testing.assert_array_equal(placed(kernels, (7, 6), 2), dictionary.toarray())


def test_floats_are_taken_for_the_numbers_that_they_are():
    values = np.array([0.0, 5e-324, -1.7e308, 0.1, 3.0])
    assert Numbers.of(values).fractions() == [Fraction(float(value)) for value in values]


def always(monkeypatch, method):
    chances = [float(name == method) for name in random_problems.METHODS]
    monkeypatch.setattr(random_problems, "CHANCES", chances)


def test_every_method_of_the_registry_is_drawn():
    assert set(solvers.METHODS) >= random_problems.ABOVE
    assert set(solvers.METHODS) <= random_problems.ABOVE | set(random_problems.METHODS)


def failures_with(monkeypatch, figures):
    """The complaints about 60 problems whose certificates are tampered with."""
    certify = solvers.results.solved.certify

    def tampered(problem, codes):
        return figures(problem, certify(problem, codes))

    monkeypatch.setattr(solvers.results.solved, "certify", tampered)
    always(monkeypatch, "coordinate descent")
    told = [run(2, number) for number in range(60)]
    assert {one["method"] for one in told} == {"coordinate descent"}
    return [one["message"] for one in told if one["outcome"] == "failed"]


def changed(optimality, **figures):
    names = ("objective", "duality_gap", "kkt_violation")
    return Optimality(**{name: figures.get(name, getattr(optimality, name)) for name in names})


def test_a_gap_that_is_too_small_is_found(monkeypatch):
    found = failures_with(
        monkeypatch, lambda _, measured: changed(measured, duality_gap=0.9 * measured.duality_gap)
    )
    assert len(found) > 5
    assert "below the exact one" in found[0]


def test_a_false_objective_is_found(monkeypatch):
    found = failures_with(
        monkeypatch, lambda _, measured: changed(measured, objective=measured.objective * (1 + 1e-8))
    )
    assert len(found) > 5
    assert "the reported objective is" in found[0]


def test_a_false_status_is_found(monkeypatch):
    monkeypatch.setattr(solvers.results.solved, "Status", SimpleNamespace(LIMIT_REACHED=0, CONVERGED=0))
    always(monkeypatch, "spikes, smooth")
    told = [run(2, number) for number in range(30)]
    assert any("converged, but the" in one.get("message", "") for one in told)


def die_or_wait(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 4:
        time.sleep(LIMIT)
    return number


def test_a_crash_and_a_hang_cost_one_case(capfd):
    told = dict(watched(die_or_wait, 0, 6, patience=20.0))
    assert told == {0: 0, 1: 1, 2: CRASHED, 3: 3, 4: HUNG, 5: 5}


def test_a_run_goes_on_from_its_results(tmp_path):
    """Summaries of a part, written and read, and of the rest, are that of the whole."""
    whole, first = Summary(seed=3), Summary(seed=3)
    told = [run(3, number) for number in range(20)]
    for number, one in enumerate(told):
        whole.add(number, one)
        if number < 10:
            first.add(number, one)
    first.write(tmp_path / "part.json")
    second = Summary.read(tmp_path / "part.json", seed=3)
    for number in range(second.problems, 20):
        second.add(number, told[number])
    whole.write(tmp_path / "whole.json")
    second.write(tmp_path / "part.json")
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in ("whole.json", "part.json")]
    assert texts[0] == texts[1]
