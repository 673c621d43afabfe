"""Every block of Python in the README and the pages runs, and prints what the page says."""

import contextlib
import io
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, ExtraNeeded, blocks, pages, run_page, says_the_same, tokens

pytestmark = pytest.mark.thorough

WITH_CODE = [page for page in pages() if blocks(page)]
# Blocks that are not run, each with its reason in the page.
NOT_RUN = {"docs/installation.md": 1, "docs/scale_out.md": 2}
NAMES = {page: str(page.relative_to(ROOT)) for page in pages()}


# README.md shows its output in comments, and has a test of its own.
@pytest.mark.parametrize("page", [page for page in WITH_CODE if page != ROOT / "README.md"], ids=NAMES.get)
def test_code_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        for block, printed, _ in run_page(page):
            if block.output is not None:
                assert says_the_same(printed, block.output), (
                    f"{NAMES[page]}, line {block.line}: printed\n{printed}\nand not\n{block.output}"
                )
    except ExtraNeeded as needed:
        pytest.skip(str(needed))
    # The code of the page draws every tutorial picture that the page shows.
    shown = re.findall(r"!\[[^]]*\]\(\S*/(tutorial_\w+\.\w+)\)", page.read_text(encoding="utf-8"))
    assert [name for name in shown if not (tmp_path / name).is_file()] == []


def test_few_blocks_are_not_run():
    """A page gives the reason and NOT_RUN the number of blocks, so that no block is skipped by accident."""
    counts = {NAMES[page]: sum(block.not_run is not None for block in blocks(page)) for page in WITH_CODE}
    assert {name: count for name, count in counts.items() if count} == NOT_RUN


def test_readme_prints_what_its_comments_say(tmp_path, monkeypatch):
    """Each block is complete by itself."""
    monkeypatch.chdir(tmp_path)
    printed = ""
    for block in blocks(ROOT / "README.md"):
        with contextlib.redirect_stdout(io.StringIO()) as lines:
            exec(compile(block.code, "README.md", "exec", dont_inherit=True), {"__name__": "readme"})
        printed += lines.getvalue()
    assert "True" in printed
    n_positive, score, gap, spikes, distance = map(float, re.findall(r"[\d.]+(?:e-\d+)?", printed))
    assert n_positive == 5
    assert 0.88 < score < 0.92
    assert 1e-8 < gap <= 1e-6
    assert 400 < spikes < 900
    assert 3e-3 < distance < 3e-2


@pytest.mark.parametrize(
    ("printed", "quoted", "same"),
    [
        ("gap 1.00e-06\n", "gap 1.01e-06\n", True),
        ("12,345 spikes, 0.93", "12,300 spikes, 0.94", True),
        ("12,345 spikes", "13,000 spikes", False),
        ("1 of 10", "2 of 10", False),
        ("a 3", "b 3", False),
        ("took 0.31 s for 7", "took ... s for 7", True),
        ("-1.5", "1.5", False),
    ],
)
def test_what_is_printed_is_compared(printed, quoted, same):
    assert says_the_same(printed, quoted) is same


def _commands() -> list[tuple[str, str]]:
    """Return (page, command) for each command in blocks and in code within the text."""
    found = []
    for page in pages():
        for part in tokens(page):
            codes = [child for child in part.children or () if child.type == "code_inline"]
            if part.type in ("fence", "code_block") and part.info.strip() != "python":
                codes.append(part)
            found += [(NAMES[page], line.strip()) for code in codes for line in code.content.splitlines()]
    return found


COMMANDS = _commands()


def named(pattern: str) -> set[tuple[str, str]]:
    return {(page, name) for page, line in COMMANDS for name in re.findall(pattern, line)}


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.MULTILINE))
    found = named(r"^(?:\$ )?make ((?!PYTHON)[a-z][\w-]*)")
    assert found
    assert {(page, target) for page, target in found if target not in targets} == set()


def test_modules_to_run_exist():
    def exists(module: str) -> bool:
        path = Path(*module.split("."))
        if not (ROOT / path.parts[0]).is_dir():
            return find_spec(path.parts[0]) is not None
        return (ROOT / path).with_suffix(".py").is_file() or (ROOT / path / "__main__.py").is_file()

    found = named(r"\bpython3? (?:-W \w+ )?-m ([\w.]+)")
    assert len(found) > 20
    assert {(page, module) for page, module in found if not exists(module)} == set()


def test_files_that_pages_name_exist():
    found = named(r"^(?:docs|examples|tests|snn|solvers|dictlearn)/[\w./-]*$")
    assert len(found) > 50
    assert {(page, file) for page, file in found if not (ROOT / file).exists()} == set()
