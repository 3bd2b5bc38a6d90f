"""What the operator says about failed pods: the section `recovery` of a configuration, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

FAILED_REASONS = (
    "Error",
    "Evicted",
    "OutOf*",
    "NodeAffinity",
    "UnexpectedAdmissionError",
    "NodeShutdown",
    "NodeLost",
    "Terminated",
)
"""Of pods that have failed as a whole: `Error` is an exit code, the others are the kubelet's words."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which failures count and how long each may last, in seconds."""

    enabled: bool = True
    crash_restarts: int = 3
    """So many restarts make a crash loop of a crash."""
    failed_reasons: tuple[str, ...] = FAILED_REASONS
    """Of pods in phase Failed; a `*` at the end stands for anything."""
    start_timeout: float = 600.0
    """A pod that is on a node and has not started for so long has failed."""
    image_pull_timeout: float = 120.0
    """An image that cannot be pulled for so long is this node's failure."""
    node_not_ready: float = 60.0
    """A node that is not ready for so long has lost its pods."""
    delay: float = 5.0
    """A failure is acted upon when it has been seen for so long."""
    same_node_delay: float = 30.0
    """A pod that came back to a node where its like had failed before was kept off it by nobody: it waits so long."""
    clear_after: float = 600.0
    """A workload that has been healthy for so long starts with a clean record."""
    forget_after: float = 3600.0
    """A failure that is older says nothing about its node any more."""
    fault_nodes: int = 4
    """Pods that failed on so many nodes, and run nowhere, fail by their workload's own fault."""
