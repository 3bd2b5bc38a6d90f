"""Detects whether a pod has failed, or when it will have: by its status, its node and the operator's settings.

A failure counts when it has lasted for a while, by the times in the status itself, so that no leader has to remember
when it saw something first. Pods that have succeeded, are being deleted or are Ready have not failed, whatever else
their status says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rescheduler.migration.observation import (
    container_statuses,
    controller_of,
    find_condition,
    has_finished,
    is_terminating,
    labels_of,
)
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import parse_instant, read_instant
from rescheduler.recovery.avoidance import avoided_nodes
from rescheduler.recovery.decision import SOON, DecisionBuilder, RecoveryReason, WorkloadState, is_outdated
from rescheduler.recovery.jobs import why_stopped
from rescheduler.recovery.record import RecordEntry
from rescheduler.recovery.settings import RecoverySettings, RetriesError, find_retries, matches_reason, total_retries

CRASH_LOOP = "CrashLoopBackOff"
ERROR = "Error"
NOT_STARTED = "NotStarted"
NODE_NOT_READY = "NodeNotReady"
NODE_LOST = "NodeLost"
INVALID_IMAGE = "InvalidImageName"
IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", INVALID_IMAGE})
_NEVER = "DeadlineExceeded"  # the pod used the time that its owner gave it, and another node gives it no more
_PLACE = "place"
_JUST_NOW = 2.0  # seconds
_HEALTHY_RUN = 600.0  # seconds, after which a kubelet, too, forgets that a container crashed before


@dataclass(frozen=True, slots=True)
class DetectedFailure:
    """What is wrong with a pod."""

    reason: str
    """One word: CrashLoopBackOff, Evicted, ImagePullBackOff, NotStarted, NodeNotReady, Error and the like."""
    message: str
    """The end of a sentence that begins with the pod."""
    due: float = 0.0
    """Seconds until it counts as failed; 0 means now."""
    at_fault: bool = False
    """Whether it would fail like this on any node."""


def failure_kind(reason: str) -> str:
    """Return the kind of a failure. Failures of one kind may have one cause: crashes, images, starts, or the place."""
    if reason in (CRASH_LOOP, ERROR):
        return "crash"
    if reason in IMAGE_REASONS:
        return "image"
    return "start" if reason == NOT_STARTED else _PLACE


def may_be_own_fault(reason: str) -> bool:
    """Whether a workload can cause such failures itself; it cannot cause missing or full nodes."""
    return failure_kind(reason) != _PLACE


def detect_failure(pod: Json, node: Json | None, settings: RecoverySettings, now: float) -> DetectedFailure | None:
    """Return the failure of a pod that counts, now or soon; `node` is its node, None if that does not exist."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if is_terminating(pod) or phase == "Succeeded" or find_condition(pod, "Ready").get("status") == "True":
        return None
    if phase == "Failed":
        return _pod_failure(pod, settings, now)
    if not pod["spec"].get("nodeName"):
        return None
    found = [
        *_node_failures(pod, node, settings, now),
        *_container_failures(pod, settings, now),
        *_start_failures(pod, settings, now),
    ]
    return min(found, key=lambda each: (not each.at_fault, each.due), default=None)


def is_ready(node: Json) -> bool:
    """Whether a node's kubelet reports that it is ready."""
    return bool(find_condition(node, "Ready").get("status") == "True")


def ended_at(pod: Json) -> float:
    """Return when a failed pod failed."""
    if ends := _end_times(container_statuses(pod)):
        return max(ends)
    for kind in ("Ready", "DisruptionTarget"):
        if (at := read_instant(find_condition(pod, kind).get("lastTransitionTime"))) is not None:
            return at
    # A kubelet that rejects a pod reports only when it accepted it.
    return read_instant((pod.get("status") or {}).get("startTime")) or _created_at(pod)


def _pod_failure(pod: Json, settings: RecoverySettings, now: float) -> DetectedFailure | None:
    status = pod["status"]
    reason = status.get("reason") or ERROR
    since = ended_at(pod)
    if not _is_counted(reason, settings) or now - since >= settings.forget_after:
        return None
    said = "failed" if reason == ERROR else f"failed: {reason}"
    crashed = [each for each in container_statuses(pod) if any(end.get("exitCode") for end in _ends(each))]
    detail = _describe_exit(crashed[0]) if crashed else str(status.get("message") or "").strip().rstrip(".")
    return DetectedFailure(reason, f"{said} ({detail})" if detail else said, _seconds_left(since, settings.delay, now))


