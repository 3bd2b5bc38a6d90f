"""Jobs: pods that run until enough of them have succeeded, or too many have failed.

A pod of a Job carries a finalizer until it is counted, so that none is lost however fast it is deleted. A Job ends in
two steps, as in Kubernetes: first a condition says that it will (FailureTarget, SuccessCriteriaMet); when its pods are
counted and gone, another says that it has (Failed, Complete). Indexed Jobs, failure and success policies, and a life
time after the end are not implemented.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.controllers.conditions import condition_of
from kubemini.controllers.controller_refs import ControllerRefManager
from kubemini.controllers.pods import Facts, PodControl, PodTemplate, seconds_now
from kubemini.controllers.writes import edit_if_present, without_item, write_status
from kubemini.events import EventRecorder
from kubemini.kinds import JOB, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.selectors import workload_selector
from kubemini.store import Change, Entry, Key

TRACKING = "batch.kubernetes.io/job-tracking"
BACKOFF = 10.0
"""For how many seconds no pod is made after the first failure; after each further one twice as long."""

_LONGEST_BACKOFF = 600.0
_POD_PREFIX = "pod/"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_FINAL = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


class Ending(NamedTuple):
    """Why a Job ends; the type is that of its first condition."""

    type: str
    reason: str
    message: str


_COMPLETED = Ending("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY_FAILURES = Ending("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LATE = Ending("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")


@dataclass(frozen=True, eq=False)
class _JobPod:
    """One pod of a Job."""

    entry: Entry
    phase: str
    tracked: bool
    """Whether it is still to be counted."""
    ready: bool
    restarts: int

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        return not self.ended and not self.entry.deleting

    @property
    def terminating(self) -> bool:
        return not self.ended and self.entry.deleting

    @property
    def failed(self) -> bool:
        """Whether it counts as failed; a pod that is being deleted does."""
        return self.phase == "Failed" or self.terminating


@dataclass(frozen=True)
class _Progress:
    """How far a Job has come. Pods that have ended count before their finalizer is taken off."""

    spec: Json
    pods: list[_JobPod]
    succeeded: int
    failed: int
    started: float | None

    @property
    def active(self) -> list[_JobPod]:
        return [pod for pod in self.pods if pod.active]

    @property
    def wanted(self) -> int:
        """How many pods shall be active."""
        if self.spec.get("suspend"):
            return 0
        parallelism: int = self.spec.get("parallelism", 1)
        completions: int | None = self.spec.get("completions")
        if completions is None:  # once one has succeeded, the others may finish but none is started
            return len(self.active) if self.succeeded else parallelism
        return max(min(completions - self.succeeded, parallelism), 0)

    @property
    def is_complete(self) -> bool:
        """Whether enough pods have succeeded and none is active."""
        completions: int | None = self.spec.get("completions")
        return self.succeeded >= (1 if completions is None else completions) and not self.active

    def seconds_left(self, now: float) -> float | None:
        """Until activeDeadlineSeconds are over; None without a deadline, or while suspended."""
        deadline: int | None = self.spec.get("activeDeadlineSeconds")
        if deadline is None or self.started is None or self.spec.get("suspend"):
            return None
        return self.started + deadline - now

    def has_failed_too_often(self) -> bool:
        """Whether the backoff limit is exceeded. Pods that restart their containers count by these restarts."""
        limit: int = self.spec.get("backoffLimit", 6)
        if self.failed > limit:
            return True
        if self.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(pod.restarts for pod in self.active)
        return restarts > 0 and restarts >= limit


class JobController:
    """Runs every Job to its end."""

    name = "job-controller"
    kinds: tuple[Kind, ...] = (JOB, POD)

    def __init__(self, api: Api, backoff: float = BACKOFF) -> None:
        self._api = api
        self._store = api.store
        self._backoff = backoff
        self._refs = ControllerRefManager(api, JOB, POD)
        self._pods = Facts(_read_pod)
        self._events = EventRecorder(api.store, self.name)
        self._control = PodControl(api, self._events)
        self._failures: dict[str, tuple[int, float]] = {}
        """By Job (uid): how many pods have failed in a row, and when the last one did."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The Job itself, the one that has or had a pod, and pods that no Job will ever count."""
        entry = change.entry
        if change.kind.resource == JOB.resource:
            keys = list(self._refs.owner_changed(change))
            if change.type == "DELETED":
                self._failures.pop(entry.uid, None)
                keys += [_pod_key(pod) for pod in self._store.owned(POD, entry.uid)]
            return keys
        self._pods.note(change)
        keys = list(self._refs.dependent_changed(change))
        if not keys and change.type != "DELETED" and TRACKING.encode() in entry.raw:
            keys = [_pod_key(entry)]
        return keys

    async def reconcile(self, key: Key) -> float | None:
        """Take one step of one Job, or release one orphaned pod."""
        if key[1].startswith(_POD_PREFIX):
            await self._release_orphan((key[0], key[1].removeprefix(_POD_PREFIX)))
            return None
        job = self._api.find(JOB, key)
        selector = workload_selector(job) if job else None
        if job is None or selector is None or _is_finished(job):
            return None
        await self._refs.claim(job, selector)
        return await self._advance(job)

    async def _advance(self, job: Json) -> float | None:
        status = dict(job.get("status") or {})
        self._note_suspension(job, status)
        if not job["spec"].get("suspend"):
            status.setdefault("startTime", clock.stamp(clock.now()))
        deleting = "deletionTimestamp" in job["metadata"]
        progress = self._progress(job, status)
        self._note_failures(job, progress)
        waits = [progress.seconds_left(seconds_now())]
        ending = _ending(job, progress, waits[0])
        failure: Refusal | None = None
        try:
            if ending is not None:
                await self._control.delete(job, [pod.entry for pod in progress.active])
            elif not deleting:
                waits.append(await self._scale(job, progress))
        except Refusal as refusal:
            failure = refusal
        await self._count(job, status, ending, deleting=deleting)
        if failure is not None:
            raise failure
        return min((wait for wait in waits if wait is not None), default=None) if ending is None else None

    def _progress(self, job: Json, status: Json) -> _Progress:
        pods = [self._pods.of(entry) for entry in self._refs.owned(job)]
        tracked = [pod for pod in pods if pod.tracked]
        started = status.get("startTime")
        return _Progress(
            job["spec"],
            pods,
            status.get("succeeded", 0) + sum(pod.phase == "Succeeded" for pod in tracked),
            status.get("failed", 0) + sum(pod.failed for pod in tracked),
            clock.moment(started).timestamp() if started else None,
        )

    async def _scale(self, job: Json, progress: _Progress) -> float | None:
        """Delete surplus pods or create missing ones. Returns in how many seconds it may create them."""
        missing = progress.wanted - len(progress.active)
        if missing < 0:
            ranked = sorted(progress.active, key=_rank)
            for pod in ranked[:-missing]:
                await self._untrack(pod.entry)  # not wanted any more, so it is no failure
            await self._control.delete(job, [pod.entry for pod in ranked[:-missing]])
        if missing <= 0:
            return None
        wait = self._backoff_left(job)
        if wait > 0:
            return wait
        template = PodTemplate(job["spec"]["template"], job)
        made = [template.new_pod() for _ in range(missing)]
        for body in made:
            body["metadata"].setdefault("finalizers", []).append(TRACKING)
        await self._control.create(job, made)
        return None

    def _note_failures(self, job: Json, progress: _Progress) -> None:
        """Count the failures in a row; a success ends the row."""
        fresh = [pod for pod in progress.pods if pod.tracked and (pod.ended or pod.failed)]
        failed = [pod for pod in fresh if pod.failed]
        uid = job["metadata"]["uid"]
        if len(failed) < len(fresh):
            self._failures.pop(uid, None)
        elif failed:
            row, _ = self._failures.get(uid, (0, 0.0))
            self._failures[uid] = (row + len(failed), seconds_now())

    def _backoff_left(self, job: Json) -> float:
        """For how many more seconds no pod is created."""
        row, last = self._failures.get(job["metadata"]["uid"], (0, 0.0))
        if not row:
            return 0.0
        delay = min(self._backoff * (1 << min(row - 1, 30)), _LONGEST_BACKOFF)
        return max(last + delay - seconds_now(), 0.0)

    def _note_suspension(self, job: Json, status: Json) -> None:
        """Set the Suspended condition; a resumed Job's deadline counts from now."""
        suspended = bool(job["spec"].get("suspend"))
        before = condition_of(job, "Suspended").get("status")
        if before == str(suspended) or (before is None and not suspended):
            return
        word = "Suspended" if suspended else "Resumed"
        _add_condition(status, Ending("Suspended", f"Job{word}", f"Job {word.lower()}"), value=str(suspended))
        status.pop("startTime", None)
        self._events.say(job, word, f"Job {word.lower()}")

    async def _count(self, job: Json, status: Json, ending: Ending | None, *, deleting: bool) -> None:
        """Count pods that have ended, and end the Job with the last of them."""
        if ending is not None and not condition_of({"status": status}, ending.type):
            _add_condition(status, ending)
        for pod in self._progress(job, status).pods:
            over = pod.ended or pod.terminating or deleting
            if pod.tracked and over:
                await self._untrack(pod.entry)
                counted = "succeeded" if pod.phase == "Succeeded" else "failed"
                status[counted] = status.get(counted, 0) + 1
        left = self._progress(job, status)
        counts = {"active": len(left.active), "terminating": sum(pod.terminating for pod in left.pods)}
        status |= counts | {"ready": sum(pod.ready for pod in left.active), "uncountedTerminatedPods": {}}
        if not status["active"]:
            del status["active"]
        if ending is not None and not any(counts.values()):
            _add_condition(status, ending._replace(type=_FINAL[ending.type]))
            if ending.type == "SuccessCriteriaMet":
                status["completionTime"] = clock.stamp(clock.now())
                self._events.say(job, "Completed", "Job completed")
            else:
                self._events.say(job, ending.reason, ending.message, warning=True)
        await write_status(self._api, JOB, job, status)

    async def _untrack(self, entry: Entry) -> None:
        def without_finalizer(pod: Json) -> Json:
            without_item(pod["metadata"], "finalizers", TRACKING)
            return pod

        await edit_if_present(self._api, Target(POD, *entry.key), entry.uid, without_finalizer)

    async def _release_orphan(self, key: Key) -> None:
        """Take the finalizer off a pod that no Job will ever count."""
        entry = self._store.get(POD, key)
        owner = entry.controller if entry else None
        if entry is None or (owner is not None and owner.kind != JOB.name):
            return
        job = self._store.get(JOB, (key[0], owner.name)) if owner else None
        if job is None or owner is None or job.uid != owner.uid:
            await self._untrack(entry)


