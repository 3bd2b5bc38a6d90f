"""What a kubelet writes about a pod: it is created, runs, fails in one way or another, completes and ends.

The reasons are those of the kubelet of v1.37, because the product and people go by them. Containers are listed by name
and init containers in the order of the spec, as the kubelet lists them. Each function changes the pod that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kubemini.conditions import set_pod_condition
from kubemini.errors import Json
from kubemini.simulation import Mode, PodBehavior

PULL_BACK_OFF = "ImagePullBackOff"
_KILLED, _TERMINATED = 137, 143
_DISRUPTIONS = ("Evicted", "Terminated", "Preempting")  # not the pod's own fault, and marked as such
_Describe = Callable[[Json, Json], Json]
"""From a container's spec and its status until now (empty if it has none) to the fields of its status that differ."""


@dataclass(frozen=True, slots=True)
class PodContext:
    """The time, the addresses of the pod's node and of the pod, and how the pod behaves there."""

    now: str
    host: str
    pod: str
    how: PodBehavior


def set_creating(pod: Json, place: PodContext) -> None:
    """Its containers are being made."""
    _begin(pod, place)
    inits = bool(pod["spec"].get("initContainers"))
    if inits:
        set_pod_condition(pod, "Initialized", "False", "ContainersNotInitialized")
    waits = _waiting("PodInitializing" if inits else "ContainerCreating")
    _describe(pod, place, lambda _, __: waits, lambda _, __: waits)
    _set_not_ready(pod, lasting_names(pod))


def set_running(pod: Json, place: PodContext) -> None:
    """Whatever isn't running runs, for the first time or again, and is as ready as it ever gets."""
    unready = unready_names(pod, place.how.fails)
    _begin(pod, place)
    pod["status"]["phase"] = "Running"

    def container(spec: Json, was: Json) -> Json:
        if was.get("state", {}).get("terminated"):  # not to be restarted: containers that are, are waiting
            return was
        return _started(was, place.now, ready=spec["name"] not in unready)

    _describe(pod, place, container)
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"]["containerStatuses"]]
    is_ready = {each["name"]: each["ready"] for each in statuses}
    if missing := [name for name in lasting_names(pod) if not is_ready[name]]:
        _set_not_ready(pod, missing)
        return
    set_pod_condition(pod, "ContainersReady", "True")
    update_ready(pod, place)


def update_ready(pod: Json, place: PodContext) -> None:
    """A pod whose containers are ready is Ready, unless one of its readiness gates is not True."""
    if passes_gates(pod):
        set_pod_condition(pod, "Ready", "True")
    else:
        set_pod_condition(pod, "Ready", "False", "ReadinessGatesNotReady")


def set_crashed(pod: Json, place: PodContext) -> None:
    """Containers that crash have exited with an error, and wait to be restarted where that is allowed."""
    names, metadata = unready_names(pod, place.how.fails), pod["metadata"]
    restarted = pod["spec"].get("restartPolicy", "Always") != "Never"
    over = not restarted and all(each["name"] in names for each in pod["spec"]["containers"])
    whole = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"

    def container(spec: Json, was: Json) -> Json:
        if not was.get("state", {}).get("running") or not (spec["name"] in names or over):
            return was
        exit_state = {"terminated": _exited(was, place.now, 1)}
        if not restarted:
            return {"state": exit_state}
        message = f"back-off {place.how.restarts_every:g}s restarting failed container={spec['name']} pod={whole}"
        return _waiting("CrashLoopBackOff", message) | {"lastState": exit_state}

    _describe(pod, place, container)
    if over:
        _set_finished(pod, place, "Failed")
    else:
        _set_not_ready(pod, names)


def set_unpulled(pod: Json, place: PodContext) -> None:
    """Its images can't be pulled. If it ran before, it was being restarted."""
    _begin(pod, place)

    def container(spec: Json, was: Json) -> Json:
        running = was.get("state", {}).get("running")
        last = {"lastState": {"terminated": _exited(was, place.now, _KILLED)}} if running else {}
        image = spec["image"]
        return _waiting(PULL_BACK_OFF, f'Back-off pulling image "{image}": ErrImagePull: {image}: not found') | last

    _describe(pod, place, container)
    _set_not_ready(pod, lasting_names(pod))


def set_rejected(pod: Json, place: PodContext) -> None:
    """Rejected at admission for lack of CPU: nothing is known of its containers, and no condition is left."""
    pod["status"] = {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource: cpu",
        "startTime": pod["status"].get("startTime", place.now),
    }


def set_failed(pod: Json, place: PodContext) -> None:
    """The kubelet has ended it for a reason."""
    reason = place.how.reason
    message = f"The pod was made to fail: {reason}"
    pod["status"] |= {"reason": reason, "message": message}
    if reason in _DISRUPTIONS:
        set_pod_condition(pod, "DisruptionTarget", "True", "TerminationByKubelet", message)
    _describe(pod, place, lambda _, was: _stopped(was, place.now, _KILLED))
    _set_finished(pod, place, "Failed")


def set_completed(pod: Json, place: PodContext) -> None:
    """All of it has done its work."""
    _describe(pod, place, lambda _, was: _stopped(was, place.now, 0))
    _set_finished(pod, place, "Succeeded")


