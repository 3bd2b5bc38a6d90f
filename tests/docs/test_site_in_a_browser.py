"""The site in a real Chromium: no page is wider than a phone, nothing is asked of another host, and the search finds.

Playwright's loop runs in this thread while the browser lives, so it lives for one test only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser.browsing import browsing
from tests.docs.building import built_site

PHONE, WIDE = (390, 844), (1400, 1000)
# By more than the margin of a name in code, which may hang over.
_WIDER = """() => [document.documentElement, ...document.querySelectorAll(".wy-nav-content, .section")]
    .filter((part) => part.scrollWidth > part.clientWidth + 8).map((part) => part.className)"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory)


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served, on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()


def test_no_page_is_wider_than_the_window_and_all_of_it_comes_from_here(site: Path) -> None:
    pages = sorted(file for file in site.glob("*.html") if file.name != "404.html")
    asked, too_wide = set[str](), list[str]()
    with browsing() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.add(request.url))
        for file in pages:
            page.goto(file.as_uri())
            for width, height in (WIDE, PHONE):
                page.set_viewport_size({"width": width, "height": height})
                if wider := page.evaluate(_WIDER):
                    too_wide.append(f"{file.relative_to(site)} at {width}: {wider}")
    assert too_wide == []
    assert [url for url in asked if not url.startswith((site.as_uri(), "data:"))] == []


def test_the_search_finds_where_it_can_work_and_is_not_shown_where_it_cannot(site: Path, address: str) -> None:
    with browsing() as browser:
        page = browser.new_page()
        page.goto(f"{address}/search.html?q=handoff")
        page.locator("#mkdocs-search-results article a").first.wait_for()
        assert page.locator("#mkdocs-search-results a[href*='moving.html']").count() > 0
        page.goto(f"{address}/index.html")
        assert page.locator("#rtd-search-form").is_visible()
        page.goto(f"file://{site}/index.html")
        assert not page.locator("#rtd-search-form").is_visible()
