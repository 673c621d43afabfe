"""The benchmark runs at a small size, so that it cannot rot; it verifies its answers itself."""

import subprocess
import sys
from pathlib import Path


def test_spiking_lasso_benchmark_runs(tmp_path):
    report = tmp_path / "report.md"
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.spiking_lasso", "--quick", "--output", str(report)],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        timeout=300,
    )
    text = report.read_text()
    for name in ("FISTA", "scikit-learn LARS", "spikes, exact finish", "synaptic events/s"):
        assert name in text


def test_dictionary_learning_benchmark_runs(tmp_path):
    report = tmp_path / "report.md"
    options = ("--samples", "64", "--ablated", "1008", "--judged-on", "10", "--quick")
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.dictionary_learning", *options, "--output", str(report)],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        timeout=300,
    )
    text = report.read_text()
    for name in ("two threads", "clock / events", "as it comes", "paper's rule"):
        assert name in text