def _ending(job: Json, progress: _Progress, seconds_left: float | None) -> Ending | None:
    """Why a Job ends; None if it goes on."""
    for kind in _FINAL:
        if said := condition_of(job, kind):
            return Ending(kind, said["reason"], said["message"])
    if progress.has_failed_too_often():
        return _TOO_MANY_FAILURES
    if seconds_left is not None and seconds_left <= 0:
        return _TOO_LATE
    return _COMPLETED if progress.is_complete else None


def _is_finished(job: Json) -> bool:
    return any(condition_of(job, kind).get("status") == "True" for kind in _FINAL.values())


def _pod_key(pod: Entry) -> Key:
    """A key that stands for a pod instead of a Job; no Job can have such a name."""
    return (pod.key[0], _POD_PREFIX + pod.key[1])


def _rank(pod: _JobPod) -> tuple[bool, int, bool, int]:
    """Of several active pods, the first goes first: it has done the least."""
    return (bool(pod.entry.fields["spec.nodeName"]), _PHASES.get(pod.phase, 0), pod.ready, -pod.restarts)


def _add_condition(status: Json, said: Ending, *, value: str = "True") -> None:
    stamp = clock.stamp(clock.now())
    condition = {
        "type": said.type,
        "status": value,
        "lastProbeTime": stamp,
        "lastTransitionTime": stamp,
        "reason": said.reason,
        "message": said.message,
    }
    others = [each for each in status.get("conditions") or () if each["type"] != said.type]
    status["conditions"] = [*others, condition]


def _read_pod(entry: Entry) -> _JobPod:
    pod = entry.object()
    metadata, status = pod["metadata"], pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return _JobPod(
        entry=entry,
        phase=status.get("phase", "Pending"),
        tracked=TRACKING in (metadata.get("finalizers") or ()),
        ready=condition_of(pod, "Ready").get("status") == "True",
        restarts=sum(int(each.get("restartCount") or 0) for each in statuses),
    )
