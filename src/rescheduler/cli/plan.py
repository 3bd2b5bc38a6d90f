"""`rescheduler plan`: shows which pods should move where, and why. Nothing is carried out.

`options` parses the flags, `app` makes the plan, and the lines for a terminal are formatted here: moves, rejections,
and node utilisation before and after, as numbers, as a histogram, and node by node. The output may be limited to a
namespace or to labels; the plan is always that of the whole cluster.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from msgspec import structs

from rescheduler.cli import messages
from rescheduler.cli.common import open_session, report_failures
from rescheduler.cli.lazy import app
from rescheduler.cli.options import (
    InputOptions,
    PolicyFlags,
    command,
    now_option,
    option,
    output_option,
)
from rescheduler.cli.output import (
    FORMATS,
    Table,
    Terminal,
    columns_of,
    format_count,
    format_document,
    join_names,
    plain,
)
from rescheduler.model.plan import ClusterLoad, HeldBack, LoadDistribution, Method, Move, Plan, Rejection, plan_document
from rescheduler.model.policy import Utilization
from rescheduler.model.selector import Selector, SelectorError, parse_selector

if TYPE_CHECKING:
    from rescheduler.model.objects import Pod
    from rescheduler.model.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The time, which part of the plan is shown, and how."""

    now: float | None = now_option()
    namespace: str | None = option("-n", "--namespace", metavar="NAMESPACE", help="Show only this namespace's pods.")
    all_namespaces: bool = option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces (default).")
    selector: str | None = option(
        "-l", "--selector", metavar="SELECTOR", help="Show only pods with these labels (a=b,c in (d,e))."
    )
    output: str = output_option(
        "table; wide has more columns; json and yaml are stable (docs/plan-format.md); "
        "name prints `pod/NAME -n NAMESPACE`, for `xargs -L1 kubectl describe`, or `pod/NAME` with -n.",
        *("wide", *FORMATS, "name"),
    )
    no_headers: bool = option("--no-headers", is_flag=True, help="Omit the headers of tables.")
    exit_code: bool = option(
        "--exit-code", is_flag=True, help="Exit with 3 if there is something to move, shown or not."
    )

    def only(self) -> str | None:
        """Return the namespace to show; None for all. -A wins over -n, as in kubectl."""
        return None if self.all_namespaces else self.namespace

    def labels(self) -> Selector | None:
        """Return the selector for the pods to show."""
        try:
            return parse_selector(self.selector) if self.selector else None
        except SelectorError as error:
            raise click.UsageError(f"-l: {error}") from None


@command("plan")
def plan(inputs: InputOptions, wanted: PolicyFlags, options: PlanOptions) -> None:
    """Show which pods should move where, and why.

    Reads files or the live cluster, and changes nothing. The same input and configuration give the same plan.

    \b
    Examples:
      rescheduler plan                                   the live cluster
      rescheduler plan -f cluster.json -o wide           a dump
      kubectl get nodes,pods -A -o json | rescheduler plan -f -
      rescheduler plan --strategy NodeMaintenance --exit-code
    """
    labels = options.labels()
    snapshot, policy = open_session(inputs, wanted, options.now)
    started = time.monotonic()
    with report_failures():
        whole = app.plan(snapshot, policy)
    took = time.monotonic() - started
    messages.detail(f"planned with {', '.join(policy.enabled_strategies) or 'no strategy'} in {took:.1f} s")
    messages.warn(whole.warnings)
    pods = _select_pods(options, labels, snapshot)
    held_back = app.find_held_back(snapshot, policy, pods)
    shown = structs.replace(_narrow(whole, options, pods), held_back=held_back)
    if options.output in FORMATS:
        messages.emit(format_document(plan_document(shown), options.output).encode())
    elif options.output == "name":
        messages.emit_lines(_names(shown, options))
    else:
        how = {"wide": options.output == "wide", "headers": not options.no_headers}
        messages.emit_lines(plan_lines(shown, whole, Terminal.of(sys.stdout), **how))
    if options.exit_code and whole.moves:
        raise click.exceptions.Exit(messages.TO_MOVE)


