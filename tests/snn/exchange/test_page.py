"""The code of docs/exchange.md runs, and says what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")

pytestmark = pytest.mark.filterwarnings("ignore")  # Brian2's own dependencies warn

PAGE = (Path(__file__).parents[3] / "docs" / "exchange.md").read_text(encoding="utf-8")


def test_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        if "brian2" in block:
            brian2 = pytest.importorskip(
                "brian2", reason="Brian2 is an extra: pip install 'sparsespike[brian2]'"
            )
            brian2.prefs.codegen.target = "numpy"
        exec(compile(block, "exchange.md", "exec"), namespace)
    quoted = re.sub(r"\n> ", " ", re.search(r"^> (.*?)\n\n", PAGE, flags=re.MULTILINE | re.DOTALL).group(1))
    assert capsys.readouterr().out.strip() == quoted
    assert np.asarray(namespace["theirs"].times).size > 20