def _is_counted(reason: str, settings: RecoverySettings) -> bool:
    return reason != _NEVER and matches_reason(reason, settings.failed_reasons)


def _node_failures(pod: Json, node: Json | None, settings: RecoverySettings, now: float) -> Iterator[DetectedFailure]:
    name = pod["spec"]["nodeName"]
    if node is None:
        since = read_instant(find_condition(pod, "Ready").get("lastTransitionTime")) or _bound_at(pod)
        left = _seconds_left(since, settings.node_not_ready, now)
        yield DetectedFailure(NODE_LOST, f"was on node {name}, which is gone", left)
    elif not is_ready(node):
        since = read_instant(find_condition(node, "Ready").get("lastTransitionTime")) or _created_at(node)
        said = f"is on node {name}, which has not been ready for {max(0, now - since):.0f} s"
        yield DetectedFailure(NODE_NOT_READY, said, _seconds_left(since, settings.node_not_ready, now))


def _container_failures(pod: Json, settings: RecoverySettings, now: float) -> Iterator[DetectedFailure]:
    policies = _restart_policies(pod)
    for each in container_statuses(pod):
        state = each.get("state") or {}
        waits = (state.get("waiting") or {}).get("reason") or ""
        code = (state.get("terminated") or {}).get("exitCode") or 0
        restarts = each.get("restartCount") or 0
        if waits in IMAGE_REASONS:
            yield _image_failure(pod, each, settings, now)
        elif code and policies.get(each["name"]) == "Never":
            # Another container still runs, else the pod's phase would be Failed; this one is not restarted.
            if _is_counted(ERROR, settings):
                since = read_instant(state["terminated"].get("finishedAt")) or _bound_at(pod)
                yield DetectedFailure(
                    ERROR, f"has failed ({_describe_exit(each)})", _seconds_left(since, settings.delay, now)
                )
        elif restarts < settings.crash_restarts or _ran_well(each):
            continue
        elif code or waits == CRASH_LOOP or _just_restarted(each, now):
            since = max(_end_times([each]), default=_bound_at(pod))
            # One more crash since then is proof enough.
            due = 0.0 if restarts > settings.crash_restarts else _seconds_left(since, settings.delay, now)
            yield DetectedFailure(CRASH_LOOP, f"keeps crashing ({_describe_exit(each)}, {restarts} restarts)", due)


def _just_restarted(status: Json, now: float) -> bool:
    """Whether it crashed and was restarted a moment ago: instant crashes are seldom seen in any other state."""
    running = (status.get("state") or {}).get("running")
    since = read_instant(running.get("startedAt")) if running else None
    crashed = bool(((status.get("lastState") or {}).get("terminated") or {}).get("exitCode"))
    return crashed and since is not None and now - since < _JUST_NOW


def _ran_well(status: Json) -> bool:
    """Whether the last run was long: then its crash is the first of its kind, however often it was restarted before."""
    last = next(iter(_ends(status)), {})
    started, ended = read_instant(last.get("startedAt")), read_instant(last.get("finishedAt"))
    return started is not None and ended is not None and ended - started >= _HEALTHY_RUN


def _image_failure(pod: Json, status: Json, settings: RecoverySettings, now: float) -> DetectedFailure:
    waiting = status["state"]["waiting"]
    reason, image = waiting["reason"], status.get("image") or ""
    said = f"cannot get its image {image} for container {status['name']}: {reason}"
    if reason == INVALID_IMAGE:
        return DetectedFailure(reason, said, _seconds_left(_last_step_at(pod), settings.delay, now), at_fault=True)
    return DetectedFailure(reason, said, _seconds_left(_last_step_at(pod), settings.image_pull_timeout, now))


def _start_failures(pod: Json, settings: RecoverySettings, now: float) -> Iterator[DetectedFailure]:
    if _runs_init_container(pod):
        return
    waiting = [
        f"{each['name']}: {found.get('reason') or 'waiting'}"
        for each in container_statuses(pod)
        if (found := (each.get("state") or {}).get("waiting")) is not None and found.get("reason") != CRASH_LOOP
    ]
    if waiting or (pod["status"].get("phase") == "Pending" and not _init_container_crashes(pod)):
        due = _seconds_left(_last_step_at(pod), settings.start_timeout, now)
        detail = f" ({', '.join(waiting)})" if waiting else ""
        yield DetectedFailure(NOT_STARTED, f"has not started for {settings.start_timeout:.0f} s{detail}", due)