def _select_pods(options: PlanOptions, labels: Selector | None, snapshot: ClusterSnapshot) -> list[Pod]:
    """The pods that are to be shown."""
    namespace = options.only()
    return [
        pod
        for pod in snapshot.pods
        if namespace in (None, pod.namespace) and (labels is None or labels.matches(pod.labels))
    ]


def _narrow(whole: Plan, options: PlanOptions, pods: Sequence[Pod]) -> Plan:
    """The part of the plan that is to be shown; that it is a part is said on stderr, and in the document itself."""
    namespace = options.only()
    if namespace is None and not options.selector:
        return whole
    wanted = {(pod.namespace, pod.name) for pod in pods}
    moves = tuple(move for move in whole.moves if (move.namespace, move.pod) in wanted)
    rejections = tuple(found for found in whole.rejections if (found.namespace, found.pod) in wanted)
    flags = (("-n", namespace), ("-l", options.selector or None))
    by = " and ".join(f"{flag} {value}" for flag, value in flags if value is not None)
    note = (
        f"{by} shows {len(moves)} of {len(whole.moves)} moves and {len(rejections)} of {len(whole.rejections)} "
        "rejections; the plan and its effect are the whole cluster's"
    )
    messages.note(note)
    return structs.replace(whole, moves=moves, rejections=rejections, warnings=(*whole.warnings, note))


def _names(shown: Plan, options: PlanOptions) -> list[str]:
    """A line for each pod that moves: arguments that kubectl and `rescheduler explain` take."""
    if options.only() is not None:
        return [plain(f"pod/{move.pod}") for move in shown.moves]
    return [plain(f"pod/{move.pod} -n {move.namespace}") for move in shown.moves]


