"""Two nodes, of which one has three pods that use 60 per cent of its CPU: hot as soon as the threshold is lower."""

from __future__ import annotations

from tests.support.both_clusters import Space
from tests.support.manifests import deployment
from tests.testbed.hollow import NodeShape

PODS = 3
SHAPE = NodeShape(cpu="4")


def load(space: Space, nodes: list[str]) -> str:
    """Make the pods on the first of two nodes; its name."""
    node, other = nodes
    with space.cordoned(other):
        space.create(deployment("web", PODS, cpu="800m"))
        space.rolled_out("web")
    return node
