"""What is seldom seen: nothing there yet, another replica leads, something gone, an address that leads nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.browser.conftest import Visitor
from tests.support.page_fixture import Served, serving

VIEWS = ("plan", "migrations", "outcomes", "config", "health")


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(nodes=12) as running:
        yield running


def test_a_cluster_without_nodes_plans_and_migrations_is_shown_without_an_error(visit: Visitor) -> None:
    with serving(nodes=0) as served:
        served.documents["outcomes"]["workloads"] = []
        made = visit(served.address)
        made.opens()
        for view in VIEWS:
            made.turns_to(f"#/{view}", view)
        made.turns_to("#/", "heatmap")
        made.close()


def test_a_replica_that_does_not_lead_and_a_pause_of_unknown_age_are_told(served: Served, visit: Visitor) -> None:
    overview = served.documents["overview"]
    overview["replica"] = {"identity": "rescheduler-b", "leading": False, "leader": "rescheduler-a"}
    overview["paused"] = {"by": "", "since": None, "reason": "the ConfigMap makes no sense"}
    overview["nextPlan"] = None
    made = visit(served.address)
    made.opens()
    made.page.wait_for_selector("#resume")
    assert "the ConfigMap makes no sense" in made.page.inner_text("body")
    assert "1970" not in made.page.content()
    made.turns_to("#/health", "health")
    assert "rescheduler-a" in made.page.inner_text("[data-view=health]")


def test_a_closed_time_window_is_told_with_when_it_opens(served: Served, visit: Visitor) -> None:
    overview = served.documents["overview"]
    overview["window"] = {"open": False, "until": 1_800_000_000, "windows": ["Sat,Sun"], "timeZone": "Europe/Berlin"}
    made = visit(served.address)
    made.opens()
    assert re.search(r"No time window is open: nothing starts before .*2027", made.page.inner_text("body"))
    made.turns_to("#/health", "health")
    told = made.page.inner_text("[data-view=health]")
    assert re.search(r"Closed until .*2027", told)
    assert "Sat,Sun Europe/Berlin" in told


def test_a_node_or_pod_that_is_gone_is_told_in_the_servers_words(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.expects("404")
    made.opens()
    page = made.page
    page.evaluate("() => { location.hash = '#/node/gone'; }")
    made.until("a node is gone", lambda: "there is no node gone" in page.inner_text("main"))
    page.evaluate("() => { location.hash = '#/pod/shop/gone-1'; }")
    made.until("a pod is gone", lambda: "there is no pod shop/gone-1" in page.inner_text("main"))


def test_a_pod_that_was_moved_leads_to_the_pod_in_its_place(served: Served, visit: Visitor) -> None:
    rows = served.documents["migrations"]["migrations"]
    done = next(row for row in rows if row["phase"] == "Completed")
    done |= {"pod": "gone-1", "replacement": "come-1"}
    made = visit(served.address)
    made.expects("404")
    made.opens()
    page = made.page
    page.evaluate("() => { location.hash = '#/pod/shop/gone-1'; }")
    made.until("its successor is told", lambda: page.locator("[data-replacement='come-1'] a").count() == 1)


def test_a_pod_that_is_removed_has_no_target_and_two_steps(served: Served, visit: Visitor) -> None:
    rows, moves = served.documents["migrations"]["migrations"], served.documents["plan"]["plan"]["moves"]
    gone = {"source": "worker-0001", "target": "", "method": "remove", "strategy": "FailedPods", "replacement": ""}
    under_way = next(row for row in rows if row["phase"] == "InProgress")
    under_way |= gone | {"pod": "evicted-1", "step": "AwaitRemoved", "steps": ["Remove", "AwaitRemoved"], "history": []}
    moves[0] |= {"pod": "evicted-2", "from": "worker-0001", "to": "", "method": "remove", "gain": None}
    made = visit(served.address)
    made.opens()
    page = made.page
    for view, pod in (("migrations", "evicted-1"), ("plan", "evicted-2")):
        made.turns_to(f"#/{view}", view)
        way = page.locator(".migration-head", has_text=pod).locator(".way")
        way.wait_for()
        assert way.inner_text().split() == ["worker-0001", "removed"]
        assert way.locator("svg").count() == 0, "no arrow to nowhere"
    made.turns_to("#/migrations", "migrations")
    assert "Wait until it is gone" in page.inner_text("main")


@pytest.mark.parametrize("route", ["#/nowhere", "#/node/%ff", "#/pod/only-a-namespace", "#/../../etc", "#//////"])
def test_an_address_that_leads_nowhere_says_so(served: Served, visit: Visitor, route: str) -> None:
    made = visit(served.address)
    made.opens(route)
    made.page.wait_for_selector("[data-view=missing]")


def test_a_search_leads_to_nodes_and_pods_by_keyboard(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    page.fill("#search", "worker-0007")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-view=node][data-loaded=true]")
    assert "worker-0007" in page.inner_text("h1")


def test_typed_html_is_searched_for_and_not_run(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    asked: list[str] = []
    made.page.on("response", lambda response: asked.append(response.url) if "search" in response.url else None)
    made.page.fill("#search", "<img src=x onerror=alert(1)>")
    made.until("it was searched for", lambda: asked)
    assert made.page.locator("img[src=x]").count() == 0
