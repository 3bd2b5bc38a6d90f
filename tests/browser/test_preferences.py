"""Language, theme and ways to look at the heat map: chosen at once, remembered by this browser, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.browsing import Look
from tests.browser.conftest import Visitor
from tests.support.page_fixture import Served, serving

KEYS = "() => Object.keys(localStorage).concat(Object.keys(sessionStorage))"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(nodes=12) as running:
        yield running


def test_language_and_theme_change_at_once_and_are_remembered(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    english = page.inner_text("#nav")
    page.select_option("#language", "zh")
    page.select_option("#theme", "dark")
    page.wait_for_selector("html[lang=zh-CN][data-theme=dark]")
    assert page.inner_text("#nav") != english
    page.reload()
    page.wait_for_selector("html[lang=zh-CN][data-theme=dark] body[data-ready=true]")
    page.select_option("#theme", "auto")
    page.wait_for_selector("html[data-theme=light]")
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")


def test_a_browser_that_prefers_chinese_gets_chinese(served: Served, visit: Visitor) -> None:
    made = visit(served.address, Look(language="zh-TW"))
    made.opens()
    assert made.page.get_attribute("html", "lang") == "zh-CN"


def test_both_languages_have_the_same_messages(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    keys = "async (name) => Object.keys((await import(`./page/${name}.js`))[name])"
    english, chinese = (set(made.page.evaluate(keys, name)) for name in ("en", "zh"))
    assert english == chinese


def test_nothing_is_stored_but_choices_and_no_cookie_is_set(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    made.page.select_option("#metric", "memory")
    made.page.select_option("#group", "flat")
    made.page.click("#sign-in")
    made.page.fill("#token", "good")
    made.page.press("#token", "Enter")
    made.page.wait_for_selector("#sign-out")
    assert {key.partition(".")[0] for key in made.page.evaluate(KEYS)} == {"rescheduler"}
    assert "good" not in made.page.evaluate("() => JSON.stringify({...localStorage, ...sessionStorage})")
    assert made.context.cookies() == []
    made.page.reload()
    made.page.wait_for_selector("#sign-in")
