"""What the loops' tests are about: migrations of pods in namespace `shop`, and a loop whose time jumps."""

from __future__ import annotations

from typing import Any

from rescheduler.model.migration import MigrationSpec, MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.pod_migrations import migration_spec, pod_migration

NOW = 1_800_000_000.0
WEB = ObjectReference("Deployment", "web", "web-uid")
WEB_SET = ObjectReference("ReplicaSet", "web-1", "web-1-uid")


def pending(
    name: str, pod: str = "", *, order: MigrationSpec | None = None, version: str = "1", **progress: Any
) -> PodMigration:
    """Ordered, and not begun."""
    known = MigrationStatus(**progress)
    return pod_migration(
        "shop", name, order or migration_spec(pod or f"pod-{name}"), known, f"{name}-uid", version, NOW
    )


def under_way(name: str, pod: str = "", **more: Any) -> PodMigration:
    """Begun: from node one to node two, unless it is said otherwise."""
    known: dict[str, Any] = {"phase": Phase.IN_PROGRESS, "method": Method.HANDOFF, "source": "one", "target": "two"}
    return pending(name, pod, **(known | more))


def over(name: str, pod: str = "", *, failed: bool = False, **more: Any) -> PodMigration:
    """Ended at NOW."""
    known: dict[str, Any] = {"phase": Phase.FAILED if failed else Phase.COMPLETED, "completion_time": NOW}
    return pending(name, pod, **(known | more))
