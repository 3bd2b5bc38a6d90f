"""Whether a pod has failed, or when it will have: what its status, its node and the operator's settings say together.

`deciding` asks for every pod of a workload. A failure is acted upon when it has lasted for a while, reckoned by the
times in the status itself, so that no leader has to remember when it saw something first. What is finished well, is
being deleted or is Ready has not failed, whatever else its status says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rescheduler.migration.observation import controller_of, find_condition, has_finished, is_terminating, labels_of
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import InstantError, parse_instant
from rescheduler.recovery.avoidance import avoided_nodes
from rescheduler.recovery.decision import SOON, DecisionBuilder
from rescheduler.recovery.jobs import why_stopped
from rescheduler.recovery.model import RecoveryReason, WorkloadState, statuses
from rescheduler.recovery.record import RecordEntry, entry_name, is_outdated
from rescheduler.recovery.settings import RecoverySettings, RetriesError, find_retries, total_retries

CRASH_LOOP = "CrashLoopBackOff"
ERROR = "Error"
NOT_STARTED = "NotStarted"
NODE_NOT_READY = "NodeNotReady"
NODE_LOST = "NodeLost"
INVALID_IMAGE = "InvalidImageName"
IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", INVALID_IMAGE})
_NEVER = "DeadlineExceeded"  # the pod had the time that its owner gave it: another node gives it no more
_PLACE = "place"
_MOMENT = 2.0  # seconds
_HEALTHY_RUN = 600.0  # seconds, after which a kubelet, too, forgets that a container crashed before


@dataclass(frozen=True, slots=True)
class DetectedFailure:
    """What is wrong with a pod."""

    reason: str
    """One word: CrashLoopBackOff, Evicted, ImagePullBackOff, NotStarted, NodeNotReady, Error and the like."""
    message: str
    """The same for people, as the end of a sentence that begins with the pod."""
    due: float = 0.0
    """In how many seconds it counts as failed; 0 means now."""
    at_fault: bool = False
    """Whether it would fail so on any node."""


def failure_kind(reason: str) -> str:
    """Failures of one kind may have one cause: crashes, images, starts; all others are the place's."""
    if reason in (CRASH_LOOP, ERROR):
        return "crash"
    if reason in IMAGE_REASONS:
        return "image"
    return "start" if reason == NOT_STARTED else _PLACE


def may_be_own_fault(reason: str) -> bool:
    """Whether a workload can cause such failures itself; it cannot make nodes go away or be full."""
    return failure_kind(reason) != _PLACE


def detect_failure(pod: Json, node: Json | None, settings: RecoverySettings, now: float) -> DetectedFailure | None:
    """What is wrong with a pod and counts, now or soon; `node` is the one it is on, None if that does not exist."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if is_terminating(pod) or phase == "Succeeded" or find_condition(pod, "Ready").get("status") == "True":
        return None
    if phase == "Failed":
        return _failed(pod, settings, now)
    if not pod["spec"].get("nodeName"):
        return None
    found = [*_of_node(pod, node, settings, now), *_of_containers(pod, settings, now), *_late(pod, settings, now)]
    return min(found, key=lambda each: (not each.at_fault, each.due), default=None)


def is_ready(node: Json) -> bool:
    """Whether a node's kubelet says that it is well."""
    return bool(find_condition(node, "Ready").get("status") == "True")


def ended_at(pod: Json) -> float:
    """When a pod that has failed did so."""
    ends = [_time(over.get("finishedAt")) for each in statuses(pod) for over in _ends(each)]
    known = [each for each in ends if each is not None]
    if known:
        return max(known)
    for kind in ("Ready", "DisruptionTarget"):
        if (at := _time(find_condition(pod, kind).get("lastTransitionTime"))) is not None:
            return at
    # A kubelet that turns a pod away says nothing but when it took it.
    return _time((pod.get("status") or {}).get("startTime")) or _created(pod)


def _failed(pod: Json, settings: RecoverySettings, now: float) -> DetectedFailure | None:
    status = pod["status"]
    reason = status.get("reason") or ERROR
    since = ended_at(pod)
    if not _counts(reason, settings) or now - since >= settings.forget_after:
        return None
    said = "failed" if reason == ERROR else f"failed: {reason}"
    crash = next((_exit(each) for each in statuses(pod) if any(over.get("exitCode") for over in _ends(each))), "")
    detail = crash or str(status.get("message") or "").strip().rstrip(".")
    return DetectedFailure(reason, f"{said} ({detail})" if detail else said, _left(since, settings.delay, now))


