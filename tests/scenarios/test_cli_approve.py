"""`rescheduler approve`: what waits is shown, found by plan or by name, approved or rejected, and told."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rescheduler.cli import messages
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant
from tests.support.both_clusters import Space, name_of
from tests.support.manifests import lease
from tests.support.migrations import MIGRATIONS, Moves
from tests.support.pod_migrations import migration_spec, replace
from tests.support.shell import Shell

PLAN = "k4m9tz"
RESOURCE = "podmigration.rescheduler.io"
WAITING = migration_spec("", target="node-1", strategy="LoadBalancing", approval_required=True, plan=PLAN)


@pytest.fixture(autouse=True)
def controller(space: Space) -> Iterator[None]:
    """Somebody seems to lead."""
    now = f"{format_instant(time.time()).removesuffix('Z')}.000000Z"
    space.create(lease("kube-rescheduler", holderIdentity="one", leaseDurationSeconds=3600, renewTime=now))
    yield
    space.delete("Lease", "kube-rescheduler")


@pytest.fixture
def moves(space: Space) -> Moves:
    """Two moves of a plan and one of another one wait."""
    moves = Moves(space)
    moves.order("first", replace(WAITING, pod="web-a", reason="it is hot"))
    moves.order("second", replace(WAITING, pod="web-b"))
    moves.order("other", replace(WAITING, pod="db-0", plan="wxbq27"))
    return moves


def notes(space: Space, name: str) -> Json:
    found = space.api.get(f"{MIGRATIONS.format(space.name)}/{name}")["metadata"]
    annotations: Json = found.get("annotations") or {}
    return annotations


def approved(space: Space) -> list[str]:
    found = space.api.get(MIGRATIONS.format(space.name))["items"]
    return [name_of(each) for each in found if labels.APPROVED in (each["metadata"].get("annotations") or {})]


def test_without_a_name_what_waits_is_shown_by_plan(shell: Shell, space: Space, moves: Moves) -> None:
    header, *rows = shell.ok("approve", "-n", space.name).out.splitlines()
    assert header.split() == ["PLAN", "NAMESPACE", "NAME", "POD", "FROM", "TO", "STRATEGY", "AGE", "REASON"]
    assert sorted(row.split()[:4:2] for row in rows) == [[PLAN, "first"], [PLAN, "second"], ["wxbq27", "other"]]
    assert any(row.endswith("it is hot") for row in rows)
    assert shell.ok("approve", "-n", space.name, "--list", "-o", "name").out.count(RESOURCE) == 3
    waiting = shell.ok("approve", "-n", space.name, "-ojson").data["waiting"]
    assert {each["pod"] for each in waiting} == {"web-a", "web-b", "db-0"}
    assert approved(space) == []


def test_a_plan_is_approved_wherever_its_moves_are(shell: Shell, space: Space, moves: Moves) -> None:
    ran = shell.ok("approve", PLAN)
    assert sorted(ran.out.splitlines()) == [f"{RESOURCE}/first approved", f"{RESOURCE}/second approved"]
    assert "note: 2 moves approved by " in ran.said
    assert approved(space) == ["first", "second"]
    again = shell.ok("approve", PLAN)
    assert again.out.count(" unchanged: approved by ") == 2


def test_a_single_move_is_found_by_name_and_namespace(shell: Shell, space: Space, moves: Moves) -> None:
    shell.ok("approve", "first", "-n", space.name)
    shell.ok("approve", f"{space.name}/other")
    assert approved(space) == ["first", "other"]


def test_moves_that_belong_together_are_approved_together(shell: Shell, space: Space, moves: Moves) -> None:
    for name in ("left", "right"):
        moves.order(name, replace(WAITING, pod=f"web-{name}", proposal="swap", members=2))
    ran = shell.ok("approve", "left", "-n", space.name)
    assert f"note: {space.name}/right belongs to it, and is decided on, too" in ran.said
    assert approved(space) == ["left", "right"]


def test_everything_in_a_namespace_is_approved_with_all(shell: Shell, space: Space, moves: Moves) -> None:
    ran = shell.ok("approve", "--all", "-n", space.name)
    assert ran.out.count(" approved\n") == 3
    assert shell.ok("approve", "--all", "-n", space.name).said == (
        f"note: nothing waits for approval in namespace {space.name}\n"
    )


def test_a_dry_run_changes_nothing(shell: Shell, space: Space, moves: Moves) -> None:
    assert shell.ok("approve", PLAN, "--dry-run").out.count(" approved (dry run)\n") == 2
    assert approved(space) == []


def test_rejecting_says_who_and_needs_to_know_what(shell: Shell, space: Space, moves: Moves) -> None:
    ran = shell.ok("approve", PLAN, "--reject")
    assert ran.out.count(" rejected\n") == 2
    assert notes(space, "first")[labels.REJECTED]
    assert approved(space) == []
    said = shell.refused(messages.REFUSED, "approve", "first", "-n", space.name)
    assert "has rejected it" in said
    assert "--reject needs to know what" in shell.refused(messages.USAGE, "approve", "--reject")


def test_what_cannot_be_approved_is_named_with_the_reason(shell: Shell, space: Space, moves: Moves) -> None:
    moves.order("free", migration_spec("web-c"))
    path = f"{MIGRATIONS.format(space.name)}/other/status"
    space.api.patch(path, {"status": {"phase": "Failed", "message": "the pod is gone"}})
    said = shell.refused(messages.REFUSED, "approve", "free", "other", "first", "-n", space.name)
    assert f"error: {space.name}/free: it needs no approval\n" in said
    assert f"error: {space.name}/other: it is Failed already: the pod is gone\n" in said
    assert approved(space) == ["first"]


def test_a_name_that_means_nothing_gets_the_nearest_and_approves_of_nothing(
    shell: Shell, space: Space, moves: Moves
) -> None:
    said = shell.refused(messages.UNREADABLE, "approve", PLAN, "k4m9tx")
    assert f"there is no plan and no migration k4m9tx in namespace default; did you mean {PLAN}?" in said
    assert approved(space) == []


def test_flags_that_contradict_each_other_are_refused(shell: Shell) -> None:
    assert "--all means everything" in shell.refused(messages.USAGE, "approve", "--all", PLAN)
    assert "--list only shows" in shell.refused(messages.USAGE, "approve", "--list", PLAN)


def test_elsewhere_something_may_wait(shell: Shell, moves: Moves) -> None:
    said = shell.ok("approve").said
    assert said.startswith("note: nothing waits for approval in namespace default; ")
    assert "elsewhere (-A)" in said


def test_while_rescheduling_is_paused_that_is_told(shell: Shell, space: Space, moves: Moves) -> None:
    shell.ok("pause", "-n", space.name, "--reason", "why")
    said = shell.ok("approve", "first", "-n", space.name).said
    assert "rescheduling is paused by " in said
    assert "what is approved waits until `rescheduler resume`" in said
