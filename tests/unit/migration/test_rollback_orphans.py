"""Orphans of dead migrations: each object is cleaned by its own marks, and no pod is lost by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.rollback import clean_budget, clean_pod, clean_workload, names_on, names_on_pod
from rescheduler.migration.steps.common import Do, Done, Wait
from rescheduler.migration.steps.evict import add_preference
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.plan import Method
from tests.unit.migration.scenes import HASH, budget, copy_of, deployment, leaving, migration, pod, replica_set

MARKED = HASH | {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress", labels.MIGRATION_REASON: "Manual"}
TRACE = {labels.ORIGINAL_POD: "web-a-uid", labels.ORIGINAL_POD_NAME: "web-a"}


def bare_copy(**spec: Any) -> Json:
    """The copy of a pod that nobody manages."""
    body = copy_of(annotations=dict(TRACE))
    body["spec"] |= spec
    return body


def steering(by: str = "m") -> Json:
    body = replica_set(annotations={labels.AFFINITY_BEFORE: json.dumps({"migration": by, "affinity": None})})
    body["spec"]["template"]["spec"]["affinity"] = add_preference(None, migration(Method.EVICT).status)
    return body


def verbs(todo: list[Command]) -> list[Verb]:
    return [command.verb for command in todo]


def commands(outlook: Do | Wait | Done) -> list[tuple[str, str]]:
    return [(each.kind, each.why) for each in outlook.commands] if isinstance(outlook, Do) else []


@pytest.mark.parametrize("note", ["no JSON at all", "[" * 100_000, "[]", "{}", '{"migration": "m", "affinity": 1}'])
def test_a_deployment_is_resumed_although_the_annotation_of_its_replica_set_is_not_readable(note: str) -> None:
    paused, sets = deployment(paused=True, annotations={labels.PAUSED_BY: "m"}), steering()
    paused["spec"]["template"] = {"spec": {"affinity": {"podAffinity": {}}}}
    sets["metadata"]["annotations"][labels.AFFINITY_BEFORE] = note
    outlook = clean_workload(paused, [sets], {"m"})
    assert commands(outlook) == [("ReplicaSet", "take the preference out again")]
    assert isinstance(outlook, Do)
    put_back = {"op": "replace", "path": "/spec/template/spec/affinity", "value": {"podAffinity": {}}}
    assert outlook.commands[0].body[-1] == put_back  # type: ignore[index]  # a JSON patch
    assert commands(clean_workload(paused, [replica_set()], {"m"})) == [("Deployment", "resume it")]


def test_an_annotation_that_is_not_readable_is_named_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"affinity-before of ReplicaSet web-1 was changed .* remove the annotation"):
        names_on(replica_set(annotations={labels.AFFINITY_BEFORE: "no JSON at all"}))


@pytest.mark.parametrize("note", ["no JSON at all", "[]", '{"labels": 1}'])
def test_marks_go_although_those_of_an_earlier_move_are_not_readable(note: str) -> None:
    (command,) = clean_pod(pod(labels=MARKED, annotations={labels.MARKS_BEFORE: note}), None, "failed")
    assert isinstance(command.body, dict)
    assert set(command.body["metadata"]["labels"].values()) == {None}


def test_a_copy_goes_while_its_original_is_there() -> None:
    assert verbs(clean_pod(bare_copy(), pod(owner=False), "failed")) == [Verb.DELETE]


@pytest.mark.parametrize("original", [None, leaving(pod(owner=False))])
def test_a_copy_without_an_original_stays_and_is_a_pod_like_any_other(original: Json | None) -> None:
    (command,) = clean_pod(bare_copy(), original, "failed")
    assert isinstance(command.body, dict)
    assert command.body["metadata"] == {
        "labels": {labels.MIGRATION_STATUS: "failed"},
        "ownerReferences": [],
        "resourceVersion": "7",
        "uid": "copy-uid",
    }


def test_a_copy_that_never_ran_goes_in_any_case() -> None:
    assert verbs(clean_pod(bare_copy(nodeName=""), None, "failed")) == [Verb.DELETE]


def test_a_copy_that_its_replica_set_has_not_adopted_goes_unless_that_changes_meanwhile() -> None:
    (command,) = clean_pod(copy_of(), None, "failed")
    assert command.verb is Verb.DELETE
    assert isinstance(command.body, dict)
    assert command.body["preconditions"] == {"uid": "copy-uid", "resourceVersion": "7"}


def test_an_adopted_copy_stays() -> None:
    owner = {"kind": "ReplicaSet", "uid": "rs-uid", "controller": True}
    (command,) = clean_pod(copy_of(ownerReferences=[owner]), pod(), "completed")
    assert isinstance(command.body, dict)
    assert command.body["metadata"]["labels"] == {labels.MIGRATION_STATUS: "completed"}
    assert command.body["metadata"]["annotations"] == {labels.WITHHELD: None}


def test_what_goes_already_is_left() -> None:
    assert clean_pod(leaving(copy_of()), pod(), "failed") == []
    assert clean_budget(leaving(budget())) == []


def test_an_original_gets_its_cost_and_its_marks_back() -> None:
    notes = {labels.COST_BEFORE: "5", labels.DELETION_COST: "-2147483647"}
    cost, patch = clean_pod(pod(labels=MARKED, annotations=notes), None, "failed")
    assert isinstance(cost.body, dict)
    assert cost.body["metadata"]["annotations"] == {labels.DELETION_COST: "5", labels.COST_BEFORE: None}
    assert isinstance(patch.body, dict)
    assert set(patch.body["metadata"]["labels"].values()) == {None}


def test_an_original_that_was_moved_before_is_not_taken_for_a_copy() -> None:
    before = {"labels": {labels.MIGRATION_ID: "old", labels.MIGRATION_STATUS: "completed"}}
    again = pod(labels=MARKED, annotations=TRACE | {labels.MARKS_BEFORE: json.dumps(before)})
    (command,) = clean_pod(again, None, "failed")
    assert isinstance(command.body, dict)
    assert command.body["metadata"]["labels"][labels.MIGRATION_STATUS] == "completed"
    cheap = pod(labels=MARKED, annotations=TRACE | {labels.COST_BEFORE: ""})
    assert Verb.DELETE not in verbs(clean_pod(cheap, pod("web-b"), "failed"))


def test_the_trace_of_a_finished_move_is_no_mark() -> None:
    assert names_on_pod(MARKED | {labels.MIGRATION_STATUS: "completed"}, TRACE) == frozenset()
    assert names_on_pod(MARKED, {}) == {"m"}
    assert names_on_pod({}, {labels.COST_BEFORE: ""}) == {""}
    assert names_on_pod({labels.MIGRATION_STATUS: "in-progress"}, {}) == frozenset()


def test_marks_tell_whose_they_are() -> None:
    ours = {labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: "m"}
    assert names_on(budget(labels=ours)) == {"m"}
    assert names_on(budget(labels={labels.MANAGED_BY: "helm", labels.MIGRATION_ID: "m"})) == frozenset()
    assert names_on(steering("s")) == {"s"}
    assert names_on(deployment(annotations={labels.PAUSED_BY: "a", labels.MIGRATION_ID: "b"})) == {"a", "b"}
    assert names_on(deployment(paused=True)) == frozenset()


def test_the_template_comes_back_first_then_the_pause_then_the_notes() -> None:
    paused = deployment(paused=True, annotations={labels.PAUSED_BY: "m", labels.MIGRATION_ID: "m"})
    first = clean_workload(paused, (steering(),), {"m"})
    assert commands(first) == [("ReplicaSet", "take the preference out again")]
    assert isinstance(clean_workload(paused, (replica_set(generation=2),), {"m"}), Wait)
    second = clean_workload(paused, (replica_set(),), {"m"})
    assert commands(second) == [("Deployment", "resume it")]
    noted = deployment(annotations={labels.MIGRATION_ID: "m"})
    copied = replica_set(annotations={labels.MIGRATION_ID: "m", labels.PAUSED_BY: "m"})
    assert commands(clean_workload(noted, (copied,), {"m"})) == [("Deployment", "the move is over")]
    assert commands(clean_workload(deployment(), (copied,), {"m"})) == [("ReplicaSet", "the move is over")]
    assert clean_workload(deployment(), (replica_set(),), {"m"}) == Done()


def test_a_replica_set_without_a_deployment_is_put_right_by_itself() -> None:
    assert commands(clean_workload(steering(), (steering(),), {"m"})) == [
        ("ReplicaSet", "take the preference out again")
    ]
    noted = replica_set(annotations={labels.MIGRATION_ID: "m"})
    assert commands(clean_workload(noted, (noted,), {"m"})) == [("ReplicaSet", "the move is over")]


def test_a_stateful_set_loses_its_note() -> None:
    noted = replica_set(annotations={labels.MIGRATION_ID: "m"}) | {"kind": "StatefulSet"}
    assert commands(clean_workload(noted, (), {"m"})) == [("StatefulSet", "the move is over")]


def test_what_a_living_migration_did_is_left() -> None:
    paused = deployment(paused=True, annotations={labels.PAUSED_BY: "alive", labels.MIGRATION_ID: "alive"})
    assert clean_workload(paused, (steering("alive"),), {"m"}) == Done()


def test_a_placeholder_of_a_dead_migration_goes() -> None:
    pod_labels = {labels.PLACEHOLDER: "m", labels.MANAGED_BY: labels.MANAGER}
    body = pod("m-room", owner=False, labels=pod_labels)
    assert names_on(body) == {"m"}
    assert verbs(clean_pod(body, None, "failed")) == [Verb.DELETE]


def test_a_pod_that_only_looks_like_a_placeholder_is_left() -> None:
    assert names_on_pod({labels.PLACEHOLDER: "m"}, {}) == frozenset()


def test_a_pod_behind_the_webhooks_gate_is_let_through_before_its_marks_go() -> None:
    body = pod("web-c", labels=dict(MARKED), annotations=TRACE | {labels.GATED: "m"})
    body["spec"]["schedulingGates"] = [{"name": labels.NOMINATE_GATE}]
    assert names_on(body) == {"m"}
    (gate,) = clean_pod(body, None, "failed")
    assert gate.why == "take the gate off"
    free = pod("web-c", labels=dict(MARKED), annotations=dict(TRACE))
    (trace,) = clean_pod(free, None, "failed")
    assert isinstance(trace.body, dict)
    assert trace.body["metadata"]["labels"] == {labels.MIGRATION_STATUS: "failed"}


def test_a_note_of_a_gate_that_somebody_took_off_goes_too() -> None:
    body = pod("web-c", annotations={labels.GATED: "m"})
    assert names_on(body) == {"m"}
    (note,) = clean_pod(body, None, "failed")
    assert {"op": "remove", "path": "/metadata/annotations/rescheduler.io~1gated"} in note.body
