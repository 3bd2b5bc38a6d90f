"""Buttons for people with and without rights: what is sent, what is not, and what people are told.

The fixture server says who a token belongs to and what they may do. That Kubernetes decides is shown with the real
server in tests/e2e/test_page.py; here it is about the page.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.browsing import Visit
from tests.browser.conftest import Visitor
from tests.support.page_fixture import Served, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(nodes=12) as running:
        yield running


def sign_in(made: Visit, token: str) -> None:
    made.page.click("#sign-in")
    made.page.fill("#token", token)
    made.page.click("#dialog-ok")


def test_without_a_token_nothing_is_sent_and_the_page_asks_for_one(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    assert page.get_attribute("#pause", "aria-disabled") == "true"
    page.focus("#pause")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open][data-dialog=sign-in]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    assert served.actions == []


def test_a_token_that_is_not_accepted_is_refused_with_the_servers_sentence(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.expects("401")
    made.opens()
    sign_in(made, "wrong")
    made.page.wait_for_function("() => document.querySelector('dialog [role=alert]')?.textContent")
    assert made.page.input_value("#token") == "wrong"
    assert served.actions == []


def test_somebody_with_rights_pauses_and_the_page_shows_it(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    sign_in(made, "good")
    page.wait_for_selector("#pause[aria-disabled=false]")
    page.click("#pause")
    page.fill("#reason", "upgrade of the nodes")
    page.click("#dialog-ok")
    made.until("it was sent", lambda: served.actions)
    name, body, headers = served.actions[0]
    assert (name, body) == ("pause", {"reason": "upgrade of the nodes"})
    assert headers["Authorization"] == "Bearer good"
    assert headers["X-Rescheduler-Action"] == "pause"
    assert "Cookie" not in headers
    paused = {**served.documents["overview"], "paused": {"by": "jane", "since": 1e9, "reason": "upgrade of the nodes"}}
    served.publish("overview", paused)
    page.wait_for_selector("#resume")
    assert "upgrade of the nodes" in page.inner_text("body")


def test_a_signed_in_person_without_the_right_to_pause_cannot(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    sign_in(made, "poor")
    made.page.wait_for_selector("#sign-out")
    assert made.page.get_attribute("#pause", "aria-disabled") == "true"
    made.page.click("#pause", force=True)
    made.until("it says why", lambda: "joe" in made.page.inner_text("#notice"))
    assert served.actions == []


def test_a_refusal_of_the_server_is_told_in_its_words(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.expects("403")
    made.opens()
    sign_in(made, "poor")
    made.page.wait_for_selector("#sign-out")
    node = served.documents["nodes"]["names"][0]
    served.refuse("maintenance", 403, "joe may not patch nodes: ask for the right")
    made.turns_to(f"#/node/{node}", "node")
    made.page.locator("[data-action^=maintenance]").first.click()
    made.page.click("#dialog-ok")
    made.until("it is told", lambda: "joe may not patch nodes" in made.page.inner_text("dialog"))


def test_the_token_goes_nowhere_but_to_actions_and_whoami(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    told: list[str] = []
    made.page.on("request", lambda request: told.append(request.url) if "authorization" in request.headers else None)
    made.opens()
    sign_in(made, "good")
    made.page.wait_for_selector("#sign-out")
    for route, view in (("#/plan", "plan"), ("#/migrations", "migrations"), ("#/config", "config")):
        made.turns_to(route, view)
    assert {url.partition("/api/")[2] for url in told} == {"whoami"}
    made.page.click("#sign-out")
    made.page.wait_for_selector("#sign-in")


def test_what_waits_is_approved_at_once_or_one_by_one(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    sign_in(made, "good")
    made.page.wait_for_selector("#sign-out")
    made.turns_to("#/plan", "plan")
    waiting = [each for each in served.documents["migrations"]["migrations"] if each["awaitsApproval"]]
    assert waiting
    made.page.click("#approve-all")
    made.page.click("#dialog-ok")
    made.until("it was sent", lambda: served.actions)
    name, body, _ = served.actions[0]
    assert name == "approve"
    assert sorted((each["namespace"], each["name"]) for each in body["migrations"]) == sorted(
        (each["namespace"], each["name"]) for each in waiting
    )


def test_a_pod_is_moved_by_hand(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    sign_in(made, "good")
    made.page.wait_for_selector("#sign-out")
    move = served.documents["plan"]["plan"]["moves"][0]
    made.turns_to(f"#/pod/{move['namespace']}/{move['pod']}", "pod")
    made.page.fill("#target", move["to"])
    made.page.select_option("#method", "evict")
    made.page.click("[data-action=migrate]")
    made.page.click("#dialog-ok")
    made.until("it was sent", lambda: served.actions)
    name, body, _ = served.actions[0]
    assert name == "migrate"
    assert body == {"namespace": move["namespace"], "pod": move["pod"], "target": move["to"], "method": "evict"}


def test_on_loopback_without_a_token_the_buttons_work(visit: Visitor) -> None:
    with serving(nodes=12, access="local") as served:
        made = visit(served.address)
        made.opens()
        made.page.wait_for_selector("#pause[aria-disabled=false]")
        made.page.click("#pause")
        made.page.click("#dialog-ok")
        made.until("it was sent", lambda: served.actions)
        assert "Authorization" not in served.actions[0][2]
        made.close()