def _runs_init_container(pod: Json) -> bool:
    """Whether an init container is running, which takes as long as it takes. Sidecars do not count."""
    sidecars = {each["name"] for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy")}
    found = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return any((each.get("state") or {}).get("running") is not None for each in found if each["name"] not in sidecars)


def _init_container_crashes(pod: Json) -> bool:
    """Whether an init container is between two restarts: that is counted, not timed."""
    waiting = ((each.get("state") or {}).get("waiting") or {} for each in container_statuses(pod))
    return any(each.get("reason") == CRASH_LOOP for each in waiting)


def _restart_policies(pod: Json) -> dict[str, str]:
    """Return each container's restart policy; one with rules of its own may be restarted."""
    spec = pod["spec"]
    whole = spec.get("restartPolicy") or "Always"
    return {
        each["name"]: "Rules" if each.get("restartPolicyRules") else each.get("restartPolicy") or whole
        for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    }


def _ends(status: Json) -> list[Json]:
    """Return how a container's last runs ended, the last first."""
    states = (status.get("state") or {}, status.get("lastState") or {})
    return [each["terminated"] for each in states if each.get("terminated")]


def _end_times(found: list[Json]) -> list[float]:
    """Return when the last runs of containers ended, as far as their statuses say."""
    return [at for each in found for end in _ends(each) if (at := read_instant(end.get("finishedAt"))) is not None]


def _describe_exit(status: Json) -> str:
    """Describe how a container ended last."""
    ends = _ends(status)
    if not ends:
        return f"container {status['name']}"
    code, why = ends[0].get("exitCode") or 0, ends[0].get("reason") or ""
    said = f"container {status['name']}, exit code {code}"
    return f"{said}, {why}" if why and why not in (ERROR, "Completed") else said


def _last_step_at(pod: Json) -> float:
    """Return when a pod last made progress: it was bound, or one of its containers ended."""
    return max([_bound_at(pod), *_end_times(container_statuses(pod))])


def _bound_at(pod: Json) -> float:
    scheduled = find_condition(pod, "PodScheduled")
    at = read_instant(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None
    return at or read_instant((pod.get("status") or {}).get("startTime")) or _created_at(pod)


def _created_at(body: Json) -> float:
    return read_instant(body["metadata"].get("creationTimestamp")) or 0.0


def _seconds_left(since: float, length: float, now: float) -> float:
    """Return the seconds until something has lasted this long; a clock ahead of ours does not extend it."""
    return max(0.0, min(since, now) + length - now)


NO_NODE = "NoPlace"
_WELL: Json = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
_DOUBT_DELAY = 60.0  # seconds; so many workloads wait for their nodes that checking them all is expensive
_TOO_MANY = 0.5  # of all nodes: then the network or the control plane is broken, not they


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A pod that has failed, or that cannot be scheduled because of the nodes it must avoid."""

    pod: Json
    controller: Json | None
    failure: DetectedFailure
    entry: str
    """Its entry in the record."""
    retries: int
    """The retries of that entry in all."""
    is_gone: bool = False
    """Whether it has been deleted already, by its controller or otherwise."""

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return str(self.pod["metadata"]["uid"])

    @property
    def node(self) -> str:
        """The pod's node; empty if it has none."""
        return str(self.pod["spec"].get("nodeName") or "")

    @property
    def title(self) -> str:
        """The pod in texts."""
        return f"pod {self.pod['metadata'].get('namespace', '')}/{self.pod['metadata']['name']}"

    @property
    def has_no_node(self) -> bool:
        """Whether it is pending because of the nodes it must avoid."""
        return self.failure.reason == NO_NODE


def find_failed_pods(builder: DecisionBuilder) -> list[FailedPod]:
    """Return the failed pods that are due, by name."""
    controllers = {str(each["metadata"]["uid"]): each for each in builder.state.controllers}
    there = {pod["metadata"]["uid"] for pod in builder.state.pods if not is_terminating(pod)}
    pods = [*builder.state.pods, *(pod for pod in builder.state.vanished if pod["metadata"]["uid"] not in there)]
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    found = [each for pod in pods if (each := _to_failed_pod(builder, pod, controllers)) is not None]
    return [replace(each, is_gone=each.uid not in there) for each in found]


def _to_failed_pod(builder: DecisionBuilder, pod: Json, controllers: Mapping[str, Json]) -> FailedPod | None:
    state, owner = builder.state, controller_of(pod)
    workload, name = state.workload, state.entry_of(pod)
    controller = controllers.get(owner["uid"]) if owner is not None else None
    if (controller is None) is (workload["kind"] != "Pod") or is_terminating(pod) or is_outdated(pod, state):
        return None
    trouble = _find_failure(state, pod, controller, builder.entry(name))
    if trouble is None:
        return None
    try:
        retries = find_retries(pod, controller, workload)
    except RetriesError as error:
        builder.record_event(pod, RecoveryReason.INVALID, str(error), f"{workload['metadata']['uid']}/{error}")
        return None
    if retries is None or retries.per_pod == 0:
        return None
    if retries.warning:
        occasion = f"{workload['metadata']['uid']}/{retries.warning}"
        builder.record_event(None, RecoveryReason.MISSPELT, retries.warning, occasion)
    failed = FailedPod(pod, controller, trouble, name, total_retries(retries.per_pod, workload))
    return failed if _may_recover(builder, failed) else None


def _find_failure(
    state: WorkloadState, pod: Json, controller: Json | None, entry: RecordEntry
) -> DetectedFailure | None:
    stays = controller is not None and controller["kind"] == "DaemonSet"  # even if its node fails
    node = _WELL if stays else state.nodes.get(pod["spec"].get("nodeName") or "")
    found = detect_failure(pod, node, state.settings, state.now)
    if found is None:
        return _find_placement_failure(state, pod, controller, entry)
    if controller is None:
        return found
    # Failed pods that were replaced stay for a while. Those older than the last clearing of the record are ignored.
    old = has_finished(pod) and state.now - ended_at(pod) >= state.settings.clear_after
    return None if old or (controller["kind"] == "Job" and why_stopped(controller)) else found


def _find_placement_failure(
    state: WorkloadState, pod: Json, controller: Json | None, entry: RecordEntry
) -> DetectedFailure | None:
    """Return whether a pod would be scheduled if it did not have to avoid nodes for us."""
    said = find_condition(pod, "PodScheduled")
    if pod["spec"].get("nodeName") or said.get("status") != "False" or said.get("reason") != "Unschedulable":
        return None
    refused = avoided_nodes(pod["spec"].get("affinity"))
    if controller is None:
        ours = refused & set(entry.avoids)
    else:
        ours = refused - avoided_nodes(controller["spec"]["template"]["spec"].get("affinity"))
    if not ours & state.feasible_nodes[pod["metadata"]["uid"]]:
        return None
    since = parse_instant(said["lastTransitionTime"]) if said.get("lastTransitionTime") else state.now
    due = max(0.0, since + state.settings.start_timeout - state.now)
    return DetectedFailure(NO_NODE, f"fits only on nodes where it failed ({', '.join(sorted(ours))})", due)


def _may_recover(builder: DecisionBuilder, failed: FailedPod) -> bool:
    """Whether the pod may be recovered now; if not, record why, or look again later."""
    state, pod = builder.state, failed.pod
    if objection := state.objections.get(failed.uid):
        note = f"{failed.title} {failed.failure.message}; it is left alone: {objection}"
        builder.record_event(pod, RecoveryReason.REFUSED, note, failed.uid)
        return False
    if labels_of(pod).get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS:
        builder.requeue(SOON)
        return False
    node = state.nodes.get(failed.node)
    if state.unready_share > _TOO_MANY and node is not None and not is_ready(node) and not has_finished(pod):
        since = find_condition(node, "Ready").get("lastTransitionTime", "")
        note = (
            f"{state.unready_share:.0%} of all nodes are not ready: that looks like the network or control plane, so "
            f"{failed.title} on node {failed.node} does not count as failed"
        )
        builder.record_event(pod, RecoveryReason.DOUBTED, note, f"{failed.node}/{since}")
        builder.requeue(_DOUBT_DELAY)
        return False
    if failed.failure.due > 0:
        builder.defer(failed.uid, failed.failure.due)
        return False
    return True
