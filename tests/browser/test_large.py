"""The page and its real server, as large as Kubernetes gets: every view with 5,000 nodes, and what changes is seen.

There is no cluster behind it: the controller's own cache is filled with a generated one, and everything is answered
from that.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.conftest import Visitor
from tests.browser.walking import walk
from tests.support.page_large import Large, large_page

NODES, PODS = 5_000, 20_000


@pytest.fixture(scope="module")
def large() -> Iterator[Large]:
    with large_page(NODES, PODS) as running:
        yield running


def test_every_view_of_5000_nodes_is_shown(large: Large, visit: Visitor) -> None:
    made = visit(large.server.address)
    assert len([stop.view for stop in walk(made)]) == 8


def test_a_new_node_is_on_the_map_a_moment_later(large: Large, visit: Visitor) -> None:
    made = visit(large.server.address)
    made.opens()
    made.page.wait_for_selector(f"#heatmap[data-nodes='{NODES}']")
    large.server.call(lambda: large.stage.node("newcomer"))
    made.page.wait_for_selector(f"#heatmap[data-nodes='{NODES + 1}']")
    made.page.focus("#heatmap")
    made.page.click("#show-table")
    made.page.fill("#search", "newcomer")
    made.page.wait_for_selector("[role=option]")
    made.page.keyboard.press("Enter")
    made.page.wait_for_selector("[data-view=node][data-loaded=true]")
    assert made.page.inner_text("h1") == "newcomer"
