"""The pages of the documentation as programs: their blocks of code, the output, and a way to run them.

``python -m tests.docs.pages docs/tutorials/image_processing.md --output docs/figures`` runs a page as a
reader would, block after block in a fresh folder, and copies the pictures that it draws. With ``--rewrite``
the command replaces the outputs in the page by what the blocks print now.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import numpy as np
from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image

from examples._pictures import write

ROOT = Path(__file__).parents[2]

# Modules that a block can import only if an extra is installed.
EXTRAS = {name: name for name in ("brian2", "dask", "jax", "nir")} | {
    "distributed": "dask", "mlxtend": "digits", "pywt": "examples", "PIL": "examples", "skimage": "examples",
    "spams": "peers",
}  # fmt: skip
# Brian2 and its imports cause warnings about their own dependencies.
WARNS_ITSELF = {"brian2"}

_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->", flags=re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Another processor, or another release of BLAS, may change the last digits of what is computed.
_TOLERANCE = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """A block of Python in a page, with its first line, its expected output (the block of ``text`` that
    follows), and the reason why it is not run (``<!-- not run: REASON -->`` before the block)."""

    code: str
    line: int
    output: str | None
    output_lines: tuple[int, int]
    not_run: str | None
    imports: frozenset[str]


class ExtraNeeded(Exception):
    """A block imports a module that is not installed."""


def pages() -> list[Path]:
    """Return README.md, CONTRIBUTING.md and all pages of docs/ that are written by hand."""
    folder = ROOT / "docs"
    made = {"_build", "reference", "gallery"}
    written = [
        page for page in sorted(folder.rglob("*.md")) if not made.intersection(page.relative_to(folder).parts)
    ]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]


def tokens(page: Path) -> list[Token]:
    """Return the tokens into which Markdown parses a page."""
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[Block]:
    """Return the blocks of Python of a page, in order."""
    found, parts = [], tokens(page)
    for k, part in enumerate(parts):
        if part.type != "fence" or part.info.strip() != "python":
            continue
        before = parts[k - 1].content if k and parts[k - 1].type == "html_block" else ""
        after = parts[k + 1] if k + 1 < len(parts) else None
        shown = after is not None and after.type == "fence" and after.info.strip() == "text"
        reason = _NOT_RUN.search(before)
        found.append(
            Block(
                code=part.content,
                line=part.map[0] + 2,
                output=after.content if shown else None,
                output_lines=tuple(after.map) if shown else (0, 0),
                not_run=reason.group(1) if reason else None,
                imports=frozenset(_imports(part.content)),
            )
        )
    return found


def run_page(page: Path) -> Iterator[tuple[Block, str, dict]]:
    """Run the blocks of a page in one namespace; yield each block, its output, and the namespace."""
    backend = matplotlib.get_backend()
    matplotlib.use("Agg")
    namespace: dict = {"__name__": "page"}
    options = np.get_printoptions()
    try:
        for block in blocks(page):
            if block.not_run is not None:
                continue
            for package in sorted(block.imports & EXTRAS.keys()):
                if find_spec(package) is None:
                    raise ExtraNeeded(f"{package} is an extra: pip install 'sparsespike[{EXTRAS[package]}]'")
            printed = io.StringIO()
            # Pad with empty lines, so that errors have the line numbers of the page.
            program = compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                if block.imports & WARNS_ITSELF:
                    warnings.simplefilter("ignore")
                exec(program, namespace)
            yield block, printed.getvalue(), namespace
    finally:
        matplotlib.use(backend)
        np.set_printoptions(**options)


def says_the_same(printed: str, quoted: str) -> bool:
    """Return whether words are equal, and numbers to 1 % or to one last digit; ``...`` matches any text."""
    printed, quoted = " ".join(printed.split()), " ".join(quoted.split())
    pattern, numbers = "", []
    for piece in re.split(r"(\.\.\.)", quoted):
        if piece == "...":
            pattern += ".*"
            continue
        start = 0
        for number in _NUMBER.finditer(piece):
            pattern += re.escape(piece[start : number.start()]) + f"({_NUMBER.pattern})"
            numbers.append(number.group())
            start = number.end()
        pattern += re.escape(piece[start:])
    # The number of spaces may differ, because a number may have a digit more or less.
    found = re.fullmatch(pattern.replace(r"\ ", " "), printed)
    return found is not None and all(
        _close(got, said) for got, said in zip(found.groups(), numbers, strict=True)
    )


def _close(got: str, said: str) -> bool:
    got, said = got.replace(",", ""), said.replace(",", "")
    mantissa, _, exponent = said.partition("e")
    decimals = len(mantissa.partition(".")[2])
    last = 1.001 * 10.0 ** (int(exponent or 0) - decimals) if decimals or exponent else 0.0
    return abs(float(got) - float(said)) <= max(last, _TOLERANCE * abs(float(said)))


def _imports(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def main() -> None:
    options = argparse.ArgumentParser(description="run the blocks of a page, and say what differs from it")
    options.add_argument("pages", nargs="+", type=Path)
    options.add_argument("--output", type=Path, help="folder that the pictures are copied to")
    options.add_argument("--rewrite", action="store_true", help="write what blocks print into the page")
    asked = options.parse_args()
    for page in asked.pages:
        page, output = page.resolve(), asked.output and asked.output.resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
            changes = []
            for block, printed, _ in run_page(page):
                if block.output is None or not says_the_same(printed, block.output):
                    print(printed, end="")
                    if block.output is not None:
                        print(f"... but the page says\n{block.output}", end="")
                        changes.append((block.output_lines, printed))
            for (first, last), printed in reversed(changes):
                lines[first + 1 : last - 1] = [printed]
            if asked.rewrite:
                page.write_text("".join(lines), encoding="utf-8")
            for picture in sorted(Path(folder).glob("tutorial_*.*")) if output else ():
                with Image.open(picture) as drawn:
                    write(drawn, output / picture.name)
                print(f"picture: {os.path.relpath(output / picture.name, ROOT)}")


if __name__ == "__main__":
    main()
