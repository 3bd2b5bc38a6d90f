"""Moves that something stands in the way of: they wait, go on or give up, with the reason, and hold nothing back."""

from __future__ import annotations

import pytest

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space, name_of
from tests.support.manifests import deployment, pod, simulated, stateful_set
from tests.support.migrations import QUICK, Drive, Fuse, Killed, Moves, audit, wait_until_settled
from tests.support.pod_migrations import migration_spec, replace

pytestmark = pytest.mark.usefixtures("kind")
TIME_IS_UP = replace(QUICK, timeout=0.0, attempts=1)
HELD = {"metadata": {"finalizers": ["example.com/hold"]}}
FREE = {"metadata": {"finalizers": None}}


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A Deployment of two that is rolled out."""
    space.create(deployment("web", 2))
    space.rolled_out("web")
    wait_until_settled(space, 2)
    return space


def ordered(moves: Moves, nodes: list[str], original: Json, method: Method) -> str:
    """A move to another node; the answer is which."""
    target = next(node for node in nodes if node != original["spec"]["nodeName"])
    moves.order("m", migration_spec(name_of(original), target=target, method=method))
    return target


def stopped_at(moves: Moves, step: str) -> PodMigration:
    """Driven until a step is recorded, and not further."""
    with pytest.raises(Killed):
        moves.drive("m", Drive(fuse=Fuse(after=f"storing step {step}")))
    return moves.read("m")


def says(words: str) -> Drive:
    """Driven until its message says this."""
    return Drive(until=lambda migration: words in migration.status.message)


@pytest.mark.parametrize("method", [Method.HANDOFF, Method.EVICT])
def test_nothing_is_begun_towards_a_cordoned_node(web: Space, moves: Moves, nodes: list[str], method: Method) -> None:
    before = wait_until_settled(web, 2)
    since = web.version("Pod")
    original = web.pods("web")[0]
    target = ordered(moves, nodes, original, method)
    with web.cordoned(target):
        failed = moves.drive("m", Drive(replace(QUICK, attempts=1)))
    assert (failed.status.phase, failed.status.message) == (Phase.FAILED, f"node {target} is cordoned")
    audit(before, wait_until_settled(web, 2), failed)
    touch = {"metadata": {"annotations": {"test": "the last event"}}}
    web.patch("Pod", name_of(original), touch)
    events = web.events("Pod", since, lambda event: "test" in event["object"]["metadata"].get("annotations", {}))
    assert not [event for event in events if labels.MIGRATION_ID in event["object"]["metadata"]["labels"]]


def test_a_stranger_under_the_copys_name_is_left_alone_and_another_name_taken(
    web: Space, moves: Moves, nodes: list[str]
) -> None:
    original = web.pods("web")[0]
    ordered(moves, nodes, original, Method.HANDOFF)
    recorded = stopped_at(moves, "CreateCopy").status.replacement
    assert recorded is not None
    # What was recorded may have been made already, as after any crash: here it was somebody else's.
    if web.find("Pod", recorded.name) is not None:
        web.delete("Pod", recorded.name, gracePeriodSeconds=0)
        web.gone("Pod", recorded.name)
    stranger = web.runs(pod(recorded.name))
    done = moves.drive("m")
    assert (done.status.phase, done.status.attempts) == (Phase.COMPLETED, 2)
    assert done.status.replacement is not None
    assert done.status.replacement.name != recorded.name
    assert web.get("Pod", recorded.name)["metadata"]["uid"] == stranger["metadata"]["uid"]


@pytest.mark.parametrize("method", [Method.HANDOFF, Method.COPY])
def test_an_original_that_hangs_in_its_end_does_not_undo_the_move(
    space: Space, moves: Moves, nodes: list[str], method: Method
) -> None:
    space.create(deployment("web", 1) if method is Method.HANDOFF else pod("web"))
    wait_until_settled(space, 1)
    original = space.pods("web")[0]
    ordered(moves, nodes, original, method)
    space.patch("Pod", name_of(original), HELD)
    moves.drive("m", says("the move is made"))
    waiting = moves.drive("m", replace(says("held by its finalizers: example.com/hold"), settings=TIME_IS_UP))
    assert waiting.status.phase is Phase.IN_PROGRESS
    space.patch("Pod", name_of(original), FREE)
    assert moves.drive("m", Drive(TIME_IS_UP)).status.phase is Phase.COMPLETED
    wait_until_settled(space, 1)


def test_the_time_of_the_eviction_is_stored_and_kept(web: Space, moves: Moves, nodes: list[str]) -> None:
    ordered(moves, nodes, web.pods("web")[0], Method.EVICT)
    assert stopped_at(moves, "Evict").status.eviction_time is None
    evicted = moves.drive("m", Drive(until=lambda migration: migration.status.eviction_time is not None))
    done = moves.drive("m").status
    assert (done.phase, done.eviction_time) == (Phase.COMPLETED, evicted.status.eviction_time)


@pytest.mark.parametrize("step", ["AwaitReady", "EvictOriginal"])
def test_a_pod_that_is_deleted_during_its_copy_stays_deleted(
    space: Space, moves: Moves, nodes: list[str], step: str
) -> None:
    space.create(pod("web"))
    wait_until_settled(space, 1)
    ordered(moves, nodes, space.pods("web")[0], Method.COPY)
    space.patch("Pod", "web", HELD)  # it is seen while it ends
    stopped_at(moves, step)
    space.delete("Pod", "web")
    ended = moves.drive("m")
    assert ended.status.phase is Phase.FAILED
    assert ended.status.message == "the pod was deleted, not evicted: its copy goes, too"
    space.patch("Pod", "web", FREE)
    space.gone("Pod", "web")
    assert space.list("Pod") == []


@pytest.mark.real_only  # it needs a ResourceQuota
def test_what_steered_a_pod_is_taken_back_in_time_though_the_pod_does_not_come(
    web: Space, moves: Moves, nodes: list[str]
) -> None:
    before = wait_until_settled(web, 2)
    original = web.pods("web")[0]
    ordered(moves, nodes, original, Method.EVICT)
    stopped_at(moves, "Evict")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    web.create(quota)
    web.reaches("ResourceQuota", "q", "counts", lambda each: each.get("status", {}).get("used", {}).get("pods") == "2")
    hasty = replace(says("what steered it is taken back"), settings=replace(QUICK, restore_after=0.0))
    waiting = moves.drive("m", hasty)
    assert waiting.status.step == "AwaitRebuilt"
    found = web.get("Deployment", "web")
    assert not found["spec"].get("paused")
    assert labels.PAUSED_BY not in found["metadata"]["annotations"]
    assert "affinity" not in web.replica_set("web")["spec"]["template"]["spec"]
    web.delete("ResourceQuota", "q")
    done = moves.drive("m")
    assert done.status.phase is Phase.COMPLETED
    moves.late("m")
    audit(before, wait_until_settled(web, 2), done)


def test_pods_of_a_stateful_set_go_one_at_a_time(space: Space, moves: Moves, nodes: list[str]) -> None:
    space.create(stateful_set("db", 2))
    space.reaches("StatefulSet", "db", "is ready", lambda each: each.get("status", {}).get("readyReplicas") == 2)
    space.patch("Pod", "db-0", HELD)
    space.delete("Pod", "db-0", gracePeriodSeconds=0)
    ordered(moves, nodes, space.get("Pod", "db-1"), Method.EVICT)
    waiting = moves.drive("m", says("its pods go one at a time"))
    assert waiting.status.step == "Protect"
    assert "deletionTimestamp" not in space.get("Pod", "db-1")["metadata"]
    space.patch("Pod", "db-0", FREE)
    assert moves.drive("m").status.phase is Phase.COMPLETED
    wait_until_settled(space, 2)


@pytest.mark.parametrize("fails", ["CrashLoopBackOff", "ImagePullBackOff"])
def test_a_copy_that_cannot_start_is_given_up_long_before_the_timeout(
    space: Space, moves: Moves, nodes: list[str], fails: str
) -> None:
    target = nodes[0]
    with space.cordoned(target):
        space.shunned(target)
        space.create(simulated(deployment("web", 1), fails=fails, fails_on=target))
        before = wait_until_settled(space, 1)
    moves.order("m", migration_spec(name_of(space.pods("web")[0]), target=target, method=Method.HANDOFF))
    failed = moves.drive("m", Drive(replace(QUICK, attempts=1)))
    assert failed.status.phase is Phase.FAILED
    assert f"the copy does not start on {target}: main: " in failed.status.message
    moves.late("m")
    audit(before, wait_until_settled(space, 1), failed)
