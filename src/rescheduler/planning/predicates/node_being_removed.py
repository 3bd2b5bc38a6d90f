"""Keeps pods off nodes that an autoscaler is about to remove."""

from __future__ import annotations

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule

_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",  # before Karpenter 1.0
    }
)


class NodeBeingRemoved(NodeRule):
    """Neither the cluster autoscaler nor Karpenter has marked the node for removal."""

    name = "NodeBeingRemoved"
    order = 35
    caption = "About to be removed"

    @staticmethod
    def refusal(node: Node) -> str:
        return next(
            (f"its taint {each.key} says that it is removed" for each in node.taints if each.key in _TAINTS), ""
        )
