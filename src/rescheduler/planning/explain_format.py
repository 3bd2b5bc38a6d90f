"""An explanation as a document for programs: what `explain -o json|yaml` writes, and what the page shows of a pod.

docs/plan-format.md is its contract. Moves and rejections stand in it as they do in the plan.
"""

from __future__ import annotations

from rescheduler.model.instant import format_instant
from rescheduler.model.outcome import Memory, Rest
from rescheduler.model.plan import Plan
from rescheduler.model.plan_format import API_VERSION, plan_document
from rescheduler.planning.explain import Explanation


def explanation_document(explained: Explanation, plan: Plan) -> dict[str, object]:
    """Everything, as plain values."""
    written = plan_document(plan)
    key = (explained.namespace, explained.pod)
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "namespace": explained.namespace,
        "pod": explained.pod,
        "node": explained.node,
        "workload": explained.workload,
        "priority": explained.priority,
        "requests": {name: amount_text(name, number) for name, number in explained.requests},
        "outcome": explained.outcome.value,
        "why": explained.why,
        "move": next((m for m in written["moves"] if (m["namespace"], m["pod"]) == key), None),
        "rejection": next((r for r in written["rejections"] if (r["namespace"], r["pod"]) == key), None),
        "objections": [{"guard": guard, "reason": reason} for guard, reason in explained.objections],
        "method": explained.method.value,
        "notHandoff": explained.not_handoff,
        "strategies": list(explained.strategies),
        "refusals": [
            {"predicate": refusal.predicate, "reason": refusal.reason, "nodes": list(refusal.nodes)}
            for refusal in explained.refusals
        ],
        "nodes": [
            {
                "node": outlook.node,
                "feasible": not outlook.predicate,
                "predicate": outlook.predicate,
                "reason": outlook.reason,
                "cpu": outlook.cpu,
                "memory": outlook.memory,
            }
            for outlook in explained.outlooks
        ],
        "pastMoves": _past_moves(explained.memory),
        "rest": _rest(explained.rest),
        "warnings": written["warnings"],
        "pool": explained.pool,
        "utilization": explained.utilization.value,
        "usage": None
        if explained.usage is None
        else {name: amount_text(name, number) for name, number in explained.usage},
        "evictionCost": None
        if explained.eviction_cost is None
        else {"cost": explained.eviction_cost.number, "annotation": explained.eviction_cost.mark},
    }


def _past_moves(memory: Memory | None) -> list[dict[str, object]]:
    return [
        {
            "migration": move.migration,
            "pod": move.pod,
            "from": move.source,
            "to": move.target,
            "strategy": move.strategy,
            "finished": format_instant(move.finished),
            "predicted": move.predicted,
            "realised": move.realised,
            "verdict": move.verdict.value if move.verdict is not None else "",
            "counts": move.counts,
        }
        for move in (memory.moves if memory is not None else ())
    ]


def _rest(rest: Rest | None) -> dict[str, object] | None:
    if rest is None:
        return None
    return {"bad": rest.bad, "until": format_instant(rest.until), "why": rest.why}


def amount_text(resource: str, number: int) -> str:
    """A quantity as people write it."""
    if resource == "cpu":
        return f"{number}m" if number % 1000 else str(number // 1000)
    if resource == "memory" or resource.startswith(("hugepages-", "ephemeral-storage")):
        for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if number and number % size == 0:
                return f"{number // size}{unit}"
    return str(number)
