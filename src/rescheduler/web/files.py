"""The page's own files: HTML, style, ES modules and icons, as they lie in `web/page`.

They are read once, when the server is made: what is served is this table and nothing else, so no path leads out of it.
Each has an ETag, so that a browser asks for it again and is told that it has it already.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

from aiohttp import web

from rescheduler.web.answers import Refusal, takes_gzip

INDEX = "index.html"
_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
    "txt": "text/plain",
    "webmanifest": "application/manifest+json",
}
_TEXT = ("text/", "application/", "image/svg")


@dataclass(frozen=True, slots=True)
class File:
    """One file, ready to be sent."""

    body: bytes
    compressed: bytes
    """Empty where that would not make it smaller."""
    kind: str
    tag: str


class Files:
    """All of them, by their path below the folder."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._files = _own() if folder is None else _all_of(folder)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def paths(self) -> list[str]:
        """What there is."""
        return sorted(self._files)

    async def index(self, request: web.Request) -> web.Response:
        """The page itself."""
        return self.sent(request, INDEX)

    async def file(self, request: web.Request) -> web.Response:
        """What the page is made of."""
        return self.sent(request, request.match_info["path"])

    def sent(self, request: web.Request, path: str) -> web.Response:
        """One file, or that the browser's own copy is still right."""
        found = self._files.get(path)
        if found is None:
            raise Refusal(404, "the page has no such file: reload it from /")
        headers = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if _has_it(request, found.tag):
            return web.Response(status=304, headers=headers)
        body = found.body
        if found.compressed and takes_gzip(request):
            body = found.compressed
            headers["Content-Encoding"] = "gzip"
        charset = "utf-8" if found.kind.startswith(_TEXT) else None
        return web.Response(body=body, content_type=found.kind, charset=charset, headers=headers)


def _has_it(request: web.Request, tag: str) -> bool:
    """Tags are compared weakly: what is sent compressed and what is not mean the same."""
    told = [each.strip() for each in request.headers.get("If-None-Match", "").split(",")]
    return "*" in told or tag.removeprefix("W/") in (each.removeprefix("W/") for each in told)


@lru_cache(maxsize=1)
def _own() -> Mapping[str, File]:
    """Those of the page itself: they are packed once, however many servers a process has."""
    return _all_of(resources.files("rescheduler.web").joinpath("page"))


def _all_of(folder: Traversable) -> Mapping[str, File]:
    return dict(_found(folder, "")) if folder.is_dir() else {}


def _found(folder: Traversable, prefix: str) -> Iterator[tuple[str, File]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _found(each, f"{prefix}{each.name}/")
            continue
        kind = _TYPES.get(each.name.rpartition(".")[2].lower())
        if kind is None or each.name.startswith("."):
            continue  # a leftover of an editor is no part of the page
        body = each.read_bytes()
        packed = gzip.compress(body, 9, mtime=0)
        tag = f'W/"{hashlib.sha256(body).hexdigest()[:24]}"'
        yield f"{prefix}{each.name}", File(body, packed if len(packed) < len(body) else b"", kind, tag)
