"""Learning from photographs with missing pixels: what networks are given, and what is reported."""

import json

import numpy as np
import pytest

from dictlearn import join_channels
from examples import learn_missing_pixels

pytestmark = pytest.mark.thorough


def test_signals_are_made_of_known_pixels_alone():
    patches = np.random.default_rng(0).uniform(size=(50, 16))
    whole, filled, masked = (
        next(way for way in learn_missing_pixels.ways() if (way.missing, way.filled) == kind)
        for kind in ((0.0, False), (0.5, True), (0.5, False))
    )
    signals, mask = whole.signals(patches, np.random.default_rng(1))
    assert mask is None
    np.testing.assert_allclose(np.linalg.norm(signals, axis=1), 1.0)
    signals, mask = masked.signals(patches, np.random.default_rng(1))
    known = mask[:, :16]
    np.testing.assert_array_equal(known, mask[:, 16:])
    assert 0.4 < known.mean() < 0.6
    # What is unknown does not matter, and is not told.
    other, _ = masked.signals(np.where(known, patches, 7.0), np.random.default_rng(1))
    np.testing.assert_array_equal(other, signals)
    assert not signals[~mask].any()
    joined = join_channels(signals)
    np.testing.assert_allclose(joined.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose((joined**2).sum(axis=1), known.mean(axis=1))
    signals, mask = filled.signals(patches, np.random.default_rng(1))
    assert mask is None
    np.testing.assert_allclose(join_channels(signals) * np.sqrt(known.mean(axis=1, keepdims=True)), joined)


def test_example_draws_and_reports(tmp_path, capsys):
    arguments = ["--output", str(tmp_path), "--samples", "200", "--atoms", "12", "--seeds", "0", "1"]
    arguments += ["--held-out", "100"]
    assert learn_missing_pixels.main(arguments) == 0
    assert (tmp_path / "missing_pixels.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert "2 seeds" in report
    runs = json.loads((tmp_path / "missing_pixels.json").read_text())["runs"]
    assert list(runs) == [way.name for way in learn_missing_pixels.ways()]
    for way, both in runs.items():
        assert len(both) == 2
        assert both[0]["n_samples"] == [200]
        assert both[0]["objective"] != both[1]["objective"]
        assert f"\n{way} " in report


def test_nonsense_is_refused(capsys):
    with pytest.raises(SystemExit):
        learn_missing_pixels.main(["--samples", "0"])
    assert "samples, atoms and held-out patches must be positive" in capsys.readouterr().err
