"""Keeps pods off nodes that are being deleted."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeDeleting(NodeRule):
    """The node is not being deleted."""

    name: ClassVar[str] = "NodeDeleting"
    order: ClassVar[int] = 50
    caption: ClassVar[str] = "Being deleted"

    @staticmethod
    def refusal(node: Node) -> str:
        return "the node is being deleted" if node.deleting else ""
