"""Keeps pods off nodes that are not Ready."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeNotReady(NodeRule):
    """The node is Ready."""

    name: ClassVar[str] = "NodeNotReady"
    order: ClassVar[int] = 20
    caption: ClassVar[str] = "Not Ready"

    @staticmethod
    def refusal(node: Node) -> str:
        return "" if node.ready else "the node is not Ready"
