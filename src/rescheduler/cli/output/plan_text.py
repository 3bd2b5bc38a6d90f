"""A plan for people: moves, then what was refused grouped by reason, then before and after, then one line of it all.

The `plan` command hands it the plan, what of it is to be shown, and the terminal; it gives lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rescheduler.cli.output.picture import BeforeAfter
from rescheduler.cli.output.table import Table
from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.model.plan import Method, Move, Plan, Rejection

_EXAMPLES = 3
_REASONS = 20


@dataclass(frozen=True, slots=True)
class Layout:
    """How the user wants it."""

    wide: bool = False
    headers: bool = True


def plan_lines(shown: Plan, whole: Plan, layout: Layout, terminal: Terminal) -> Iterator[str]:
    """The moves and rejections of `shown`, which may be part of the whole plan, and the whole plan's effect."""
    if shown.moves:
        yield from _moves(shown.moves, layout).lines(terminal, headers=layout.headers)
        yield ""
    if shown.rejections:
        yield from _rejections(shown.rejections, layout, terminal)
        yield ""
    yield from BeforeAfter(whole.before, whole.after, whole.utilization).lines(terminal, headers=layout.headers)
    yield ""
    yield terminal.styled(summary(whole, terminal), "bold")


def summary(plan: Plan, terminal: Terminal) -> str:
    """`4 moves (3 handoff, 1 copy), 2 rejected; hot nodes 1 → 0`."""
    count = len(plan.moves)
    methods = Counter(move.method for move in plan.moves)
    by = ", ".join(f"{methods[method]} {method}" for method in Method if methods[method])
    moved = f"{count} {'move' if count == 1 else 'moves'}" + (f" ({by})" if by else "")
    hot = f"hot nodes {plan.before.hot_nodes} {terminal.arrow} {plan.after.hot_nodes}"
    return f"{moved}, {len(plan.rejections)} rejected; {hot}"


def _moves(moves: Sequence[Move], layout: Layout) -> Table:
    columns: dict[str, Callable[[Move], str]] = {
        "NAMESPACE": lambda move: move.namespace,
        "POD": lambda move: move.pod,
        "FROM": lambda move: move.source,
        "TO": lambda move: move.target,
        "STRATEGY": lambda move: move.strategy,
        "METHOD": lambda move: move.method,
    }
    if layout.wide:
        columns["WORKLOAD"] = lambda move: move.workload
        columns["PRIORITY"] = lambda move: str(move.priority)
        columns["PROPOSAL"] = lambda move: str(move.proposal)
        columns["GAIN"] = lambda move: "" if move.gain is None else f"{move.gain:.1f}"
    columns["REASON"] = lambda move: move.reason
    rows = [[cell(move) for cell in columns.values()] for move in moves]
    numbers = frozenset(at for at, name in enumerate(columns) if name in ("PRIORITY", "PROPOSAL", "GAIN"))
    return Table(list(columns), rows, flowing=1, right=numbers)


def _rejections(rejections: Sequence[Rejection], layout: Layout, terminal: Terminal) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for rejection in rejections:
        groups.setdefault((rejection.guard, rejection.reason), []).append(f"{rejection.namespace}/{rejection.pod}")
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    listed = ordered if layout.wide else ordered[:_REASONS]
    rows = [
        [guard, str(len(pods)), reason, listing(sorted(pods), None if layout.wide else _EXAMPLES)]
        for (guard, reason), pods in listed
    ]
    table = Table(("REJECTED BY", "COUNT", "REASON", "PODS"), rows, flowing=2, right=frozenset({1}))
    yield from table.lines(terminal, headers=layout.headers)
    left = ordered[len(listed) :]
    if left:
        pods = sum(len(pods) for _, pods in left)
        yield f"and {len(left)} more reasons, for {pods} pods (-o wide shows all)"


def listing(names: Sequence[str], most: int | None) -> str:
    """`a, b, c and 7 more`."""
    if most is None or len(names) <= most:
        return ", ".join(map(plain, names))
    return f"{', '.join(map(plain, names[:most]))} and {len(names) - most} more"
