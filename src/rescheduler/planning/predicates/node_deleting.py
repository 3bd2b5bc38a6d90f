from __future__ import annotations

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeDeleting(NodeRule):
    """The node is not being deleted."""

    name = "NodeDeleting"
    order = 50
    caption = "Being deleted"

    def refusal(self, node: Node) -> str:
        return "the node is being deleted" if node.deleting else ""
