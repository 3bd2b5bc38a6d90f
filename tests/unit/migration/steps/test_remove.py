"""Removing a pod that has ended: by its UID, once, and over only when it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.migration.commands import Verb
from rescheduler.migration.events import events_for
from rescheduler.migration.lifecycle import ROLL_BACK, Lifecycle
from rescheduler.migration.observation import FailedCommand, StepContext
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.pod_migrations import migration_spec, replace
from tests.unit.migration.scenes import NOW, leaving, migration, pod, scene

LIFE = Lifecycle()
ORDER = migration_spec("web-a", "web-a-uid", method=Method.REMOVE, strategy="FailedPods")


def removal(step: str = "", **more: Any) -> PodMigration:
    return migration(Method.REMOVE, step, order=ORDER, target="", replacement=None, **more)


def ended(phase: str = "Failed", **more: Any) -> Json:
    body = pod(ready=False, **more)
    body["status"]["phase"] = phase
    return body


def seen(moving: PodMigration, found: Json | None) -> StepContext:
    return scene(moving, pod=found)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_deleted_by_its_uid(phase: str) -> None:
    decision = LIFE.advance(seen(removal(), ended(phase)))
    (command,) = decision.commands
    assert (decision.status.step, command.verb, command.kind, command.name) == ("Remove", Verb.DELETE, "Pod", "web-a")
    assert isinstance(command.body, dict)
    assert command.body["preconditions"] == {"uid": "web-a-uid"}
    assert decision.status.message == f"remove it: it has ended ({phase})"


def test_nothing_else_is_touched() -> None:
    assert LIFE.steps(Method.REMOVE) == ["Remove", "AwaitRemoved"]
    decision = LIFE.advance(seen(removal(), ended()))
    assert {command.kind for command in decision.commands} == {"Pod"}


@pytest.mark.parametrize("step", ["", "Remove", "AwaitRemoved"])
def test_it_is_over_when_the_pod_is_gone_or_another_has_its_name(step: str) -> None:
    another = ended()
    another["metadata"]["uid"] = "another"
    for found in (None, another):
        progress = LIFE.advance(seen(removal(step), found)).status
        assert (progress.phase, progress.step, progress.message) == (Phase.COMPLETED, "", "")
        assert progress.replacement is None


def test_a_new_leader_does_not_delete_what_is_going_already() -> None:
    decision = LIFE.advance(seen(removal("Remove"), leaving(ended())))
    assert (decision.status.step, decision.commands) == ("AwaitRemoved", ())
    assert decision.status.message == "it is being deleted"


def test_finalizers_are_waited_for_and_named() -> None:
    held = leaving(ended(finalizers=["batch.kubernetes.io/job-tracking"]))
    decision = LIFE.advance(seen(removal("AwaitRemoved"), held))
    assert decision.commands == ()
    assert decision.wait
    assert decision.status.message == "it is being deleted, held by its finalizers: batch.kubernetes.io/job-tracking"


def test_one_that_is_held_for_longer_than_the_timeout_is_given_up_for_good() -> None:
    held = leaving(ended(finalizers=["example.com/slow"]))
    late = removal("AwaitRemoved", start_time=NOW - 10_000)
    progress = LIFE.advance(seen(late, held)).status
    assert (progress.step, progress.retry_time) == (ROLL_BACK, None)
    over = LIFE.advance(seen(replace(late, status=progress), held))
    assert (over.status.phase, over.commands) == (Phase.FAILED, ())
    assert "example.com/slow" in over.status.message


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_a_pod_that_has_not_ended_is_never_removed(phase: str) -> None:
    decision = LIFE.advance(seen(removal(), ended(phase)))
    assert decision.commands == ()
    assert (decision.status.step, decision.status.retry_time) == (ROLL_BACK, None)
    assert decision.status.message == f"it has not ended ({phase}): only pods that have are removed"


def test_what_the_server_refuses_is_tried_until_the_timeout() -> None:
    refused = FailedCommand(403, "Forbidden", "not for you")
    moving = removal("Remove")
    looked = seen(moving, ended())
    decision = LIFE.advance(replace(looked, seen=replace(looked.seen, refused=refused)))
    assert decision.commands
    assert decision.status.message.endswith("not for you")
    late = seen(removal("Remove", start_time=NOW - 10_000), ended())
    assert LIFE.advance(late).status.step == ROLL_BACK


def test_giving_it_up_takes_nothing_back() -> None:
    decision = LIFE.cancel(seen(removal("Remove"), ended()), "somebody deleted the migration")
    rolled = LIFE.advance(seen(replace(removal(), status=decision.status), ended()))
    assert (rolled.status.phase, rolled.commands) == (Phase.FAILED, ())


def test_people_are_told_that_it_was_removed_and_where_it_lay() -> None:
    begun, done = removal("AwaitRemoved"), removal("")
    done = replace(done, status=replace(done.status, phase=Phase.COMPLETED, completion_time=NOW))
    told = events_for(begun, done)
    assert told[0].note == "Pod shop/web-a from one by remove: done"
    assert {each.regarding.kind for each in told} >= {"Pod", "PodMigration", "Node"}
    failed = replace(begun, status=replace(begun.status, phase=Phase.FAILED, message="held"))
    assert events_for(begun, failed)[0].note == "Pod shop/web-a from one by remove: given up: held"


def test_it_needs_little_of_the_cluster_once_it_has_begun() -> None:
    assert LIFE.needs(removal("Remove")) == frozenset()
