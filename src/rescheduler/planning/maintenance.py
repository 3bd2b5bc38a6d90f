"""Finds out what is left on nodes that are to become empty: pods that will go, pods that cannot, and why.

Used by `maintenance status` and `maintenance start --wait`, on one snapshot. The plan that the maintenance strategy
would make now has the refusals; guards say which of these last until a person changes something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rescheduler.model.objects import Pod
from rescheduler.model.policy import Limits, Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import guards
from rescheduler.planning.api import Strategy
from rescheduler.planning.guards.base import GuardContext, Lasting
from rescheduler.planning.planner import Planner
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.workloads import belongs_to_node


@dataclass(frozen=True, slots=True)
class RemainingPod:
    """A pod that is still on the node, and what refuses to move it now, if anything does."""

    namespace: str
    pod: str
    reason: str = ""
    lasting: bool = False
    """Whether it will stay until a person changes something."""

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.pod}"


@dataclass(frozen=True, slots=True)
class DrainStatus:
    """What is on one node."""

    node: str
    remaining: tuple[RemainingPod, ...]
    staying: int
    """Pods of DaemonSets and of the node itself."""

    @property
    def stuck(self) -> tuple[RemainingPod, ...]:
        """The pods that will not go by themselves."""
        return tuple(pod for pod in self.remaining if pod.lasting)


def drain_statuses(
    snapshot: ClusterSnapshot, policy: Policy, emptying: Sequence[Strategy[StrategySettings]], nodes: Iterable[str]
) -> list[DrainStatus]:
    """Describe what is on these nodes, in their order; `emptying` are the strategies that move pods away."""
    planner = Planner(snapshot, replace(policy, max_reschedule_pods=None, limits=Limits()))
    plan = planner.plan(emptying)
    on: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.deleting or not pod.finished:  # a pod that is being deleted may have ended already
            on.setdefault(pod.node, []).append(pod)
    refused = {(each.namespace, each.pod): f"{each.reason} ({each.guard})" for each in plan.rejections}
    return [
        DrainStatus(
            node,
            tuple(
                _remaining(pod, planner.guard_context, refused) for pod in on.get(node, ()) if not belongs_to_node(pod)
            ),
            sum(belongs_to_node(pod) for pod in on.get(node, ())),
        )
        for node in nodes
    ]


def _remaining(pod: Pod, context: GuardContext, refused: dict[tuple[str, str], str]) -> RemainingPod:
    for name, why in guards.objections(pod, context):
        if guards.discover()[name].lasts(pod) is Lasting.UNTIL_CHANGED:
            return RemainingPod(pod.namespace, pod.name, f"{why} ({name})", lasting=True)
    return RemainingPod(pod.namespace, pod.name, refused.get((pod.namespace, pod.name), ""))
