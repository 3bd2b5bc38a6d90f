"""Explains one pod: what the plan does with it, what objects to moving it, and which nodes could take it.

The `explain` command and the page show the Explanation. Nodes are judged as the plan leaves the cluster, but with this
pod where it is: the state in which it would be moved next.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from rescheduler.model.labels import EvictionCost, eviction_cost
from rescheduler.model.migration import encode_value
from rescheduler.model.move_history import MoveBackoff, MoveHistory, PastMove
from rescheduler.model.objects import Pod
from rescheduler.model.plan import API_VERSION, CamelStruct, Method, Move, Plan, Rejection
from rescheduler.model.policy import Utilization
from rescheduler.model.shape import Requests
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.planning.budgets import Budgets, DisruptionHeadroom, HourlyLimit
from rescheduler.planning.columns import Floats, Ints
from rescheduler.planning.guards import objections
from rescheduler.planning.planner import Planner
from rescheduler.planning.refusals import NodeRefusal, PlanGuard

_FREE = re.compile(r", [^,()]* free\)")


class PodOutcome(StrEnum):
    """What the plan does with a pod."""

    MOVED = "moved"
    REMOVED = "removed"
    REJECTED = "rejected"
    NOT_PROPOSED = "notProposed"


class NodeFit(CamelStruct, frozen=True):
    """Whether a node could take the pod (no predicate refuses), and its utilisation with the pod, in per cent."""

    node: str
    feasible: bool
    predicate: str
    reason: str
    cpu: float
    memory: float


class RefusalGroup(CamelStruct, frozen=True):
    """Nodes that refuse the pod for the same reason."""

    predicate: str
    reason: str
    nodes: tuple[str, ...]


class Explanation(CamelStruct, frozen=True, kw_only=True):
    """All that is known about moving one pod, in the order of the document."""

    namespace: str
    pod: str
    node: str
    workload: str
    priority: int
    requests: dict[str, str]
    outcome: PodOutcome
    why: str
    move: Move | None
    rejection: Rejection | None
    objections: tuple[tuple[str, str], ...]
    """Every guard or limit that objects to moving it, with its reason."""
    method: Method
    not_handoff: str
    """Why it would not be handed off; empty if it would."""
    strategies: tuple[str, ...]
    refusals: tuple[RefusalGroup, ...]
    """The nodes that could not take it, grouped by what refuses: the largest groups first."""
    nodes: tuple[NodeFit, ...]
    past_moves: tuple[PastMove, ...]
    """Those of its workload, the newest first."""
    rest: MoveBackoff | None
    """How long its workload rests because of them; None if it does not rest."""
    warnings: tuple[str, ...]
    """Those of the plan."""
    pool: str
    """The pool of its node; empty for none."""
    utilization: Utilization
    usage: dict[str, str] | None
    """Its measured use, or that of its workload; None without a measurement, or if only requests count."""
    eviction_cost: EvictionCost | None
    """Its eviction cost, and the annotation that has it; None if there is none."""

    @property
    def targets(self) -> tuple[NodeFit, ...]:
        """The nodes that could take it."""
        return tuple(fit for fit in self.nodes if fit.feasible)


def explain(planner: Planner, plan: Plan, key: tuple[str, str], strategies: Sequence[str]) -> Explanation:
    """Explain a pod (namespace, name) of the snapshot; the planner has made the plan with these strategies."""
    index = planner.columns.pod_index[key]
    pod = planner.columns.pods[index]
    context = planner.guard_context
    move = next((m for m in plan.moves if (m.namespace, m.pod) == key), None)
    rejection = next((r for r in plan.rejections if (r.namespace, r.pod) == key), None)
    decided = move or rejection
    method = move.method if move else context.methods.choose(pod)
    removed = method is Method.REMOVE  # guards and nodes are about moving it
    planned = PodOutcome.REMOVED if removed else PodOutcome.MOVED
    outcome = planned if move else PodOutcome.REJECTED if rejection else PodOutcome.NOT_PROPOSED
    kind, _, name = planner.workloads.key(pod)
    memory = planner.snapshot.memories.get(planner.workloads.key(pod))
    node_fits = () if removed else tuple(_judge_nodes(planner, plan, index, method))
    usage = planner.load.measure.find_measured(pod)
    return Explanation(
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node,
        workload=f"{kind}/{name}",
        priority=pod.priority,
        requests=_format_amounts(pod.shape.requests),
        outcome=outcome,
        why=decided.reason if decided else " ".join(_explain_not_proposed(planner, plan, pod, strategies)),
        move=move,
        rejection=rejection,
        objections=() if removed else tuple(_objections(planner, plan, index)),
        method=method,
        not_handoff=_explain_not_handoff(planner, pod, method),
        strategies=tuple(strategies),
        refusals=_group_refusals(node_fits),
        nodes=node_fits,
        past_moves=memory.moves if memory is not None else (),
        rest=_rest(planner, memory),
        warnings=plan.warnings,
        pool=_pool(planner, pod),
        utilization=planner.policy.utilization,
        usage=_format_amounts(usage) if usage is not None else None,
        eviction_cost=cost if (cost := eviction_cost(pod.annotations)).mark else None,
    )


def _pool(planner: Planner, pod: Pod) -> str:
    node = planner.columns.node_index.get(pod.node)
    number = int(planner.levels.pool[node]) if node is not None else -1
    return planner.levels.pools[number] if number >= 0 else ""


def _rest(planner: Planner, memory: MoveHistory | None) -> MoveBackoff | None:
    now = planner.snapshot.taken_at
    rest = memory.rest(planner.policy) if memory is not None else None
    return rest if rest is not None and now is not None and now < rest.until else None


def _explain_not_handoff(planner: Planner, pod: Pod, method: Method) -> str:
    if method in (Method.HANDOFF, Method.REMOVE):
        return ""
    return planner.guard_context.methods.cannot_hand_off(pod) or "evict is the method chosen for it"


def _objections(planner: Planner, plan: Plan, index: int) -> Iterator[tuple[str, str]]:
    """Find all guards that object, then limits and disruption budgets after the plan's other moves."""
    columns, workloads, context = planner.columns, planner.workloads, planner.guard_context
    pod = columns.pods[index]
    yield from objections(pod, context)
    source = columns.node_index.get(pod.node, -1)
    if pod.node and source < 0:
        yield PlanGuard.UNKNOWN_NODE, f"its node {pod.node} is not in the input"
    budgets = Budgets(planner.policy, len(columns.nodes))
    hours = HourlyLimit(planner.snapshot, planner.policy.when.moves_per_hour_per_namespace)
    disruption = DisruptionHeadroom(planner.snapshot, workloads)
    for move in plan.moves:
        other = columns.pod_index[(move.namespace, move.pod)]
        if other != index:
            row = columns.pods[other]
            places = columns.node_index.get(move.source, -1), columns.node_index.get(move.target, -1)
            budgets.spend(*places, workloads.key(row))
            if not is_mandatory(move.strategy):
                hours.spend(row)
            if move.method is not Method.REMOVE:
                disruption.spend(row, move.method)
    for found in (
        budgets.objection(source, workloads.key(pod)),
        hours.objection(pod) if pod.node not in context.under_maintenance else None,
        disruption.objection(pod, context.methods.choose(pod)),
    ):
        if found is not None:
            yield found


