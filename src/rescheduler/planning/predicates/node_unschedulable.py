from __future__ import annotations

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeUnschedulable(NodeRule):
    """The node is not cordoned."""

    name = "NodeUnschedulable"
    order = 30
    caption = "Cordoned"

    def refusal(self, node: Node) -> str:
        return "the node is cordoned" if node.unschedulable else ""