DRAWN_SINGLY = 20
_OVERFULL = 10
_HEADERS = ("CPU BEFORE", "CPU AFTER", "MEMORY BEFORE", "MEMORY AFTER")
_PIPE_BAR = 10
_BARS = (4, 16)


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """What the picture is drawn from."""

    before: ClusterLoad
    after: ClusterLoad
    utilization: Utilization = Utilization.REQUESTS

    def lines(self, terminal: Terminal, *, headers: bool = True) -> Iterator[str]:
        """Numbers, histogram and, for few nodes, each of them; a blank line between."""
        yield from self._numbers(terminal).lines(terminal, headers=headers)
        if not self.before.loads:
            return
        yield ""
        yield from self._histogram(terminal).lines(terminal, headers=headers)
        if len(self.before.loads) <= DRAWN_SINGLY:
            yield ""
            yield from self._nodes(terminal).lines(terminal, headers=headers)

    def _numbers(self, terminal: Terminal) -> Table:
        arrow = terminal.arrow

        def row(name: str, before: LoadDistribution, after: LoadDistribution) -> list[str]:
            return [
                name,
                f"{before.max:.1f}% {arrow} {after.max:.1f}%",
                f"{before.min:.1f}% {arrow} {after.min:.1f}%",
                f"{before.mean:.1f}% {arrow} {after.mean:.1f}%",
                f"{before.stddev:.1f} {arrow} {after.stddev:.1f}",
            ]

        others = zip(self.before.others.items(), self.after.others.values(), strict=True)
        rows = [
            row("cpu", self.before.cpu, self.after.cpu),
            row("memory", self.before.memory, self.after.memory),
            *(row(name, before, after) for (name, before), after in others),
        ]
        pools = zip(self.before.hot_nodes_by_pool.items(), self.after.hot_nodes_by_pool.values(), strict=True)
        hot = [
            ("hot nodes", self.before.hot_nodes, self.after.hot_nodes),
            *((f"hot in {name}", before, after) for (name, before), after in pools),
        ]
        tints = {
            (len(rows) + at, 1): "red" if after else "green"
            for at, (_, before, after) in enumerate(hot)
            if before or after
        }
        rows += [[name, f"{before} {arrow} {after}", "", "", ""] for name, before, after in hot]
        by = "" if self.utilization is Utilization.REQUESTS else f" ({self.utilization})"
        return Table((f"UTILISATION{by}", "MAX", "MIN", "MEAN", "STDDEV"), rows, tints=tints)

    def _histogram(self, terminal: Terminal) -> Table:
        """How many nodes are in each tenth; rows from the lowest to the highest tenth that any node is in."""
        counted = [
            Counter(_tenth(load) for load in loads)
            for loads in (
                [load.cpu for load in self.before.loads],
                [load.cpu for load in self.after.loads],
                [load.memory for load in self.before.loads],
                [load.memory for load in self.after.loads],
            )
        ]
        tenths = [tenth for counts in counted for tenth in counts]
        most = max(count for counts in counted for count in counts.values())
        digits = len(str(most))
        labels = {tenth: _label(tenth) for tenth in range(min(tenths), max(tenths) + 1)}
        # Next to each bar stand a space and a number, and three spaces before the next column.
        width = _bar_width(terminal, len("NODES AT"), digits + 4)
        rows = [
            [label, *(_counted_bar(counts[tenth], most, (width, digits), terminal) for counts in counted)]
            for tenth, label in labels.items()
        ]
        return Table(("NODES AT", *_HEADERS), rows)

    def _nodes(self, terminal: Terminal) -> Table:
        arrow = terminal.arrow
        after = {load.node: load for load in self.after.loads}
        pairs = [(load, after.get(load.node, load)) for load in self.before.loads]
        names = max(columns_of(load.node) for load in self.before.loads)
        pooled = any(load.pool for load in self.before.loads)
        others = list(self.before.others)
        # PODS and HOT, and what else there is.
        aside = (2 + len(others) + pooled) * (len("yes → yes") + 3) + len(others) * len("100.0%  ")
        width = _bar_width(terminal, names, len(" 100.0%") + 3, aside=aside)
        rows: list[Sequence[str]] = []
        tints: dict[tuple[int, int], str] = {}
        for index, (old, new) in enumerate(pairs):
            values = (old.cpu, new.cpu, old.memory, new.memory)
            bars = [f"{terminal.bar(value / 100, width):<{width}} {value:5.1f}%" for value in values]
            pods = f"{old.pods} {arrow} {new.pods}" if old.pods != new.pods else str(old.pods)
            heat = f"yes {arrow} {'yes' if new.over else 'no'}" if old.over else "yes" if new.over else ""
            more = [_change(*shares, arrow) for shares in zip(old.others, new.others, strict=True)]
            rows.append([old.node, *([old.pool or "-"] if pooled else []), *bars, pods, *more, heat])
            over = ("cpu" in old.over, "cpu" in new.over, "memory" in old.over, "memory" in new.over)
            tints |= {(index, 1 + pooled + at): "red" for at in range(4) if over[at]}
            tints |= {
                (index, 6 + pooled + at): "red" for at, name in enumerate(others) if name in (*old.over, *new.over)
            }
        headers = ("NODE", *(["POOL"] if pooled else []), *_HEADERS, "PODS", *map(_titled, others), "HOT")
        return Table(headers, rows, tints=tints)


def _change(before: float | None, after: float | None, arrow: str) -> str:
    """`12.0% → 40.0%`; only one of them where nothing changes, and nothing where the node has none of it."""
    if before is None or after is None:
        return "-"
    return f"{before:.1f}%" if before == after else f"{before:.1f}% {arrow} {after:.1f}%"


def _titled(resource: str) -> str:
    """What a column is called; the pods of a node have one already, which counts them."""
    return "POD PLACES" if resource == "pods" else resource.upper()


