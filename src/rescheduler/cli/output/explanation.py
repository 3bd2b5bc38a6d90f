"""What the last moves of a pod's workload came to, as a table for people: a part of what `explain` shows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rescheduler.cli.output.plan import listing
from rescheduler.cli.output.table import Table
from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.model.move_history import PastMove
from rescheduler.model.plan import Method, NodeLoad, Plan
from rescheduler.model.policy import Utilization
from rescheduler.model.time import format_instant
from rescheduler.planning.explain import Explanation, PodOutcome

_SHOWN = 5
_HEADERS = ("LAST MOVES", "FROM", "TO", "STRATEGY", "ENDED", "PREDICTED", "CAME TRUE", "OUTCOME")


def past_moves(moves: Sequence[PastMove], terminal: Terminal, *, wide: bool) -> Iterator[str]:
    """The newest moves of the workload, with the gain of each in percentage points."""
    shown = moves if wide else moves[:_SHOWN]
    rows = [
        [
            move.pod,
            move.source,
            move.target,
            move.strategy,
            format_instant(move.finished),
            _points(move.predicted),
            _points(move.realised),
            _verdict(move),
        ]
        for move in shown
    ]
    yield from Table(_HEADERS, rows, right=frozenset({5, 6})).lines(terminal)
    if len(shown) < len(moves):
        yield f"and {len(moves) - len(shown)} more (-o wide shows all)"


def _points(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.1f}"


def _verdict(move: PastMove) -> str:
    if not move.verdict:
        return "not assessed yet"
    return move.verdict.value if move.counts else f"{move.verdict.value} (does not count)"


_NAMED = 5
_TARGETS = 10
_LABEL = 12
_PIPE_LINE = 1 << 16


def explanation_lines(explained: Explanation, plan: Plan, terminal: Terminal, *, wide: bool) -> Iterator[str]:
    """The explanation for people; `wide` names every node."""
    for name, text in _facts(explained, plan):
        yield from _labelled(name, text, terminal)
    if explained.objections:
        yield ""
        yield from Table(("OBJECTION BY", "REASON"), explained.objections, flowing=1).lines(terminal)
    if explained.past_moves:
        yield ""
        yield from past_moves(explained.past_moves, terminal, wide=wide)
    if explained.method is Method.REMOVE:
        return  # no node has a say in it
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


def _facts(explained: Explanation, plan: Plan) -> Iterator[tuple[str, str]]:
    yield "Pod", f"{explained.namespace}/{explained.pod}"
    load = next((load for load in plan.before.loads if load.node == explained.node), None)
    at = f" (at {_uses(load, plan)})" if load is not None else ""
    yield "Node", f"{explained.node or 'none'}{at}"
    if explained.pool:
        yield "Pool", explained.pool
    yield "Workload", explained.workload
    cost = explained.eviction_cost
    told = f", eviction cost {cost.number} ({cost.mark})" if cost is not None else ""
    yield "Priority", f"{explained.priority}{told}"
    yield "Asks", _amounts(explained.requests) or "nothing"
    if explained.utilization is not Utilization.REQUESTS:
        used = explained.usage
        yield "Uses", _amounts(used) or "nothing" if used is not None else "not measured, so what it asks counts"
    yield "Outcome", _outcome(explained)
    yield "Why", explained.why
    why_not = f" (not {Method.HANDOFF}: {explained.not_handoff})" if explained.not_handoff else ""
    yield "Method", f"{explained.method}{why_not}"
    if explained.rest is not None:
        yield "Rests", explained.rest.why


def _uses(load: NodeLoad, plan: Plan) -> str:
    """`80.0% CPU, 20.0% memory and 75.0% example.com/gpu`."""
    others = list(zip(plan.before.others, load.others, strict=True))
    shares = [("CPU", load.cpu), ("memory", load.memory), *others]
    said = [f"{share:.1f}% {name}" for name, share in shares if share is not None]
    return f"{', '.join(said[:-1])} and {said[-1]}"


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _outcome(explained: Explanation) -> str:
    move, rejection = explained.move, explained.rejection
    if move is not None and move.method is Method.REMOVE:
        return f"removed, as {move.strategy} wants"
    if move is not None:
        return f"moved to {move.target}, as {move.strategy} wants"
    if rejection is not None:
        return f"not moved: {rejection.guard} refuses what {rejection.strategy} wants"
    assert explained.outcome is PodOutcome.NOT_PROPOSED  # noqa: S101 - there is no fifth
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
    total = len(explained.nodes)
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
