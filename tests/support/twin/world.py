"""A snapshot and where its pods are, or would be: what the twin judges. From tests, to the rules beside it."""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import ClusterSnapshot

Placement = tuple[Pod, str]
"""A pod, and the name of the node that it is on."""


class World:
    """A cluster with its pods placed; every placement counts, also that of the pod which is judged.

    So a handoff is judged in the world as it is, an eviction in `world.without(pod)`.
    """

    def __init__(self, snapshot: ClusterSnapshot, placements: Iterable[Placement] | None = None) -> None:
        self.snapshot = snapshot
        self.placements = tuple(_own_placements(snapshot) if placements is None else placements)

    def node(self, name: str) -> Node:
        """The node of this name."""
        return next(node for node in self.snapshot.nodes if node.name == name)

    def placed(self) -> list[tuple[Pod, Node]]:
        """All pods with their nodes; on nodes that the scheduler doesn't know it sees no pods either."""
        known = {node.name: node for node in self.snapshot.nodes}
        return [(pod, known[name]) for pod, name in self.placements if name in known]

    def pods_on(self, name: str) -> list[Pod]:
        """The pods on one node."""
        return [pod for pod, node in self.placed() if node.name == name]

    def without(self, pod: Pod) -> World:
        """The world once this pod has gone."""
        return World(self.snapshot, [(other, name) for other, name in self.placements if other is not pod])

    def plus(self, pod: Pod, name: str) -> World:
        """The world with this pod on that node as well."""
        return World(self.snapshot, [*self.placements, (pod, name)])


def held_on(pod: Pod, name: str) -> Requests:
    """What a pod holds there: on its own node what it has now, elsewhere what it would ask for."""
    return pod.held if pod.node == name else pod.shape.requests


def _own_placements(snapshot: ClusterSnapshot) -> list[Placement]:
    return [
        (pod, pod.node or pod.nominated) for pod in snapshot.pods if not pod.finished and (pod.node or pod.nominated)
    ]
