"""Scenario: the buttons of a replica that does not lead, with `--ui-insecure-local`; the leader does what is asked.

Every replica serves the page, and a user may reach any of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from rescheduler.model.json import Json
from rescheduler.model.labels import MAINTENANCE
from tests.support.both_clusters import Space, name_of, nodes_fixture
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import deployment
from tests.support.signing_in import token_of
from tests.support.skewed_cluster import migrations
from tests.testbed.processes import free_port, until

nodes = nodes_fixture(3, prefix="pressed")


class Replica:
    """One of two controllers, with its page."""

    def __init__(self, space: Space, folder: Path, number: int) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        web = {"port": port, "bindAddress": "127.0.0.1"}
        config = write_config(folder / f"{number}.yaml", space.name, enabledStrategies=["NodeMaintenance"], web=web)
        log = folder / f"replica-{number}.log"
        self.process = Controller(space.cluster.kubeconfig, config, log, "--ui-insecure-local")

    def overview(self) -> Json:
        """What the page shows; nothing while it is not served."""
        try:
            with urlopen(f"{self.address}/api/overview", timeout=10) as answer:
                found: Json = json.load(answer)
        except OSError:
            return {}
        return found

    def press(self, action: str, demand: Json, **headers: str) -> tuple[int, str]:
        """The status, and what is said."""
        given = {"Content-Type": "application/json", "X-Rescheduler-Action": action, **headers}
        request = Request(f"{self.address}/api/actions/{action}", json.dumps(demand).encode(), given, method="POST")
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)["done"]
        except HTTPError as error:
            with error:
                return error.code, json.load(error)["error"]


@pytest.fixture
def pair(space: Space, nodes: list[str], tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """The leader and the other one."""
    with ExitStack() as stack:
        both = [Replica(space, tmp_path, number) for number in range(2)]
        processes = [stack.enter_context(each.process) for each in both]

        def sorted_out() -> list[Replica] | None:
            shown = [each.overview() for each in both]
            ready = all(each.get("replica", {}).get("leader") for each in shown)
            leading = [each["replica"]["leading"] for each in shown if ready]
            if sorted(leading) != [False, True]:
                return None
            return sorted(both, key=lambda each: not shown[both.index(each)]["replica"]["leading"])

        leader, other = until("one of them leads, and both know", sorted_out, processes)
        yield leader, other
        assert [each.process.stop() for each in (other, leader)] == [0, 0]


def test_buttons_work_on_the_replica_that_does_not_lead(
    space: Space, nodes: list[str], pair: tuple[Replica, Replica]
) -> None:
    leader, other = pair
    running = [leader.process, other.process]
    space.create(deployment("web", 4))
    space.rolled_out("web")

    status, said = other.press("pause", {"reason": "a look around"})
    assert (status, said[:23]) == (200, "Rescheduling is paused:")
    assert other.overview()["paused"]["by"] == "local"  # at once, on the replica that was asked
    until("the leader has seen it", lambda: leader.overview()["paused"], running)
    pod = space.pods("web")[0]
    status, said = other.press("migrate", {"namespace": space.name, "pod": name_of(pod)})
    assert (status, "as soon as its turn comes" in said) == (200, True)
    (migration,) = migrations(space)
    assert migration["spec"]["reason"] == "asked for by local on the page"
    assert other.press("resume", {})[0] == 200

    def moved() -> bool:
        (found,) = migrations(space)
        return bool(found.get("status", {}).get("phase") == "Completed")

    until("the pod is moved", moved, running)

    node = nodes[0]
    path = f"/api/v1/nodes/{node}"
    assert other.press("maintenance", {"node": node, "on": True})[0] == 200

    def is_emptied() -> bool:
        there = [each for each in space.list("Pod") if each["spec"].get("nodeName") == node]
        return bool(space.api.get(path)["spec"].get("unschedulable")) and not there

    until("the node is empty", is_emptied, running, 120)
    assert other.press("maintenance", {"node": node, "on": False})[0] == 200
    until("the node is open", lambda: not space.api.get(path)["spec"].get("unschedulable"), running)
    assert MAINTENANCE not in space.api.get(path)["metadata"]["labels"]

    guest = {"Authorization": f"Bearer {token_of(space, 'guest')}"}
    assert other.press("pause", {}, **guest)[0] == 403
    assert other.press("pause", {}, Origin="https://evil.example")[0] == 403
    assert other.press("pause", {}, Host="evil.example")[0] == 403
    assert other.overview()["paused"] is None
    done = [each for each in other.process.said() if each["msg"] == "page action done"]
    assert [each["action"] for each in done] == ["pause", "migrate", "resume", "maintenance", "maintenance"]
    assert {each["by"] for each in done} == {"local"}