def set_ended(pod: Json, place: PodContext) -> None:
    """It was deleted, and all of it has stopped. A Job's work that was not done has failed; a server stops cleanly."""
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return
    code = _TERMINATED if is_of_job(pod) else 0
    _describe(pod, place, lambda _, was: _stopped(was, place.now, code))
    failed = any(each["state"]["terminated"]["exitCode"] for each in pod["status"]["containerStatuses"])
    _set_finished(pod, place, "Failed" if failed else "Succeeded")


def passes_gates(pod: Json) -> bool:
    """Whether all of the pod's readiness gates are True."""
    true = {each["type"] for each in pod["status"].get("conditions", ()) if each["status"] == "True"}
    return all(gate["conditionType"] in true for gate in pod["spec"].get("readinessGates", ()))


def is_of_job(pod: Json) -> bool:
    """Whether a Job controls the pod."""
    owners = pod["metadata"].get("ownerReferences", ())
    return any(each["kind"] == "Job" and each.get("controller") for each in owners)


def unready_names(pod: Json, fails: Mode | None) -> list[str]:
    """The containers that can't get ready when the pod fails like this."""
    if fails in (Mode.CRASH, Mode.NEVER_READY):
        return lasting_names(pod)
    return [pod["spec"]["containers"][0]["name"]] if fails is Mode.CRASH_BESIDE_SIDECAR else []


def lasting_names(pod: Json) -> list[str]:
    """All containers that run for as long as the pod does, sidecars first."""
    sidecars = [each["name"] for each in pod["spec"].get("initContainers", ()) if _is_sidecar(each)]
    return [*sidecars, *(each["name"] for each in pod["spec"]["containers"])]


def _begin(pod: Json, place: PodContext) -> None:
    """What every status but that of a rejected pod has from the first one on, and keeps."""
    status = pod["status"]
    status.setdefault("startTime", place.now)
    if not any(each["type"] == "PodScheduled" for each in status.get("conditions", ())):
        set_pod_condition(pod, "PodScheduled", "True")  # it was created with its node
    for address, one, many in ((place.host, "hostIP", "hostIPs"), (place.pod, "podIP", "podIPs")):
        if address and not status.get(one):
            status[one] = address
            status[many] = [{"ip": address}]
    set_pod_condition(pod, "Initialized", "True")


def _set_finished(pod: Json, place: PodContext, phase: str) -> None:
    """The pod's last phase, and why it is no longer ready."""
    _begin(pod, place)
    pod["status"]["phase"] = phase
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    for kind in ("Ready", "ContainersReady"):
        set_pod_condition(pod, kind, "False", reason)


def _set_not_ready(pod: Json, names: Collection[str]) -> None:
    """Some containers are not ready, so the pod isn't."""
    message = f"containers with unready status: [{' '.join(names)}]"
    for kind in ("ContainersReady", "Ready"):
        set_pod_condition(pod, kind, "False", "ContainersNotReady", message)


def _is_sidecar(container: Json) -> bool:
    """Whether an init container runs beside the pod's containers, instead of before them."""
    return bool(container.get("restartPolicy") == "Always")


def _describe(pod: Json, place: PodContext, containers: _Describe, inits: _Describe | None = None) -> None:
    """Rewrite the status of each container; sidecars are like containers, and other init containers are done."""
    status = pod["status"]
    listed = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    before = {each["name"]: each for each in listed}

    def done(_: Json, was: Json) -> Json:
        ended = was.get("state", {}).get("terminated") or _exited({}, place.now, 0)
        return {"state": {"terminated": ended}, "ready": True}

    def one(spec: Json, difference: _Describe) -> Json:
        was = before.get(spec["name"], {})
        usual = {
            "name": spec["name"],
            "state": {},
            "lastState": was.get("lastState", {}),
            "ready": False,
            "restartCount": was.get("restartCount", 0),
            "image": spec["image"],
            "imageID": "",
            "started": False,
        }
        return usual | difference(spec, was)

    in_order = sorted(pod["spec"]["containers"], key=lambda each: str(each["name"]))
    status["containerStatuses"] = [one(each, containers) for each in in_order]
    if first := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [
            one(each, containers if _is_sidecar(each) else inits or done) for each in first
        ]


def _waiting(reason: str, message: str = "") -> Json:
    """It does not run yet, or not now."""
    return {"state": {"waiting": {"reason": reason} | ({"message": message} if message else {})}}


def _started(was: Json, at: str, *, ready: bool) -> Json:
    """It runs: as before, for the first time, or again."""
    running = {"started": True, "ready": ready}
    if state := was.get("state", {}).get("running"):
        return running | {"state": {"running": state}}
    again = 1 if was.get("lastState", {}).get("terminated") else 0
    restarts = was.get("restartCount", 0) + again
    return running | {"state": {"running": {"startedAt": at}}, "restartCount": restarts}


def _exited(was: Json, at: str, code: int) -> Json:
    """What is known of a run that has ended."""
    since = was.get("state", {}).get("running", {}).get("startedAt", at)
    return {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": since, "finishedAt": at}


def _stopped(was: Json, at: str, code: int) -> Json:
    """It has ended for good: with this exit code if it ran until now, else as it ended before."""
    state, last = was.get("state", {}), was.get("lastState", {})
    if state.get("running"):
        return {"state": {"terminated": _exited(was, at, code)}}
    ended = state.get("terminated") or last.get("terminated") or _exited(was, at, _KILLED)
    return {"state": {"terminated": ended}}