def _explain_not_proposed(planner: Planner, plan: Plan, pod: Pod, strategies: Sequence[str]) -> Iterator[str]:
    ran = f"the strategies that ran are {', '.join(strategies)}" if strategies else "no strategy is enabled"
    yield f"No strategy asks for it; {ran}."
    total = planner.policy.max_reschedule_pods
    if total is not None and len(plan.moves) >= total:
        yield f"The plan has reached maxReschedulePods ({total}), so not all that should move was proposed."
    before, after = (
        next((load for load in picture.loads if load.node == pod.node), None) for picture in (plan.before, plan.after)
    )
    if before is None or after is None:
        return
    node, view = planner.columns.node_index[pod.node], planner.view
    found = zip(view.resources, view.thresholds[:, node].tolist(), strict=True)
    thresholds = "thresholds " + ", ".join(f"{limit:.4g}% {name}" for name, limit in found)
    yield f"{pod.node} is at {before.cpu:.1f}% CPU and {before.memory:.1f}% memory,"
    if not _hot(planner, planner.load.first, node):
        yield f"so it is not hot ({thresholds})."
    elif not _hot(planner, planner.load.used, node):
        yield f"and moving other pods brings it to {after.cpu:.1f}% and {after.memory:.1f}%, under its thresholds."
    elif planner.view.hot[node]:
        yield f"so it is hot ({thresholds})."
    else:
        yield f"so it is hot ({thresholds}), but not for hotAfterCycles ({planner.levels.hot_after[node]}) yet."
    if planner.columns.nodes[node].maintenance:
        yield "It is under maintenance: NodeMaintenance moves its pods."
    else:
        yield "It is not under maintenance."
    open_nodes = view.utilisation[:2, view.open]
    if open_nodes.size:
        cpu, memory = (open_nodes.max(axis=1) - open_nodes.min(axis=1)).tolist()
        yield (
            f"With the plan made, the most and the least used of the nodes that take pods are {cpu:.1f} points of CPU "
            f"and {memory:.1f} points of memory apart."
        )


