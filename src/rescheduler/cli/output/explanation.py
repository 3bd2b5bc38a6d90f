"""What there is to say about one pod, in the manner of `kubectl describe`, and as a document for programs.

The `explain` command hands it the Explanation and the plan that it is about.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rescheduler.cli.output.plan_text import listing
from rescheduler.cli.output.table import Table
from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.model.plan import Method, Plan
from rescheduler.model.plan_format import API_VERSION, plan_document
from rescheduler.planning.explain import Explanation, Outcome

_NAMED = 5
_TARGETS = 10
_LABEL = 12
_PIPE_LINE = 1 << 16


def explanation_lines(explained: Explanation, plan: Plan, terminal: Terminal, *, wide: bool) -> Iterator[str]:
    """The explanation for people; `wide` names every node."""
    for name, text in _facts(explained):
        yield from _labelled(name, text, terminal)
    if explained.objections:
        yield ""
        yield from Table(("OBJECTION BY", "REASON"), explained.objections, flowing=1).lines(terminal)
    yield ""
    yield from _targets(explained, terminal, wide=wide)
    if explained.refusals:
        yield ""
        rows = [
            [
                refusal.predicate,
                str(len(refusal.nodes)),
                refusal.reason,
                listing(refusal.nodes, None if wide else _NAMED),
            ]
            for refusal in explained.refusals
        ]
        headers = ("REFUSED BY", "COUNT", "REASON", "NODES")
        yield from Table(headers, rows, flowing=2, right=frozenset({1})).lines(terminal)
    others = len(plan.moves) - (explained.move is not None)
    yield ""
    moves = f"{others} other {'move' if others == 1 else 'moves'}"
    yield f"Nodes are judged with the plan's {moves} made." if others else "Nodes are judged as they are."


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
        "requests": {name: _amount(name, number) for name, number in explained.requests},
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
        "warnings": written["warnings"],
    }


def _facts(explained: Explanation) -> Iterator[tuple[str, str]]:
    yield "Pod", f"{explained.namespace}/{explained.pod}"
    load = explained.load
    at = f" (at {load.cpu:.1f}% CPU and {load.memory:.1f}% memory)" if load is not None else ""
    yield "Node", f"{explained.node or 'none'}{at}"
    yield "Workload", explained.workload
    yield "Priority", str(explained.priority)
    yield "Asks", ", ".join(f"{name} {_amount(name, number)}" for name, number in explained.requests) or "nothing"
    yield "Outcome", _outcome(explained)
    yield "Why", explained.why
    why_not = f" (not {Method.HANDOFF}: {explained.not_handoff})" if explained.not_handoff else ""
    yield "Method", f"{explained.method}{why_not}"


def _outcome(explained: Explanation) -> str:
    move, rejection = explained.move, explained.rejection
    if move is not None:
        return f"moved to {move.target}, as {move.strategy} wants"
    if rejection is not None:
        return f"not moved: {rejection.guard} refuses what {rejection.strategy} wants"
    assert explained.outcome is Outcome.NOT_PROPOSED  # noqa: S101 - there is no fourth
    return "not moved: nothing asks for it"


def _labelled(name: str, text: str, terminal: Terminal) -> Iterator[str]:
    """`Name:       text`, wrapped where there is a width."""
    width = (terminal.width or _PIPE_LINE) - _LABEL
    lines = textwrap.wrap(plain(text), max(width, 30), break_long_words=False, break_on_hyphens=False) or [""]
    label = terminal.styled(f"{name}:", "bold") + " " * (_LABEL - len(name) - 1)
    for line in lines:
        yield f"{label}{line}".rstrip()
        label = " " * _LABEL


def _targets(explained: Explanation, terminal: Terminal, *, wide: bool) -> Iterator[str]:
    targets = explained.targets
    total = len(explained.outlooks)
    yield f"{len(targets)} of {total} {'node' if total == 1 else 'nodes'} could take it."
    shown = sorted(targets, key=lambda outlook: (max(outlook.cpu, outlook.memory), outlook.node))
    shown = shown if wide else shown[:_TARGETS]
    if not shown:
        return
    rows = [[outlook.node, f"{outlook.cpu:.1f}%", f"{outlook.memory:.1f}%"] for outlook in shown]
    table = Table(("NODE", "CPU THEN", "MEMORY THEN"), rows, right=frozenset({1, 2}))
    yield from table.lines(terminal)
    if len(shown) < len(targets):
        yield f"and {len(targets) - len(shown)} more (-o wide shows all)"


def _amount(resource: str, number: int) -> str:
    """A quantity as people write it."""
    if resource == "cpu":
        return f"{number}m" if number % 1000 else str(number // 1000)
    if resource == "memory" or resource.startswith(("hugepages-", "ephemeral-storage")):
        for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if number and number % size == 0:
                return f"{number // size}{unit}"
    return str(number)
