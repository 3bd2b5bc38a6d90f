"""Pods that have ended are removed on real objects: by their UID, when their finalizers allow it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.manifests import budget, deployment, job, pod
from tests.support.migrations import Drive, Fuse, Killed, Moves, inventory
from tests.support.misbehaviour import Misbehaviour, misbehaves
from tests.support.pod_migrations import migration_spec
from tests.testbed.processes import until

pytestmark = pytest.mark.usefixtures("kind")


def fails(space: Space, found: Json) -> Json:
    """The pod, once its kubelet has evicted it."""
    misbehaves(space.api, space.path("Pod", name_of(found)), Misbehaviour("Failed", reason="Evicted"))
    return space.reaches("Pod", name_of(found), "has failed", lambda body: body["status"]["phase"] == "Failed")


def ordered(moves: Moves, found: Json) -> None:
    moves.order(
        "m", migration_spec(name_of(found), found["metadata"]["uid"], method=Method.REMOVE, strategy="FailedPods")
    )


def removed(moves: Moves, found: Json, drive: Drive | None = None) -> PodMigration:
    ordered(moves, found)
    return moves.drive("m", drive)


def fallen(space: Space) -> Json:
    """A pod of a Deployment of two that was evicted, and that its ReplicaSet has replaced."""
    space.create(budget("web", "web", minAvailable=2))
    space.create(deployment("web", 2))
    space.rolled_out("web")
    failed = fails(space, space.pods("web")[0])
    until("it is replaced", lambda: sum(map(is_ready, space.list("Pod"))) == 2)
    return failed


def test_a_failed_pod_goes_and_everything_else_stays(space: Space, nodes: list[str], moves: Moves) -> None:
    failed = fallen(space)
    before = inventory(space)
    done = removed(moves, failed)
    assert (done.status.phase, done.status.method, done.status.message) == (Phase.COMPLETED, Method.REMOVE, "")
    assert (done.status.source, done.status.target) == (failed["spec"]["nodeName"], "")
    assert done.status.replacement is None
    assert space.find("Pod", name_of(failed)) is None
    moves.late("m")
    assert inventory(space) == {key: body for key, body in before.items() if key != ("Pod", name_of(failed))}


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_whoever_takes_over_goes_on_wherever_the_last_one_died(
    space: Space, nodes: list[str], moves: Moves, writes: int
) -> None:
    failed = fallen(space)
    before = inventory(space)
    ordered(moves, failed)
    with pytest.raises(Killed):
        moves.drive("m", Drive(fuse=Fuse(writes=writes)))
    done = moves.drive("m")
    assert done.status.phase is Phase.COMPLETED
    assert inventory(space) == {key: body for key, body in before.items() if key != ("Pod", name_of(failed))}


def test_finalizers_are_waited_for(space: Space, nodes: list[str], moves: Moves) -> None:
    failed = fallen(space)
    space.patch("Pod", name_of(failed), {"metadata": {"finalizers": ["example.com/held"]}})
    waiting = removed(moves, failed, Drive(until=lambda found: "example.com/held" in found.status.message))
    assert (waiting.status.phase, waiting.status.step) == (Phase.IN_PROGRESS, "AwaitRemoved")
    assert "deletionTimestamp" in space.get("Pod", name_of(failed))["metadata"]
    space.patch("Pod", name_of(failed), {"metadata": {"finalizers": None}})
    assert moves.drive("m").status.phase is Phase.COMPLETED


def test_a_job_has_counted_its_pod_when_it_is_gone(space: Space, nodes: list[str], moves: Moves) -> None:
    sick = Misbehaviour("Failed", reason="Evicted")
    space.create(sick.of(job("work", backoffLimit=0)))
    (failed,) = until("the Job's pod has failed", lambda: [each for each in space.pods("work") if _has_failed(each)])
    assert removed(moves, failed).status.phase is Phase.COMPLETED
    assert space.find("Pod", name_of(failed)) is None
    counted = space.reaches("Job", "work", "has failed", lambda found: _condition(found, "Failed"))
    assert counted["status"]["failed"] == 1
    assert not counted["status"].get("uncountedTerminatedPods")


def test_a_pod_that_runs_is_not_removed_whoever_orders_it(space: Space, nodes: list[str], moves: Moves) -> None:
    running = space.runs(pod("running"))
    done = removed(moves, running)
    assert done.status.phase is Phase.FAILED
    assert done.status.message == "it has not ended (Running): only pods that have are removed"
    assert space.get("Pod", "running")["metadata"]["uid"] == running["metadata"]["uid"]


def test_a_new_pod_of_the_same_name_is_never_hit(space: Space, nodes: list[str], moves: Moves) -> None:
    failed = fails(space, space.runs(pod("again")))
    ordered(moves, failed)
    with pytest.raises(Killed):
        moves.drive("m", Drive(fuse=Fuse(after="storing step Remove")))
    space.delete("Pod", "again")
    space.gone("Pod", "again")
    new = fails(space, space.runs(pod("again")))
    assert moves.drive("m").status.phase is Phase.COMPLETED
    assert space.get("Pod", "again")["metadata"]["uid"] == new["metadata"]["uid"]


def _has_failed(found: Json) -> bool:
    return bool(found["status"].get("phase") == "Failed")


def _condition(found: Json, kind: str) -> Any:
    return any(each["type"] == kind and each["status"] == "True" for each in found["status"].get("conditions", ()))
