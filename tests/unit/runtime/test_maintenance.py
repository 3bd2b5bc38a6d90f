"""Cordons: nodes under maintenance get one of ours, and only ours are ever taken down."""

from __future__ import annotations

from typing import Any

from rescheduler.model.json import Json
from rescheduler.model.labels import CORDONED, MAINTENANCE
from rescheduler.model.objects import Node
from rescheduler.model.time import format_instant
from rescheduler.runtime.maintenance import cordon_command, is_candidate, uncordon_command
from tests.unit.migration.scenes import NOW, leaving, node

LABEL = {MAINTENANCE: "true"}
NOTE = {CORDONED: "2026-01-01T00:00:00Z"}
GUARD = {"uid": "two-uid", "resourceVersion": "7"}


def closed(**metadata: Any) -> Json:
    return node(**metadata) | {"spec": {"unschedulable": True}}


def change(body: Json, *, cordons: bool = True) -> Any:
    command = cordon_command(body, NOW, cordons=cordons)
    return command.body if command is not None else None


def test_a_labelled_node_is_cordoned_and_noted_in_one_patch() -> None:
    assert change(node(labels=LABEL)) == {
        "metadata": {"annotations": {CORDONED: format_instant(NOW)}, **GUARD},
        "spec": {"unschedulable": True},
    }
    assert change(node(labels={MAINTENANCE: "false"})) is None


def test_a_cordon_of_somebody_else_stays_theirs() -> None:
    assert change(closed(labels=LABEL)) is None
    assert change(closed()) is None
    assert uncordon_command(closed()) is None


def test_our_cordon_stays_while_the_label_does_and_is_put_up_again() -> None:
    assert change(closed(labels=LABEL, annotations=NOTE)) is None
    assert change(node(labels=LABEL, annotations=NOTE))["spec"] == {"unschedulable": True}


def test_our_cordon_goes_with_the_label_together_with_its_note() -> None:
    gone: Json = {"metadata": {"annotations": {CORDONED: None}, **GUARD}}
    for labels in ({}, {MAINTENANCE: "no"}):
        assert change(closed(labels=labels, annotations=NOTE)) == gone | {"spec": {"unschedulable": None}}
    assert change(node(annotations=NOTE)) == gone
    command = uncordon_command(closed(labels=LABEL, annotations=NOTE))
    assert command is not None
    assert str(command) == "patch Node two: take our cordon down"


def test_where_nobody_empties_nodes_none_is_cordoned_but_ours_are_taken_down() -> None:
    assert change(node(labels=LABEL), cordons=False) is None
    assert change(closed(labels=LABEL, annotations=NOTE), cordons=False) is None
    assert change(closed(annotations=NOTE), cordons=False) is not None


def test_a_node_that_goes_is_let_go() -> None:
    assert change(leaving(node(labels=LABEL))) is None


def test_only_nodes_with_something_to_do_are_looked_at() -> None:
    assert is_candidate(Node("a", LABEL), cordons=True)
    assert not is_candidate(Node("a", LABEL), cordons=False)
    assert not is_candidate(Node("a", LABEL, unschedulable=True, cordoned=True), cordons=True)
    assert is_candidate(Node("a", unschedulable=True, cordoned=True), cordons=False)
    assert not is_candidate(Node("a", unschedulable=True), cordons=True)
