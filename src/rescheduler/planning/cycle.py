"""Makes one cycle's plan, on the cluster as it will be when the migrations under way have ended.

Between two cycles moves are half done: an original still counts on its node while its copy counts on the target. A plan
for that state would move the same load twice. So originals count on their targets, and neither they nor pods with a
recently failed migration are planned again. `planning.outcomes` keeps the outcomes of completed migrations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from rescheduler.model import labels
from rescheduler.model.migration import REPLANNED, Phase, PodMigration
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Method, Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.api import Proposal, Strategy
from rescheduler.planning.outcomes import with_move_histories
from rescheduler.planning.planner import Planner
from rescheduler.planning.settings import StrategySettings

_Key = tuple[str, str]


def with_inflight_moves(snapshot: ClusterSnapshot, migrations: Iterable[PodMigration], rest: float) -> ClusterSnapshot:
    """Return the snapshot with migrations under way carried out; pods of failed ones stay for `rest` seconds."""
    known = list(migrations)
    snapshot = with_move_histories(snapshot, known)
    spoken_for: dict[_Key, str] = {}
    going: dict[_Key, PodMigration] = {}
    for each in known:
        key = (each.namespace, each.spec.pod.name)
        if not each.status.over:
            if key in going and going[key].status.phase is Phase.IN_PROGRESS:
                continue  # a second order of the same pod waits for it
            going[key] = each
            spoken_for[key] = f"migration {each.name} is {each.status.phase.value}"
        elif each.status.phase is Phase.FAILED and key not in going and _failed_lately(each, snapshot.taken_at, rest):
            spoken_for.setdefault(key, f"migration {each.name} failed: {each.status.message}")
    if not spoken_for:
        return snapshot
    pods = snapshot.pods
    if going:
        nodes = frozenset(node.name for node in snapshot.nodes)
        copies = {(each.namespace, copy.name) for each in going.values() if (copy := each.status.replacement)}
        there = {
            key: pod for pod in pods if (key := (pod.namespace, pod.name)) in copies and _counts_already(pod, nodes)
        }
        spare = _spare_placeholders(pods, going, there)
        pods = tuple(
            moved
            for pod in pods
            if (pod.namespace, pod.name) not in spare and (moved := _settle(pod, going, there, nodes)) is not None
        )
    return replace(snapshot, pods=pods, spoken_for=spoken_for)


def _settle(pod: Pod, going: dict[_Key, PodMigration], there: dict[_Key, Pod], nodes: frozenset[str]) -> Pod | None:
    """Return the pod as it will be: on its target, being deleted, or None if its replacement is there already."""
    migration = going.get((pod.namespace, pod.name))
    if migration is None:
        return pod
    progress, order = migration.status, migration.spec
    if (progress.pod_uid or order.pod.uid or pod.uid) != pod.uid:
        return pod
    copy = there.get((pod.namespace, progress.replacement.name)) if progress.replacement is not None else None
    if copy is not None and copy.uid != pod.uid:
        return None
    if (progress.method or order.fixed_method) is Method.REMOVE:
        return msgspec.structs.replace(pod, deleting=True)
    target = progress.target or order.target
    return msgspec.structs.replace(pod, node=target) if target in nodes and pod.node else pod


def _spare_placeholders(
    pods: Iterable[Pod], going: dict[_Key, PodMigration], there: dict[_Key, Pod]
) -> frozenset[_Key]:
    """Find placeholders of pods that count at their targets themselves."""
    held = [pod for pod in pods if labels.PLACEHOLDER in pod.labels]
    if not held:
        return frozenset()
    originals = {key: pod for pod in pods if (key := (pod.namespace, pod.name)) in going}
    standing = {(each.namespace, each.name) for key, each in going.items() if _stands(each, originals.get(key), there)}
    return frozenset(
        (pod.namespace, pod.name) for pod in held if (pod.namespace, pod.labels[labels.PLACEHOLDER]) in standing
    )


def _stands(migration: PodMigration, original: Pod | None, there: dict[_Key, Pod]) -> bool:
    """Whether the original is still there, or its replacement already is."""
    known = migration.status.replacement
    if known is not None and (migration.namespace, known.name) in there:
        return True
    return original is not None and (migration.status.pod_uid or original.uid) == original.uid and bool(original.node)


def _counts_already(copy: Pod, nodes: frozenset[str]) -> bool:
    """Whether a copy counts on a node already, and will stay; otherwise the original still counts in its place."""
    return (copy.node or copy.nominated) in nodes and not copy.finished and not copy.deleting


def _failed_lately(migration: PodMigration, now: float | None, rest: float) -> bool:
    finished, order = migration.status.completion_time, migration.spec
    waited = order.approval_required or migration.status.message.endswith(REPLANNED)
    if waited and not migration.status.attempts and not migration.rejected_by:
        return False  # it only waited, for approval or for its turn: the pod is not the reason
    return now is not None and finished is not None and now - finished < rest


# How many cycles are planned ahead to see whether the plan lasts.
_AHEAD = 4


def plan_cycle(
    snapshot: ClusterSnapshot, policy: Policy, strategies: Sequence[Strategy[StrategySettings]]
) -> tuple[Planner, Plan]:
    """Make the cycle's plan; also return the planner whose what-if includes it."""
    planner = Planner(snapshot, policy)
    plan = planner.plan(strategies)
    if not _changes_later(planner, plan, strategies):
        return planner, plan
    replayed = Planner(snapshot, policy)
    replayed.rejections.update(planner.rejections)
    if _replay(replayed, planner):
        return replayed, replayed.build_plan()
    # No order of moves leads to where the rehearsal ended. The first plan counts: it is feasible, if not for long.
    planner = Planner(snapshot, policy)
    return planner, planner.plan(strategies)


def make_plan(snapshot: ClusterSnapshot, policy: Policy, strategies: Sequence[Strategy[StrategySettings]]) -> Plan:
    """Make the cycle's plan."""
    return plan_cycle(snapshot, policy, strategies)[1]


def _changes_later(planner: Planner, plan: Plan, strategies: Sequence[Strategy[StrategySettings]]) -> bool:
    """Plan the next cycles in the same what-if; return whether they changed anything.

    Moves that belong together are not taken apart, and a plan that reached its limit is not complete.
    """
    together = any(count > 1 for count in Counter(move.proposal for move in plan.moves).values())
    if not plan.moves or planner.exhausted or together:
        return False
    first = planner.whatif.at.copy()
    for _ in range(_AHEAD):
        before = planner.whatif.at.copy()
        planner.moved.intersection_update(planner.removed)  # removed pods do not come back
        planner.run_strategies(strategies)
        if (planner.whatif.at == before).all():
            break
    return bool((planner.whatif.at != first).any())


def _replay(planner: Planner, rehearsal: Planner) -> bool:
    """Plan a move for each pod that ended elsewhere, in a feasible order; return False if there is none."""
    for strategy, pod_move in rehearsal.removed.values():
        planner.decide(strategy, Proposal((pod_move,)))
    ended = rehearsal.whatif.at
    wanted = (pod for pod in rehearsal.reasons if pod not in rehearsal.removed)
    left = [pod for pod in wanted if ended[pod] != planner.columns.pod_at[pod]]
    while left:
        waiting: list[int] = []
        for pod in left:
            strategy, why = rehearsal.reasons[pod]
            cost = np.full(len(planner.columns.nodes), np.inf)
            cost[ended[pod]] = 0.0
            if not planner.decide(strategy, Proposal.one(pod, why, cost, force=True)).accepted:
                waiting.append(pod)
        if len(waiting) == len(left):
            return False
        left = waiting
    return True
