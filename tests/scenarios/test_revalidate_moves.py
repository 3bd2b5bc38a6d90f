"""A plan that was made a while ago, held against the cluster as it is now: what is stale, and why."""

from __future__ import annotations

import msgspec
import pytest

from rescheduler.model import labels
from rescheduler.model.plan import Method, Move
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.revalidate import revalidate_moves
from tests.support.builders import Row, cluster, deployment, node, pdb, pod, statefulset
from tests.support.pod_migrations import replace

NODES = [node("a"), node("b"), node("c")]


def world(*more: Row | list[Row]) -> ClusterSnapshot:
    return cluster(NODES, deployment("web", on=["a", "a", "b"]), pod("lonely", on="a"), *more)


def move_of(snapshot: ClusterSnapshot, name: str, to: str, **fields: object) -> Move:
    """The move that a plan of this snapshot would have for the pod."""
    found = next(each for each in snapshot.pods if each.name.startswith(name))
    method = Method.COPY if found.owner is None else Method.HANDOFF
    move = Move(found.namespace, found.name, found.node, to, "LoadBalancing", "why", method, uid=found.uid)
    return replace(move, **fields)


def without(snapshot: ClusterSnapshot, name: str) -> ClusterSnapshot:
    return replace(snapshot, pods=tuple(each for each in snapshot.pods if not each.name.startswith(name)))


def changed(snapshot: ClusterSnapshot, name: str, **fields: object) -> ClusterSnapshot:
    """The snapshot with one pod or node changed."""
    pods = tuple(msgspec.structs.replace(p, **fields) if p.name.startswith(name) else p for p in snapshot.pods)
    nodes = tuple(msgspec.structs.replace(n, **fields) if n.name == name else n for n in snapshot.nodes)
    return replace(snapshot, pods=pods if len(name) > 1 else snapshot.pods, nodes=nodes)


def refusals(snapshot: ClusterSnapshot, *moves: Move, policy: Policy | None = None) -> list[str]:
    checked = revalidate_moves(snapshot, policy or Policy(), moves)
    assert [each.move for each in checked] == list(moves)
    return [each.refusal for each in checked]


def test_a_plan_that_still_holds_is_not_refused() -> None:
    now = world()
    assert refusals(now, move_of(now, "web", "c"), move_of(now, "lonely", "b", proposal=1)) == ["", ""]


def test_a_pod_that_is_gone_is_refused() -> None:
    planned = world()
    assert refusals(without(planned, "lonely"), move_of(planned, "lonely", "b")) == ["the pod is gone"]


def test_another_pod_of_the_same_name_is_refused() -> None:
    planned = world()
    now = changed(planned, "lonely", uid="another")
    assert refusals(now, move_of(planned, "lonely", "b")) == ["another pod has its name by now"]


def test_a_plan_without_uids_goes_by_names() -> None:
    now = world()
    assert refusals(now, move_of(now, "lonely", "b", uid="")) == [""]


def test_a_pod_that_is_on_another_node_by_now_is_refused() -> None:
    planned = world()
    now = changed(planned, "lonely", node="c")
    assert refusals(now, move_of(planned, "lonely", "b")) == ["it is on c, not on a"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ready": False}, "node b is not Ready"),
        ({"unschedulable": True}, "node b is cordoned"),
        ({"labels": {labels.MAINTENANCE: "true"}}, "node b is under maintenance"),
        ({"deleting": True}, "node b is being deleted"),
    ],
)
def test_a_target_that_takes_nothing_is_refused(fields: dict[str, object], said: str) -> None:
    planned = world()
    assert refusals(changed(planned, "b", **fields), move_of(planned, "lonely", "b")) == [said]


def test_a_target_that_is_gone_is_refused() -> None:
    now = world()
    assert refusals(now, move_of(now, "lonely", "z")) == ["node z is gone"]


def test_a_pod_that_a_migration_is_moving_is_refused() -> None:
    planned = world()
    now = replace(planned, spoken_for={("default", "lonely"): "migration m is Pending"})
    assert refusals(now, move_of(planned, "lonely", "b")) == ["migration m is Pending"]


def test_a_guard_that_objects_now_is_named() -> None:
    planned = world()
    now = changed(planned, "lonely", labels={labels.RESCHEDULING: "disabled"})
    (said,) = refusals(now, move_of(planned, "lonely", "b"))
    assert said.startswith("ReschedulingDisabled: ")


def test_a_target_without_room_says_what_is_missing() -> None:
    now = cluster(NODES, pod("lonely", on="a", cpu=1), pod("big", on="b", cpu="3900m"))
    (said,) = refusals(now, move_of(now, "lonely", "b"))
    assert said.startswith("NoTarget: b: ")
    assert "cpu" in said.lower()


def test_earlier_moves_of_the_plan_take_up_room() -> None:
    now = cluster(NODES, pod("first", on="a", cpu=3), pod("second", on="b", cpu=3))
    moves = [move_of(now, "first", "c"), move_of(now, "second", "c", proposal=1)]
    first, second = refusals(now, *moves)
    assert first == ""
    assert second == "NoTarget: c: insufficient cpu (asks 3000m, 1000m free) (NodeResourcesFit)"
    assert refusals(now, moves[1]) == [""]


def test_the_plans_method_must_still_fit() -> None:
    planned = world()
    now = changed(planned, "web", ready=False)
    (said,) = refusals(now, move_of(planned, "web", "c"))
    assert "it is not Ready, so there is nothing to hand over" in said


def test_a_spent_disruption_budget_refuses_an_eviction() -> None:
    now = cluster(NODES, statefulset("db", on=["a", "b"]), pdb("db", allowed=0))
    (said,) = refusals(now, move_of(now, "db-0", "c", method=Method.EVICT))
    assert said.startswith("DisruptionBudget: ")


def test_moves_of_one_proposal_are_refused_together() -> None:
    planned = world()
    now = without(planned, "lonely")
    moves = [
        move_of(planned, "web", "c", proposal=3),
        move_of(planned, "lonely", "b", proposal=3),
    ]
    assert refusals(now, *moves) == ["default/lonely, which belongs to it, is refused", "the pod is gone"]


def test_a_proposal_that_falls_late_leaves_its_room_to_others() -> None:
    now = cluster(NODES, pod("first", on="a", cpu=3), pod("never", on="a", cpu=1), pod("second", on="b", cpu=3))
    now = changed(now, "never", labels={labels.RESCHEDULING: "disabled"})
    moves = [
        move_of(now, "first", "c", proposal=1),
        move_of(now, "never", "b", proposal=1),
        move_of(now, "second", "c", proposal=2),
    ]
    first, never, second = refusals(now, *moves)
    assert first == "default/never, which belongs to it, is refused"
    assert never.startswith("ReschedulingDisabled: ")
    assert second == ""


def test_limits_and_rest_are_the_plans_business_and_were_kept_when_it_was_made() -> None:
    now = cluster(NODES, [pod(f"p{index}", on="a", cpu="10m", age=1) for index in range(12)])
    moves = [move_of(now, f"p{index}", "b", proposal=index) for index in (0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)]
    assert set(refusals(now, *moves)) == {""}
