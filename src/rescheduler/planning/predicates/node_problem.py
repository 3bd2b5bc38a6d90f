"""Keeps pods off nodes that the input describes in a way that cannot be understood."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeProblem(NodeRule):
    """The input describes the node in a way that can be understood."""

    name: ClassVar[str] = "NodeProblem"
    order: ClassVar[int] = 60
    caption: ClassVar[str] = "Not understood"

    @staticmethod
    def refusal(node: Node) -> str:
        return node.problem
