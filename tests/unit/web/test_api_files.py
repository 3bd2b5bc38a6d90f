"""The page's files: each with its type and tag, whole or compressed, and nothing besides them."""

from __future__ import annotations

import gzip
from pathlib import Path

import aiohttp

from rescheduler.web.api import PageFiles
from tests.support.showing import Stage, served


def folder(path: Path) -> Path:
    (path / "parts").mkdir()
    (path / "index.html").write_text("<!doctype html><title>page</title>" + " " * 500)
    (path / "parts" / "map.js").write_text("export const answer = 42;\n")
    (path / "icon.png").write_bytes(bytes(range(256)))
    (path / ".secret.js").write_text("no")
    (path / "notes.swp").write_text("no")
    return path


def test_only_files_of_the_page_are_there(tmp_path: Path) -> None:
    assert PageFiles(folder(tmp_path)).paths() == ["icon.png", "index.html", "parts/map.js"]


def test_a_page_that_is_not_there_is_no_reason_not_to_start(tmp_path: Path) -> None:
    assert PageFiles(tmp_path / "none").paths() == []


async def test_the_products_own_page_is_served_with_types_and_tags() -> None:
    async with served(Stage()) as address, aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.get(f"{address}/", headers={"Accept-Encoding": "gzip"}) as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert answer.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(await answer.read()).lstrip().lower().startswith(b"<!doctype html>")
            tag = answer.headers["ETag"]
        for told in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
            async with session.get(f"{address}/", headers={"If-None-Match": told}) as answer:
                assert (answer.status, await answer.read(), answer.headers["ETag"]) == (304, b"", tag)
        async with session.get(f"{address}/", headers={"If-None-Match": '"other"'}) as answer:
            assert answer.status == 200
        types = set()
        for path in PageFiles().paths():
            async with session.get(f"{address}/page/{path}") as answer:
                assert (answer.status, answer.headers["X-Content-Type-Options"]) == (200, "nosniff"), path
                types.add(answer.content_type)
        assert types <= {"text/html", "text/css", "text/javascript", "image/svg+xml", "image/png", "application/json"}
