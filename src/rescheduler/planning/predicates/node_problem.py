from __future__ import annotations

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeProblem(NodeRule):
    """The input describes the node in a way that can be understood."""

    name = "NodeProblem"
    order = 60
    caption = "Not understood"

    def refusal(self, node: Node) -> str:
        return node.problem
