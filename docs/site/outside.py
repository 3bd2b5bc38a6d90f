"""A hook of MkDocs: what pages link to outside of docs/ comes along, so that the site is whole without a network.

MkDocs knows files under docs/ alone. Here each link that leaves it is followed: the file it names gets a place under
`repository/` in the site, a Markdown file as a page whose own links are followed, too, and the link is set to it. A
link to a folder leads to its README. What is not there is left as it is, and MkDocs warns.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?P<before>\]\(\s*<?)(?P<path>(?![a-z]+:|#|/)[^)#\s>]+)(?P<after>[^)]*\))")
_CODE = re.compile(r"^( *)(```+).*?^\1\2 *$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_DOCS, _OTHERS = "docs", "repository"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add every file that can be reached by links."""
    waiting = [f"{_DOCS}/{each.src_uri}" for each in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for found in _outside_of_code((ROOT / page).read_text(encoding="utf-8")):
            there = _named(page, found["path"])
            if there is None or there in seen:
                continue
            seen.add(there)
            if not there.startswith(f"{_DOCS}/"):
                files.append(File.generated(config, _in_site(there), abs_src_path=str(ROOT / there)))
            if there.endswith(".md"):
                waiting.append(there)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set the links that leave docs/, or come back to it, to where the files are in the site."""
    here = page.file.src_uri
    source = here.removeprefix(f"{_OTHERS}/") if here.startswith(f"{_OTHERS}/") else f"{_DOCS}/{here}"
    parts, end = list[str](), 0
    for found in _outside_of_code(markdown):
        there = _named(source, found["path"])
        if there is not None:
            target = posixpath.relpath(_in_site(there), posixpath.dirname(here) or ".")
            parts += [markdown[end : found.start()], found["before"], target, found["after"]]
            end = found.end()
    return "".join([*parts, markdown[end:]])


def _outside_of_code(markdown: str) -> list[re.Match[str]]:
    code = [found.span() for found in _CODE.finditer(markdown)]
    links = _LINK.finditer(markdown)
    return [found for found in links if not any(begin <= found.start() < end for begin, end in code)]


def _named(page: str, link: str) -> str | None:
    """The file of the repository that a link names; None if there is none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if path.startswith(".."):
        return None
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return path if (ROOT / path).is_file() else None


def _in_site(path: str) -> str:
    return path.removeprefix(f"{_DOCS}/") if path.startswith(f"{_DOCS}/") else f"{_OTHERS}/{path}"