def _hot(planner: Planner, used: Ints, node: int) -> bool:
    return bool((used[:, node] > planner.levels.limit[:, node]).any())


def _judge_nodes(planner: Planner, plan: Plan, index: int, method: Method) -> list[NodeFit]:
    """Judge every node, in the order of the nodes."""
    source = int(planner.columns.pod_at[index])
    with planner.whatif.trial():
        here = int(planner.whatif.at[index])
        if here != source:
            planner.targets.revert(index, source, here)
        return [*_judge_each_node(planner, plan, index, method)]


def _judge_each_node(planner: Planner, plan: Plan, index: int, method: Method) -> Iterator[NodeFit]:
    whatif, columns, feasibility = planner.whatif, planner.columns, planner.feasibility
    source = int(whatif.at[index])
    with planner.targets.without_original(index, method):
        verdicts = feasibility.verdicts(index)
    under = feasibility.fit.fits(index, whatif.free) & planner.targets.under_thresholds(index)
    came = Counter(move.target for move in plan.moves)
    view = planner.view
    now = view.utilisation
    most = planner.policy.limits.per_node_in
    for number, (node, verdict) in enumerate(zip(columns.nodes, verdicts, strict=True)):
        use = now[:, number] if number == source else now[:, number] + view.share(index, number)
        predicate, reason = verdict
        if number == source:
            predicate, reason = NodeRefusal.SAME_NODE.value, "it is there already"
        elif not predicate and not under[number]:
            predicate, reason = NodeRefusal.THRESHOLD.value, _format_over(planner, use, number)
        elif not predicate and most is not None and came[node.name] >= most:
            predicate, reason = NodeRefusal.NODE_IN_LIMIT.value, f"limits.perNodeIn ({most}) is reached"
        elif not predicate and source >= 0:
            reason = feasibility.try_move(index, number, side_by_side=method is not Method.EVICT)
            planner.targets.revert(index, source, number)
            predicate = NodeRefusal.AFTER_THE_MOVE.value if reason else ""
        yield NodeFit(node.name, not predicate, predicate, reason, round(float(use[0]), 2), round(float(use[1]), 2))


def _format_over(planner: Planner, use: Floats, node: int) -> str:
    fields = ("cpuThreshold", "memoryThreshold", *(f"thresholds.{name}" for name in planner.load.names[2:]))
    limits = planner.levels.percent[:, node].tolist()
    over = [f"{name} ({limit:.4g}%)" for name, limit, at in zip(fields, limits, use, strict=True) if at > limit]
    return f"over {' and '.join(over) or 'a threshold'} afterwards; only moves that must be made may exceed thresholds"


def _group_refusals(node_fits: Iterable[NodeFit]) -> tuple[RefusalGroup, ...]:
    """Group the nodes that refuse by predicate and reason, without the amount that is free on each."""
    groups: dict[tuple[str, str], list[str]] = {}
    for fit in node_fits:
        if not fit.feasible:
            groups.setdefault((fit.predicate, _FREE.sub(")", fit.reason)), []).append(fit.node)
    found = [RefusalGroup(*group, tuple(nodes)) for group, nodes in groups.items()]
    return tuple(sorted(found, key=lambda r: (-len(r.nodes), r.predicate, r.reason)))


def explanation_document(explained: Explanation) -> dict[str, object]:
    """Convert an explanation to plain values."""
    document = {"apiVersion": API_VERSION, "kind": "Explanation", **encode_value(explained)}
    document["objections"] = [{"guard": str(guard), "reason": reason} for guard, reason in explained.objections]
    return document


def _format_amounts(amounts: Requests) -> dict[str, str]:
    return {name: _format_amount(name, number) for name, number in amounts}


def _format_amount(resource: str, number: int) -> str:
    """Format a quantity as people write it."""
    if resource == "cpu":
        return f"{number}m" if number % 1000 else str(number // 1000)
    if resource == "memory" or resource.startswith(("hugepages-", "ephemeral-storage")):
        for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if number and number % size == 0:
                return f"{number // size}{unit}"
    return str(number)