def _counts(reason: str, settings: RecoverySettings) -> bool:
    return reason != _NEVER and any(
        reason.startswith(each[:-1]) if each.endswith("*") else reason == each for each in settings.failed_reasons
    )


def _of_node(pod: Json, node: Json | None, settings: RecoverySettings, now: float) -> Iterator[DetectedFailure]:
    name = pod["spec"]["nodeName"]
    if node is None:
        since = _time(find_condition(pod, "Ready").get("lastTransitionTime")) or _bound(pod)
        yield DetectedFailure(
            NODE_LOST, f"was on node {name}, which is gone", _left(since, settings.node_not_ready, now)
        )
    elif not is_ready(node):
        since = _time(find_condition(node, "Ready").get("lastTransitionTime")) or _created(node)
        said = f"is on node {name}, which has not been ready for {max(0, now - since):.0f} s"
        yield DetectedFailure(NODE_NOT_READY, said, _left(since, settings.node_not_ready, now))


def _of_containers(pod: Json, settings: RecoverySettings, now: float) -> Iterator[DetectedFailure]:
    policies = _restart_policies(pod)
    for each in statuses(pod):
        state = each.get("state") or {}
        waits = (state.get("waiting") or {}).get("reason") or ""
        code = (state.get("terminated") or {}).get("exitCode") or 0
        restarts = each.get("restartCount") or 0
        if waits in IMAGE_REASONS:
            yield _imageless(pod, each, settings, now)
        elif code and policies.get(each["name"]) == "Never":
            # Another container still runs, else the pod's phase would be Failed; nobody restarts this one.
            if _counts(ERROR, settings):
                since = _time(state["terminated"].get("finishedAt")) or _bound(pod)
                yield DetectedFailure(ERROR, f"has failed ({_exit(each)})", _left(since, settings.delay, now))
        elif restarts < settings.crash_restarts or _ran_well(each):
            continue
        elif code or waits == CRASH_LOOP or _just_began(each, now):
            last = [_time(over.get("finishedAt")) for over in _ends(each)]
            since = max((at for at in last if at is not None), default=_bound(pod))
            # Whoever has crashed once more since has done so for long enough.
            due = 0.0 if restarts > settings.crash_restarts else _left(since, settings.delay, now)
            yield DetectedFailure(CRASH_LOOP, f"crashes again and again ({_exit(each)}, {restarts} restarts)", due)


def _just_began(status: Json, now: float) -> bool:
    """Whether it crashed and was started again a moment ago: whoever crashes in an instant is seldom seen otherwise."""
    running = (status.get("state") or {}).get("running")
    since = _time(running.get("startedAt")) if running else None
    crashed = bool(((status.get("lastState") or {}).get("terminated") or {}).get("exitCode"))
    return crashed and since is not None and now - since < _MOMENT


def _ran_well(status: Json) -> bool:
    """Whether the last run was long: then its crash is the first of its kind, however often it was restarted before."""
    last = next(iter(_ends(status)), {})
    started, ended = _time(last.get("startedAt")), _time(last.get("finishedAt"))
    return started is not None and ended is not None and ended - started >= _HEALTHY_RUN


def _imageless(pod: Json, status: Json, settings: RecoverySettings, now: float) -> DetectedFailure:
    waiting = status["state"]["waiting"]
    reason, image = waiting["reason"], status.get("image") or ""
    said = f"cannot get its image {image} for container {status['name']}: {reason}"
    if reason == INVALID_IMAGE:
        return DetectedFailure(reason, said, _left(_last_step(pod), settings.delay, now), at_fault=True)
    return DetectedFailure(reason, said, _left(_last_step(pod), settings.image_pull_timeout, now))