def _tenth(load: float) -> int:
    """Which row of the histogram a node is in: full is still the last tenth, more than full is beyond it."""
    if load > 100.0:
        return _OVERFULL
    return min(int(load // 10), _OVERFULL - 1)


def _label(tenth: int) -> str:
    return "over 100%" if tenth == _OVERFULL else f"{f'{tenth * 10}-{tenth * 10 + 10}%':>8}"


def _bar_width(terminal: Terminal, label: int, beside: int, aside: int = 0) -> int:
    """How long four bars may be with what stands beside them; a pipe gets a fixed length."""
    if terminal.width is None:
        return _PIPE_BAR
    low, high = _BARS
    return max(low, min(high, (terminal.width - label - aside) // 4 - beside))


def _counted_bar(count: int, most: int, sizes: tuple[int, int], terminal: Terminal) -> str:
    width, digits = sizes
    if not count:
        return ""
    return f"{terminal.bar(count / most, width):<{width}} {count:>{digits}}"


_EXAMPLES = 3
_REASONS = 20


def plan_lines(shown: Plan, whole: Plan, terminal: Terminal, *, wide: bool, headers: bool = True) -> Iterator[str]:
    """The moves and rejections of `shown`, which may be part of the whole plan, and the whole plan's effect."""
    if shown.moves:
        yield from _moves(shown.moves, wide=wide).lines(terminal, headers=headers)
        yield ""
    if shown.rejections:
        yield from _rejections(shown.rejections, terminal, wide=wide, headers=headers)
        yield ""
    if held_back := [each for each in shown.held_back if wide or each.changed_by]:
        yield from _held_back(held_back).lines(terminal, headers=headers)
        yield ""
    yield from BeforeAfter(whole.before, whole.after, whole.utilization).lines(terminal, headers=headers)
    yield ""
    yield terminal.styled(summary(whole, terminal), "bold")


def summary(plan: Plan, terminal: Terminal) -> str:
    """`4 moves (3 handoff, 1 copy), 2 rejected; hot nodes 1 → 0`."""
    count = len(plan.moves)
    methods = Counter(move.method for move in plan.moves)
    by = ", ".join(f"{methods[method]} {method}" for method in Method if methods[method])
    moved = format_count(count, "move") + (f" ({by})" if by else "")
    hot = f"hot nodes {plan.before.hot_nodes} {terminal.arrow} {plan.after.hot_nodes}"
    return f"{moved}, {len(plan.rejections)} rejected; {hot}"


def _moves(moves: Sequence[Move], *, wide: bool) -> Table:
    columns: dict[str, Callable[[Move], str]] = {
        "NAMESPACE": lambda move: move.namespace,
        "POD": lambda move: move.pod,
        "FROM": lambda move: move.source,
        "TO": lambda move: move.target,
        "STRATEGY": lambda move: move.strategy,
        "METHOD": lambda move: move.method,
    }
    if wide:
        columns["WORKLOAD"] = lambda move: move.workload
        columns["PRIORITY"] = lambda move: str(move.priority)
        columns["PROPOSAL"] = lambda move: str(move.proposal)
        columns["GAIN"] = lambda move: "" if move.gain is None else f"{move.gain:.1f}"
    columns["REASON"] = lambda move: move.reason
    rows = [[cell(move) for cell in columns.values()] for move in moves]
    numbers = frozenset(at for at, name in enumerate(columns) if name in ("PRIORITY", "PROPOSAL", "GAIN"))
    return Table(list(columns), rows, flowing=1, right=numbers)


def _rejections(rejections: Sequence[Rejection], terminal: Terminal, *, wide: bool, headers: bool) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for rejection in rejections:
        groups.setdefault((rejection.guard, rejection.reason), []).append(f"{rejection.namespace}/{rejection.pod}")
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    listed = ordered if wide else ordered[:_REASONS]
    rows = [
        [guard, str(len(pods)), reason, join_names(sorted(pods), None if wide else _EXAMPLES)]
        for (guard, reason), pods in listed
    ]
    table = Table(("REJECTED BY", "COUNT", "REASON", "PODS"), rows, flowing=2, right=frozenset({1}))
    yield from table.lines(terminal, headers=headers)
    left = ordered[len(listed) :]
    if left:
        pods = sum(len(pods) for _, pods in left)
        yield f"and {len(left)} more reasons, for {pods} pods (-o wide shows all)"


def _held_back(guards: Sequence[HeldBack]) -> Table:
    rows = [[each.guard, str(each.pods), each.changed_by] for each in guards]
    return Table(("HELD BACK BY", "PODS", "CHANGED BY"), rows, flowing=1, right=frozenset({1}))
