"""The cluster as it will be: what is under way weighs once, where it is going, and is not planned again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model import labels
from rescheduler.model.migration import REPLANNED, MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import with_inflight_moves
from tests.support.builders import NOW, cluster, deployment, node, pod, uid_of
from tests.support.planning import OPTIMIZATION, planned, rejection_of
from tests.support.pod_migrations import migration_spec, pod_migration, replace

REST = 600.0
NODES = ("a", "b", "c")


def migration(pod_name: str = "web", name: str = "m", *, namespace: str = "default", **progress: Any) -> PodMigration:
    """Under way from a to b."""
    known: dict[str, Any] = {"phase": Phase.IN_PROGRESS, "source": "a", "target": "b"}
    return pod_migration(
        namespace, name, migration_spec(pod_name, target="b"), MigrationStatus(**(known | progress)), f"{name}-uid", "1"
    )


def copy_of(name: str = "copy") -> ObjectReference:
    return ObjectReference("Pod", name)


def at(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Pod → where it counts."""
    return {each.full_name: each.node or each.nominated for each in snapshot.pods}


def of(*pods: Pod) -> ClusterSnapshot:
    return cluster(*(node(name) for name in NODES), *pods)


def test_without_migrations_the_snapshot_is_the_same() -> None:
    snapshot = of(pod("web", "a"))
    assert with_inflight_moves(snapshot, [], REST) is snapshot


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.IN_PROGRESS])
def test_a_pod_whose_move_is_ordered_or_begun_counts_on_its_target(phase: Phase) -> None:
    settled = with_inflight_moves(of(pod("web", "a"), pod("other", "a")), [migration(phase=phase, target="")], REST)
    assert at(settled) == {"default/web": "b", "default/other": "a"}
    assert settled.spoken_for == {("default", "web"): f"migration m is {phase}"}


def test_a_copy_that_has_its_room_stands_for_the_original() -> None:
    moving = migration(replacement=copy_of())
    for copy in (pod("copy", "b"), pod("copy", nominated="b")):
        assert at(with_inflight_moves(of(pod("web", "a"), copy), [moving], REST)) == {"default/copy": "b"}


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(pod("copy"), id="it has no room yet"),
        pytest.param(pod("copy", "b", phase="Failed"), id="it has ended"),
        pytest.param(pod("copy", "b", deleting=True), id="it is being taken back"),
    ],
)
def test_a_copy_that_weighs_nothing_or_will_not_stay_does_not_stand_for_the_original(copy: Pod) -> None:
    settled = with_inflight_moves(of(pod("web", "a"), copy), [migration(replacement=copy_of())], REST)
    assert at(settled)["default/web"] == "b"


def test_room_that_is_held_for_a_pod_counts_once() -> None:
    moving = migration()
    held = pod("room", nominated="b", labels={labels.PLACEHOLDER: "m"})
    assert at(with_inflight_moves(of(pod("web", "a"), held), [moving], REST)) == {"default/web": "b"}
    assert at(with_inflight_moves(of(held), [moving], REST)) == {"default/room": "b"}, "the original has gone"
    led = migration(replacement=copy_of())
    assert at(with_inflight_moves(of(pod("copy", nominated="b"), held), [led], REST)) == {"default/copy": "b"}
    assert at(with_inflight_moves(of(held), [], REST)) == {"default/room": "b"}


def test_copies_of_the_same_name_in_two_namespaces_are_two() -> None:
    both = ("bank", "shop")
    snapshot = of(*(pod(name, on, namespace=where) for where in both for name, on in (("web", "a"), ("copy", "b"))))
    moving = [migration(namespace=where, replacement=copy_of()) for where in both]
    assert at(with_inflight_moves(snapshot, moving, REST)) == {"bank/copy": "b", "shop/copy": "b"}


