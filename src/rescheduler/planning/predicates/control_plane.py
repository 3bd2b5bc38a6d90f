from __future__ import annotations

from rescheduler.model.objects import Node
from rescheduler.planning.predicates.base import NodeRule


class ControlPlane(NodeRule):
    """The node does not run the control plane."""

    name = "ControlPlane"
    order = 10
    caption = "Control plane"

    def refusal(self, node: Node) -> str:
        return "the node runs the control plane" if node.control_plane else ""
