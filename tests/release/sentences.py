"""Every sentence of an error or a warning, as one text: ``python -m tests.release.sentences [--accept]``.

`sentences.txt` beside this file is the list that was read and agreed on; a test compares.  A line is the kind
of an error or warning and what it says, by module, with the expressions whose values come into it.  What a
function says by way of another, such as those of `snn.base.checks`, is listed where it is written.
"""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

from tests.release.public_api import changes

LIST = Path(__file__).with_name("sentences.txt")
COMMAND = "python -m tests.release.sentences --accept"
ROOT = Path(__file__).parents[2]
PACKAGES = ("snn", "solvers", "dictlearn")


def sentences() -> str:
    """Return the list as text."""
    lines = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            said = list(dict.fromkeys(_said(ast.parse(path.read_text(encoding="utf-8")))))
            if said:
                lines += [path.relative_to(ROOT).as_posix(), *(f"    {line}" for line in said)]
    return "\n".join(lines) + "\n"


def _said(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield f"{ast.unparse(node.exc.func)}: {_text(node.exc.args[0])}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"warnings.warn", "warn_caller"}:
            kind = ast.unparse(node.args[1]) if len(node.args) > 1 else "UserWarning"
            yield f"{kind}: {_text(node.args[0])}"


def _text(expression: ast.expr) -> str:
    if isinstance(expression, ast.Constant):
        return str(expression.value)
    if isinstance(expression, ast.JoinedStr):
        return "".join(_text(part) for part in expression.values)
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add):
        return _text(expression.left) + _text(expression.right)
    if isinstance(expression, ast.FormattedValue):
        return f"{{{ast.unparse(expression.value)}}}"
    return f"{{{ast.unparse(expression)}}}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--accept", action="store_true", help=f"write {LIST.name}")
    now = sentences()
    if options.parse_args().accept:
        LIST.write_text(now, encoding="utf-8")
    else:
        print(*changes(LIST.read_text(encoding="utf-8"), now), sep="\n")


if __name__ == "__main__":
    main()
