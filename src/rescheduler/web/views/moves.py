"""Migrations as rows: what each moves, how far it is, the steps that it was seen to take, and what it came to."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

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


def migrations(showing: PageState) -> Json:
    """The newest, as `/api/migrations` gives them; those that are not over are among them, however old."""
    active = sorted(showing.board.active(), key=_age)
    over = [each for each in showing.board.all() if each.progress.over]
    found = [*active, *heapq.nsmallest(max(0, MOST - len(active)), over, key=_age)]
    shown = sorted(found, key=_age)
    more = len(active) + len(over) - len(shown)
    return {"migrations": [row(showing, each) for each in shown], "more": more}


def row(showing: PageState, migration: PodMigration) -> Json:
    """One of them."""
    order, progress = migration.order, migration.progress
    method = progress.method or order.method
    pod = showing.loads.pod((migration.namespace, order.pod))
    owner = progress.workload or progress.controller
    workload = str(owner) if owner is not None else workload_of(showing.cache, pod) if pod is not None else ""
    passed = showing.moves.history((migration.namespace, migration.name))
    return {
        "namespace": migration.namespace,
        "name": migration.name,
        "pod": order.pod,
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
        "created": migration.created,
        "started": progress.started,
        "finished": progress.finished,
        "awaitsApproval": migration.awaits_approval,
        "approvedBy": migration.approved_by,
        "plan": order.plan,
        "workload": workload,
        "replacement": progress.replacement.name if progress.replacement is not None else "",
        "outcome": _outcome(migration),
    }


def _outcome(migration: PodMigration) -> Json | None:
    outcome = migration.progress.outcome
    if outcome is None:
        return None
    predicted = migration.order.expected_gain
    return {"predicted": predicted, "realised": outcome.gain, "verdict": outcome.verdict.value}


def _age(migration: PodMigration) -> tuple[float, str, str]:
    """The newest first; of those that are made at once, in the order of their names."""
    return -(migration.created or 0.0), migration.namespace, migration.name


MOST_REJECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A plan as it is shown."""

    document: msgspec.Raw
    """As docs/plan-format.md has it, but for rejections beyond the first."""
    rejected: Json


NONE = PlanDocument(msgspec.Raw(b"null"), {"total": 0, "byGuard": {}})
"""While nobody has made a plan."""


def document_plan(made: Plan) -> PlanDocument:
    """The plan; it may be large, so this is done in a thread."""
    shown = replace(made, rejections=made.rejections[:MOST_REJECTIONS])
    guards = Counter(rejection.guard for rejection in made.rejections)
    document = msgspec.Raw(msgspec.json.encode(plan_document(shown)))
    return PlanDocument(document, {"total": len(made.rejections), "byGuard": dict(guards.most_common())})


def plan(showing: PageState, planned: TimedPlan | None, shown: PlanDocument, awaiting: Sequence[PodMigration]) -> Json:
    """As `/api/plan` gives it."""
    return {
        "made": planned.made if planned is not None else None,
        "seconds": round(planned.seconds, 3) if planned is not None else 0.0,
        "by": showing.replica.identity,
        "plan": shown.document,
        "awaiting": [{"namespace": each.namespace, "name": each.name} for each in awaiting],
        "rejected": shown.rejected,
    }
