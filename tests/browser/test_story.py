"""The page of the real controller, on an embedded cluster, for somebody on the same machine who needs no token.

Its 12 nodes are out of balance: moves are seen as they happen, and the buttons do what they say. The real server with
5,000 nodes is `test_large`; the real control plane, with tokens, is tests/e2e/test_page.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.conftest import Visitor
from tests.browser.walking import walk
from tests.support.page_answers import answer
from tests.support.page_scene import Scene, scene

ONE_IS_FOLLOWED = """() => {
  const shown = (phase) => [...document.querySelectorAll(`[data-migration][data-phase=${phase}]`)];
  window.begun ??= new Set();
  shown("InProgress").forEach((row) => window.begun.add(row.dataset.migration));
  return shown("Completed").some((row) => window.begun.has(row.dataset.migration));
}"""
"""Whether some move was shown under way, and now is shown at its end; asked in every frame."""


@pytest.fixture
def small() -> Iterator[Scene]:
    with scene(nodes=12, maxReschedulePods=3) as running:
        yield running


def test_moves_are_seen_live_and_the_buttons_work_in_a_cluster_of_12_nodes(small: Scene, visit: Visitor) -> None:
    made = visit(small.address)
    made.opens("#/migrations")
    page = made.page
    page.wait_for_selector("body[data-live=on]")
    page.wait_for_function(ONE_IS_FOLLOWED)
    assert [stop.view for stop in walk(made)][-1] == "health"
    made.turns_to("#/", "heatmap")
    page.wait_for_selector("#heatmap[data-nodes='12']")
    page.click("#pause[aria-disabled=false]")
    page.fill("#reason", "lunch")
    page.click("#dialog-ok")
    page.wait_for_selector("#resume")
    made.until("it is told why", lambda: "lunch" in page.inner_text("#top"))
    assert answer(small.address, "overview")["paused"]["by"] == "local"
    page.click("#resume")
    page.click("#dialog-ok")
    page.wait_for_selector("#pause")
    node = small.nodes[-1]
    made.turns_to(f"#/node/{node}", "node")
    page.click("[data-action=maintenance-on]")
    page.click("#dialog-ok")
    page.wait_for_selector("[data-action=maintenance-off]")
    assert small.cluster.kubectl("get", "node", node, "-o", "jsonpath={.metadata.labels}").count("maintenance")
