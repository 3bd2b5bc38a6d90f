"""Links lead somewhere: files, headings and images within the repository; addresses elsewhere are sound in form."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import PAGES, ROOT, Link, anchors, links, name_of

ELSEWHERE = ("https", "http", "mailto")
IMAGES = (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")


def fault(link: Link) -> str:
    """What is wrong with a link; empty if nothing is."""
    parts = urlsplit(link.target)
    if parts.scheme in ELSEWHERE:
        return "" if parts.netloc or (parts.scheme == "mailto" and "@" in parts.path) else "is no address"
    if parts.scheme or parts.netloc or link.target.startswith("/"):
        return "is neither an address nor a path from the page"
    there = (link.page.parent / unquote(parts.path)) if parts.path else link.page
    if not there.resolve().is_relative_to(ROOT.resolve()):
        return "leads out of the repository"
    if not there.exists():
        return "is not there"
    if parts.fragment and (there.suffix != ".md" or parts.fragment not in anchors(there)):
        return f"has no heading #{parts.fragment}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [f"{each.place}: {each.target} {why}" for each in links(page) if (why := fault(each))] == []


def test_links_are_found_wherever_they_stand_and_faults_are_told_with_their_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One word\n\n[fine](#one-word) `[code](nowhere)` [![image](no.png)](no.md)\n\n```text\n[block](no)\n```\n"
        '[over two\nlines](no-more.md) <img src="gone.png">\n[site](https://example.com/x) [bad](https:///x)\n',
        encoding="utf-8",
    )
    found = [(each.line, each.target) for each in links(page)]
    assert sorted(found) == [
        (3, "#one-word"),
        (3, "no.md"),
        (3, "no.png"),
        (9, "gone.png"),
        (9, "no-more.md"),
        (10, "https:///x"),
        (10, "https://example.com/x"),
    ]
    assert fault(Link(page, 10, "https:///x")) == "is no address"
    assert fault(Link(ROOT / "README.md", 1, "docs/moving.md#what-leads-a-new-pod")) == ""
    assert fault(Link(ROOT / "README.md", 1, "docs/moving.md#nothing")) == "has no heading #nothing"
    assert fault(Link(ROOT / "README.md", 1, "../elsewhere.md")) == "leads out of the repository"


def test_every_picture_of_the_documentation_is_shown_somewhere() -> None:
    shown = {
        (page.parent / unquote(urlsplit(each.target).path)).resolve()
        for page in PAGES
        for each in links(page)
        if not urlsplit(each.target).scheme
    }
    kept = {path for path in (ROOT / "docs").rglob("*") if path.suffix in IMAGES}
    assert {name_of(path) for path in kept if path.resolve() not in shown} == set()


def test_the_entry_leads_to_every_page_of_the_documentation() -> None:
    entry = ROOT / "docs" / "README.md"
    named = {(entry.parent / urlsplit(each.target).path).resolve() for each in links(entry)}
    pages = {page.resolve() for page in (ROOT / "docs").glob("*.md")} - {entry.resolve()}
    assert {page.name for page in pages - named} == set(), "name it in docs/README.md"
