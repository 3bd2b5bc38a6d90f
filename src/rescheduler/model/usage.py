"""Measured use: what nodes and pods really take, besides what pods request.

`usage` makes a Measured of the samples that it has; the snapshot carries it to planning, which counts by it where
`utilization` says so. Amounts are as everywhere: CPU in thousandths, the rest in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.model.shape import Requests

RESOURCES = ("cpu", "memory")
"""What is measured. Everything else that a node has is counted by requests alone."""


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What is used, smoothed. Whoever is missing here, or a resource of his, is counted by his requests."""

    nodes: Mapping[str, Requests] = field(default_factory=dict)
    """By name; with everything that runs on the node, pods or not."""
    pods: Mapping[tuple[str, str], Requests] = field(default_factory=dict)
    """By namespace and name; from the pod's own history alone."""
    workloads: Mapping[tuple[str, str, str], Requests] = field(default_factory=dict)
    """By kind, namespace and name: what a pod of it uses on average. It stands for pods without a history."""
    warnings: tuple[str, ...] = ()
    """What is missing or was refused, in a few sentences however much it is."""
    besides: Mapping[str, Requests] = field(default_factory=dict)
    """By node: what it uses besides its pods, at the least. `nodes` is a mean, and still has pods in it that have left:
    less the pods of now, it would call them the node's own, and the node would look hot when it no longer is."""
