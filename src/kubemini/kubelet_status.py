"""What a kubelet says about a pod that fares as it should: it is created, runs, is ready, completes and ends.

`kubelet` writes these, one at a time, as `kubelet_steps` says; what goes wrong is in `kubelet_failures`. The words are
those of the kubelet of v1.37 (pkg/kubelet/status/generate.go, kubelet_pods.go). Pure: each takes a pod of its own, and
gives it back with its next status.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from kubemini import clock
from kubemini.controllers.conditions import set_condition
from kubemini.kubelet_containers import (
    describe,
    initialized,
    is_sidecar,
    lasting,
    lost,
    started,
    terminated,
    waiting,
)
from kubemini.refusals import Json
from kubemini.simulation import Mode


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod runs: the addresses of its node and of itself, as far as they are known, and the time there."""

    now: datetime
    host: str = ""
    pod: str = ""

    @property
    def stamp(self) -> str:
        return clock.stamp(self.now)


def created(pod: Json, place: Place) -> Json:
    """Its containers are being made, which takes its time."""
    settle(pod, place)
    inits = [each["name"] for each in pod["spec"].get("initContainers", ())]
    reason = "PodInitializing" if inits else "ContainerCreating"
    say(pod, place, "PodReadyToStartContainers", "False")
    if inits:
        message = f"containers with incomplete status: {_listed(inits)}"
        say(pod, place, "Initialized", "False", "ContainersNotInitialized", message)
    else:
        say(pod, place, "Initialized", "True")
    not_ready(pod, place, lasting(pod))
    describe(pod, lambda _, __: waiting(reason), lambda _, __: waiting("PodInitializing"))
    return pod


def running(pod: Json, place: Place, fails: Mode | None) -> Json:
    """Whatever isn't running runs, for the first time or again; and is as ready as it ever gets."""
    unready = set(unready_names(pod, fails))
    at = place.stamp
    settle(pod, place)
    pod["status"]["phase"] = "Running"
    for kind in ("PodReadyToStartContainers", "Initialized"):
        say(pod, place, kind, "True")

    def container(spec: Json, was: Json) -> Json:
        if was.get("state", {}).get("terminated"):  # it is not to be restarted: those that are, are waiting
            return was
        return started(was, at, ready=spec["name"] not in unready)

    def init(spec: Json, was: Json) -> Json:
        if is_sidecar(spec):
            return started(was, at, ready=spec["name"] not in unready)
        return initialized(was, at)

    describe(pod, container, init)
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"]["containerStatuses"]]
    if missing := [name for name in lasting(pod) if not next(s["ready"] for s in statuses if s["name"] == name)]:
        return not_ready(pod, place, missing)
    say(pod, place, "ContainersReady", "True")
    return ready_or_not(pod, place)


def ready_or_not(pod: Json, place: Place) -> Json:
    """A pod whose containers are ready is Ready, unless one of its readiness gates is not True."""
    said = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    missing = []
    for gate in pod["spec"].get("readinessGates", ()):
        kind = gate["conditionType"]
        if kind not in said:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif said[kind] != "True":
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {said[kind]}')
    if missing:
        say(pod, place, "Ready", "False", "ReadinessGatesNotReady", ", ".join(missing))
    else:
        say(pod, place, "Ready", "True")
    return pod


def completed(pod: Json, place: Place) -> Json:
    """All of it has done its work."""
    at = place.stamp
    describe(
        pod,
        lambda _, was: terminated(was, at, 0),
        lambda spec, was: terminated(was, at, 0) if is_sidecar(spec) else was,
    )
    return finished(pod, place, "Succeeded")


def ended(pod: Json, place: Place) -> Json:
    """It was deleted, and all of it has stopped. Work that was not done has failed; a server stops in good order."""
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return pod
    at = place.stamp
    owners = pod["metadata"].get("ownerReferences", ())
    code = 143 if any(owner.get("controller") and owner["kind"] == "Job" for owner in owners) else 0
    if not pod["status"].get("containerStatuses"):
        return finished(pod, place, "Failed")

    def stopped(_: Json, was: Json) -> Json:
        return terminated(was, at, code) if was.get("state", {}).get("running") else lost(was)

    describe(pod, stopped, stopped)
    codes = [each["state"]["terminated"]["exitCode"] for each in pod["status"]["containerStatuses"]]
    return finished(pod, place, "Failed" if any(codes) else "Succeeded")


def finished(pod: Json, place: Place, phase: str) -> Json:
    """The pod's last phase, and why it is no longer ready."""
    settle(pod, place)
    pod["status"]["phase"] = phase
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    for kind in ("Ready", "ContainersReady"):
        say(pod, place, kind, "False", reason)
    return pod


def settle(pod: Json, place: Place) -> None:
    """What every status has from the first one on, and keeps."""
    status = pod["status"]
    status.setdefault("startTime", place.stamp)
    if not any(each["type"] == "PodScheduled" for each in status.get("conditions", ())):
        say(pod, place, "PodScheduled", "True")  # whoever bound it said so, unless it was bound from the beginning
    for address, one, many in ((place.host, "hostIP", "hostIPs"), (place.pod, "podIP", "podIPs")):
        if address and not status.get(one):
            status[one] = address
            status[many] = [{"ip": address}]


def not_ready(pod: Json, place: Place, names: Collection[str]) -> Json:
    """Some containers are not ready, so the pod isn't."""
    message = f"containers with unready status: {_listed(names)}"
    for kind in ("ContainersReady", "Ready"):
        say(pod, place, kind, "False", "ContainersNotReady", message)
    return pod


def say(pod: Json, place: Place, kind: str, status: str, reason: str = "", message: str = "") -> None:
    """Put a condition into the pod's status."""
    condition: Json = {"type": kind, "status": status, "lastProbeTime": None}
    condition |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    set_condition(pod["status"], condition, place.now)


def unready_names(pod: Json, fails: Mode | None) -> list[str]:
    """The containers that can't get ready when the pod fails like this."""
    if fails in (Mode.CRASH, Mode.NEVER_READY):
        return lasting(pod)
    return [pod["spec"]["containers"][0]["name"]] if fails is Mode.CRASH_BESIDE_SIDECAR else []


def _listed(names: Collection[str]) -> str:
    return f"[{' '.join(names)}]"
