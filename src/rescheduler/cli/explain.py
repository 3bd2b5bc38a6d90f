"""`rescheduler explain`: explains why one pod is moved or not, node by node.

The same flags as `plan` give the same plan; `planning.explain` explains it, and the lines are formatted here.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import open_session, report_failures
from rescheduler.cli.lazy import app, planning_explain
from rescheduler.cli.messages import nearest_names
from rescheduler.cli.options import (
    InputOptions,
    PolicyFlags,
    command,
    now_option,
    option,
    output_option,
)
from rescheduler.cli.output import FORMATS, Table, Terminal, format_count, format_document, join_names, plain
from rescheduler.model.plan import Method, NodeLoad, Plan
from rescheduler.model.policy import Utilization
from rescheduler.model.time import format_instant

if TYPE_CHECKING:
    from rescheduler.model.move_history import PastMove
    from rescheduler.model.snapshot import ClusterSnapshot
    from rescheduler.planning.explain import Explanation

_POD_KINDS = ("pod", "pods", "po")
_PAST_MOVES = 5
_PAST_HEADERS = ("LAST MOVES", "FROM", "TO", "STRATEGY", "ENDED", "PREDICTED", "CAME TRUE", "OUTCOME")
_NAMED = 5
_TARGETS = 10
_LABEL = 12
_PIPE_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """The time, where the pod is, and how the explanation is shown."""

    now: float | None = now_option()
    namespace: str | None = option(
        "-n", "--namespace", metavar="NAMESPACE", help="The pod's namespace, if POD does not include it."
    )
    output: str = output_option("wide lists every node; json and yaml have everything.", "wide", *FORMATS)


@command("explain")
@click.argument("pod", metavar="NAMESPACE/POD")
def explain(pod: str, inputs: InputOptions, wanted: PolicyFlags, options: ExplainOptions) -> None:
    """Explain why a pod is moved or not, node by node.

    POD may be NAMESPACE/POD, or POD or pod/POD with -n.

    \b
    Examples:
      rescheduler explain shop/cart-6d5f9c-x2x9z
      rescheduler explain pod/cart-6d5f9c-x2x9z -n shop -f cluster.json -o wide
      rescheduler plan -o name | xargs -r -L1 rescheduler explain
    """
    snapshot, policy = open_session(inputs, wanted, options.now)
    key = _find_pod(pod, options.namespace or None, snapshot)
    with report_failures():
        explained, plan = app.explain_pod(snapshot, policy, key)
    messages.warn(plan.warnings)
    if options.output in FORMATS:
        messages.emit(format_document(planning_explain.explanation_document(explained), options.output).encode())
        return
    messages.emit_lines(explanation_lines(explained, plan, Terminal.of(sys.stdout), wide=options.output == "wide"))


def _find_pod(text: str, namespace: str | None, snapshot: ClusterSnapshot) -> tuple[str, str]:
    """Find the pod: `ns/pod`, `ns/pod/name`, or `pod` and `pod/name` with -n or in namespace default."""
    *before, name = text.split("/")
    known = {(pod.namespace, pod.name) for pod in snapshot.pods}
    if len(before) > 2 or not name or not all(before) or (len(before) == 2 and before[1] not in _POD_KINDS):
        raise click.UsageError(f"{text!r} is not NAMESPACE/POD")
    named = [part for part in before if part not in _POD_KINDS]
    if not named and before and namespace is None and (before[0], name) in known:
        named = before  # a namespace that is called pod
    if named and namespace is not None and named[0] != namespace:
        raise click.UsageError(f"{text} names namespace {named[0]}, and -n names {namespace}: give one of the two")
    inside = (named[0] if named else namespace) or ""
    if inside:
        found = [(inside, name)] if (inside, name) in known else []
    else:
        found = sorted(key for key in known if key[1] == name)
        found = [("default", name)] if ("default", name) in found else found
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(f"{key[0]}/{key[1]}" for key in found[:5])
        raise click.UsageError(f"pods of the name {name} are in several namespaces: {some}; say which")
    raise messages.CommandError(_not_found(inside, name, sorted(known)))


def _not_found(namespace: str, name: str, known: list[tuple[str, str]]) -> str:
    title = f"{namespace}/{name}" if namespace else name
    elsewhere = [f"{key[0]}/{key[1]}" for key in known if key[1] == name]
    inside = [key[1] for key in known if key[0] == namespace]
    if elsewhere:
        near = elsewhere[:3]
    elif inside or not namespace:
        near = [
            f"{namespace}/{found}" if namespace else found
            for found in nearest_names(name, inside or [key[1] for key in known])
        ]
    else:
        spaces = nearest_names(namespace, sorted({key[0] for key in known}))
        hint = f"; did you mean {' or '.join(spaces)}?" if spaces else ""
        return f"there is no pod {title}: the input has no pod in namespace {namespace}{hint}"
    return f"there is no pod {title} in the input" + (f"; did you mean {' or '.join(near)}?" if near else "")


def explanation_lines(explained: Explanation, plan: Plan, terminal: Terminal, *, wide: bool) -> Iterator[str]:
    """The explanation for people; `wide` names every node."""
    for name, text in _facts(explained, plan):
        yield from _labelled(name, text, terminal)
    if explained.objections:
        yield ""
        yield from Table(("OBJECTION BY", "REASON"), explained.objections, flowing=1).lines(terminal)
    if explained.past_moves:
        yield ""
        yield from _past_moves(explained.past_moves, terminal, wide=wide)
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
                join_names(refusal.nodes, None if wide else _NAMED),
            ]
            for refusal in explained.refusals
        ]
        headers = ("REFUSED BY", "COUNT", "REASON", "NODES")
        yield from Table(headers, rows, flowing=2, right=frozenset({1})).lines(terminal)
    others = len(plan.moves) - (explained.move is not None)
    yield ""
    made = f"with the plan's {format_count(others, 'other move')} made" if others else "as they are"
    yield f"Nodes are judged {made}."


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
    assert explained.outcome is planning_explain.PodOutcome.NOT_PROPOSED  # noqa: S101 - there is no fifth
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
    yield f"{len(targets)} of {format_count(total, 'node')} could take it."
    shown = sorted(targets, key=lambda outlook: (max(outlook.cpu, outlook.memory), outlook.node))
    shown = shown if wide else shown[:_TARGETS]
    if not shown:
        return
    rows = [[outlook.node, f"{outlook.cpu:.1f}%", f"{outlook.memory:.1f}%"] for outlook in shown]
    table = Table(("NODE", "CPU THEN", "MEMORY THEN"), rows, right=frozenset({1, 2}))
    yield from table.lines(terminal)
    if len(shown) < len(targets):
        yield f"and {len(targets) - len(shown)} more (-o wide shows all)"


def _past_moves(moves: Sequence[PastMove], terminal: Terminal, *, wide: bool) -> Iterator[str]:
    """The newest moves of the workload, with the gain of each in percentage points."""
    shown = moves if wide else moves[:_PAST_MOVES]
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
    yield from Table(_PAST_HEADERS, rows, right=frozenset({5, 6})).lines(terminal)
    if len(shown) < len(moves):
        yield f"and {len(moves) - len(shown)} more (-o wide shows all)"


def _points(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.1f}"


def _verdict(move: PastMove) -> str:
    if not move.verdict:
        return "not assessed yet"
    return move.verdict if move.counts else f"{move.verdict} (does not count)"
