"""What a kubelet writes about a pod that fares as it should: it is created, runs, is ready, completes and ends.

The words are those of the kubelet of v1.37 (pkg/kubelet/status/generate.go, kubelet_pods.go), because the product and
people go by them. Containers are listed by name and init containers in the order of the spec, as the kubelet lists
them. Pure: each function changes the pod that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from kubemini import clock
from kubemini.conditions import set_pod_condition
from kubemini.refusals import Json
from kubemini.simulation import Mode

Describe = Callable[[Json, Json], Json]
"""From a container's spec and its status until now (empty if it has none) to the fields of its status that differ."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod runs: the addresses of its node and of itself, as far as they are known, and the time there."""

    now: datetime
    host: str = ""
    pod: str = ""

    @property
    def stamp(self) -> str:
        return clock.stamp(self.now)


# The pod


def set_creating(pod: Json, place: Place) -> None:
    """Its containers are being made."""
    begin_status(pod, place)
    inits = [each["name"] for each in pod["spec"].get("initContainers", ())]
    set_pod_condition(pod, "PodReadyToStartContainers", "False")
    if inits:
        message = f"containers with incomplete status: {_list_names(inits)}"
        set_pod_condition(pod, "Initialized", "False", "ContainersNotInitialized", message)
    else:
        set_pod_condition(pod, "Initialized", "True")
    set_not_ready(pod, place, lasting_names(pod))
    reason = "PodInitializing" if inits else "ContainerCreating"
    describe(pod, lambda _, __: waiting(reason), lambda _, __: waiting("PodInitializing"))


def set_running(pod: Json, place: Place, fails: Mode | None) -> None:
    """Whatever isn't running runs, for the first time or again, and is as ready as it ever gets."""
    unready = set(unready_names(pod, fails))
    at = place.stamp
    begin_status(pod, place)
    pod["status"]["phase"] = "Running"
    for kind in ("PodReadyToStartContainers", "Initialized"):
        set_pod_condition(pod, kind, "True")

    def container(spec: Json, was: Json) -> Json:
        if was.get("state", {}).get("terminated"):  # not to be restarted: containers that are, are waiting
            return was
        return started(was, at, ready=spec["name"] not in unready)

    def init(spec: Json, was: Json) -> Json:
        return started(was, at, ready=spec["name"] not in unready) if is_sidecar(spec) else initialized(was, at)

    describe(pod, container, init)
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"]["containerStatuses"]]
    is_ready = {each["name"]: each["ready"] for each in statuses}
    if missing := [name for name in lasting_names(pod) if not is_ready[name]]:
        set_not_ready(pod, place, missing)
        return
    set_pod_condition(pod, "ContainersReady", "True")
    update_ready(pod, place)


def update_ready(pod: Json, place: Place) -> None:
    """A pod whose containers are ready is Ready, unless one of its readiness gates is not True."""
    status_of = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    missing = []
    for gate in pod["spec"].get("readinessGates", ()):
        kind = gate["conditionType"]
        if kind not in status_of:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif status_of[kind] != "True":
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {status_of[kind]}')
    if missing:
        set_pod_condition(pod, "Ready", "False", "ReadinessGatesNotReady", ", ".join(missing))
    else:
        set_pod_condition(pod, "Ready", "True")


def set_completed(pod: Json, place: Place) -> None:
    """All of it has done its work."""
    at = place.stamp
    describe(
        pod,
        lambda _, was: terminated(was, at, 0),
        lambda spec, was: terminated(was, at, 0) if is_sidecar(spec) else was,
    )
    set_finished(pod, place, "Succeeded")


def set_ended(pod: Json, place: Place) -> None:
    """It was deleted, and all of it has stopped. A Job's work that was not done has failed; a server stops cleanly."""
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return
    at = place.stamp
    owners = pod["metadata"].get("ownerReferences", ())
    code = 143 if any(owner.get("controller") and owner["kind"] == "Job" for owner in owners) else 0
    if not pod["status"].get("containerStatuses"):
        set_finished(pod, place, "Failed")
        return

    def stopped(_: Json, was: Json) -> Json:
        return terminated(was, at, code) if was.get("state", {}).get("running") else lost(was)

    describe(pod, stopped, stopped)
    codes = [each["state"]["terminated"]["exitCode"] for each in pod["status"]["containerStatuses"]]
    set_finished(pod, place, "Failed" if any(codes) else "Succeeded")


def set_finished(pod: Json, place: Place, phase: str) -> None:
    """The pod's last phase, and why it is no longer ready."""
    begin_status(pod, place)
    pod["status"]["phase"] = phase
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    for kind in ("Ready", "ContainersReady"):
        set_pod_condition(pod, kind, "False", reason)


