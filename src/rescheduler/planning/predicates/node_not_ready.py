from __future__ import annotations

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeNotReady(NodeRule):
    """The node is Ready."""

    name = "NodeNotReady"
    order = 20
    caption = "Not Ready"

    def refusal(self, node: Node) -> str:
        return "" if node.ready else "the node is not Ready"
