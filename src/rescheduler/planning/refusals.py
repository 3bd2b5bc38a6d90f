"""Names for what refuses a move besides guards and predicates: whatever depends on the rest of the plan."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class _Refusal(StrEnum):
    caption: str
    """What the page calls it."""
    meaning: str
    """When a pod is refused; or what holds where a node is not refused."""
    changed_by: str
    """Which setting changes it, as Markdown."""

    def __new__(cls, name: str, caption: str, meaning: str, changed_by: str = "") -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.caption, member.meaning, member.changed_by = caption, meaning, changed_by
        return member


class PlanGuard(_Refusal):
    """Refusals of a pod by the plan itself; a rejection has the name, as it has the names of guards."""

    ALREADY_MOVED = ("AlreadyMoved", "Moved already", "The pod is in the plan already: no pod moves twice in one plan.")
    UNKNOWN_NODE = ("UnknownNode", "Unknown node", "The pod says that it is on a node that the input does not have.")
    MAX_RESCHEDULE_PODS = (
        "MaxReschedulePods",
        "Plan is full",
        "The plan is full. The strategy that asked stops here.",
        "`maxReschedulePods`",
    )
    MOVES_PER_HOUR = (
        "MovesPerHour",
        "Too many for an hour",
        "More pods that move together or not at all than may go in an hour.",
        "`when.movesPerHour`",
    )
    MOVES_PER_HOUR_PER_NAMESPACE = (
        "MovesPerHourPerNamespace",
        "Enough of its namespace for an hour",
        "As many pods of the pod's namespace as may have begun to move within the hour, or are in the plan.",
        "`when.movesPerHourPerNamespace`",
    )
    NODE_OUT_LIMIT = (
        "NodeOutLimit",
        "Enough left its node",
        "As many pods as may have left the pod's node.",
        "`limits.perNodeOut`",
    )
    NAMESPACE_LIMIT = (
        "NamespaceLimit",
        "Enough of its namespace",
        "As many pods of the pod's namespace as may are in the plan.",
        "`limits.perNamespace`",
    )
    WORKLOAD_LIMIT = (
        "WorkloadLimit",
        "Enough of its workload",
        "As many pods of the pod's workload as may are in the plan.",
        "`limits.perWorkload`",
    )
    TWO_DISRUPTION_BUDGETS = (
        "TwoDisruptionBudgets",
        "Two disruption budgets",
        "Two or more PodDisruptionBudgets select the pod, and it cannot be handed off: the Eviction API refuses it.",
        "`migrationMethod`",
    )
    DISRUPTION_BUDGET = (
        "DisruptionBudget",
        "Disruption budget",
        "The pod's PodDisruptionBudget allows no more disruptions after the moves before it. A handoff spends none.",
        "`migrationMethod`",
    )
    WORKLOAD_AT_ONCE = (
        "WorkloadAtOnce",
        "Half of its replicas at once",
        "The plan evicts half of the workload's replicas already (of one replica: that one).",
        "`migrationMethod`",
    )
    NO_ROOM = ("NoRoom", "Still no room", "The pod that the moves make room for would still not fit.")
    STILL_RUNNING = ("StillRunning", "Has not ended", "The pod was to be removed, and has not ended.")
    NO_TARGET = (
        "NoTarget",
        "No node can take it",
        "No node can take the pod. The reason counts nodes by the predicate that refuses them.",
    )


class NodeRefusal(_Refusal):
    """Refusals of a target by the plan itself; `explain` names them beside the predicates."""

    SAME_NODE = ("SameNode", "It is there already", "It is not the node that the pod is on.")
    THRESHOLD = (
        "Threshold",
        "Would be over a threshold",
        "The node stays at or under its thresholds with the pod on it.",
    )
    NODE_IN_LIMIT = ("NodeInLimit", "Receives enough", "The node may receive more pods (`limits.perNodeIn`).")
    AFTER_THE_MOVE = (
        "AfterTheMove",
        "Rules would break afterwards",
        "Once the pod has left its node, affinity and spread rules still hold for the pods that stay.",
    )
