"""Keeps pods off the control plane's nodes."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class ControlPlane(NodeRule):
    """The node does not run the control plane."""

    name: ClassVar[str] = "ControlPlane"
    order: ClassVar[int] = 10
    caption: ClassVar[str] = "Control plane"

    @staticmethod
    def refusal(node: Node) -> str:
        return "the node runs the control plane" if node.control_plane else ""
