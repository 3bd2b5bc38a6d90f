"""Keeps pods off nodes that an operator wants empty."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class NodeUnderMaintenance(NodeRule):
    """The node is not labelled for maintenance."""

    name: ClassVar[str] = "Maintenance"
    order: ClassVar[int] = 40
    caption: ClassVar[str] = "Under maintenance"

    @staticmethod
    def refusal(node: Node) -> str:
        return "the node is under maintenance" if node.maintenance else ""
