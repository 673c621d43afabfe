"""Links within the documentation lead somewhere, and the site has every page."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it.token import Token

from tests.docs.pages import ROOT, pages, tokens

NAMES = {page: str(page.relative_to(ROOT)) for page in pages()}
DOCS = ROOT / "docs"
IN_SITE = [page for page in pages() if DOCS in page.parents]


def links(page: Path) -> list[str]:
    """Return the targets of all links and images of a page."""

    def walk(parts: list[Token]) -> Iterator[str]:
        for part in parts:
            if part.type in ("link_open", "image"):
                yield part.attrs["href" if part.type == "link_open" else "src"]
            elif part.type in ("html_block", "html_inline"):
                yield from re.findall(r'(?:src|href|srcset)="([^"]+)"', part.content)
            yield from walk(part.children or [])

    return [unquote(str(target)) for target in walk(tokens(page))]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    parts, found = tokens(page), []
    for opening, inline in pairwise(parts):
        if opening.type != "heading_open":
            continue
        text = "".join(child.content for child in inline.children or ())
        anchor = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return set(found)


@pytest.mark.parametrize("page", pages(), ids=NAMES.get)
def test_links_lead_somewhere(page):
    missing = []
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            missing.append(target)
    assert missing == []


@pytest.mark.parametrize("page", IN_SITE, ids=NAMES.get)
def test_links_of_the_site_stay_in_it(page):
    """The site has only the files under docs/."""
    outside = [
        target
        for target in links(page)
        if not re.match(r"[a-z]+:|#", target) and DOCS not in (page.parent / target).resolve().parents
    ]
    assert outside == []
