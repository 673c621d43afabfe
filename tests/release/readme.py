"""The Python code of a page, as its readers copy it."""

import re


def code_blocks(page):
    """Return the Python blocks of a Markdown file, first to last."""
    return re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
