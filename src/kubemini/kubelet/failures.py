"""What a kubelet writes about a pod that fails: it crashes, has no image, is rejected or is ended.

In the words of the kubelet of v1.37 (pkg/kubelet: kuberuntime, images, lifecycle, eviction, nodeshutdown, preemption),
because the product detects failures by them. Pure: each function changes the pod that it is given.
"""

from __future__ import annotations

from kubemini.conditions import set_pod_condition
from kubemini.kubelet.status import (
    Place,
    begin_status,
    describe,
    exited,
    initialized,
    is_sidecar,
    set_finished,
    set_not_ready,
    started,
    unready_names,
    waiting,
)
from kubemini.refusals import Json
from kubemini.simulation import Behaviour
from rescheduler.model.quantity import amount

CRASH_LOOP = "CrashLoopBackOff"
PULL_FAILED = "ErrImagePull"
PULL_BACK_OFF = "ImagePullBackOff"
_KILLED = 137
_MESSAGES = {
    "Evicted": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
    "Terminated": "Pod was terminated in response to imminent node shutdown.",
    "Preempting": "Preempted in order to admit critical pod",
    "DeadlineExceeded": "Pod was active on the node longer than the specified deadline",
}
_DISRUPTIONS = ("Evicted", "Terminated", "Preempting")  # not the pod's own fault, and marked as such


def set_crashed(pod: Json, place: Place, how: Behaviour) -> None:
    """Containers that crash have exited with an error, and wait to be restarted where that is allowed."""
    names = unready_names(pod, how.fails)
    restarted = pod["spec"].get("restartPolicy", "Always") != "Never"
    over = not restarted and all(each["name"] in names for each in pod["spec"]["containers"])
    at, whole = place.stamp, full_name(pod)

    def container(spec: Json, was: Json) -> Json:
        if not was.get("state", {}).get("running") or not (spec["name"] in names or over):
            return was
        exit_state = {"terminated": exited(was, at, 1)}
        if not restarted:
            return {"state": exit_state}
        message = f"back-off {how.restarts_every:g}s restarting failed container={spec['name']} pod={whole}"
        return waiting(CRASH_LOOP, message) | {"lastState": exit_state}

    describe(pod, container, container)
    if over:
        set_finished(pod, place, "Failed")
    else:
        set_not_ready(pod, place, names)


def set_pull_failed(pod: Json, place: Place) -> None:
    """Its images could not be pulled. If it ran before, it was being restarted."""
    at = place.stamp
    begin_status(pod, place)
    for kind in ("PodReadyToStartContainers", "Initialized"):
        set_pod_condition(pod, kind, "True")

    def container(spec: Json, was: Json) -> Json:
        state = {"lastState": {"terminated": exited(was, at, _KILLED)}} if was.get("state", {}).get("running") else {}
        return waiting(PULL_FAILED, pull_error(spec["image"])) | state

    def init(spec: Json, was: Json) -> Json:
        return started(was, at, ready=True) if is_sidecar(spec) else initialized(was, at)

    describe(pod, container, init)
    set_not_ready(pod, place, [each["name"] for each in pod["spec"]["containers"]])


def set_pull_backoff(pod: Json) -> None:
    """The next attempt to pull its images is some time off."""

    def container(spec: Json, was: Json) -> Json:
        failed = was.get("state", {}).get("waiting", {})
        if failed.get("reason") != PULL_FAILED:
            return was
        message = f'Back-off pulling image "{spec["image"]}": {PULL_FAILED}: {failed.get("message", "")}'
        return was | waiting(PULL_BACK_OFF, message)

    describe(pod, container, lambda _, was: was)


def set_rejected(pod: Json, place: Place, node: Json) -> None:
    """Rejected at admission for lack of CPU: nothing is known of its containers, and no condition is left."""
    capacity = amount("cpu", node.get("status", {}).get("allocatable", {}).get("cpu", "0"))
    requests = [(each.get("resources") or {}).get("requests") or {} for each in pod["spec"]["containers"]]
    requested = sum(amount("cpu", each.get("cpu", "0")) for each in requests)
    shortage = f"requested: {requested}, used: {capacity}, capacity: {capacity}"
    status = pod["status"]
    for key in ("conditions", "containerStatuses", "initContainerStatuses"):
        status.pop(key, None)
    status.setdefault("startTime", place.stamp)
    message = f"Pod was rejected: Node didn't have enough resource: cpu, {shortage}"
    status |= {"phase": "Failed", "reason": "OutOfcpu", "message": message}


def set_failed(pod: Json, place: Place, reason: str) -> None:
    """The kubelet has ended it for this reason."""
    at, message = place.stamp, _MESSAGES.get(reason, f"The pod was made to fail: {reason}")
    begin_status(pod, place)

    def killed(_: Json, was: Json) -> Json:
        return {"state": {"terminated": exited(was, at, _KILLED)}}

    describe(pod, killed, lambda spec, was: killed(spec, was) if is_sidecar(spec) else initialized(was, at))
    pod["status"] |= {"reason": reason, "message": message}
    if reason in _DISRUPTIONS:
        set_pod_condition(pod, "DisruptionTarget", "True", "TerminationByKubelet", message)
    set_pod_condition(pod, "PodReadyToStartContainers", "False")
    set_pod_condition(pod, "Initialized", "True")
    set_finished(pod, place, "Failed")


def pull_error(image: str) -> str:
    """What a container runtime says of an image that no registry has."""
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": '
        f'failed to resolve reference "{image}": {image}: not found'
    )


def full_name(pod: Json) -> str:
    """A pod as the kubelet names it in its messages."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
