"""Moves on real objects: each method does what it promises, takes no shortcut past a budget, and leaves nothing."""

from __future__ import annotations

import pytest

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space, name_of
from tests.support.manifests import SIMULATE, budget, deployment, job, pod, simulated, stateful_set
from tests.support.migrations import (
    QUICK,
    TRACE,
    Drive,
    Fuse,
    Killed,
    Moves,
    audit,
    fewest_ready,
    inventory,
    wait_until_settled,
)
from tests.support.pod_migrations import migration_spec, replace

pytestmark = pytest.mark.usefixtures("kind")


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A Deployment of three that is rolled out, with an affinity of its own."""
    body = deployment("web", 3)
    body["spec"]["template"]["spec"]["affinity"] = {}
    space.create(body)
    space.rolled_out("web")
    return space


def move(moves: Moves, original: Json, target: str, method: Method | None = None) -> PodMigration:
    """Ordered, and driven to its end."""
    moves.order("m", migration_spec(name_of(original), target=target, method=method))
    return moves.drive("m")


def other_node(nodes: list[str], original: Json) -> str:
    return next(node for node in nodes if node != original["spec"]["nodeName"])


def stopped_at(moves: Moves, step: str) -> None:
    """Driven until a step is recorded, and not further."""
    with pytest.raises(Killed):
        moves.drive("m", Drive(fuse=Fuse(after=f"storing step {step}")))


def is_pending(migration: PodMigration) -> bool:
    return migration.status.phase is Phase.PENDING


def replacement(space: Space, migration: PodMigration) -> Json:
    assert migration.status.replacement is not None, migration.status
    return space.get("Pod", migration.status.replacement.name)


def test_a_handoff_passes_a_budget_that_allows_nothing(web: Space, moves: Moves, nodes: list[str]) -> None:
    web.create(budget("web", "web", minAvailable=3))
    web.reaches("PodDisruptionBudget", "web", "counts", lambda pdb: pdb.get("status", {}).get("currentHealthy") == 3)
    before = wait_until_settled(web, 3)
    start = web.api.get(web.path("Pod", labelSelector="app=web"))
    original = start["items"][0]
    target = other_node(nodes, original)
    done = move(moves, original, target, method=Method.HANDOFF)
    assert (done.status.phase, done.status.message) == (Phase.COMPLETED, "")
    events = web.events(
        "Pod",
        start["metadata"]["resourceVersion"],
        lambda event: event["type"] == "DELETED" and name_of(event["object"]) == name_of(original),
        labelSelector="app=web",
    )
    assert fewest_ready(start["items"], events) == 3
    moves.late("m")
    audit(before, wait_until_settled(web, 3), done)
    new = replacement(web, done)
    assert new["spec"]["nodeName"] == target
    assert {key for key in new["metadata"]["labels"] if key in TRACE} | set(new["metadata"]["annotations"]) >= TRACE


def test_the_only_replica_is_handed_off_with_no_moment_of_none(space: Space, moves: Moves, nodes: list[str]) -> None:
    space.create(budget("one", "one", minAvailable=1))
    space.create(deployment("one", 1))
    space.rolled_out("one")
    before = wait_until_settled(space, 1)
    start = space.api.get(space.path("Pod", labelSelector="app=one"))
    (original,) = start["items"]
    done = move(moves, original, other_node(nodes, original))
    assert done.status.phase is Phase.COMPLETED
    events = space.events(
        "Pod",
        start["metadata"]["resourceVersion"],
        lambda event: event["type"] == "DELETED",
        labelSelector="app=one",
    )
    assert fewest_ready(start["items"], events) == 1
    moves.late("m")
    audit(before, wait_until_settled(space, 1), done)


def test_an_evicted_pod_is_steered_and_all_is_restored(web: Space, moves: Moves, nodes: list[str]) -> None:
    before = wait_until_settled(web, 3)
    original = web.pods("web")[0]
    target = other_node(nodes, original)
    done = move(moves, original, target, method=Method.EVICT)
    assert done.status.phase is Phase.COMPLETED
    assert replacement(web, done)["spec"]["nodeName"] == target
    moves.late("m")
    audit(before, wait_until_settled(web, 3), done)


def test_an_eviction_waits_for_the_budget(web: Space, moves: Moves, nodes: list[str]) -> None:
    web.create(budget("web", "web", minAvailable=3))
    web.reaches("PodDisruptionBudget", "web", "counts", lambda pdb: pdb.get("status", {}).get("currentHealthy") == 3)
    original = web.pods("web")[0]
    order = migration_spec(name_of(original), target=other_node(nodes, original), method=Method.EVICT)
    moves.order("m", order)
    waiting = Drive(until=lambda migration: "allows no disruption" in migration.status.message)
    assert moves.drive("m", waiting).status.step == "CheckBudgets"
    assert not web.list("Pod", labelSelector=labels.MIGRATION_ID)
    assert len(web.pods("web")) == 3
    web.patch("PodDisruptionBudget", "web", {"spec": {"minAvailable": 2}})
    before = inventory(web)
    done = moves.drive("m")
    assert done.status.phase is Phase.COMPLETED
    after = wait_until_settled(web, 3)
    assert after["PodDisruptionBudget", "web"] == before["PodDisruptionBudget", "web"]


def test_a_pod_of_a_stateful_set_comes_back_under_its_name(space: Space, moves: Moves, nodes: list[str]) -> None:
    space.create(stateful_set("db", 2))
    space.reaches("StatefulSet", "db", "is ready", lambda each: each.get("status", {}).get("readyReplicas") == 2)
    before = wait_until_settled(space, 2)
    original = space.get("Pod", "db-1")
    done = move(moves, original, "", method=Method.EVICT)
    assert done.status.phase is Phase.COMPLETED
    assert replacement(space, done)["metadata"]["uid"] != original["metadata"]["uid"]
    moves.late("m")
    audit(before, wait_until_settled(space, 2), done)


def test_a_pod_of_a_stateful_set_may_be_deleted_once_more_meanwhile(
    space: Space, moves: Moves, nodes: list[str]
) -> None:
    space.create(stateful_set("db", 2))
    space.reaches("StatefulSet", "db", "is ready", lambda each: each.get("status", {}).get("readyReplicas") == 2)
    before = wait_until_settled(space, 2)
    moves.order("m", migration_spec("db-1", method=Method.EVICT))
    stopped_at(moves, "MarkRebuilt")
    space.delete("Pod", "db-1")
    done = moves.drive("m")
    assert done.status.phase is Phase.COMPLETED, done.status
    moves.late("m")
    audit(before, wait_until_settled(space, 2), done)


def test_a_pod_of_a_job_is_made_anew_beside_its_fellow(space: Space, moves: Moves, nodes: list[str]) -> None:
    space.create(simulated(job("work", parallelism=2, completions=2), completes_in="600"))
    before = wait_until_settled(space, 2)
    original = space.pods("work")[0]
    done = move(moves, original, other_node(nodes, original), Method.EVICT)
    assert done.status.phase is Phase.COMPLETED
    moves.late("m")
    audit(before, wait_until_settled(space, 2), done)
    assert labels.MIGRATION_ID not in space.get("Job", "work")["metadata"].get("annotations", {})


@pytest.mark.real_only  # it needs a ReplicationController
def test_the_successor_of_a_pod_of_an_unknown_controller_is_found_by_the_controllers_uid(
    space: Space, moves: Moves, nodes: list[str]
) -> None:
    template = deployment("old", 2)["spec"]["template"]
    spec = {"replicas": 2, "selector": template["metadata"]["labels"], "template": template}
    space.create({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": spec})
    before = wait_until_settled(space, 2)
    original = space.pods("old")[0]
    done = move(moves, original, other_node(nodes, original), Method.EVICT)
    assert done.status.phase is Phase.COMPLETED, done.status
    assert done.status.controller is not None
    assert done.status.controller.kind == "ReplicationController"
    assert replacement(space, done)["metadata"]["uid"] not in {original["metadata"]["uid"], *done.status.bystanders}
    moves.late("m")
    audit(before, wait_until_settled(space, 2), done)


def test_two_moves_that_belong_together_start_when_both_have_their_room(
    web: Space, moves: Moves, nodes: list[str]
) -> None:
    first, second, _ = web.pods("web")
    for name, original in (("a", first), ("b", second)):
        target = other_node(nodes, original)
        moves.order(name, migration_spec(name_of(original), target=target, proposal="p", members=2))
    stays = Drive(until=lambda migration: "belong together" in migration.status.message)
    assert moves.drive("a", stays).status.step == "AwaitMembers"
    reserved = Drive(fuse=Fuse(after="storing step Ungate"), members=("a", "b"))
    with pytest.raises(Killed):
        moves.drive("b", reserved)
    assert len(web.list("Pod")) == 5
    for name in ("a", "b"):
        assert moves.drive(name, Drive(members=("a", "b"))).status.phase is Phase.COMPLETED
        moves.late(name)
    after = wait_until_settled(web, 3)
    assert not [key for key, body in after.items() if key[0] != "Pod" and labels.MIGRATION_ID in body["annotations"]]


def test_a_pod_that_nobody_manages_is_copied_first(space: Space, moves: Moves, nodes: list[str]) -> None:
    space.runs(pod("bare", labels={"team": "a"}))
    before = wait_until_settled(space, 1)
    original = space.get("Pod", "bare")
    target = other_node(nodes, original)
    done = move(moves, original, target)
    assert (done.status.phase, done.status.method) == (Phase.COMPLETED, Method.COPY)
    new = replacement(space, done)
    assert new["spec"]["nodeName"] == target
    assert new["metadata"]["name"].startswith("rescheduled-bare-")
    audit(before, wait_until_settled(space, 1), done)


@pytest.mark.real_only  # it needs a ResourceQuota
def test_a_copy_that_the_quota_refuses_is_left_for_an_eviction(web: Space, moves: Moves, nodes: list[str]) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}}
    web.create(quota)
    web.reaches("ResourceQuota", "q", "counts", lambda each: each.get("status", {}).get("used", {}).get("pods") == "3")
    before = wait_until_settled(web, 3)
    original = web.pods("web")[0]
    done = move(moves, original, other_node(nodes, original))
    assert (done.status.phase, done.status.tried_methods) == (Phase.COMPLETED, (Method.HANDOFF,))
    moves.late("m")
    audit(before, wait_until_settled(web, 3), done)


def test_a_copy_that_lands_elsewhere_is_taken_back_and_tried_again(web: Space, moves: Moves, nodes: list[str]) -> None:
    before = wait_until_settled(web, 3)
    original = web.pods("web")[0]
    target = other_node(nodes, original)
    moves.order("m", migration_spec(name_of(original), target=target, method=Method.HANDOFF))
    with web.tainted(target):
        web.shunned(target)
        failed = moves.drive("m", Drive(replace(QUICK, attempts=2)))
    assert (failed.status.phase, failed.status.attempts) == (Phase.FAILED, 2)
    assert f"not on {target}" in failed.status.message
    moves.late("m")
    audit(before, wait_until_settled(web, 3), failed)


def test_notes_that_the_deployments_controller_copies_late_are_removed(
    web: Space, moves: Moves, nodes: list[str]
) -> None:
    before = wait_until_settled(web, 3)
    original = web.pods("web")[0]
    done = move(moves, original, other_node(nodes, original))
    copied = {"metadata": {"annotations": {labels.MIGRATION_ID: "m", labels.PAUSED_BY: "m"}}}
    web.patch("ReplicaSet", name_of(web.replica_set("web")), copied)
    moves.late("m")
    audit(before, wait_until_settled(web, 3), done)


def test_the_notes_of_another_migration_stay(web: Space, moves: Moves, nodes: list[str]) -> None:
    original = web.pods("web")[0]
    moves.order("m", migration_spec(name_of(original), target=other_node(nodes, original), method=Method.HANDOFF))
    stopped_at(moves, "CreateCopy")
    web.patch("Deployment", "web", {"metadata": {"annotations": {labels.MIGRATION_ID: "another"}}})
    done = moves.drive("m")
    moves.late("m")
    assert done.status.phase is Phase.COMPLETED
    assert web.get("Deployment", "web")["metadata"]["annotations"][labels.MIGRATION_ID] == "another"


def test_a_rollout_during_a_handoff_leaves_no_copy_and_no_note(web: Space, moves: Moves, nodes: list[str]) -> None:
    original = web.pods("web")[0]
    moves.order("m", migration_spec(name_of(original), target=other_node(nodes, original), method=Method.HANDOFF))
    stopped_at(moves, "Nominate")
    changed = {"spec": {"revisionHistoryLimit": 0, "template": {"metadata": {"annotations": {"new": "yes"}}}}}
    web.patch("Deployment", "web", changed)
    web.rolled_out("web")
    done = moves.drive("m")
    moves.late("m")
    assert done.status.phase is Phase.FAILED
    after = wait_until_settled(web, 3)
    assert not [key for key, body in after.items() if labels.MIGRATION_ID in body["labels"] | body["annotations"]]


def test_a_handoff_yields_to_a_rollout_and_is_made_after_it(web: Space, moves: Moves, nodes: list[str]) -> None:
    original = web.pods("web")[0]
    moves.order("m", migration_spec(name_of(original), target=other_node(nodes, original), method=Method.HANDOFF))
    stopped_at(moves, "AwaitReady")
    never = {"metadata": {"annotations": {f"{SIMULATE}fails": "NeverReady"}}}
    web.patch("Deployment", "web", {"spec": {"template": never}})
    web.reaches("Deployment", "web", "is half updated", lambda each: each["status"].get("updatedReplicas") == 1)
    waiting = moves.drive("m", Drive(replace(QUICK, attempts=1), until=is_pending))
    assert waiting.status.message == "Deployment web is being rolled out or scaled"
    assert not web.list("Pod", labelSelector=labels.MIGRATION_ID)  # neither a copy nor a mark
    web.patch("Deployment", "web", {"spec": {"template": {"metadata": {"annotations": None}}}})  # back, as by undo
    web.rolled_out("web")
    done = moves.drive("m", Drive(replace(QUICK, attempts=1)))
    assert (done.status.phase, done.status.attempts) == (Phase.COMPLETED, 2), done.status
    moves.late("m")
    after = wait_until_settled(web, 3)
    assert not [key for key, body in after.items() if key[0] != "Pod" and labels.MIGRATION_ID in body["annotations"]]