def test_a_namesake_of_a_copy_in_another_namespace_is_left_alone() -> None:
    snapshot = of(pod("web", "a"), pod("copy", "c", namespace="shop"))
    settled = with_inflight_moves(snapshot, [migration(replacement=copy_of())], REST)
    assert at(settled) == {"default/web": "b", "shop/copy": "c"}


def test_a_pod_that_was_made_again_under_its_name_is_where_it_is() -> None:
    moving = migration(pod_uid="the one before", replacement=copy_of("web"))
    assert at(with_inflight_moves(of(pod("web", "c")), [moving], REST)) == {"default/web": "c"}


def test_a_pod_whose_target_is_gone_still_counts_where_it_is() -> None:
    assert at(with_inflight_moves(of(pod("web", "a")), [migration(target="gone")], REST)) == {"default/web": "a"}


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_orders_for_one_pod_the_one_that_has_begun_counts(order: int) -> None:
    begun = migration(replacement=copy_of())
    waiting = migration(name="second", phase=Phase.PENDING, target="c")
    settled = with_inflight_moves(of(pod("web", "a"), pod("copy", "b")), [begun, waiting][::order], REST)
    assert at(settled) == {"default/copy": "b"}
    assert settled.spoken_for[("default", "web")] == "migration m is InProgress"


def test_a_pod_whose_move_failed_rests_for_a_while_where_it_is() -> None:
    snapshot = of(pod("web", "a"))
    failed = migration(phase=Phase.FAILED, message="no room", completion_time=NOW - REST + 1)
    settled = with_inflight_moves(snapshot, [failed], REST)
    assert (at(settled), settled.spoken_for) == (
        {"default/web": "a"},
        {("default", "web"): "migration m failed: no room"},
    )
    long_ago = replace(failed, status=replace(failed.status, completion_time=NOW - REST))
    assert with_inflight_moves(snapshot, [long_ago], REST) is snapshot
    done = with_inflight_moves(snapshot, [migration(phase=Phase.COMPLETED, completion_time=NOW)], REST)
    assert (done.spoken_for, at(done)) == ({}, at(snapshot)), "it is only remembered"


def test_a_workload_that_lost_a_pod_to_a_failed_move_rests() -> None:
    """The pod of the failed move is gone; without the rest, the next plan would evict its sibling."""
    web = ObjectReference("Deployment", "web")
    snapshot = cluster(*(node(name) for name in NODES), deployment("web", on=["a", "a"], cpu="1900m"))
    failed = migration("gone", phase=Phase.FAILED, workload=web, controller=web, completion_time=NOW - 60)
    assert planned(with_inflight_moves(snapshot, [failed], REST), OPTIMIZATION).moves
    evicted = replace(failed, status=replace(failed.status, eviction_time=NOW - 90))
    plan = planned(with_inflight_moves(snapshot, [evicted], REST), OPTIMIZATION)
    assert {each.guard for each in plan.rejections} == {"CoolDown"}
    assert plan.moves == ()


def test_a_pod_whose_move_only_waited_for_its_hour_does_not_rest() -> None:
    snapshot = of(pod("web", "a"))
    given_up = migration(phase=Phase.FAILED, message=f"no time window is open; {REPLANNED}", completion_time=NOW)
    assert with_inflight_moves(snapshot, [given_up], REST) is snapshot
    tried = replace(given_up, status=replace(given_up.status, attempts=1))
    assert with_inflight_moves(snapshot, [tried], REST).spoken_for


def test_a_new_order_after_a_failure_is_what_is_told() -> None:
    failed = migration(phase=Phase.FAILED, message="no room", completion_time=NOW)
    again = migration(name="again", phase=Phase.PENDING)
    for both in ([failed, again], [again, failed]):
        assert (
            with_inflight_moves(of(pod("web", "a")), both, REST)
            .spoken_for[("default", "web")]
            .startswith("migration again")
        )


