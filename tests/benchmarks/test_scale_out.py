"""The measurement of scale-out runs at a small size, and its model is the sum it says it is."""

import pytest

from tests.benchmarks import scale_out


def test_figures_and_tables(cluster_client, tmp_path):
    data = scale_out.measured(cluster_client, tmp_path, quick=True)
    (row,) = data["coding"]
    # What is left of a task is its signals.
    assert row["batch"] <= row["task"] < row["batch"] + 3000 < row["before"]
    (update,) = data["learning"]
    assert update["back"] < 0.5 * update["whole"]
    text = scale_out.tables(data)
    assert "**Predicted**, not measured" in text
    assert "nan" not in text


def test_prediction_adds_up():
    row = {"batch": 640, "run": 2.0, "apply": 0.1, "network": 1.25e9, "back": 2.5e9}
    dispatched = {"round": 0.01, "task": 0.001}
    # Ten tasks on four workers take three rounds of a fifth of a second; the network is copied three times.
    assert scale_out.predicted(row, dispatched, 4) == pytest.approx(0.6 + 0.01 + 0.01 + 3.0 + 2.0 + 0.1)
    assert scale_out.predicted(row, dispatched, 100) == pytest.approx(0.2 + 0.01 + 0.01 + 7.0 + 2.0 + 0.1)


def test_prediction_of_coding_adds_up():
    row = {"features": 10, "signals": 100, "batch": 800, "task": 1.25e8, "shared": 2.5e9}
    row["seconds"] = {"serial": 1.0}
    # A hundred tasks of ten signals, ten seconds in all; two copies, then one for each doubling.
    slow, quick = {"round": 0.5, "task": 0.2}, {"round": 0.5, "task": 0.001}
    assert scale_out.predicted_coding(row, quick, 2, 1000) == pytest.approx(5.0 + 0.5 + 4.0 + 10.0)
    assert scale_out.predicted_coding(row, slow, 100, 1000) == pytest.approx(20.0 + 0.5 + 14.0 + 10.0)
