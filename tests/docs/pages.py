"""All Markdown of the repository, taken apart: fenced blocks with their place, prose, links and headings.

The tests beside it walk what is found here; whatever page somebody adds is walked, too. A place is `docs/moving.md:24`,
the line on which a block opens or a link stands, so that an error says where to look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "deploy", "charts", "demo", "examples", "release", "src", "tests", ".github")
PAGES = sorted({*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in ROOT.glob(f"{folder}/**/*.md"))})

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<language>[^\s`]*)[^`]*$")
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_IMAGE = re.compile(r"!\[[^\]\[]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")  # also within the text of a link
_HTML = re.compile(r"<(?:img|a)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")
_SPAN = re.compile(r"`+[^`\n]+`+")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{name_of(self.page)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Link:
    """Where something leads, and where it stands."""

    page: Path
    line: int
    target: str

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """The fenced blocks of a page; one that is never closed is an error."""
    return tuple(each for each in _parts(page) if isinstance(each, Block))


@cache
def prose(page: Path) -> tuple[tuple[int, str], ...]:
    """The lines outside of blocks, by number."""
    return tuple(each for each in _parts(page) if not isinstance(each, Block))


def _parts(page: Path) -> Iterator[Block | tuple[int, str]]:
    opened: re.Match[str] | None = None
    begun, held = 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if opened is None and found is None:
            yield number, line
        elif opened is None:
            opened, begun, held = found, number, []
        elif found is not None and found["fence"] == opened["fence"] and not found["language"]:
            yield Block(page, begun, opened["language"], "".join(f"{each}\n" for each in held))
            opened = None
        else:
            held.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise AssertionError(f"{name_of(page)}:{begun}: the block that opens here is never closed")


def spans(page: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each `code span` in a page's prose."""
    for number, line in prose(page):
        for found in _SPAN.findall(line):
            yield f"{name_of(page)}:{number}", found.strip("`").strip()


def links(page: Path) -> Iterator[Link]:
    """Links and images of a page, in Markdown and in HTML; what stands in code is none. A link may span two lines."""
    lines = [(number, _SPAN.sub(lambda found: "x" * len(found[0]), line)) for number, line in prose(page)]
    text, starts = "", list[tuple[int, int]]()
    for number, line in lines:
        starts.append((len(text), number))
        text += f"{line}\n"
    found = {(each.start(1), each[1]) for pattern in (_LINK, _IMAGE, _HTML) for each in pattern.finditer(text)}
    for at, target in sorted(found):
        yield Link(page, max(number for start, number in starts if start <= at), target)


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link can name after `#`, as GitHub and the site make it of headings: repeated ones are numbered."""
    found, seen = set[str](), Counter[str]()
    for _, line in prose(page):
        if heading := re.match(r"#+ (.*)", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            name = re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return frozenset(found)
