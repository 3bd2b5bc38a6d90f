"""The statuses of a pod's containers, in the words of the kubelet.

`kubelet_status` and `kubelet_failures` put pods' statuses together from these. Containers are listed by name and init
containers in the order of the spec, as the kubelet lists them, so nobody may expect the spec's order here. Pure: from
a pod and its status to parts of its next status.
"""

from __future__ import annotations

from collections.abc import Callable

from kubemini.refusals import Json

CRASH_LOOP = "CrashLoopBackOff"
PULL_FAILED = "ErrImagePull"
PULL_BACK_OFF = "ImagePullBackOff"

Describe = Callable[[Json, Json], Json]
"""From a container's spec and its status until now (empty if it has none) to the fields of its status that differ."""


def is_sidecar(container: Json) -> bool:
    """Whether an init container runs beside the pod's containers, instead of before them."""
    return bool(container.get("restartPolicy") == "Always")


def sidecars(pod: Json) -> list[str]:
    """The names of a pod's restartable init containers."""
    return [each["name"] for each in pod["spec"].get("initContainers", ()) if is_sidecar(each)]


def lasting(pod: Json) -> list[str]:
    """The names of all that is meant to run for as long as the pod does, sidecars first."""
    return [*sidecars(pod), *(each["name"] for each in pod["spec"]["containers"])]


def describe(pod: Json, containers: Describe, inits: Describe) -> None:
    """Write the status of each container anew."""
    status = pod["status"]
    was = {
        each["name"]: each for each in [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    }
    in_order = sorted(pod["spec"]["containers"], key=lambda each: str(each["name"]))
    status["containerStatuses"] = [_described(each, was.get(each["name"], {}), containers) for each in in_order]
    if first := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [_described(each, was.get(each["name"], {}), inits) for each in first]


def _described(spec: Json, was: Json, describing: Describe) -> Json:
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
    return status | describing(spec, was)


def waiting(reason: str, message: str = "") -> Json:
    """It does not run yet, or not now."""
    return {"state": {"waiting": {"reason": reason} | ({"message": message} if message else {})}}


def started(was: Json, at: str, *, ready: bool) -> Json:
    """It runs: as before, for the first time, or again."""
    if state := was.get("state", {}).get("running"):
        return {"state": {"running": state}, "started": True, "ready": ready}
    again = 1 if was.get("lastState", {}).get("terminated") else 0
    return {
        "state": {"running": {"startedAt": at}},
        "restartCount": was.get("restartCount", 0) + again,
        "started": True,
        "ready": ready,
    }


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
    """It has ended without ever having run, as far as anybody knows."""
    state, last = was.get("state", {}), was.get("lastState", {})
    if state.get("terminated") or last.get("terminated"):
        return {"state": state if state.get("terminated") else last}
    message = "The container could not be located when the pod was terminated"
    return {"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}}}


def initialized(was: Json, at: str) -> Json:
    """An init container that is done."""
    done = was.get("state", {}).get("terminated") or exited({}, at, 0)
    return {"state": {"terminated": done}, "lastState": {}, "ready": True}
