"""What is asked of a view that is shown, beside that nothing went wrong: can everybody read it, reach it, name it?

Each question runs one of `scripts/` in the page and answers with what is wrong, nothing if nothing is. Tests of all
views ask them; `test_judging` shows that each finds what it is there for.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

SCRIPTS = Path(__file__).with_name("scripts")
MOST_TABS = 400  # a view has fewer controls; the keyboard that goes in a circle shall not do so for ever


def weak_texts(page: Page) -> list[str]:
    """Texts whose contrast is less than WCAG 2.2 AA asks for."""
    return [
        f"{each['ratio']} < {each['needed']}: {each['where']}: {each['text']!r} ({each['ink']} on {each['paper']})"
        for each in page.evaluate(_script("contrast"))
    ]


def unnamed(page: Page) -> list[str]:
    """Controls without a name, and other things that people who cannot see the page would miss."""
    found: list[str] = page.evaluate(_script("unnamed"))
    return found


def overflow(page: Page) -> list[str]:
    """What makes the document wider than the window."""
    found: list[str] = page.evaluate(_script("overflow"))
    return found


def unreachable(page: Page) -> list[str]:
    """What the Tab key does not come to, from the top of the page to its end."""
    wanted: dict[int, str] = {each["number"]: each["what"] for each in page.evaluate(_script("reachable"))}
    page.evaluate("() => { document.activeElement?.blur(); getSelection()?.removeAllRanges(); scrollTo(0, 0); }")
    reached: set[int] = set()
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        number = page.evaluate("() => Number(document.activeElement?.dataset?.reachable ?? -1)")
        if number in reached:  # once around, or caught
            break
        reached |= {number} - {-1}
        if reached >= set(wanted):
            break
    return [what for number, what in wanted.items() if number not in reached]


def covered(page: Page) -> list[str]:
    """Controls that nobody can press, because something else lies over them."""
    found: list[str] = page.evaluate(_script("covered"))
    return found


def invisible_focus(page: Page) -> list[str]:
    """Controls that look the same with the keyboard on them."""
    found: list[str] = page.evaluate(_script("focus"))
    return found


def _script(name: str) -> str:
    return (SCRIPTS / f"{name}.js").read_text()
