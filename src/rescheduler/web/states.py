"""What the heat map tells of a node besides its use: its state, and the zone and pool that it is grouped by."""

from __future__ import annotations

from enum import IntEnum

from rescheduler.model.objects import Node

ZONE = "topology.kubernetes.io/zone"
POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/pool",
    "node.kubernetes.io/instance-type",
)
"""The first of these that a node has names its pool: clouds have no common label for it."""


class State(IntEnum):
    """What the map marks. The numbers are bits, and part of the API; several make a plain number, their sum."""

    NOT_READY = 1
    CORDONED = 2
    MAINTENANCE = 4
    CONTROL_PLANE = 8
    DELETING = 16
    SOURCE = 32
    TARGET = 64


WORDS = {
    State.NOT_READY: "not ready",
    State.CORDONED: "cordoned",
    State.MAINTENANCE: "maintenance",
    State.CONTROL_PLANE: "control plane",
    State.DELETING: "being deleted",
    State.SOURCE: "source of a move",
    State.TARGET: "target of a move",
}


def state_of(node: Node) -> int:
    """What the node itself says; which moves touch it, others know."""
    said = (
        (State.NOT_READY, not node.ready),
        (State.CORDONED, node.unschedulable),
        (State.MAINTENANCE, node.maintenance),
        (State.CONTROL_PLANE, node.control_plane),
        (State.DELETING, node.deleting),
    )
    return sum(state.value for state, holds in said if holds)


def zone_of(node: Node) -> str:
    """The zone; empty where the node tells none."""
    return node.labels.get(ZONE, "")


def pool_of(node: Node) -> str:
    """The pool; empty where the node tells none."""
    return next((node.labels[key] for key in POOLS if key in node.labels), "")
