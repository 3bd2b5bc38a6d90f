"""The heat map by pointer and by keyboard, and its table for those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.conftest import Visitor
from tests.support.page_fixture import Served, serving


@pytest.fixture(scope="module", params=[12, 5000], ids=lambda count: f"{count}-nodes")
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serving(nodes=request.param) as running:
        yield running


def test_arrow_keys_go_from_node_to_node_and_enter_opens_one(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page, canvas = made.page, made.page.locator("#heatmap")
    canvas.focus()
    seen = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "End"):
        page.keyboard.press(key)
        seen.append(canvas.get_attribute("data-selected") or "")
        assert seen[-1]
        assert seen[-1] in page.inner_text("#heatmap-said")
    assert seen[0] not in (seen[1], seen[-1])
    assert seen[1] != seen[2]
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-view=node][data-loaded=true]")
    assert seen[-1] in page.inner_text("[data-view=node]")


def test_a_click_selects_the_node_that_is_under_the_pointer(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    for group in ("zone", "pool", "flat"):
        page.select_option("#group", group)
        names = served.documents["nodes"]["names"]
        for name in (names[0], names[len(names) // 2], names[-1]):
            cell = page.evaluate("name => document.querySelector('#heatmap').heatmapCell(name)", name)
            page.locator("#heatmap").scroll_into_view_if_needed()
            page.click("#heatmap", position={"x": cell["x"] + cell["size"] / 2, "y": cell["y"] + cell["size"] / 2})
            page.wait_for_selector(f"#heatmap[data-selected='{name}']")


def test_the_map_is_coloured_by_what_is_chosen(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    pictures = []
    for metric in ("cpu", "memory", "pods"):
        made.page.select_option("#metric", metric)
        made.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        pictures.append(made.page.locator("#heatmap").evaluate("canvas => canvas.toDataURL()"))
    assert len(set(pictures)) == 3


def test_the_table_tells_the_same(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    made.page.click("#show-table")
    nodes = served.documents["nodes"]
    row = made.page.locator("#heatmap-table [data-node]").first
    name = row.get_attribute("data-node") or ""
    assert name in nodes["names"]
    assert name in row.inner_text()
