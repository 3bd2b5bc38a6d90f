"""The columns of pods: how many containers are ready, the one word for what the pod is at, and its restarts.

That word is not in the object: it is put together from the phase and the states of the containers, by the rules that
`kubectl get pods` has always had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubemini.refusals import Json
from kubemini.server import ages
from kubemini.server.columns import (
    AGE,
    NAME,
    NONE,
    Cells,
    Printer,
    age_of,
    condition,
    dig,
    holds,
    is_deleting,
    name_of,
    texts,
    wide,
)

_COMPLETED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclass
class _Summary:
    """What is known of a pod while its containers are gone through."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count(self, container: Json) -> None:
        """Add a container's restarts."""
        self.restarts += container.get("restartCount", 0)
        ended = dig(container, "lastState", "terminated", "finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)  # stamps of one form sort as their times do


def _row(pod: Json) -> Cells:
    summary = _summary(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts += f" ({ages.age(summary.last_restart)} ago)"
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    total = len(spec.get("containers") or ()) + len(_sidecars(pod))
    addresses = status.get("podIPs") or [{}]
    return [
        name_of(pod),
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        age_of(pod),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def _summary(pod: Json) -> _Summary:
    status = pod.get("status") or {}
    phase = status.get("phase", "")
    summary = _Summary(status.get("reason") or phase)
    if (condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    initializing = _go_through_init_containers(pod, summary)
    if not initializing or holds(pod, "Initialized"):
        # What happened during initialization is over: only containers that still run count.
        summary.restarts, summary.last_restart = 0, ""
        sidecars = _sidecars(pod)
        for container in status.get("initContainerStatuses") or ():
            if container.get("name") in sidecars:
                summary.count(container)
        _go_through_containers(pod, summary)
    if is_deleting(pod):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _go_through_init_containers(pod: Json, summary: _Summary) -> bool:
    """Whether the pod is still being initialized, or could not be."""
    sidecars = _sidecars(pod)
    for number, container in enumerate(dig(pod, "status", "initContainerStatuses") or ()):
        summary.count(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            summary.reason = f"Init:{_ending(terminated)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = f"Init:{waiting['reason']}"
        else:
            summary.reason = f"Init:{number}/{len(dig(pod, 'spec', 'initContainers') or ())}"
        return True
    return False


def _go_through_containers(pod: Json, summary: _Summary) -> None:
    running, failure = False, ""
    for container in reversed(dig(pod, "status", "containerStatuses") or []):
        summary.count(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            summary.reason = waiting["reason"]
        elif terminated is not None:
            summary.reason = _ending(terminated)
            if terminated.get("exitCode"):
                failure = summary.reason
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":  # one container is done, but maybe not all
        if running and holds(pod, "Ready"):
            summary.reason = "Running"
        elif failure:
            summary.reason = failure
        elif running:
            summary.reason = "NotReady"


def _ending(terminated: Json) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _sidecars(pod: Json) -> set[str]:
    containers: Iterable[Json] = dig(pod, "spec", "initContainers") or ()
    return {each.get("name", "") for each in containers if each.get("restartPolicy") == "Always"}


def _readiness_gates(pod: Json) -> str:
    gates = dig(pod, "spec", "readinessGates") or ()
    if not gates:
        return NONE
    return f"{sum(holds(pod, each.get('conditionType', '')) for each in gates)}/{len(gates)}"


def _conditions(pod: Json) -> list[Json]:
    phase = dig(pod, "status", "phase")
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


PODS = Printer(
    [
        NAME,
        *texts("Ready", "Status", "Restarts"),
        AGE,
        *wide("IP", "Node", "Nominated Node", "Readiness Gates"),
    ],
    _row,
    _conditions,
)
