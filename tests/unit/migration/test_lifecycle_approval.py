"""What a migration waits for that needs approval, and when it is hopeless: for every state of it and of its members."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.migration.lifecycle import AWAITING_APPROVAL, abandon_reason, missing_approval
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from tests.support.pod_migrations import migration_spec, pod_migration, replace

NOW = 1_800_000_000.0
HOUR = 3600.0
ORDER = migration_spec("web-a", target="two", approval_required=True, plan="k4m9tz")


def waiting(name: str = "m", members: int = 1, **more: object) -> PodMigration:
    order = replace(ORDER, members=members, proposal="swap" if members > 1 else "")
    found = pod_migration("shop", name, order, MigrationStatus(), f"{name}-uid", "1", NOW)
    return replace(found, **more)


def failed(migration: PodMigration) -> PodMigration:
    return replace(migration, status=MigrationStatus(Phase.FAILED, message="rejected by jane"))


def test_it_says_how_to_approve() -> None:
    assert missing_approval(waiting(), ()) == "waits for approval: rescheduler approve k4m9tz"
    by_hand = replace(waiting(), spec=replace(ORDER, plan=""))
    assert missing_approval(by_hand, ()) == "waits for approval: rescheduler approve shop/m"


def test_one_that_is_approved_waits_for_those_that_belong_to_it() -> None:
    mine, other = waiting(members=2, approved_by="me"), waiting("n", members=2)
    assert missing_approval(mine, (other,)) == (
        "waits for approval of shop/n, which belongs to it: rescheduler approve k4m9tz"
    )
    assert missing_approval(mine, (replace(other, approved_by="me"),)) == ""


@pytest.mark.parametrize(
    ("migration", "members", "later", "reason"),
    [
        (waiting(), (), HOUR, ""),
        (waiting(), (), HOUR + 1, "not approved within 1h0m0s (approvalTimeout)"),
        (waiting(approved_by="me"), (), 9 * HOUR, ""),
        (waiting(rejected_by="jane"), (), 0.0, "rejected by jane"),
        (waiting(rejected_by="jane", approved_by="me"), (), 0.0, "rejected by jane"),
        (waiting(members=2), (), 60.0, ""),
        (waiting(members=2), (), 200.0, "a move that belongs to it was never stored, or has been deleted"),
        (
            waiting(members=2, approved_by="me"),
            (failed(waiting("n", 2)),),
            0.0,
            "shop/n, which belongs to it, was given up: rejected by jane",
        ),
    ],
)
def test_it_is_given_up_for_a_reason(
    migration: PodMigration, members: tuple[PodMigration, ...], later: float, reason: str
) -> None:
    assert abandon_reason(migration, members, NOW + later, HOUR) == reason


_migrations = st.builds(
    lambda approved, rejected, needed, phase, members: pod_migration(
        "shop",
        "m",
        migration_spec("web", approval_required=needed, proposal="p", members=members),
        MigrationStatus(phase),
        created=NOW,
        approved_by=approved,
        rejected_by=rejected,
    ),
    st.sampled_from(["", "me"]),
    st.sampled_from(["", "me"]),
    st.booleans(),
    st.sampled_from(Phase),
    st.integers(1, 3),
)


@given(_migrations, st.lists(_migrations, max_size=2).map(tuple))
def test_it_may_begin_exactly_when_it_and_all_that_belong_to_it_are_approved(
    migration: PodMigration, members: tuple[PodMigration, ...]
) -> None:
    free = not migration.spec.approval_required or migration.status.phase is not Phase.PENDING
    expected = free or not (migration.awaits_approval or any(each.awaits_approval for each in members))
    assert (missing_approval(migration, members) == "") is expected
    assert missing_approval(migration, members).startswith(AWAITING_APPROVAL) is not expected
    if free:
        assert abandon_reason(migration, members, NOW + 9 * HOUR, HOUR) == ""
