"""The page's files: each with its type and tag, whole or compressed."""

from __future__ import annotations

import gzip

import aiohttp

from rescheduler.web.api import read_files
from tests.support.showing import Stage, served


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
        for path in read_files():
            async with session.get(f"{address}/page/{path}") as answer:
                assert (answer.status, answer.headers["X-Content-Type-Options"]) == (200, "nosniff"), path
                types.add(answer.content_type)
        assert types == {"text/html", "text/css", "text/javascript", "image/svg+xml"}
