"""Moments of the demo for the tests of its views: so many nodes, this full."""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import ClusterLoad, LoadDistribution, Method, NodeLoad
from rescheduler.model.policy import Thresholds
from rescheduler_demo.runner import Status
from tests.support.pod_migrations import migration_spec, pod_migration


def make_picture(cpu: Sequence[float], memory: float = 20.0) -> ClusterLoad:
    loads = tuple(NodeLoad(f"node-{number}", load, memory, 3) for number, load in enumerate(cpu))
    spreading = LoadDistribution(max(cpu, default=0.0), min(cpu, default=0.0), 30.0, 5.0)
    return ClusterLoad(spreading, LoadDistribution(memory, memory, memory, 0.0), sum(load > 80 for load in cpu), loads)


def make_migration(pod: str, phase: Phase = Phase.IN_PROGRESS, step: str = "AwaitReady") -> PodMigration:
    progress = MigrationStatus(phase, step, Method.HANDOFF, source="node-0", target="node-1")
    return pod_migration("shop", f"move-{pod}", migration_spec(pod, target="node-1"), progress)


def make_status(before: Sequence[float] | None, now: Sequence[float], **changed: object) -> Status:
    usual: dict[str, object] = {
        "scenario": "balance",
        "goal": "no node is hot",
        "page": "http://127.0.0.1:1/",
        "kubeconfig": "/tmp/somewhere/kubeconfig",
        "elapsed": 65.0,
        "now": make_picture(now),
        "before": None if before is None else make_picture(before),
        "thresholds": Thresholds(),
        "node_states": {},
        "pods": 40,
        "pending": 0,
        "active": (),
        "recent": (),
        "completed": 0,
        "failed": 0,
        "next_plan": 4.4,
        "paused": "",
        "next_step": "a kubelet dies",
        "next_step_in": 8.0,
        "budgets_checked": 3,
        "budgets_broken": 0,
        "reached": False,
    }
    return Status(**(usual | changed))  # type: ignore[arg-type] # a test names what it changes
