"""The judges of the page are judged: each finds the flaw that it is there for, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.browsing import Look, Visit, visiting
from tests.browser.judging import covered, invisible_focus, overflow, unnamed, unreachable, weak_texts

ADDRESS = "http://page.test"
POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; connect-src *; img-src *"
GOOD = (
    "<!doctype html><html lang=en><title>Good</title><body data-ready=true><main><h1>Good</h1>"
    "<p>Text</p><label>Name <input></label><button>Go</button><a href=#x>There</a></main>"
)


def shown(browser: Browser) -> Visit:
    """A visit of a good page, which has no server: Playwright answers for it."""
    made = Visit(browser, ADDRESS, Look())
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY}
    made.page.route(f"{ADDRESS}/", lambda route: route.fulfill(status=200, headers=headers, body=GOOD))
    made.page.route(f"{ADDRESS}/gone", lambda route: route.fulfill(status=404, body="gone"))
    made.page.route(f"{ADDRESS}/cut", lambda route: route.abort("connectionreset"))
    made.opens("")
    return made


def test_a_good_page_is_called_good(browser: Browser) -> None:
    made = shown(browser)
    for judge in (weak_texts, unnamed, overflow, unreachable, invisible_focus, covered):
        assert judge(made.page) == []
    made.assert_flawless()
    made.close()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("setTimeout(() => { throw new Error('oh') }, 0)", "page error: oh"),
        ("console.error('oh')", "console error: oh"),
        ("console.warn('oh')", "console warning: oh"),
        ("fetch('http://elsewhere.test/x', {mode: 'no-cors'}).catch(() => {})", "asked another host: http://elsewhere"),
        ("new Image().src = 'http://127.0.0.1:9/x.png'", "asked another host: http://127.0.0.1:9/x.png"),
        ("fetch('/gone')", "answer 404: GET http://page.test/gone"),
        ("fetch('/cut').catch(() => {})", "no answer: GET http://page.test/cut"),
        (
            (
                "const made = document.createElement('style'); made.textContent = 'p {color: red}';"
                " document.head.append(made)"
            ),
            "Content-Security-Policy: style-src",
        ),
        ("document.body.setAttribute('style', 'color: red')", "Content-Security-Policy: style-src-attr"),
    ],
)
def test_what_goes_wrong_in_a_visit_is_written_down(browser: Browser, script: str, told: str) -> None:
    made = shown(browser)
    made.page.evaluate(f"() => {{ {script} }}")
    made.until(told, lambda: any(told in each for each in made.flaws()))
    made.expects("")
    made.assert_flawless()
    made.close()


def test_a_visit_with_a_flaw_fails_at_its_end(browser: Browser) -> None:
    with pytest.raises(AssertionError, match="oh"), visiting(browser, ADDRESS) as made:
        made.wrong.append("oh")


@pytest.mark.parametrize(
    ("judge", "script"),
    [
        (weak_texts, "document.querySelector('p').style.color = '#8a8a8a'"),
        (weak_texts, "document.querySelector('p').style.opacity = '0.4'"),
        (weak_texts, "document.querySelector('main').style.background = 'oklch(0.3 0 0)'"),
        (
            weak_texts,
            (
                "document.querySelector('input').placeholder = 'grey'; const sheet = new CSSStyleSheet();"
                " sheet.replaceSync('::placeholder {color: #aaa}'); document.adoptedStyleSheets = [sheet]"
            ),
        ),
        (unnamed, "document.querySelector('button').textContent = ''"),
        (unnamed, "document.querySelector('label').replaceWith(document.createElement('input'))"),
        (unnamed, "document.querySelectorAll('p, a').forEach(each => each.id = 'same')"),
        (unnamed, "document.documentElement.lang = ''"),
        (unnamed, "document.querySelector('h1').remove()"),
        (overflow, "document.querySelector('p').style.width = '3000px'"),
        (
            unreachable,
            "addEventListener('keydown', e => document.activeElement.matches('input') && e.preventDefault())",
        ),
        (covered, "const over = document.querySelector('h1'); over.style.cssText = 'position: fixed; inset: 0'"),
        (invisible_focus, "document.querySelector('button').style.outline = 'none'"),
    ],
)
def test_each_judge_finds_its_flaw(browser: Browser, judge: Callable[[Page], list[str]], script: str) -> None:
    made = shown(browser)
    made.page.evaluate(f"() => {{ {script} }}")
    assert judge(made.page)
    made.close()


@pytest.mark.parametrize(
    "script",
    [
        "document.querySelector('p').style.color = '#767676'",
        "document.querySelector('h1').style.color = '#949494'",
        (
            "document.body.style.background = 'black'; document.body.style.color = 'white';"
            " document.querySelectorAll('input, button, a').forEach(each => each.remove())"
        ),
        "document.querySelector('p').style.color = 'white'; document.querySelector('p').style.display = 'none'",
        "document.querySelector('button').disabled = true",
    ],
)
def test_contrast_that_suffices_is_left_alone(browser: Browser, script: str) -> None:
    made = shown(browser)
    made.page.evaluate(f"() => {{ {script} }}")
    assert weak_texts(made.page) == []
    made.close()