def test_the_same_load_is_not_moved_twice() -> None:
    """Node a is hot by one pod; while that moves there is nothing left to do."""
    snapshot = of(*(pod(f"web-{number}", "a", cpu=1) for number in range(4)))
    first = planned(snapshot, OPTIMIZATION)
    (move,) = first.moves
    moving = pod_migration(move.namespace, "m", migration_spec(move.pod, move.uid, move.target))
    second = planned(with_inflight_moves(snapshot, [moving], REST), OPTIMIZATION)
    assert second.moves == ()
    assert second.before == first.after


def test_a_pod_that_is_spoken_for_is_not_planned_and_the_plan_says_why() -> None:
    snapshot = of(pod("web", "a", cpu="3900m"))
    failed = migration(phase=Phase.FAILED, message="it did not start", completion_time=NOW)
    plan = planned(with_inflight_moves(snapshot, [failed], REST), OPTIMIZATION)
    assert plan.moves == ()
    assert rejection_of(plan, "web").reason == "migration m failed: it did not start"


@st.composite
def moves_under_way(draw: st.DrawFn) -> tuple[ClusterSnapshot, list[PodMigration]]:
    """Pods of few names in two namespaces, some of them being moved, each with a copy in any state."""
    pods: list[Pod] = []
    migrations: list[PodMigration] = []
    for namespace in ("bank", "shop"):
        for name in ("x", "y"):
            if draw(st.booleans()):
                pods.append(pod(name, draw(st.sampled_from(NODES)), namespace=namespace))
            copied = draw(st.sampled_from(["", "waiting", "reserved", "there", "failed", "leaving"]))
            if copied:
                pods.append(_copy(f"copy-{name}", namespace, copied))
            for number in range(draw(st.integers(0, 2))):
                progress = MigrationStatus(
                    phase=draw(st.sampled_from([Phase.PENDING, Phase.IN_PROGRESS] if number else list(Phase))),
                    target=draw(st.sampled_from(["", *NODES, "gone"])),
                    pod_uid=draw(st.sampled_from(["", uid_of("Pod", namespace, name), "another"])),
                    replacement=draw(st.sampled_from([None, copy_of(f"copy-{name}")])),
                )
                made = pod_migration(namespace, f"m-{name}-{number}", migration_spec(name), progress, "uid", "1")
                migrations.append(made)
    return of(*pods), migrations


def _copy(name: str, namespace: str, state: str) -> Pod:
    on = "b" if state in ("there", "failed", "leaving") else ""
    made = pod(name, on, namespace=namespace, nominated="b" if state == "reserved" else "")
    phase = "Failed" if state == "failed" else made.phase
    return msgspec.structs.replace(made, phase=phase, deleting=state == "leaving")


def _begun(migrations: list[PodMigration], key: tuple[str, str]) -> list[PodMigration]:
    return [m for m in migrations if (m.namespace, m.spec.pod.name) == key and not m.status.over]


@given(moves_under_way())
def test_no_pods_weight_is_lost_or_doubled(world: tuple[ClusterSnapshot, list[PodMigration]]) -> None:
    """Each original counts on a node, or a copy of it that stays does; never both, never neither."""
    snapshot, migrations = world
    settled = with_inflight_moves(snapshot, migrations, REST)
    before, after = at(snapshot), at(settled)
    staying = {p.full_name for p in snapshot.pods if before[p.full_name] and not p.finished and not p.deleting}
    assert set(after) <= set(before)
    assert len(after) == len(settled.pods)
    for each in snapshot.pods:
        key = (each.namespace, each.name)
        begun = _begun(migrations, key)
        if not begun:
            assert after[each.full_name] == before[each.full_name]
            continue
        chosen = next((m for m in begun if m.status.phase is Phase.IN_PROGRESS), begun[-1]).status
        stays = f"{each.namespace}/copy-{each.name}" in staying and chosen.replacement is not None
        moves = chosen.pod_uid in ("", each.uid)
        assert (each.full_name in after) != (stays and moves), "both count, or neither does"
        if each.full_name in after:
            assert after[each.full_name] == (chosen.target if moves and chosen.target in NODES else each.node)
