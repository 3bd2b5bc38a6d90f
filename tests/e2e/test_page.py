"""Scenario: people at the page of a controller, in real Chromium.

They watch a move step by step, and press buttons with a token of theirs: Kubernetes says who they are and what they
may do, and the cluster shows whether it was done.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.browsing import Visit, browsing, visiting
from tests.browser.walking import walk
from tests.support.both_clusters import Space, is_ready, name_of, nodes_fixture
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import daemon_set, deployment, simulated
from tests.support.page_answers import is_served
from tests.support.signing_in import STATE, allow, is_embedded, token_of
from tests.support.skewed_cluster import kind_is_served, migrations
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import free_port, until

pytestmark = pytest.mark.release

KEEP_STEPS = """() => {
  window.stepsShown = [];
  const keep = () =>
    document.querySelectorAll("[data-step]").forEach((row) => window.stepsShown.push(row.dataset.step));
  new MutationObserver(keep).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""
"""Every step that the page ever shows is kept, whenever a test looks."""
MAY_MOVE = {"apiGroups": ["rescheduler.io"], "resources": ["podmigrations"], "verbs": ["create"]}
MAY_PAUSE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "resourceNames": [STATE]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as running:
        yield running


nodes = nodes_fixture(12, prefix="seen", shape=NodeShape(cpu="2"))


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A Deployment of six whose pods take a moment to be Ready, and a DaemonSet everywhere."""
    space.create(daemon_set("agent"))
    space.create(simulated(deployment("web", 6, cpu="250m"), starts_in="4"))
    until("all run", lambda: len(space.list("Pod")) == 18 and all(map(is_ready, space.list("Pod"))))
    return space


@pytest.fixture
def address(web: Space, tmp_path: Path) -> Iterator[str]:
    """Of the page of a controller that plans nothing by itself."""
    port = free_port()
    serving = {"port": port, "bindAddress": "127.0.0.1"}
    config = write_config(tmp_path / "config.yaml", web.name, enabledStrategies=[], web=serving)
    with Controller(web.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        kind_is_served(web, controller)
        until("the page is served", lambda: is_served(f"http://127.0.0.1:{port}", 12), [controller])
        yield f"http://127.0.0.1:{port}"


def sign_in(visit: Visit, with_token: str) -> None:
    visit.page.click("#sign-in")
    visit.page.fill("#token", with_token)
    visit.page.click("#dialog-ok")
    visit.page.wait_for_selector("#sign-out")


def asks_to_move(visit: Visit, space: Space, pod: str, target: str) -> None:
    visit.turns_to(f"#/pod/{space.name}/{pod}", "pod")
    visit.page.fill("#target", target)
    visit.page.click("[data-action=migrate]")
    visit.page.click("#dialog-ok")


def place_for(space: Space, nodes: list[str], pod: str) -> str:
    """Another node than the pod's own."""
    where = space.get("Pod", pod)["spec"]["nodeName"]
    return next(each for each in nodes if each != where)


def test_every_view_of_a_real_cluster_is_shown(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        seen = [stop.view for stop in walk(visit)]
        assert len(seen) == 8
        visit.page.wait_for_selector("body[data-live=on]")


def test_a_move_that_somebody_with_rights_starts_is_seen_live_until_it_landed(
    browser: Browser, address: str, web: Space, nodes: list[str]
) -> None:
    pod = name_of(web.pods("web")[0])
    target = place_for(web, nodes, pod)
    with visiting(browser, address) as mover, visiting(browser, address) as watcher:
        watcher.opens("#/migrations")
        watcher.page.evaluate(KEEP_STEPS)
        mover.opens()
        sign_in(mover, allow(web, "mover", MAY_MOVE))
        mover.expects(f"404.*/api/pods/{web.name}/{pod}|answer 404: GET .*/{pod}")  # it looks on when the pod is gone
        asks_to_move(mover, web, pod, target)
        watcher.page.wait_for_selector(f"[data-migration^='{web.name}/'][data-phase=Completed]")
        steps = watcher.page.evaluate("() => window.stepsShown")
        assert "AwaitReady" in steps, steps  # which takes some seconds; others are over before they can be shown
    (migration,) = migrations(web)
    assert migration["status"]["phase"] == "Completed"
    assert migration["spec"]["target"] == target
    assert web.get("Pod", migration["status"]["replacement"]["name"])["spec"]["nodeName"] == target


def test_somebody_without_rights_is_told_so_and_nothing_is_moved(
    browser: Browser, address: str, web: Space, nodes: list[str]
) -> None:
    pod = name_of(web.pods("web")[0])
    with visiting(browser, address) as visit:
        visit.expects("403")
        visit.opens()
        sign_in(visit, token_of(web, "reader"))
        assert visit.page.get_attribute("#pause", "aria-disabled") == "true"
        asks_to_move(visit, web, pod, place_for(web, nodes, pod))
        sentence = f"system:serviceaccount:{web.name}:reader may not create podmigrations"
        visit.until("it is shown", lambda: sentence in visit.page.inner_text("dialog"))
    assert migrations(web) == []


def test_a_token_that_kubernetes_does_not_know_is_not_accepted(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        visit.expects("401")
        visit.opens()
        visit.page.click("#sign-in")
        visit.page.fill("#token", "nobodys.token.at-all")
        visit.page.click("#dialog-ok")
        visit.page.wait_for_function("() => document.querySelector('dialog [role=alert]')?.textContent")
        assert visit.page.locator("#sign-out:visible").count() == 0


def test_rescheduling_is_paused_and_resumed_and_everybody_sees_it(browser: Browser, address: str, web: Space) -> None:
    with visiting(browser, address) as boss, visiting(browser, address) as watcher:
        watcher.opens()
        boss.opens()
        sign_in(boss, allow(web, "boss", MAY_PAUSE))
        boss.page.click("#pause[aria-disabled=false]")
        boss.page.fill("#reason", "upgrade of the nodes")
        boss.page.click("#dialog-ok")
        watcher.page.wait_for_selector("#resume")
        watcher.until("the reason is shown", lambda: "upgrade of the nodes" in watcher.page.inner_text("body"))
        if not is_embedded(web.cluster):  # which has only its owner as a user
            assert f"system:serviceaccount:{web.name}:boss" in watcher.page.inner_text("#top")
        boss.page.click("#resume")
        boss.page.click("#dialog-ok")
        watcher.page.wait_for_selector("#pause")
