"""Scenario: the cluster has changed beneath its pods, and each strategy about their places puts right what it broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, is_ready, name_of
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import HOSTNAME, deployment, stateful_set
from tests.support.recovering import only_open
from tests.support.resting import rests
from tests.support.skewed_cluster import migrations
from tests.testbed.processes import until


@pytest.fixture(scope="module")
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    names = cluster.add_nodes(3, prefix="placed")
    yield names
    cluster.remove_nodes(names)


@contextmanager
def labelled(space: Space, node: str, **labels: str) -> Iterator[None]:
    """The node has these labels, until the end of the block."""
    space.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    yield
    space.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": dict.fromkeys(labels)}})


def specified(body: Json, **spec: Any) -> Json:
    """The workload, with more in the spec of its pods."""
    body["spec"]["template"]["spec"] |= spec
    return body


def stands(space: Space, body: Json, on: str) -> None:
    """The workload, as soon as all its pods are Ready on this node."""
    space.create(body)
    becomes(space, name_of(body), {on: body["spec"]["replicas"]})


def becomes(space: Space, app: str, places: dict[str, int], controller: Controller | None = None) -> None:
    """Wait until so many of the app's pods are Ready on each node."""
    until(f"{app} is on {places}", lambda: on_nodes(space, app) == places, [controller] if controller else [])


def on_nodes(space: Space, app: str) -> dict[str, int]:
    """How many Ready pods of the app each node has; empty while others are there, too."""
    found = space.pods(app)
    return dict(Counter(each["spec"]["nodeName"] for each in found)) if all(map(is_ready, found)) else {}


@contextmanager
def running(space: Space, folder: Path, strategy: str) -> Iterator[Controller]:
    """A controller with this strategy alone, which has come to rest by the end of the block and made only its moves."""
    config = write_config(folder / "config.yaml", space.name, enabledStrategies=[strategy])
    with Controller(space.cluster.kubeconfig, config, folder / "controller.log") as controller:
        yield controller
        done = rests(space, controller)
        assert controller.stop() == 0
    assert {each["spec"]["strategy"] for each in done} == {strategy}
    assert {each["status"]["phase"] for each in done} == {"Completed"}, done


def test_pods_follow_the_label_that_they_require(space: Space, nodes: list[str], tmp_path: Path) -> None:
    old, new, _ = nodes
    with labelled(space, old, disk="ssd"):
        stands(space, specified(deployment("web", 2), nodeSelector={"disk": "ssd"}), old)
        stands(space, specified(stateful_set("db", 1), nodeSelector={"disk": "ssd"}), old)
    with labelled(space, new, disk="ssd"), running(space, tmp_path, "NodeAffinity") as controller:
        becomes(space, "web", {new: 2}, controller)
        (only,) = space.pods("db")
        assert only["spec"]["nodeName"] == old, "it would be gone for a moment, and is the only one"


def test_pods_leave_a_node_that_is_tainted_but_not_one_that_is_cordoned(
    space: Space, nodes: list[str], tmp_path: Path
) -> None:
    retired, cordoned, free = nodes
    tolerations = [{"key": "example.com/full", "operator": "Exists"}]
    with only_open(space, retired, nodes):
        stands(space, deployment("web", 2), retired)
        stands(space, specified(deployment("tolerant", 1), tolerations=tolerations), retired)
    with only_open(space, cordoned, nodes):
        stands(space, deployment("other", 1), cordoned)
    with space.cordoned(cordoned), space.tainted(retired), running(space, tmp_path, "NodeTaints") as controller:
        becomes(space, "web", {free: 2}, controller)
    becomes(space, "tolerant", {retired: 1})
    becomes(space, "other", {cordoned: 1})


def test_pods_that_keep_away_from_each_other_are_separated(space: Space, nodes: list[str], tmp_path: Path) -> None:
    term = {"labelSelector": {"matchLabels": {"noisy": "very"}}, "topologyKey": HOSTNAME}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    with only_open(space, nodes[0], nodes):
        stands(space, specified(deployment("quiet", 1), affinity=apart), nodes[0])
        stands(space, deployment("web", 3), nodes[0])
    for each in space.pods("web"):
        space.patch("Pod", name_of(each), {"metadata": {"labels": {"noisy": "very"}}})
    with running(space, tmp_path, "PodAntiAffinity") as controller:
        until("quiet has peace", lambda: nodes[0] not in (on_nodes(space, "quiet") or nodes), [controller])
    assert len(migrations(space)) == 1
    becomes(space, "web", {nodes[0]: 3})


def test_replicas_that_crowd_on_a_node_are_spread(space: Space, nodes: list[str], tmp_path: Path) -> None:
    with only_open(space, nodes[0], nodes):
        stands(space, deployment("web", 4), nodes[0])
        stands(space, stateful_set("db", 2, podManagementPolicy="Parallel"), nodes[0])
    with running(space, tmp_path, "RemoveDuplicates") as controller:
        until("web is even", lambda: sorted(on_nodes(space, "web").values()) == [1, 1, 2], [controller])
        until("db is even", lambda: [*on_nodes(space, "db").values()] == [1, 1], [controller])
    told = [each["spec"]["reason"] for each in migrations(space) if each["status"]["method"] == "handoff"]
    assert len(told) == 2, told
