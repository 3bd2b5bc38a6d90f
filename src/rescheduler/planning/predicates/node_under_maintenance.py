from __future__ import annotations

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeUnderMaintenance(NodeRule):
    """The node is not labelled for maintenance."""

    name = "Maintenance"
    order = 40
    caption = "Under maintenance"

    def refusal(self, node: Node) -> str:
        return "the node is under maintenance" if node.maintenance else ""