def _late(pod: Json, settings: RecoverySettings, now: float) -> Iterator[DetectedFailure]:
    if _prepares(pod):
        return
    waiting = [
        f"{each['name']}: {found.get('reason') or 'waiting'}"
        for each in statuses(pod)
        if (found := (each.get("state") or {}).get("waiting")) is not None and found.get("reason") != CRASH_LOOP
    ]
    if waiting or (pod["status"].get("phase") == "Pending" and not _crashes(pod)):
        due = _left(_last_step(pod), settings.start_timeout, now)
        detail = f" ({', '.join(waiting)})" if waiting else ""
        yield DetectedFailure(NOT_STARTED, f"has not started for {settings.start_timeout:.0f} s{detail}", due)


def _prepares(pod: Json) -> bool:
    """Whether an init container is at work: that takes as long as it takes. A sidecar is none of these."""
    sidecars = {each["name"] for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy")}
    found = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return any((each.get("state") or {}).get("running") is not None for each in found if each["name"] not in sidecars)


def _crashes(pod: Json) -> bool:
    """Whether an init container is between two restarts: a matter of how often, and not of how long."""
    return any(((each.get("state") or {}).get("waiting") or {}).get("reason") == CRASH_LOOP for each in statuses(pod))


def _restart_policies(pod: Json) -> dict[str, str]:
    """By container, whether it is restarted; one with rules of its own may be."""
    spec = pod["spec"]
    whole = spec.get("restartPolicy") or "Always"
    return {
        each["name"]: "Rules" if each.get("restartPolicyRules") else each.get("restartPolicy") or whole
        for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    }


def _ends(status: Json) -> list[Json]:
    """How a container's last runs ended, the last first."""
    states = (status.get("state") or {}, status.get("lastState") or {})
    return [each["terminated"] for each in states if each.get("terminated")]


def _exit(status: Json) -> str:
    """How a container ended last, in words."""
    ends = _ends(status)
    if not ends:
        return f"container {status['name']}"
    code, why = ends[0].get("exitCode") or 0, ends[0].get("reason") or ""
    said = f"container {status['name']}, exit code {code}"
    return f"{said}, {why}" if why and why not in (ERROR, "Completed") else said


def _last_step(pod: Json) -> float:
    """When something last went on in a pod: it was bound, or one of its containers ended."""
    ends = [_time(over.get("finishedAt")) for each in statuses(pod) for over in _ends(each)]
    return max([_bound(pod), *(each for each in ends if each is not None)])


def _bound(pod: Json) -> float:
    scheduled = find_condition(pod, "PodScheduled")
    at = _time(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None
    return at or _time((pod.get("status") or {}).get("startTime")) or _created(pod)


def _created(body: Json) -> float:
    return _time(body["metadata"].get("creationTimestamp")) or 0.0


def _time(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return parse_instant(text)
    except InstantError:
        return None  # custom kubelets write what they like; there are other times to go by


def _left(since: float, length: float, now: float) -> float:
    """How long until something has lasted so long; a clock that is ahead of ours makes it no longer."""
    return max(0.0, min(since, now) + length - now)


NO_PLACE = "NoPlace"
_WELL: Json = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
_DOUBTFUL = 60.0  # seconds; so many workloads wait for their nodes that looking at all of them is dear
_TOO_MANY = 0.5  # of all nodes: then it is the network or the control plane that is ill, and not they


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A pod that has failed, or that finds no place because of the nodes it must avoid."""

    pod: Json
    controller: Json | None
    failure: DetectedFailure
    entry: str
    """Its entry in the record."""
    retries: int
    """How many retries that entry has in all."""
    is_gone: bool = False
    """Whether its controller, or somebody else, has deleted it already."""

    @property
    def uid(self) -> str:
        """Which pod it is."""
        return str(self.pod["metadata"]["uid"])

    @property
    def node(self) -> str:
        """Where it is; empty if it has no place."""
        return str(self.pod["spec"].get("nodeName") or "")

    @property
    def has_no_place(self) -> bool:
        """Whether it waits for a node in vain."""
        return self.failure.reason == NO_PLACE


def find_failed_pods(builder: DecisionBuilder) -> list[FailedPod]:
    """Those whose time has come, by name."""
    controllers = {str(each["metadata"]["uid"]): each for each in builder.state.controllers}
    there = {pod["metadata"]["uid"] for pod in builder.state.pods if not is_terminating(pod)}
    pods = [*builder.state.pods, *(pod for pod in builder.state.vanished if pod["metadata"]["uid"] not in there)]
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    found = [each for pod in pods if (each := _failed_pod(builder, pod, controllers)) is not None]
    return [replace(each, is_gone=each.uid not in there) for each in found]


def _failed_pod(builder: DecisionBuilder, pod: Json, controllers: Mapping[str, Json]) -> FailedPod | None:
    state, metadata = builder.state, pod["metadata"]
    workload, owner = state.workload, controller_of(pod)
    controller = controllers.get(owner["uid"]) if owner is not None else None
    if (controller is None) is (workload["kind"] != "Pod") or is_terminating(pod) or is_outdated(pod, state):
        return None
    name = entry_name(workload["kind"], metadata["name"], pod["spec"].get("nodeName") or "")
    trouble = _trouble(state, pod, controller, builder.entry(name))
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
        builder.record_event(
            None, RecoveryReason.MISSPELT, retries.warning, f"{workload['metadata']['uid']}/{retries.warning}"
        )
    failed = FailedPod(pod, controller, trouble, name, total_retries(retries.per_pod, workload))
    return failed if _is_free(builder, failed) else None


def _trouble(state: WorkloadState, pod: Json, controller: Json | None, entry: RecordEntry) -> DetectedFailure | None:
    stays = controller is not None and controller["kind"] == "DaemonSet"  # whatever becomes of its node
    node = _WELL if stays else state.nodes.get(pod["spec"].get("nodeName") or "")
    found = detect_failure(pod, node, state.settings, state.now)
    if found is None:
        return _without_place(state, pod, controller, entry)
    if controller is None:
        return found
    # Failed pods that were replaced stay for a while. Those that fell before the record was last cleared are old news.
    old = has_finished(pod) and state.now - ended_at(pod) >= state.settings.clear_after
    return None if old or (controller["kind"] == "Job" and why_stopped(controller)) else found


def _without_place(
    state: WorkloadState, pod: Json, controller: Json | None, entry: RecordEntry
) -> DetectedFailure | None:
    """Whether a pod would have found a place if it had not to avoid nodes for our sake."""
    said = find_condition(pod, "PodScheduled")
    if pod["spec"].get("nodeName") or said.get("status") != "False" or said.get("reason") != "Unschedulable":
        return None
    refused = avoided_nodes(pod["spec"].get("affinity"))
    if controller is None:
        ours = refused & set(entry.avoids)
    else:
        ours = refused - avoided_nodes(controller["spec"]["template"]["spec"].get("affinity"))
    if not ours & feasible_nodes(state, pod):
        return None
    since = parse_instant(said["lastTransitionTime"]) if said.get("lastTransitionTime") else state.now
    due = max(0.0, since + state.settings.start_timeout - state.now)
    return DetectedFailure(NO_PLACE, f"finds no place but on nodes where it failed ({', '.join(sorted(ours))})", due)


def feasible_nodes(state: WorkloadState, pod: Json) -> frozenset[str]:
    """The nodes that could take a pod like this one, whatever failed there."""
    return state.feasible_by_pod.get(pod["metadata"]["uid"], state.feasible_nodes)


def _is_free(builder: DecisionBuilder, failed: FailedPod) -> bool:
    """Whether it may be helped, and now; if not, that is told or waited for."""
    state, pod = builder.state, failed.pod
    full_name = f"pod {pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    if objection := state.objections.get(failed.uid):
        builder.record_event(
            pod,
            RecoveryReason.REFUSED,
            f"{full_name} {failed.failure.message}; it is left alone: {objection}",
            failed.uid,
        )
        return False
    if labels_of(pod).get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS:
        builder.requeue(SOON)
        return False
    node = state.nodes.get(failed.node)
    if state.unready_share > _TOO_MANY and node is not None and not is_ready(node) and not has_finished(pod):
        since = find_condition(node, "Ready").get("lastTransitionTime", "")
        note = (
            f"{state.unready_share:.0%} of all nodes are not ready: that is the network or the control plane, so "
            f"{full_name} on node {failed.node} is not taken for failed"
        )
        builder.record_event(pod, RecoveryReason.DOUBTED, note, f"{failed.node}/{since}")
        builder.requeue(_DOUBTFUL)
        return False
    if failed.failure.due > 0:
        builder.deferred.add(failed.uid)
        builder.requeue(failed.failure.due)
        return False
    return True
