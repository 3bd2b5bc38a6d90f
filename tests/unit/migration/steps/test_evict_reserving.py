"""Room is held before anything is disturbed, and never free between the placeholder and the new pod."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.migration.commands import Verb
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import FailedCommand, SteeringMethod
from rescheduler.migration.steps.common import Do, Done, GiveUp, Wait
from rescheduler.migration.steps.evict import NominateRebuilt, UngateRebuilt
from rescheduler.migration.steps.placeholder import HoldRoom, ReleaseRoom, build_placeholder
from rescheduler.model.json import Json
from rescheduler.model.labels import GATED, MIGRATION_ID, MIGRATION_STATUS, NOMINATE_GATE, ORIGINAL_POD
from rescheduler.model.migration import ObjectReference, Phase
from rescheduler.model.plan import Method
from tests.unit.migration.scenes import leaving, migration, node, pod, scene

HOLDING = migration(Method.EVICT, "HoldRoom", replacement=None)
GUIDING = migration(Method.EVICT, "NominateRebuilt", replacement=ObjectReference("Pod", "web-c", "web-c-uid"))
QUOTA = FailedCommand(403, "Forbidden", "exceeded quota")
NOMINATE: Json = {"steered": SteeringMethod.NOMINATE}


def placeholder(nominated: str = "two") -> Json:
    body = build_placeholder(scene(HOLDING), pod())
    body["metadata"] |= {"uid": "room-uid", "resourceVersion": "3"}
    return body | ({"status": {"nominatedNodeName": nominated}} if nominated else {})


def new_pod(*gates: str, nominated: str = "", **more: Any) -> Json:
    """The pod that was made in the original's place, as the webhook has it."""
    labels = {"app": "web", MIGRATION_ID: "m", MIGRATION_STATUS: "in-progress"}
    notes = {ORIGINAL_POD: "web-a-uid"} | ({GATED: "m"} if gates else {})
    body = pod("web-c", node="", ready=False, labels=labels, annotations=notes, **more)
    body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    body["status"] = {"phase": "Pending"} | ({"nominatedNodeName": nominated} if nominated else {})
    return body


def guiding(new: Json, **more: Any) -> Any:
    return scene(GUIDING, new, pod=None, siblings=(new, pod("web-b")), **NOMINATE, **more)


def test_room_is_held_by_a_pod_that_is_nominated_to_the_target() -> None:
    makes = HoldRoom().look(scene(HOLDING, **NOMINATE))
    assert isinstance(makes, Do)
    assert [(each.verb, each.name) for each in makes.commands] == [(Verb.CREATE, "m-room")]
    nominates = HoldRoom().look(scene(HOLDING, placeholder=placeholder(""), **NOMINATE))
    assert isinstance(nominates, Do)
    (command,) = nominates.commands
    assert (command.subresource, command.body) == (
        "status",
        {"status": {"nominatedNodeName": "two"}, "metadata": {"uid": "room-uid"}},
    )
    assert HoldRoom().look(scene(HOLDING, placeholder=placeholder(), **NOMINATE)) == Done()


@pytest.mark.parametrize("steered", [SteeringMethod.TEMPLATE, SteeringMethod.WEBHOOK])
def test_no_room_is_held_unless_that_is_wanted(steered: SteeringMethod) -> None:
    assert HoldRoom().look(scene(HOLDING, steered=steered)) == Done()


def test_no_room_is_held_where_there_is_no_target() -> None:
    assert HoldRoom().look(scene(migration(Method.EVICT, target=""), **NOMINATE)) == Done()


@pytest.mark.parametrize("code", [400, 403, 422])
def test_a_placeholder_that_is_refused_is_done_without(code: int) -> None:
    outlook = HoldRoom().look(scene(HOLDING, refused=FailedCommand(code, "", "exceeded quota"), **NOMINATE))
    assert outlook == Done("no room is held on two: exceeded quota")


