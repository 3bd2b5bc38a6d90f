"""Every view, with few nodes and with as many as Kubernetes takes: shown without an error, for everybody to read.

The page is the product's, the server a fixture with something of everything in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.browser.browsing import PHONE, Look
from tests.browser.conftest import Visitor
from tests.browser.judging import covered, invisible_focus, overflow, unnamed, unreachable, weak_texts
from tests.browser.walking import walk
from tests.support.page_fixture import Served, serving

LOOKS = {
    "light": Look(),
    "dark": Look(dark=True),
    "chinese": Look(language="zh-CN"),
    "chinese-dark-phone": Look(PHONE, dark=True, language="zh-CN"),
    "phone": Look(PHONE),
    "low": Look((1280, 400)),
}
KEY_OF_A_MESSAGE = re.compile(r"(?m)^[a-z]+\.[a-z][A-Za-z]*$")


@pytest.fixture(scope="module", params=[12, 5000], ids=lambda count: f"{count}-nodes")
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serving(nodes=request.param) as running:
        yield running


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_every_view_is_shown_and_everybody_can_read_it(served: Served, visit: Visitor, look: Look) -> None:
    made = visit(served.address, look)
    for stop in walk(made):
        page = made.page
        found = {
            "weak": weak_texts(page),
            "unnamed": unnamed(page),
            "too wide": overflow(page),
            "covered": covered(page),
            "untranslated": KEY_OF_A_MESSAGE.findall(page.inner_text("body")),
        }
        assert not any(found.values()), (stop, found)
        assert page.get_attribute("html", "data-theme") == ("dark" if look.dark else "light")
        assert page.get_attribute("html", "lang") == ("zh-CN" if look.language == "zh-CN" else "en")


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_dialogs_can_be_read_and_used_by_everybody(visit: Visitor, look: Look) -> None:
    with serving(nodes=12, access="local") as local, serving(nodes=12) as served:
        for address, button, kind in (
            (served.address, "#sign-in", "sign-in"),
            (local.address, "#pause[aria-disabled=false]", "confirm"),
            (served.address, "#help", "help"),
        ):
            made = visit(address, look)
            made.opens()
            made.page.wait_for_selector("#live[data-on=true]")
            made.page.locator(button).scroll_into_view_if_needed()
            made.page.click(button)
            made.page.wait_for_selector(f"dialog[open][data-dialog={kind}]")
            assert (kind, weak_texts(made.page), overflow(made.page)) == (kind, [], [])
            made.page.keyboard.press("Escape")
            made.page.wait_for_selector("dialog[open]", state="detached")
            made.assert_flawless()
            made.close()


def test_the_keyboard_comes_to_everything_and_is_seen_there(visit: Visitor) -> None:
    with serving(nodes=12) as served:
        made = visit(served.address)
        for stop in walk(made):
            assert (stop, unreachable(made.page)) == (stop, [])
            assert (stop, invisible_focus(made.page)) == (stop, [])
        made.assert_flawless()
        made.close()