def begin_status(pod: Json, place: Place) -> None:
    """What every status has from the first one on, and keeps."""
    status = pod["status"]
    status.setdefault("startTime", place.stamp)
    if not any(each["type"] == "PodScheduled" for each in status.get("conditions", ())):
        set_pod_condition(pod, "PodScheduled", "True")  # it was created with its node
    for address, one, many in ((place.host, "hostIP", "hostIPs"), (place.pod, "podIP", "podIPs")):
        if address and not status.get(one):
            status[one] = address
            status[many] = [{"ip": address}]


def set_not_ready(pod: Json, place: Place, names: Collection[str]) -> None:
    """Some containers are not ready, so the pod isn't."""
    message = f"containers with unready status: {_list_names(names)}"
    for kind in ("ContainersReady", "Ready"):
        set_pod_condition(pod, kind, "False", "ContainersNotReady", message)


def unready_names(pod: Json, fails: Mode | None) -> list[str]:
    """The containers that can't get ready when the pod fails like this."""
    if fails in (Mode.CRASH, Mode.NEVER_READY):
        return lasting_names(pod)
    return [pod["spec"]["containers"][0]["name"]] if fails is Mode.CRASH_BESIDE_SIDECAR else []


def lasting_names(pod: Json) -> list[str]:
    """All containers that run for as long as the pod does, sidecars first."""
    sidecars = [each["name"] for each in pod["spec"].get("initContainers", ()) if is_sidecar(each)]
    return [*sidecars, *(each["name"] for each in pod["spec"]["containers"])]


def _list_names(names: Collection[str]) -> str:
    return f"[{' '.join(names)}]"


# Its containers


def is_sidecar(container: Json) -> bool:
    """Whether an init container runs beside the pod's containers, instead of before them."""
    return bool(container.get("restartPolicy") == "Always")


def describe(pod: Json, containers: Describe, inits: Describe) -> None:
    """Write the status of each container anew."""
    status = pod["status"]
    listed = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    was = {each["name"]: each for each in listed}
    in_order = sorted(pod["spec"]["containers"], key=lambda each: str(each["name"]))
    status["containerStatuses"] = [_describe_one(each, was.get(each["name"], {}), containers) for each in in_order]
    if first := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [_describe_one(each, was.get(each["name"], {}), inits) for each in first]


def _describe_one(spec: Json, was: Json, difference: Describe) -> Json:
    status = {
        "name": spec["name"],
        "state": {},
        "lastState": was.get("lastState", {}),
        "ready": False,
        "restartCount": was.get("restartCount", 0),
        "image": spec["image"],
        "imageID": "",
        "started": False,
    }
    return status | difference(spec, was)


def waiting(reason: str, message: str = "") -> Json:
    """It does not run yet, or not now."""
    return {"state": {"waiting": {"reason": reason} | ({"message": message} if message else {})}}


def started(was: Json, at: str, *, ready: bool) -> Json:
    """It runs: as before, for the first time, or again."""
    running = {"started": True, "ready": ready}
    if state := was.get("state", {}).get("running"):
        return running | {"state": {"running": state}}
    again = 1 if was.get("lastState", {}).get("terminated") else 0
    restarts = was.get("restartCount", 0) + again
    return running | {"state": {"running": {"startedAt": at}}, "restartCount": restarts}


def exited(was: Json, at: str, code: int) -> Json:
    """What is known of a run that has ended."""
    since = was.get("state", {}).get("running", {}).get("startedAt", at)
    return {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": since, "finishedAt": at}


def terminated(was: Json, at: str, code: int) -> Json:
    """It has ended for good, with this exit code if it ran until now."""
    state, last = was.get("state", {}), was.get("lastState", {})
    if state.get("terminated"):
        return {"state": state}
    if not state.get("running") and last.get("terminated"):
        return {"state": last}
    return {"state": {"terminated": exited(was, at, code)}}


def lost(was: Json) -> Json:
    """It has ended, and there is no record that it ever ran."""
    state, last = was.get("state", {}), was.get("lastState", {})
    if state.get("terminated") or last.get("terminated"):
        return {"state": state if state.get("terminated") else last}
    message = "The container could not be located when the pod was terminated"
    return {"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}}}


def initialized(was: Json, at: str) -> Json:
    """An init container that is done."""
    done = was.get("state", {}).get("terminated") or exited({}, at, 0)
    return {"state": {"terminated": done}, "lastState": {}, "ready": True}
