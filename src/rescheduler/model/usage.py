"""Measured usage of nodes and pods, besides what pods request.

`usage` computes it from samples; the snapshot carries it to planning, which uses it if `utilization` says so. CPU is in
thousandths, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.model.shape import Requests

RESOURCES = ("cpu", "memory")
"""The measured resources; all others are counted by requests."""


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """Smoothed usage. Anything missing here falls back to its requests."""

    nodes: Mapping[str, Requests] = field(default_factory=dict)
    """By name; with everything that runs on the node, pods or not."""
    pods: Mapping[tuple[str, str], Requests] = field(default_factory=dict)
    """By namespace and name; from the pod's own history alone."""
    workloads: Mapping[tuple[str, str, str], Requests] = field(default_factory=dict)
    """By kind, namespace and name: the average usage of its pods, for pods without a history."""
    warnings: tuple[str, ...] = ()
    """What is missing or was refused, in a few sentences."""
    besides: Mapping[str, Requests] = field(default_factory=dict)
    """By node: the least that it uses besides its pods. `nodes` is a mean and still contains pods that have left, so
    subtracting present pods from it would count those as overhead, and the node would look hot for too long."""
