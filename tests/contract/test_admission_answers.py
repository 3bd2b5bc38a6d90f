"""Our webhook's and extender's answers, given to a real API server and scheduler: what pods and events make of them.

What they know is read from the cluster once, before they are asked; how they are served and registered is not at
stake here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.admission.advisor import PlacementAdvisor
from rescheduler.admission.extender import Extender
from rescheduler.admission.webhook import PodMutator
from rescheduler.decode.cache import ClusterCache
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase
from rescheduler.model.plan import Method
from rescheduler.recovery.avoidance import avoided_nodes
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.migration_cache import MigrationCache
from tests.contract.test_cluster_extenders import extender as serving_extender
from tests.contract.test_cluster_webhooks import probed, registered
from tests.support.both_clusters import Items, Space, name_of
from tests.support.loopback import answering
from tests.support.manifests import deployment, on, pod
from tests.support.pod_migrations import migration_spec, pod_migration
from tests.testbed.pki import Authority
from tests.testbed.processes import until

NOW = 1_800_000_000.0


class Workload:
    """A Deployment without pods yet, whose pods failed on some nodes, or are expected on one."""

    def __init__(self, space: Space, failed: list[str], **template: Any) -> None:
        self.space = space
        record = format_record({WHOLE: RecordEntry(1, {node: NodeFailure(NOW, "CrashLoopBackOff") for node in failed})})
        body = deployment("web", 0, **template)
        body["metadata"]["annotations"] = {labels.SCHEDULING_RETRIES: "3", labels.FAILURES: record}
        body["spec"]["template"]["metadata"]["annotations"] = {"example.com/own-key": "kept"}
        space.create(body)
        space.rolled_out("web")
        self.migrations = MigrationCache()

    def expected(self, source: str, target: str) -> None:
        """A migration waits for its next pod."""
        controller = self.space.replica_set("web")["metadata"]
        progress = MigrationStatus(
            phase=Phase.IN_PROGRESS, step="AwaitRebuilt", method=Method.EVICT, pod_uid="original-uid", source=source,
            target=target, controller=ObjectReference("ReplicaSet", controller["name"], controller["uid"]),
            start_time=NOW,
        )  # fmt: skip
        self.migrations.put(
            pod_migration(self.space.name, "move", migration_spec("web-1", strategy="Manual"), progress, "uid", "1")
        )

    def placement_advisor(self, *, gate: bool = False) -> PlacementAdvisor:
        """All that is known of the cluster now."""
        cache = ClusterCache("contract")
        for each in self.space.api.get("/api/v1/nodes")["items"]:
            cache.put("Node", json.dumps(each).encode())
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            for each in self.space.list(kind):
                cache.put(kind, json.dumps(each).encode())
        return PlacementAdvisor(cache, self.migrations, RecoverySettings, lambda: NOW + 60, gate=gate)

    def scaled(self, replicas: int) -> Items:
        self.space.patch("Deployment", "web", {"spec": {"replicas": replicas}})
        return self.space.exactly("web", replicas)

    def nodes(self, pods: Items) -> set[str]:
        return {self.space.bound(name_of(each)) for each in pods}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


@contextlib.contextmanager
def webhook(space: Space, authority: Authority, placement_advisor: PlacementAdvisor) -> Iterator[None]:
    """Our webhook, asked by the API server."""
    mutation = PodMutator(placement_advisor, tuple, lambda: NOW + 60)

    def answer(path: str, asked: Json) -> object:
        return json.loads(mutation.review(json.dumps(asked).encode()))

    with (
        answering(answer, authority.server("webhook")) as server,
        registered(space, authority, server.url + "/mutate", reinvocationPolicy="IfNeeded"),
    ):
        until("it is asked", lambda: probed(space, server))
        yield


@contextlib.contextmanager
def extender(space: Space, placement_advisor: PlacementAdvisor, **fields: Any) -> Iterator[list[str]]:
    """Our extender, asked by the scheduler; gives what it tells."""
    told: list[str] = []
    ours = Extender(placement_advisor, lambda new_pod, reason: told.append(reason))
    asks: dict[str, Callable[[bytes], bytes]] = {"/filter": ours.filter, "/prioritize": ours.prioritize}

    def answer(path: str, asked: Json) -> object:
        return json.loads(asks[path](json.dumps(asked).encode()))

    with serving_extender(space.cluster, answer, weight=100, **fields):
        yield told


@contextlib.contextmanager
def filled(space: Space, nodes: list[str]) -> Iterator[None]:
    """These nodes have no room, until the end of the block."""
    for number, node in enumerate(nodes):
        space.create(pod(f"fill-{number}", cpu="3900m", nodeSelector=on(node)))
    for number, _ in enumerate(nodes):
        space.bound(f"fill-{number}")
    yield
    for number, _ in enumerate(nodes):
        space.delete("Pod", f"fill-{number}", gracePeriodSeconds=0)


def test_with_the_webhook_alone_pods_stay_off_nodes_where_their_like_failed(
    space: Space, nodes: list[str], authority: Authority
) -> None:
    workload = Workload(space, nodes[:2])
    with webhook(space, authority, workload.placement_advisor()):
        pods = workload.scaled(6)
    assert workload.nodes(pods) == set(nodes[2:])
    for each in pods:
        assert avoided_nodes(each["spec"]["affinity"]) == set(nodes[:2])
        assert each["metadata"]["annotations"]["example.com/own-key"] == "kept"
        assert labels.MIGRATION_ID not in each["metadata"]["labels"]


def test_with_the_webhook_alone_a_pod_is_led_to_where_it_is_expected(
    space: Space, nodes: list[str], authority: Authority
) -> None:
    workload = Workload(space, [])
    workload.expected(nodes[0], nodes[2])
    with webhook(space, authority, workload.placement_advisor()):
        (made,) = workload.scaled(1)
    assert workload.nodes([made]) == {nodes[2]}
    assert made["metadata"]["labels"][labels.MIGRATION_ID] == "move"
    assert made["metadata"]["labels"][labels.MIGRATED_FROM] == nodes[0]
    assert made["metadata"]["annotations"][labels.ORIGINAL_POD_NAME] == "web-1"


def test_an_expected_pod_can_be_held_back(space: Space, nodes: list[str], authority: Authority) -> None:
    workload = Workload(space, [])
    workload.expected(nodes[0], nodes[2])
    with webhook(space, authority, workload.placement_advisor(gate=True)):
        (made,) = workload.scaled(1)
    assert made["spec"]["schedulingGates"] == [{"name": labels.NOMINATE_GATE}]
    assert made["metadata"]["annotations"][labels.GATED] == "move"


@pytest.mark.parametrize("by_name", [True, False])
def test_with_the_extender_alone_pods_stay_off_nodes_where_their_like_failed(
    space: Space, nodes: list[str], by_name: bool
) -> None:
    workload = Workload(space, nodes[:3])
    with extender(space, workload.placement_advisor(), nodeCacheCapable=by_name):
        assert workload.nodes(workload.scaled(4)) == {nodes[3]}


def test_with_the_extender_alone_a_pod_goes_to_where_it_is_expected(space: Space, nodes: list[str]) -> None:
    workload = Workload(space, [])
    workload.expected(nodes[0], nodes[1])
    with extender(space, workload.placement_advisor()):
        assert workload.nodes(workload.scaled(1)) == {nodes[1]}


def test_while_other_nodes_have_no_room_a_pod_waits_and_its_events_say_why(space: Space, nodes: list[str]) -> None:
    workload = Workload(space, nodes[:1], cpu="500m")
    with extender(space, workload.placement_advisor()) as told:
        with filled(space, nodes[1:]):
            (made,) = workload.scaled(1)
            reason = space.refused(name_of(made))
        assert "1 node(s) where pods of Deployment web failed (CrashLoopBackOff at 2027-01-15T08:00:00Z)" in reason
        assert "3 Insufficient cpu" in reason
        assert workload.nodes([made]) <= set(nodes[1:])
    assert told == []


def test_a_pod_that_could_go_nowhere_else_goes_back_and_it_is_told(space: Space, nodes: list[str]) -> None:
    workload = Workload(space, nodes[:1])
    body = {"spec": {"template": {"spec": {"nodeSelector": on(nodes[0])}}}}
    space.patch("Deployment", "web", body)
    space.rolled_out("web")
    with extender(space, workload.placement_advisor()) as told:
        assert workload.nodes(workload.scaled(1)) == {nodes[0]}
    assert told
    assert nodes[0] in told[0]
