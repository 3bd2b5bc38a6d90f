"""What a kubelet says about a pod that fares badly: it crashes, has no image, is turned away or is ended.

The failing half of `kubelet_status`, in the words of the kubelet of v1.37 (pkg/kubelet: kuberuntime, images, lifecycle,
eviction, nodeshutdown, preemption), because the product detects failures by them. Pure: each takes a pod of its own,
and gives it back with its next status.
"""

from __future__ import annotations

from kubemini.kubelet_containers import (
    CRASH_LOOP,
    PULL_BACK_OFF,
    PULL_FAILED,
    describe,
    exited,
    initialized,
    is_sidecar,
    started,
    waiting,
)
from kubemini.kubelet_status import Place, finished, not_ready, say, settle, unready_names
from kubemini.refusals import Json
from kubemini.simulation import Behaviour

_KILLED = 137
_MESSAGES = {
    "Evicted": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
    "Terminated": "Pod was terminated in response to imminent node shutdown.",
    "Preempting": "Preempted in order to admit critical pod",
    "DeadlineExceeded": "Pod was active on the node longer than the specified deadline",
}
_DISRUPTIONS = ("Evicted", "Terminated", "Preempting")  # not the pod's own doing, which controllers are told


def crashed(pod: Json, place: Place, how: Behaviour) -> Json:
    """Those of its containers that crash have exited with an error, and wait to be restarted where that is allowed."""
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
    return finished(pod, place, "Failed") if over else not_ready(pod, place, names)


def unpulled(pod: Json, place: Place) -> Json:
    """Its images could not be pulled. If it ran before, it was being restarted."""
    at = place.stamp
    settle(pod, place)
    for kind in ("PodReadyToStartContainers", "Initialized"):
        say(pod, place, kind, "True")

    def container(spec: Json, was: Json) -> Json:
        state = {"lastState": {"terminated": exited(was, at, _KILLED)}} if was.get("state", {}).get("running") else {}
        return waiting(PULL_FAILED, pull_error(spec["image"])) | state

    def init(spec: Json, was: Json) -> Json:
        return started(was, at, ready=True) if is_sidecar(spec) else initialized(was, at)

    describe(pod, container, init)
    return not_ready(pod, place, [each["name"] for each in pod["spec"]["containers"]])


def waits_to_pull(pod: Json) -> Json:
    """The next attempt to pull its images is some time off."""

    def container(spec: Json, was: Json) -> Json:
        failed = was.get("state", {}).get("waiting", {})
        if failed.get("reason") != PULL_FAILED:
            return was
        message = f'Back-off pulling image "{spec["image"]}": {PULL_FAILED}: {failed.get("message", "")}'
        return was | waiting(PULL_BACK_OFF, message)

    describe(pod, container, lambda _, was: was)
    return pod


def rejected(pod: Json, place: Place, reason: str, message: str) -> Json:
    """Turned away at the door: nothing is known of its containers, and no condition is left."""
    status = pod["status"]
    for key in ("conditions", "containerStatuses", "initContainerStatuses"):
        status.pop(key, None)
    status.setdefault("startTime", place.stamp)
    status |= {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    return pod


def ended_for(pod: Json, place: Place, reason: str) -> Json:
    """The kubelet has ended it for a reason that is not the pod's."""
    at, message = place.stamp, message_of(reason)
    settle(pod, place)

    def killed(_: Json, was: Json) -> Json:
        return {"state": {"terminated": exited(was, at, _KILLED)}}

    describe(pod, killed, lambda spec, was: killed(spec, was) if is_sidecar(spec) else initialized(was, at))
    pod["status"] |= {"reason": reason, "message": message}
    if reason in _DISRUPTIONS:
        say(pod, place, "DisruptionTarget", "True", "TerminationByKubelet", message)
    say(pod, place, "PodReadyToStartContainers", "False")
    say(pod, place, "Initialized", "True")
    return finished(pod, place, "Failed")


def message_of(reason: str) -> str:
    """What the kubelet says with a reason for ending a pod."""
    return _MESSAGES.get(reason, f"The pod was made to fail: {reason}")


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
