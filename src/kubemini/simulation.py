"""Simulated failures: annotations and labels that change how the embedded kubelets treat pods.

Annotations of a pod, normally in its workload's template so that every replica has them, set its pace and make it fail;
added to a running pod they take effect at once, taken off they end. A label of a node silences its kubelet. The test
bed's KWOK obeys the same marks on a real control plane. A value that makes no sense counts as not given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "simulate.rescheduler.io/"
KUBELET_LABEL = f"{PREFIX}kubelet"
CPU_USAGE, MEMORY_USAGE = "cpu-usage", "memory-usage"
"""What each container of a pod uses (`kubelet.metrics`); by default what it requests."""
_SHORTEST_RESTART = 0.1


class Mode(StrEnum):
    """How a pod fails (`fails`)."""

    CRASH = "CrashLoopBackOff"
    """Its containers exit with an error and are restarted, again and again; they are never ready in between."""
    CRASH_BESIDE_SIDECAR = "SidecarRuns"
    """The same, but for its first container only; the others run, and are ready."""
    NEVER_READY = "NeverReady"
    """Its containers run, but never get ready."""
    NO_IMAGE = "ImagePullBackOff"
    """Its images can't be pulled."""
    REJECTED = "OutOfcpu"
    """The kubelet turns it away: no room."""
    ENDED = "Failed"
    """The kubelet ends it, for a `reason`."""


class Kubelet(StrEnum):
    """How a node's kubelet is."""

    HEALTHY = ""
    NOT_READY = "NotReady"
    """It runs and reports that its node is not ready; its pods continue."""
    DEAD = "Dead"
    """It reports nothing and does nothing."""


@dataclass(frozen=True, slots=True)
class PodBehavior:
    """How one pod behaves on one node; times are in seconds."""

    fails: Mode | None = None
    reason: str = "Evicted"
    starts_in: float | None = None
    """From bound to running; None is at once, without a word before."""
    completes_in: float = 1.0
    """From running to done, for the pods of Jobs."""
    ends_in: float = 0.2
    """From deleted to gone, if its grace allows for it."""
    restarts_every: float = 1.0
    """From crash to crash; not more often than a machine can stand."""

    @property
    def fails_in(self) -> float:
        """From bound to failed or turned away.

        A ReplicaSet replaces such pods at once and forever, so it takes a second by default.
        """
        return 1.0 if self.starts_in is None else self.starts_in


HEALTHY = PodBehavior()


def behaviour(annotations: Mapping[str, str] | None, node: str) -> PodBehavior:
    """What a pod's annotations say about how it behaves on this node."""
    given = {key.removeprefix(PREFIX): value for key, value in (annotations or {}).items() if key.startswith(PREFIX)}
    if not given:
        return HEALTHY
    mode = given.get("fails", "")
    fails = mode in tuple(Mode) and node in (each.strip() for each in given.get("fails-on", node).split(","))
    starts_in = _seconds(given, "starts-in", math.nan)
    return PodBehavior(
        fails=Mode(mode) if fails else None,
        reason=given.get("reason", HEALTHY.reason),
        starts_in=None if math.isnan(starts_in) else starts_in,
        completes_in=_seconds(given, "completes-in", HEALTHY.completes_in),
        ends_in=_seconds(given, "ends-in", HEALTHY.ends_in),
        restarts_every=max(_seconds(given, "restarts-every", HEALTHY.restarts_every), _SHORTEST_RESTART),
    )


def kubelet_of(labels: Mapping[str, str]) -> Kubelet:
    """How a node's kubelet is, by the node's labels."""
    given = labels.get(KUBELET_LABEL, "")
    return Kubelet(given) if given in tuple(Kubelet) else Kubelet.HEALTHY


def _seconds(given: Mapping[str, str], name: str, usual: float) -> float:
    try:
        number = float(given[name])
    except (KeyError, ValueError):
        return usual
    return number if 0 <= number < math.inf else usual
