"""Scenario: two replicas behind one address, and the one that answers the API server is not the one that leads.

What the leader does shows only in the cluster; the other one has seen it there, and answers right. If the leader dies
in the middle of a move, the other one lets go what was held back, and ends the move.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.e2e.test_recovery import crashing, failing
from tests.support.both_clusters import Space, is_ready, name_of, nodes_fixture
from tests.support.controller_process import Controller
from tests.support.failure_records import record, retried
from tests.support.manifests import deployment, gated, stateful_set
from tests.support.migrations import MIGRATIONS
from tests.support.recovering import Recovering, Replica, is_in_force, wait_until_elsewhere
from tests.support.switch import Switch
from tests.testbed.processes import free_port, until

GATED = "rescheduler.io/gated"
PATIENCE = "20s"  # of the API server: each pod is to be asked about, also where the machine is busy
STAYS = "example.com/stays"
"""A finalizer: the pod that is evicted goes when the test says so."""
PATIENT_LEASE = {"leaseDuration": "25s", "renewDeadline": "20s"}
"""Long enough for a pod to be let through, after ten seconds, before another replica leads."""
HASTY_LEASE = {"leaseDuration": "8s", "renewDeadline": "6s"}
"""Short enough for another replica to lead before that."""
PREFIX = "scheduler.alpha.kubernetes.io/"


@dataclass(frozen=True)
class Pair:
    """Two replicas, the second of which is asked."""

    leader: Replica
    follower: Replica


nodes = nodes_fixture(4, prefix="replicas")


@contextlib.contextmanager
def pair(space: Space, folder: Path, steering: str = "prefer", **fields: Any) -> Iterator[Pair]:
    """A leader, and another one which alone is asked about new pods."""
    with Switch() as switch:
        ours = Recovering(space, folder, webhook=True, extender=False, webhook_port=switch.port)

        def replica() -> contextlib.AbstractContextManager[Replica]:
            webhook = {"port": free_port(), "steering": steering, "timeout": PATIENCE}
            return ours.replica(webhook=webhook, allow={"singleReplica": True}, **fields)

        with ours.at_home(), replica() as leader:
            switch.to(leader.port)
            until("the webhook is in force", lambda: is_in_force(leader.controller), [leader.controller])
            with replica() as follower:
                until("the other one serves, too", follower.ready, [follower.controller])
                switch.to(follower.port)
                until("it is asked", lambda: is_asked(space, follower), [follower.controller])
                yield Pair(leader, follower)


def is_asked(space: Space, replica: Replica) -> bool:
    space.create(gated("try"), dryRun="All")
    return replica.asked() > 0


def evict_to(space: Space, pod: str, target: str, controller: Controller, name: str = "m") -> Json:
    """A migration by eviction, when it is over."""
    body = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": name},
        "spec": {"pod": {"name": pod}, "target": target, "method": "evict"},
    }
    path = MIGRATIONS.format(space.name)
    space.api.post(path, body)

    def over() -> Json | None:
        found: Json = space.api.get(f"{path}/{name}")
        return found if found.get("status", {}).get("completionTime") else None

    return until("the move is over", over, [controller])


def other_node(pod: Json, nodes: list[str]) -> str:
    return next(node for node in reversed(nodes) if node != pod["spec"]["nodeName"])


def nothing_is_left(space: Space, controller: Controller) -> None:
    """No placeholder, no gate, no pause, no annotation."""
    pods = space.list("Pod")
    assert not [name_of(each) for each in pods if "rescheduler.io/placeholder" in each["metadata"]["labels"]]
    assert not [name_of(each) for each in pods if each["spec"].get("schedulingGates")]
    for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        for each in space.list(kind):
            assert f"{PREFIX}migration-id" not in each["metadata"].get("annotations", {}), kind
            assert not each["spec"].get("paused")


def test_failed_pods_are_kept_off_their_node_by_the_replica_that_does_not_lead(
    space: Space, nodes: list[str], tmp_path: Path
) -> None:
    bad = nodes[0]
    with pair(space, tmp_path) as ours:
        before = ours.leader.asked()
        failing(space, crashing(bad).of(retried(deployment("web", 4))), bad, nodes)
        wait_until_elsewhere(space, "web", 4, bad)
        kept = record(space, "Deployment", "web")
        assert set(kept["nodes"]) == {bad}
        assert 4 <= kept["count"] <= 12
        assert ours.leader.asked() == before, "the leader is never asked"
        until("it is asked for each pod, and for what came in its place", lambda: ours.follower.asked() >= 8)
        rescheduled = "rescheduler_recoveries_total"

        def is_counted() -> bool:
            recorded: int = record(space, "Deployment", "web")["count"]
            return ours.leader.counted(rescheduled, outcome="rescheduled") == recorded

        until("the leader has counted them", is_counted)
        assert ours.follower.counted(rescheduled) == 0
        until("the leader sees it in force", lambda: ours.leader.counted("rescheduler_webhook_in_force") == 1)
        for each in (ours.leader, ours.follower):
            assert each.page("/readyz?verbose") == (200, "[+]caches ok\n[+]webhook ok\nreadyz check passed\n")


def test_an_evicted_pod_comes_to_its_target_by_answers_of_the_replica_that_does_not_lead(
    space: Space, nodes: list[str], tmp_path: Path
) -> None:
    space.create(stateful_set("database", 3, podManagementPolicy="Parallel"))
    until("all are Ready", lambda: sum(map(is_ready, space.pods("database"))) == 3)
    before = space.get("Pod", "database-1")
    target = other_node(before, nodes)
    with pair(space, tmp_path, "nominate") as ours:
        asked = ours.leader.asked(), ours.follower.asked()
        status = evict_to(space, "database-1", target, ours.leader.controller)["status"]
        assert status["phase"] == "Completed", status
        after = space.get("Pod", "database-1")
        assert (after["spec"]["nodeName"], is_ready(after)) == (target, True)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert prefers(after, target), "its answer is in the pod"
        assert ours.leader.asked() == asked[0], "the leader is never asked"
        until("the other one has counted it", lambda: ours.follower.asked() > asked[1])
        nothing_is_left(space, ours.leader.controller)


def prefers(pod: Json, node: str) -> bool:
    of_nodes = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return any(each["weight"] == 100 and node in str(each["preference"]) for each in terms)


@pytest.mark.parametrize("next_leader", ["soon", pytest.param("late", marks=pytest.mark.real_only)])
def test_a_pod_that_a_dead_leader_has_held_back_runs_and_its_move_ends(
    space: Space, nodes: list[str], tmp_path: Path, next_leader: str
) -> None:
    space.create(stateful_set("database", 2, podManagementPolicy="Parallel"))
    until("all are Ready", lambda: sum(map(is_ready, space.pods("database"))) == 2)
    before = space.get("Pod", "database-1")
    lease = PATIENT_LEASE if next_leader == "late" else HASTY_LEASE
    with pair(space, tmp_path, "nominate", leaderElection=lease) as ours:
        path, follower = MIGRATIONS.format(space.name), ours.follower.controller
        space.patch("Pod", "database-1", {"metadata": {"finalizers": [STAYS]}})
        order(space, path, "database-1", other_node(before, nodes))
        space.reaches("Pod", "database-1", "is evicted", lambda found: "deletionTimestamp" in found["metadata"])
        ours.leader.controller.kill()  # before the new one is there: no replica nominates it
        space.patch("Pod", "database-1", {"metadata": {"finalizers": None}})
        held = space.reaches("Pod", "database-1", "is held back", lambda found: is_new(found, before))
        assert GATED in held["metadata"]["annotations"]
        assert held["spec"]["schedulingGates"]
        running = space.ready("database-1")
        assert running["metadata"]["uid"] == held["metadata"]["uid"], "it is the same pod, and was not created again"
        if next_leader == "late":
            message = "stale scheduling gate removed"
            until("the other one logs it", lambda: message in [each["msg"] for each in follower.said()], [follower])
        found = until("the move is over", lambda: ended(space, f"{path}/m"), [follower])
        assert found["status"]["phase"] == "Completed", found["status"]
        nothing_is_left(space, follower)


def order(space: Space, path: str, pod: str, target: str) -> None:
    body = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": "m"},
        "spec": {"pod": {"name": pod}, "target": target, "method": "evict"},
    }
    space.api.post(path, body)


def is_new(pod: Json, before: Json) -> bool:
    return bool(pod["metadata"]["uid"] != before["metadata"]["uid"])


def ended(space: Space, path: str) -> Json | None:
    found: Json = space.api.get(path)
    return found if found.get("status", {}).get("completionTime") else None
