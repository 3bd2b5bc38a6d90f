"""What somebody does on the page while something else is under way: neither gets into the way of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.browser.conftest import Visitor
from tests.support.page_fixture import Served, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(nodes=12, access="local") as running:
        yield running


def holding(page: Page, pattern: str) -> list[Route]:
    """Takes the first request that the page makes to such an address; it does not go on before it is told to."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route(pattern, hold)
    return held


def grown(nodes: dict[str, Any], revision: int) -> dict[str, Any]:
    """The columns with one node more, like the last one."""
    size = len(nodes["names"])
    columns = {
        key: [*column, column[-1]] if isinstance(column, list) and len(column) == size else column
        for key, column in nodes.items()
    }
    return columns | {"names": [*nodes["names"], "worker-9999"], "revision": revision}


def test_a_node_that_joins_while_the_table_is_shown_is_on_the_map_afterwards(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page, nodes = made.page, served.documents["nodes"]
    page.click("#show-table")
    page.wait_for_selector("#heatmap-table tr[data-node]")
    revision = nodes["revision"] + 1
    served.documents["nodes"] = grown(nodes, revision)
    served.publish("nodes", {"revision": revision, "reset": True})
    page.wait_for_selector("#heatmap-table tr[data-node=worker-9999]")
    served.publish("nodes", {"revision": revision + 1, "rows": [[12, 77.0, 78.0, 7, 0]]})
    page.wait_for_function(
        "() => document.querySelector('#heatmap-table tr[data-node=worker-9999]').textContent.includes('77.0')"
    )
    page.click("#show-map")
    page.wait_for_selector(f"#heatmap[data-nodes='13'][data-revision='{revision + 1}']")


def test_what_is_found_after_somebody_has_gone_on_does_not_cover_the_page(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    held = holding(page, "**/api/search?q=worker-000")
    page.fill("#search", "worker-000")
    made.until("it is searched", lambda: held)
    page.focus("#heatmap")
    held[0].continue_()
    page.evaluate("() => fetch('api/search?q=worker').then((answer) => answer.text())")  # which is answered after it
    assert page.is_hidden("#search-results")


def test_enter_never_opens_what_was_found_for_another_text(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    page.fill("#search", "worker-00")
    page.wait_for_selector("[role=option][aria-selected=true]")
    page.route("**/api/search?q=worker-0007", lambda route: None)  # no answer yet
    page.fill("#search", "worker-0007")
    page.keyboard.press("Enter")
    assert "#/node/" not in page.url


def test_an_action_that_ends_late_leaves_the_next_dialog_alone(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    held = holding(page, "**/api/actions/pause")
    page.wait_for_selector("#pause[aria-disabled=false]")
    page.click("#pause")
    page.click("#dialog-ok")
    made.until("the action is sent", lambda: held)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open][data-dialog=help]")
    held[0].continue_()
    page.wait_for_selector("#notice [data-kind=good]", state="attached")
    assert page.locator("dialog[open][data-dialog=help]").count() == 1


def test_an_action_that_fails_after_its_dialog_was_closed_is_told_all_the_same(served: Served, visit: Visitor) -> None:
    served.refuse("pause", 503, "the API server does not answer in time")
    made = visit(served.address)
    made.expects("503")
    made.opens()
    page = made.page
    held = holding(page, "**/api/actions/pause")
    page.wait_for_selector("#pause[aria-disabled=false]")
    page.click("#pause")
    page.click("#dialog-ok")
    made.until("the action is sent", lambda: held)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    held[0].continue_()
    page.wait_for_selector("#notice [data-kind=bad]")
    assert "the API server does not answer in time" in page.inner_text("#notice")


def test_labels_of_a_node_stay_open_when_its_use_changes(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    nodes = served.documents["nodes"]
    name = nodes["names"][0]
    made.turns_to(f"#/node/{name}", "node")
    page = made.page
    page.click("[data-view=node] details summary")
    page.wait_for_selector("[data-view=node] details[open]")
    nodes["cpu"][0] = 12.3
    served.publish("nodes", {"revision": nodes["revision"] + 1, "rows": [[0, 12.3, nodes["memory"][0], 7, 0]]})
    page.wait_for_function("() => document.querySelector('.meter-head b').textContent.startsWith('12.3')")
    assert page.locator("[data-view=node] details[open]").count() == 1


@pytest.mark.parametrize("plan", ["none yet", "one without these moves"])
def test_moves_that_wait_can_be_read_and_approved_whatever_the_newest_plan_says(
    served: Served, visit: Visitor, plan: str
) -> None:
    told = served.documents["plan"]
    if plan == "none yet":
        told["plan"] = None
    else:
        told["plan"]["moves"] = []
    waiting = [each for each in served.documents["migrations"]["migrations"] if each["awaitsApproval"]]
    assert waiting
    made = visit(served.address)
    made.opens("#/plan")
    made.page.wait_for_selector("#approve-all")
    for each in waiting:
        row = f"[data-migration='{each['namespace']}/{each['name']}']"
        made.page.wait_for_selector(f"{row} [data-action=approve]")


def test_an_answer_about_an_earlier_token_does_not_sign_anybody_in_or_out(visit: Visitor) -> None:
    with serving(nodes=12, access="token") as served:
        made = visit(served.address)
        page = made.page
        held = holding(page, "**/api/whoami")
        made.opens()
        made.until("the page asks who we are, without a token", lambda: held)
        page.click("#sign-in")
        page.fill("#token", "good")
        page.click("#dialog-ok")
        page.wait_for_selector("#pause[aria-disabled=false]")
        with page.expect_response("**/api/whoami"):
            held[0].continue_()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.inner_text("#who") == "jane"
        assert page.get_attribute("#pause", "aria-disabled") == "false"
        made.close()


def test_more_moves_are_approved_than_one_request_may_carry(served: Served, visit: Visitor) -> None:
    kept = served.documents["migrations"]["migrations"]
    first = next(each for each in kept if each["awaitsApproval"])
    kept[:] = [{**first, "name": f"waits-{number}"} for number in range(1001)]
    made = visit(served.address)
    made.opens("#/plan")
    made.page.click("#approve-all")
    made.page.click("#dialog-ok")
    made.page.wait_for_selector("dialog[open]", state="detached")
    assert [len(body["migrations"]) for _, body, _ in served.actions] == [1000, 1]
