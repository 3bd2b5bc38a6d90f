"""Migrations and the plan, as the API returns them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs

from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.model.json import Json
from rescheduler.model.migration import PodMigration
from rescheduler.model.plan import Method, Plan, plan_document
from rescheduler.web.node_stats import workload_of
from rescheduler.web.plans import TimedPlan
from rescheduler.web.state import PageState

MOST = 500
_lifecycle = Lifecycle()
_STEPS = {method: _lifecycle.steps(method) for method in Method}


def migrations(state: PageState) -> Json:
    """What `/api/migrations` returns: all unfinished migrations, and the newest of the others."""
    active = sorted(state.migrations.active(), key=_age)
    over = [each for each in state.migrations.all() if each.status.over]
    found = [*active, *heapq.nsmallest(max(0, MOST - len(active)), over, key=_age)]
    shown = sorted(found, key=_age)
    more = len(active) + len(over) - len(shown)
    return {"migrations": [row(state, each) for each in shown], "more": more}


def row(state: PageState, migration: PodMigration) -> Json:
    """The row of a migration."""
    order, progress = migration.spec, migration.status
    method = progress.method or order.fixed_method
    pod = state.loads.pod((migration.namespace, order.pod.name))
    owner = progress.workload or progress.controller
    workload = str(owner) if owner is not None else workload_of(state.cache, pod) if pod is not None else ""
    passed = state.moves.history((migration.namespace, migration.name))
    return {
        "namespace": migration.namespace,
        "name": migration.name,
        "pod": order.pod.name,
        "source": progress.source or (pod.node if pod is not None and not progress.over else ""),
        "target": progress.target or order.target,
        "strategy": order.strategy,
        "reason": order.reason,
        "method": method.value if method is not None else None,
        "phase": progress.phase.value,
        "step": progress.step,
        "steps": _STEPS[method] if method is not None else [],
        "history": [{"step": each.step, "time": each.time} for each in passed],
        "message": progress.message,
        "attempts": progress.attempts,
        "created": migration.metadata.creation_timestamp,
        "started": progress.start_time,
        "finished": progress.completion_time,
        "awaitsApproval": migration.awaits_approval,
        "approvedBy": migration.approved_by,
        "plan": order.plan,
        "workload": workload,
        "replacement": progress.replacement.name if progress.replacement is not None else "",
        "outcome": _outcome(migration),
    }


def _outcome(migration: PodMigration) -> Json | None:
    outcome = migration.status.outcome
    if outcome is None:
        return None
    predicted = migration.spec.expected_gain
    return {"predicted": predicted, "realised": outcome.gain, "verdict": outcome.verdict.value}


def _age(migration: PodMigration) -> tuple[float, str, str]:
    """Sort the newest first, then by name."""
    return -(migration.metadata.creation_timestamp or 0.0), migration.namespace, migration.name


MOST_REJECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """An encoded plan."""

    document: msgspec.Raw
    """In the plan format (docs/plan-format.md), with the first rejections only."""
    rejected: Json


NONE = PlanDocument(msgspec.Raw(b"null"), {"total": 0, "byGuard": {}})
"""Stands for a plan before there is one."""


def document_plan(made: Plan) -> PlanDocument:
    """Encode a plan; it may be large, so this runs in a thread."""
    shown = structs.replace(made, rejections=made.rejections[:MOST_REJECTIONS])
    guards = Counter(rejection.guard for rejection in made.rejections)
    document = msgspec.Raw(msgspec.json.encode(plan_document(shown)))
    return PlanDocument(document, {"total": len(made.rejections), "byGuard": dict(guards.most_common())})


def plan(state: PageState, planned: TimedPlan | None, shown: PlanDocument, awaiting: Sequence[PodMigration]) -> Json:
    """What `/api/plan` returns."""
    return {
        "made": planned.made if planned is not None else None,
        "seconds": round(planned.seconds, 3) if planned is not None else 0.0,
        "by": state.replica.identity,
        "plan": shown.document,
        "awaiting": [{"namespace": each.namespace, "name": each.name} for each in awaiting],
        "rejected": shown.rejected,
    }