def test_what_a_move_had_to_do_without_is_told_in_the_end() -> None:
    refused = Lifecycle().advance(scene(HOLDING, refused=QUOTA, **NOMINATE))
    assert refused.status.step == "Protect"
    assert refused.status.remark == "no room is held on two: exceeded quota"
    ending = migration(
        Method.EVICT, "Finish", replacement=ObjectReference("Pod", "web-c", "web-c-uid"), remark=refused.status.remark
    )
    new = pod("web-c", node="one")
    done = Lifecycle().advance(scene(ending, new, pod=None, siblings=(new,)))
    assert done.status.phase is Phase.COMPLETED
    assert done.status.message == "no room is held on two: exceeded quota; landed on one, not on two"


def test_a_stranger_of_the_placeholders_name_is_left_alone() -> None:
    outlook = HoldRoom().look(scene(HOLDING, placeholder=pod("m-room", owner=False), **NOMINATE))
    assert outlook == Done("no room is held on two: a pod that is not ours is called m-room")


def test_no_room_is_held_for_a_pod_that_goes_or_on_a_node_that_takes_none() -> None:
    assert isinstance(HoldRoom().look(scene(HOLDING, pod=leaving(pod()), **NOMINATE)), GiveUp)
    assert isinstance(HoldRoom().look(scene(HOLDING, target=node(ready=False), **NOMINATE)), GiveUp)


def test_an_earlier_placeholder_that_ends_is_waited_for() -> None:
    assert isinstance(HoldRoom().look(scene(HOLDING, placeholder=leaving(placeholder()), **NOMINATE)), Wait)


def test_the_new_pod_is_nominated_before_the_room_is_released_and_let_through_last() -> None:
    life, taken = Lifecycle(), []
    for nominated, held, gates in (
        ("", placeholder(), (NOMINATE_GATE,)),
        ("two", placeholder(), (NOMINATE_GATE,)),
        ("two", None, (NOMINATE_GATE,)),
    ):
        decision = life.advance(guiding(new_pod(*gates, nominated=nominated), placeholder=held))
        taken += [(decision.status.step, each.verb, each.name, each.subresource) for each in decision.commands]
    assert taken == [
        ("NominateRebuilt", Verb.PATCH, "web-c", "status"),
        ("ReleaseRoom", Verb.DELETE, "m-room", ""),
        ("UngateRebuilt", Verb.PATCH, "web-c", ""),
    ]
    assert life.advance(guiding(new_pod(nominated="two"))).status.step == "AwaitRebuiltReady"


def test_the_gate_goes_with_its_note_and_other_gates_stay() -> None:
    outlook = UngateRebuilt().look(guiding(new_pod("theirs", NOMINATE_GATE)))
    assert isinstance(outlook, Do)
    (command,) = outlook.commands
    assert command.body == [
        {"op": "test", "path": "/metadata/uid", "value": "web-c-uid"},
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": NOMINATE_GATE},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
        {"op": "test", "path": "/metadata/annotations/rescheduler.io~1gated", "value": "m"},
        {"op": "remove", "path": "/metadata/annotations/rescheduler.io~1gated"},
    ]


def test_a_pod_that_came_without_a_gate_is_left_to_the_scheduler() -> None:
    assert NominateRebuilt().look(guiding(new_pod())) == Done()
    assert UngateRebuilt().look(guiding(new_pod())) == Done()


def test_a_pod_is_not_nominated_to_a_node_that_takes_none_any_more() -> None:
    assert NominateRebuilt().look(guiding(new_pod(NOMINATE_GATE), target=node(ready=False))) == Done()


def test_what_is_refused_never_keeps_a_pod_behind_its_gate() -> None:
    gated = new_pod(NOMINATE_GATE)
    assert NominateRebuilt().look(guiding(gated, refused=QUOTA)) == Done("it is not nominated to two: exceeded quota")
    kept = ReleaseRoom().look(guiding(gated, refused=QUOTA, placeholder=placeholder()))
    assert kept == Done("the placeholder could not be removed: exceeded quota")


def test_the_time_that_is_up_keeps_no_pod_behind_its_gate() -> None:
    late = migration(
        Method.EVICT, "NominateRebuilt", replacement=ObjectReference("Pod", "web-c", "web-c-uid"), start_time=0.0
    )
    gated = new_pod(NOMINATE_GATE)
    decision = Lifecycle().advance(scene(late, gated, pod=None, siblings=(gated,), **NOMINATE))
    assert decision.status.step == "NominateRebuilt"
    assert decision.commands
