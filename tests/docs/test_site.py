"""The documentation builds into a site without a warning, and the site is whole: nothing in it comes from elsewhere.

It is built once, by the command of `make site`, into a folder that is gone afterwards. Then its HTML is walked: what it
loads is there, links lead to files and anchors, and no table or list was left as raw Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.docs.building import built_site
from tests.docs.pages import ROOT

_LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Read(HTMLParser):
    """What a page loads, where it leads, what can be led to, and its paragraphs."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.anchors: set[str] = set()
        self.paragraphs: list[str] = []
        self._in_paragraph = False
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag in _LOADING and _LOADING[tag] in given:
            self.loads.append(given[_LOADING[tag]])
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        if tag == "p":
            self._in_paragraph = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._in_paragraph = False

    def handle_data(self, data: str) -> None:
        if self._in_paragraph:
            self.paragraphs[-1] += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory)


@pytest.fixture(scope="module")
def read(site: Path) -> dict[Path, Read]:
    return {file: Read(file) for file in site.rglob("*.html") if file.name != "404.html"}


def there(page: Read, target: str) -> Path:
    path = page.file.parent / unquote(urlsplit(target).path) if urlsplit(target).path else page.file
    return (path / "index.html" if path.is_dir() else path).resolve()


def test_every_page_of_the_documentation_is_in_it(read: dict[Path, Read], site: Path) -> None:
    built = {str(file.relative_to(site)) for file in read}
    for page in (ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(ROOT / "docs").with_suffix(".html"))
        assert name.replace("README.html", "index.html") in built, page


def test_nothing_is_loaded_from_elsewhere(read: dict[Path, Read], site: Path) -> None:
    loaded = [(page, each) for page in read.values() for each in page.loads]
    assert len(loaded) > len(read)
    assert [each for _, each in loaded if urlsplit(each).netloc] == []
    assert [f"{page.file.relative_to(site)}: {each}" for page, each in loaded if not there(page, each).is_file()] == []
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert "@import" not in text
        assert "url(http" not in text.replace('"', "").replace("'", "")


def test_every_link_leads_to_a_page_and_an_anchor(read: dict[Path, Read], site: Path) -> None:
    assert list(_broken(read, site)) == []


def _broken(read: dict[Path, Read], site: Path) -> Iterator[str]:
    known = {file.resolve(): page for file, page in read.items()}
    for page in read.values():
        for each in page.leads:
            parts = urlsplit(each)
            target = there(page, each)
            if parts.scheme or parts.netloc or each in ("", "#"):
                continue
            if not target.is_file():
                yield f"{page.file.relative_to(site)}: {each} is not there"
            elif parts.fragment and target in known and unquote(parts.fragment) not in known[target].anchors:
                yield f"{page.file.relative_to(site)}: {each} has no such heading"


def test_no_table_and_no_list_is_left_as_raw_markdown(read: dict[Path, Read], site: Path) -> None:
    starts = ("|", "- ", "* ", "1. ", "#", "```")
    raw = [
        f"{page.file.relative_to(site)}: {line}"
        for page in read.values()
        for paragraph in page.paragraphs
        for line in paragraph.splitlines()
        if line.startswith(starts)
    ]
    assert raw == [], "leave an empty line above it"


def test_long_names_in_tables_may_break_where_a_reader_would(site: Path) -> None:
    html = (site / "metrics.html").read_text(encoding="utf-8")
    assert "<code>rescheduler_<wbr>cache_<wbr>up</code>" in html
    assert "<wbr>" not in "".join(re.findall(r"<pre>.*?</pre>", html, re.DOTALL))
    assert "<wbr>" not in (site / "search" / "search_index.json").read_text(encoding="utf-8")


def test_no_page_is_twice_in_the_navigation() -> None:
    found = list(_paths(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert sorted(found) == sorted(set(found))


def _paths(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for inside in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from _paths(inside)


def test_the_configuration_switches_off_what_would_be_loaded() -> None:
    given = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert given["strict"] is True
    assert given["theme"]["highlightjs"] is False
