"""Jobs: pods that run until enough of them have succeeded, or too many have failed.

A pod of a Job carries a finalizer until it is counted, so that none is lost however fast it is deleted. A Job has ended
as soon as that is decided; its last pods may still be terminating then. Indexed Jobs, suspension, deadlines, failure
and success policies, and a life time after the end are not implemented.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.conditions import condition_of, set_condition
from kubemini.controllers.controller_refs import ControllerRefManager
from kubemini.controllers.pods import PodControl, PodTemplate, seconds_now
from kubemini.controllers.writes import edit_if_present, without_item, write_status
from kubemini.events import EventRecorder
from kubemini.kinds import JOB, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.selectors import workload_selector
from kubemini.store import Change, Entry, Key

TRACKING = "batch.kubernetes.io/job-tracking"
BACKOFF = 10.0
"""For how many seconds no pod is made after a failure."""

_POD_PREFIX = "pod/"


class Ending(NamedTuple):
    """Why a Job has ended; the type is that of its condition."""

    type: str
    reason: str
    message: str


_COMPLETED = Ending("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY_FAILURES = Ending("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")


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

    @property
    def active(self) -> list[_JobPod]:
        return [pod for pod in self.pods if pod.active]

    @property
    def wanted(self) -> int:
        """How many pods shall be active."""
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

    @property
    def ending(self) -> Ending | None:
        """Why the Job ends now; None if it goes on."""
        if self.has_failed_too_often():
            return _TOO_MANY_FAILURES
        return _COMPLETED if self.is_complete else None

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

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._refs = ControllerRefManager(api, JOB, POD)
        self._events = EventRecorder(api.store, self.name)
        self._control = PodControl(api, self._events)
        self._failures: dict[str, float] = {}
        """By Job (uid): when the last of its pods failed."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The Job itself, the one that has or had a pod, and pods that no Job will ever count."""
        entry = change.entry
        if change.kind.resource == JOB.resource:
            keys = list(self._refs.owner_changed(change))
            if change.type == "DELETED":
                self._failures.pop(entry.uid, None)
                keys += [_pod_key(pod) for pod in self._store.owned(POD, entry.uid)]
            return keys
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
        """Take one step. Returns in how many seconds missing pods may be created."""
        status = {"startTime": clock.stamp(clock.now())} | (job.get("status") or {})
        deleting = "deletionTimestamp" in job["metadata"]
        progress = self._progress(job, status)
        if any(pod.tracked and pod.failed for pod in progress.pods):
            self._failures[job["metadata"]["uid"]] = seconds_now()
        ending, wait, failure = progress.ending, None, None
        try:
            if ending is not None:
                await self._control.delete(job, [pod.entry for pod in progress.active])
            elif not deleting:
                wait = await self._scale(job, progress)
        except Refusal as refusal:
            ending, failure = None, refusal
        await self._count(job, status, ending, deleting=deleting)
        if failure is not None:
            raise failure
        return wait

    def _progress(self, job: Json, status: Json) -> _Progress:
        pods = [_read_pod(entry) for entry in self._refs.owned(job)]
        tracked = [pod for pod in pods if pod.tracked]
        return _Progress(
            job["spec"],
            pods,
            status.get("succeeded", 0) + sum(pod.phase == "Succeeded" for pod in tracked),
            status.get("failed", 0) + sum(pod.failed for pod in tracked),
        )

    async def _scale(self, job: Json, progress: _Progress) -> float | None:
        """Delete surplus pods or create missing ones. Returns in how many seconds it may create them."""
        missing = progress.wanted - len(progress.active)
        if missing < 0:
            surplus = progress.active[missing:]
            for pod in surplus:
                await self._untrack(pod.entry)  # not wanted any more, so it is no failure
            await self._control.delete(job, [pod.entry for pod in surplus])
        if missing <= 0:
            return None
        wait = self._failures.get(job["metadata"]["uid"], 0.0) + BACKOFF - seconds_now()
        if wait > 0:
            return wait
        template = PodTemplate(job["spec"]["template"], job)
        made = [template.new_pod() for _ in range(missing)]
        for body in made:
            body["metadata"].setdefault("finalizers", []).append(TRACKING)
        await self._control.create(job, made)
        return None

    async def _count(self, job: Json, status: Json, ending: Ending | None, *, deleting: bool) -> None:
        """Count pods that have ended, and end the Job with the last of them."""
        for pod in self._progress(job, status).pods:
            over = pod.ended or pod.terminating or deleting
            if pod.tracked and over:
                await self._untrack(pod.entry)
                counted = "succeeded" if pod.phase == "Succeeded" else "failed"
                status[counted] = status.get(counted, 0) + 1
        active = self._progress(job, status).active
        status |= {"active": len(active), "ready": sum(pod.ready for pod in active), "uncountedTerminatedPods": {}}
        if not active:
            del status["active"]
        if ending is not None:
            set_condition(status, {"status": "True", "lastProbeTime": None} | ending._asdict())
            if ending is _COMPLETED:
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


def _is_finished(job: Json) -> bool:
    return any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def _pod_key(pod: Entry) -> Key:
    """A key that stands for a pod instead of a Job; no Job can have such a name."""
    return (pod.key[0], _POD_PREFIX + pod.key[1])


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
