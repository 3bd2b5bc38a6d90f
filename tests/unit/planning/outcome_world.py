"""Completed moves of Deployment `web` in namespace `shop`, for tests of what is remembered of them."""

from __future__ import annotations

from typing import Any

from rescheduler.model.migration import (
    MigrationStatus,
    MoveOutcome,
    ObjectReference,
    OutcomeVerdict,
    Phase,
    PodMigration,
)
from rescheduler.model.plan import Method
from rescheduler.model.policy import OutcomeSettings, Policy
from tests.support.builders import NOW
from tests.support.pod_migrations import migration_spec, pod_migration, replace

WEB = ObjectReference("Deployment", "web")
WEB_KEY = ("Deployment", "shop", "web")
PAID, NOT_PAID, CAME_BACK, UNKNOWN = OutcomeVerdict
POLICY = Policy(cool_down=600.0, outcomes=OutcomeSettings(longest_rest=86400.0))


def move(
    name: str,
    way: str = "a>b",
    *,
    ended: float = NOW,
    verdict: OutcomeVerdict | None = None,
    strategy: str = "LoadBalancing",
    predicted: float | None = 12.0,
    realised: float | None = 0.3,
    workload: ObjectReference | None = WEB,
    pod: str = "",
    replacement: str = "",
) -> PodMigration:
    """A completed move of a pod, assessed if there is a verdict; it took a second."""
    source, _, target = way.partition(">")
    progress = MigrationStatus(
        Phase.COMPLETED,
        method=Method.HANDOFF,
        source=source,
        target=target,
        workload=workload,
        replacement=ObjectReference("Pod", replacement or f"new-{name}"),
        start_time=ended - 1.0,
        completion_time=ended,
        outcome=MoveOutcome(verdict, realised, ended + 120.0) if verdict is not None else None,
    )
    order = migration_spec(pod or f"old-{name}", target=target, strategy=strategy, expected_gain=predicted)
    return pod_migration("shop", name, order, progress, f"{name}-uid", "1", ended - 2.0)


def judged(migration: PodMigration, verdict: OutcomeVerdict) -> PodMigration:
    """The same, with this verdict."""
    outcome = MoveOutcome(verdict, 0.0, NOW)
    return replace(migration, status=replace(migration.status, outcome=outcome))


def failed(name: str, way: str = "a>b", *, evicted: bool = True, **more: Any) -> PodMigration:
    """A move that failed, before or after the eviction of its pod."""
    moved = move(name, way, **more)
    when = moved.status.start_time if evicted else None
    return replace(moved, status=replace(moved.status, phase=Phase.FAILED, eviction_time=when))
