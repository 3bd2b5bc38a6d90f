"""One browser for all tests of this folder, and visits of theirs that must be without a flaw at their end.

The browser lives as long as this folder's tests run: Playwright's loop runs in the same thread, in which no other test
could run a loop of its own meanwhile. A machine without Chromium gets it now, and its progress is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext

import pytest
from playwright.sync_api import Browser

from tests.browser.browsing import Look, Visit, browsing, visiting
from tests.browser.chromium import BrowserUnavailable, chromium

Visitor = Callable[..., Visit]


@pytest.fixture(scope="package")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Chromium, running."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            chromium()
    except BrowserUnavailable as reason:
        pytest.fail(str(reason), pytrace=False)
    with browsing() as running:
        yield running


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visitor]:
    """Makes visits: `visit(address, Look(dark=True))`."""
    with ExitStack() as stack:

        def visits(address: str, look: Look | None = None) -> Visit:
            return stack.enter_context(visiting(browser, address, look))

        yield visits
