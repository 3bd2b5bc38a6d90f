"""Chromium under Playwright, and one visit of the page in it, with all that went wrong there written down.

Tests, screenshots and the benchmark start one `browsing()` and make visits in it, each with nothing of the others:
no storage, no cache. A visit asks only the page's own host: what else the page asks for is refused and written down,
as are page errors, what the console calls an error or a warning, answers that are refusals, requests that fail, and
violations of the Content-Security-Policy. `assert_flawless` is where a test reads it.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, Route, sync_playwright

from tests.browser.chromium import chromium
from tests.testbed.processes import StateNotReached

T = TypeVar("T")
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LAPTOP = (1280, 800)
PHONE = (360, 740)
MILLISECONDS = 120_000.0  # for any state that is waited for; machines are shared
CANCELLED = "net::ERR_ABORTED"  # by the page itself, which has gone on to another view, or is closed
HAS_NO_HOST = ("data:", "blob:", "about:")
TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`Content-Security-Policy: ${event.violatedDirective} refused ${event.blockedURI || event.sample}`));
"""


@dataclass(frozen=True)
class Look:
    """How somebody looks at the page."""

    size: tuple[int, int] = LAPTOP
    dark: bool = False
    language: str = "en-GB"
    still: bool = True
    """Whether they asked their system for no movement."""


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser of our own, of which nothing is left after the block."""
    with tempfile.TemporaryDirectory(prefix="page-browser-", ignore_cleanup_errors=True) as home:
        places = {"HOME": home, "TMPDIR": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium(),
                chromium_sandbox=os.geteuid() != 0,  # which Chromium refuses to root
                args=QUIET,
                env={**os.environ, **places},
            )
            try:
                yield browser
            finally:
                browser.close()


class Visit:
    """One person's window on the page at this address."""

    def __init__(self, browser: Browser, address: str, look: Look) -> None:
        self.address = address.rstrip("/")
        self.wrong: list[str] = []
        self._expected: list[str] = []
        self.context: BrowserContext = browser.new_context(
            viewport={"width": look.size[0], "height": look.size[1]},
            color_scheme="dark" if look.dark else "light",
            locale=look.language,
            reduced_motion="reduce" if look.still else "no-preference",
            service_workers="block",
        )
        self.context.set_default_timeout(MILLISECONDS)
        self.context.add_init_script(TELL_VIOLATIONS)
        self.context.route(self._is_elsewhere, self._refuse)
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(f"page error: {error}"))
        self.page.on("console", self._said)
        self.page.on("response", self._answered)
        self.page.on("requestfailed", self._failed)
        self.page.on("websocket", lambda socket: self.wrong.append(f"a web socket: {socket.url}"))

    def opens(self, route: str = "#/") -> None:
        """Goes there and waits until the page shows its data."""
        self.page.goto(f"{self.address}/{route}")
        self.page.wait_for_selector("body[data-ready=true]")

    def turns_to(self, route: str, view: str) -> None:
        """Goes on to another view, as a link does."""
        self.page.evaluate("route => { location.hash = route; }", route)
        self.page.wait_for_selector(f"[data-view={view}][data-loaded=true]")

    def until(self, what: str, ask: Callable[[], T | None]) -> T:
        """The first answer that is not None (nor False, nor empty); what the page does meanwhile is heard."""
        seconds = MILLISECONDS / 1000
        deadline = time.monotonic() + seconds
        while not (answer := ask()):
            if time.monotonic() >= deadline:
                raise StateNotReached(
                    f"waited {MILLISECONDS / 1000:.0f} s in vain: {what}; wrong so far: {self.flaws()}"
                )
            self.page.wait_for_timeout(20)
        return answer

    def expects(self, pattern: str) -> None:
        """What this expression finds is no flaw in this visit: the test is about it."""
        self._expected.append(pattern)

    def flaws(self) -> list[str]:
        return [each for each in self.wrong if not any(re.search(pattern, each) for pattern in self._expected)]

    def assert_flawless(self) -> None:
        assert not self.flaws(), "\n".join(self.flaws())

    def close(self) -> None:
        self.context.close()

    def _is_elsewhere(self, url: str) -> bool:
        return not url.startswith(HAS_NO_HOST) and urlsplit(url).netloc != urlsplit(self.address).netloc

    def _refuse(self, route: Route) -> None:
        self.wrong.append(f"asked another host: {route.request.url}")
        route.abort()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.wrong.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.wrong.append(f"answer {response.status}: {response.request.method} {response.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != CANCELLED and not self._is_elsewhere(request.url):
            self.wrong.append(f"no answer: {request.method} {request.url}: {request.failure}")


@contextmanager
def visiting(browser: Browser, address: str, look: Look | None = None) -> Iterator[Visit]:
    """A visit that must be without a flaw until its end."""
    visit = Visit(browser, address, look or Look())
    try:
        yield visit
        visit.assert_flawless()
    finally:
        visit.close()
