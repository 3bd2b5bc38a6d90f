"""Which pod was made in an evicted one's place, where the webhook marks it; and what others that it marked lose."""

from __future__ import annotations

from typing import Any

from rescheduler.migration.commands import Verb
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.rollback import roll_back
from rescheduler.migration.steps.common import Do, Done, Wait
from rescheduler.migration.steps.evict import AwaitRebuiltReady, MarkRebuilt, disown_extra_pods, find_rebuilt
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import ObjectReference, Phase
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant
from tests.unit.migration.scenes import NOW, leaving, migration, pod, scene

WAITING = migration(Method.EVICT, "AwaitRebuilt", replacement=None, bystanders=("web-a-uid", "web-b-uid"))
MARKING = migration(Method.EVICT, "MarkRebuilt", replacement=ObjectReference("Pod", "web-c", "web-c-uid"))
LABELS = {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress", labels.MIGRATED_FROM: "one"}
NOTES = {labels.ORIGINAL_POD: "web-a-uid", labels.ORIGINAL_POD_NAME: "web-a", labels.MIGRATION_TIME: "then"}


def marked(name: str, *, by: str = "m", status: str = "in-progress", gated: bool = False, age: float = 0.0) -> Json:
    """A new pod as the webhook has it."""
    pod_labels = {"app": "web"} | LABELS | {labels.MIGRATION_ID: by, labels.MIGRATION_STATUS: status}
    notes = NOTES | ({labels.GATED: by} if gated else {})
    body = pod(name, node="", labels=pod_labels, annotations=notes, creationTimestamp=format_instant(NOW - age))
    body["spec"]["schedulingGates"] = [{"name": labels.NOMINATE_GATE}] if gated else []
    return body


def plain(name: str) -> Json:
    return pod(name, creationTimestamp=format_instant(NOW))


def found(*siblings: Json, moving: Any = WAITING) -> Any:
    return scene(moving, pod=None, siblings=(pod("web-b"), *siblings))


def test_the_pod_that_the_webhook_marked_is_the_rebuilt_one_though_another_is_younger() -> None:
    ours = marked("web-c", age=5.0)
    assert find_rebuilt(found(plain("web-d"), ours, plain("web-e"))) is ours


def test_a_pod_without_marks_is_taken_where_the_webhook_was_not_asked() -> None:
    new = plain("web-c")
    assert find_rebuilt(found(new, marked("web-d", by="another"))) is new


def test_who_waits_for_the_rebuilt_pod_says_what_it_says() -> None:
    moving = migration(Method.EVICT, "AwaitRebuiltReady", replacement=ObjectReference("Pod", "web-c", "web-c-uid"))
    new = marked("web-c") | {"status": {"phase": "Pending"}}
    assert AwaitRebuiltReady().look(found(new, moving=moving)) == Wait("web-c has no node yet")
    full = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    new["status"]["conditions"] = [full]
    assert AwaitRebuiltReady().look(found(new, moving=moving)) == Wait("web-c has no node yet: 0/3 nodes are available")
    new["spec"]["nodeName"] = "three"
    assert AwaitRebuiltReady().look(found(new, moving=moving)) == Wait("web-c is not Ready on three yet")


def test_other_pods_that_were_marked_for_the_move_lose_the_marks() -> None:
    new, other = marked("web-c"), marked("web-d")
    outlook = MarkRebuilt().look(found(new, other, moving=MARKING))
    assert isinstance(outlook, Do)
    (command,) = outlook.commands
    assert command.name == "web-d"
    assert isinstance(command.body, dict)
    assert command.body["metadata"]["labels"] == dict.fromkeys(LABELS)
    assert command.body["metadata"]["annotations"] == dict.fromkeys(NOTES)
    assert MarkRebuilt().look(found(new, moving=MARKING)) == Done()


def test_other_pods_that_are_held_back_are_let_through_first() -> None:
    todo = disown_extra_pods(found(marked("web-c"), marked("web-d", gated=True), moving=MARKING))
    assert [(each.name, each.why) for each in todo] == [
        ("web-d", "take the gate off"),
        ("web-d", "it is not the pod that was expected"),
    ]


def test_traces_of_finished_moves_and_marks_of_other_moves_are_left() -> None:
    """A migration of the same name may have been carried out before, too."""
    others = (marked("web-d", status="completed"), marked("web-e", by="another"), leaving(marked("web-f")))
    assert disown_extra_pods(found(marked("web-c"), *others, moving=MARKING)) == []


def test_nothing_is_disowned_by_methods_that_make_the_replacement_themselves() -> None:
    handoff = migration(Method.HANDOFF, "HandOver")
    assert disown_extra_pods(scene(handoff, siblings=(pod(), marked("copy")))) == []


def test_a_pod_that_was_marked_before_the_move_was_rolled_back_is_one_like_any_other() -> None:
    rolling = migration(Method.EVICT, "RollBack", replacement=None)
    outlook = roll_back(found(marked("web-c", gated=True), moving=rolling))
    assert isinstance(outlook, Do)
    assert [each.name for each in outlook.commands] == ["web-c", "web-c"]
    assert [each.verb for each in outlook.commands] == [Verb.PATCH, Verb.PATCH]


def test_a_recorded_replacement_is_let_through_and_keeps_its_trace_when_the_move_fails() -> None:
    rolling = migration(Method.EVICT, "RollBack", replacement=ObjectReference("Pod", "web-c", "web-c-uid"))
    new = marked("web-c", gated=True)
    outlook = roll_back(scene(rolling, new, pod=None, siblings=(new,)))
    assert isinstance(outlook, Do)
    trace, gate = outlook.commands
    assert isinstance(trace.body, dict)
    assert trace.body["metadata"]["labels"] == {labels.MIGRATION_STATUS: "failed"}
    assert gate.why == "take the gate off"


def test_a_pod_that_a_webhook_marks_after_the_end_loses_the_marks() -> None:
    over = migration(
        Method.EVICT,
        phase=Phase.COMPLETED,
        replacement=ObjectReference("Pod", "web-c", "web-c-uid"),
        completion_time=NOW - 1,
    )
    done, late = marked("web-c", status="completed"), marked("web-d")
    todo = Lifecycle().clean_up(scene(over, done, pod=None, siblings=(done, late)))
    assert [each.name for each in todo] == ["web-d"]
