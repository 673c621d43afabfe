"""Data of other fields, and the page about them."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("spams", reason="a peer: pip install spams-bin")

from tests.benchmarks import unseen_combinations
from tests.benchmarks.signed_learning import colour_patches, eeg, page

DOCS = Path(__file__).parents[2] / "docs"


def test_signals_are_of_unit_norm_and_without_mean():
    for task in (eeg(), colour_patches(500)):
        for signals in (task.signals, task.held_out):
            np.testing.assert_allclose(np.linalg.norm(signals, axis=1), 1.0, rtol=1e-12)
            np.testing.assert_allclose(signals.mean(axis=1), 0.0, atol=1e-14)
    assert np.abs(task.signals.reshape(-1, 64, 3).mean(axis=1)).max() < 1e-14


def test_pages_are_what_was_measured():
    for name, write in (("fields", page), ("unseen_combinations", unseen_combinations.page)):
        data = json.loads((DOCS / "benchmarks" / f"{name}.json").read_text())
        assert (DOCS / f"benchmark_{name}.md").read_text() == write(data)
