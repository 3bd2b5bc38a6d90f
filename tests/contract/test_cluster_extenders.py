"""A stock scheduler with an HTTP extender of ours: what it asks, what it obeys, and what it does when nobody answers.

The seventh fact of our design. Each test configures the scheduler anew and puts it back as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Items, Space
from tests.support.loopback import Answer, Loopback, answering
from tests.support.manifests import gated, pod
from tests.testbed.processes import free_port


@contextlib.contextmanager
def extended(cluster: ClusterUnderTest, url: str, **fields: Any) -> Iterator[None]:
    """The cluster's scheduler asks this extender, until the end of the block."""
    extender = {"urlPrefix": url, "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "60s"} | fields
    cluster.configure_scheduler(extenders=[extender])
    try:
        yield
    finally:
        cluster.configure_scheduler()


@contextlib.contextmanager
def extender(cluster: ClusterUnderTest, answer: Answer, **fields: Any) -> Iterator[Loopback]:
    """One that filters and prioritizes as the function says."""
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 10} | fields
    with answering(answer) as server, extended(cluster, server.url, **verbs):
        yield server


def asked_about(space: Space, server: Loopback, path: str) -> Items:
    """What was asked about pods of this namespace, and something was."""
    found = [body for body in server.bodies(path) if body["Pod"]["metadata"]["namespace"] == space.name]
    assert found, f"nothing was asked at {path}"
    return found


def only(node: str) -> Answer:
    """Filters out every other node."""

    def answer(path: str, asked: Json) -> object:
        if path == "/prioritize":
            return [{"Host": name, "Score": 0} for name in asked["NodeNames"]]
        others = {name: "not today" for name in asked["NodeNames"] if name != node}
        return {"NodeNames": [name for name in asked["NodeNames"] if name == node], "FailedNodes": others}

    return answer


def preferring(node: str) -> Answer:
    """Lets all nodes pass, and scores one of them."""

    def answer(path: str, asked: Json) -> object:
        if path == "/prioritize":
            return [{"Host": name, "Score": 10 if name == node else 0} for name in asked["NodeNames"]]
        return {"NodeNames": asked["NodeNames"]}

    return answer


def test_the_scheduler_asks_for_a_pod_and_names_the_nodes_that_passed(space: Space, nodes: list[str]) -> None:
    with extender(space.cluster, preferring(nodes[0])) as server:
        space.create(pod("asking", nodeSelector={"topology.kubernetes.io/region": "region-1"}))
        space.bound("asking")
    for asked in (*asked_about(space, server, "/filter"), *asked_about(space, server, "/prioritize")):
        assert set(asked) == {"Pod", "Nodes", "NodeNames"}
        assert asked["Nodes"] is None
        assert sorted(asked["NodeNames"]) == sorted(nodes)
        assert asked["Pod"]["metadata"]["name"] == "asking"
        assert asked["Pod"]["metadata"]["namespace"] == space.name
        assert asked["Pod"]["spec"]["containers"][0]["name"] == "main"


@pytest.mark.real_only  # scheduler-config prints nodeCacheCapable, but our extender answers both forms
def test_an_extender_without_a_cache_is_given_whole_nodes(space: Space, nodes: list[str]) -> None:
    def answer(path: str, asked: Json) -> object:
        return {"Nodes": {"items": asked["Nodes"]["items"][:1]}}

    with extender(space.cluster, answer, nodeCacheCapable=False, prioritizeVerb="") as server:
        space.create(pod("asking"))
        chosen = space.bound("asking")
    *_, asked = asked_about(space, server, "/filter")
    assert asked["NodeNames"] is None
    assert sorted(node["metadata"]["name"] for node in asked["Nodes"]["items"]) == sorted(nodes)
    assert asked["Nodes"]["items"][0]["metadata"]["name"] == chosen


def test_only_nodes_that_passed_the_other_filters_are_asked_about(space: Space, nodes: list[str]) -> None:
    zone = {
        "topology.kubernetes.io/zone": space.api.get(f"/api/v1/nodes/{nodes[1]}")["metadata"]["labels"][
            "topology.kubernetes.io/zone"
        ]
    }
    with extender(space.cluster, preferring(nodes[0])) as server:
        space.create(pod("asking", nodeSelector=zone))
        space.bound("asking")
    for asked in asked_about(space, server, "/filter"):
        assert nodes[1] in asked["NodeNames"]
        assert set(asked["NodeNames"]) < set(nodes)


def test_a_filtering_extender_is_obeyed(space: Space, nodes: list[str]) -> None:
    with extender(space.cluster, only(nodes[2])):
        for number in range(4):
            space.create(pod(f"filtered-{number}", cpu="900m"))
        assert {space.bound(f"filtered-{number}") for number in range(4)} == {nodes[2]}


def test_a_pod_that_an_extender_lets_go_nowhere_waits_with_its_reason(space: Space, nodes: list[str]) -> None:
    with extender(space.cluster, only("nowhere")):
        space.create(pod("unwanted"))
        assert "4 not today" in space.refused("unwanted")


def test_a_prioritizing_extender_decides_between_equal_nodes(space: Space, nodes: list[str]) -> None:
    with extender(space.cluster, preferring(nodes[3]), weight=100):
        for number in range(3):
            space.create(pod(f"preferred-{number}"))
        assert {space.bound(f"preferred-{number}") for number in range(3)} == {nodes[3]}


def test_an_extender_is_asked_about_a_nominated_node_too(space: Space, nodes: list[str]) -> None:
    with extender(space.cluster, only(nodes[1])):
        for name, node in (("agreed", nodes[1]), ("refused", nodes[0])):
            space.create(gated(name))
            space.patch_status("Pod", name, {"nominatedNodeName": node})
            space.patch("Pod", name, {"spec": {"schedulingGates": None}})
        assert space.bound("agreed") == nodes[1]
        assert space.bound("refused") == nodes[1]


def test_an_ignorable_extender_that_is_down_holds_nobody_up(space: Space, nodes: list[str]) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with extended(space.cluster, nobody, filterVerb="filter", prioritizeVerb="prioritize", weight=1):
        space.create(pod("carefree"))
        assert space.bound("carefree") in nodes


def test_an_extender_that_is_down_and_not_ignorable_holds_pods_up(space: Space, nodes: list[str]) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with extended(space.cluster, nobody, filterVerb="filter", ignorable=False):
        space.create(pod("waiting"))
        space.reaches("Pod", "waiting", "says why", lambda pod: pod["status"].get("conditions"))
        assert "nodeName" not in space.get("Pod", "waiting")["spec"]
    assert space.bound("waiting") in nodes


def test_an_ignorable_extender_that_answers_an_error_is_ignored(space: Space, nodes: list[str]) -> None:
    def answer(path: str, asked: Json) -> object:
        return {"Error": "I have no idea"} if path == "/filter" else []

    with extender(space.cluster, answer):
        space.create(pod("carefree"))
        assert space.bound("carefree") in nodes
