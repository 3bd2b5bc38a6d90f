"""Jobs: pods that run until enough of them have succeeded, or too many have failed.

A pod of a Job carries a finalizer until it is counted, so that none is lost however fast it is deleted. A Job has ended
as soon as that is decided; its last pods may still be terminating then. Indexed Jobs, suspension, deadlines, failure
and success policies, and a life time after the end are not implemented.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.conditions import condition_of, set_condition
from kubemini.controllers.controller_refs import is_generation_changed
from kubemini.controllers.pods import PodControl, new_pod, seconds_now
from kubemini.controllers.writes import drop_finalizer, write_status
from kubemini.errors import Json, StatusError
from kubemini.events import EventRecorder
from kubemini.kinds import JOB, POD, Kind
from kubemini.store import Change, Entry, Key

TRACKING = "batch.kubernetes.io/job-tracking"
BACKOFF = 10.0
"""For how many seconds no pod is made after a failure."""


class Ending(NamedTuple):
    """Why a Job has ended; the type is that of its condition."""

    type: str
    reason: str
    message: str


_COMPLETED = Ending("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY_FAILURES = Ending("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")


class _JobPod:
    """One pod of a Job."""

    def __init__(self, entry: Entry) -> None:
        pod = entry.object()
        status = pod.get("status") or {}
        phase = status.get("phase", "Pending")
        self.entry = entry
        self.tracked = TRACKING in (pod["metadata"].get("finalizers") or ())
        """Whether it is still to be counted."""
        self.ready = condition_of(pod, "Ready").get("status") == "True"
        self.succeeded = phase == "Succeeded"
        self.failed = phase == "Failed" or (entry.deleting and not self.succeeded)
        """Whether it counts as failed; a pod that is being deleted does."""
        self.active = not self.succeeded and not self.failed
        self.restarts = sum(int(each.get("restartCount") or 0) for each in status.get("containerStatuses") or ())


class JobController:
    """Runs every Job to its end."""

    name = "job-controller"
    kinds: tuple[Kind, ...] = (JOB, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = EventRecorder(api.store, self.name)
        self._control = PodControl(api, self.name)
        self._failures: dict[str, float] = {}
        """By Job (uid): when the last of its pods failed."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The Job itself, and the one that a pod names; a tracked pod without a controller has the empty name."""
        entry, owner = change.entry, change.entry.controller
        if change.kind.resource == JOB.resource:
            return (entry.key,) if is_generation_changed(change) else ()
        if owner is None:
            return ((entry.key[0], ""),) if TRACKING.encode() in entry.raw else ()
        return ((entry.key[0], owner.name),) if owner.kind == JOB.name else ()

    async def reconcile(self, key: Key) -> float | None:
        """Release pods that no Job will ever count, and take one step of one Job."""
        for pod in self._store.entries(POD, key[0]):
            if TRACKING.encode() in pod.raw and not self._will_be_counted(pod):
                await self._untrack(pod)
        job = self._api.find(JOB, key)
        if job is None or any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed")):
            return None
        return await self._advance(job)

    async def _advance(self, job: Json) -> float | None:
        """Take one step. Returns in how many seconds missing pods may be created."""
        status = {"startTime": clock.stamp(clock.now())} | (job.get("status") or {})
        pods = self._pods(job)
        tracked = [pod for pod in pods if pod.tracked]
        active = [pod for pod in pods if pod.active]
        succeeded = status.get("succeeded", 0) + sum(pod.succeeded for pod in tracked)
        failed = status.get("failed", 0) + sum(pod.failed for pod in tracked)
        if any(pod.failed for pod in tracked):
            self._failures[job["metadata"]["uid"]] = seconds_now()
        ending, wait = _ending(job["spec"], active, succeeded, failed), None
        try:
            if ending is not None:
                await self._control.delete(job, [pod.entry for pod in active])
            elif "deletionTimestamp" not in job["metadata"]:
                wait = await self._scale(job, active, succeeded)
        except StatusError:
            await self._count(job, status, None)
            raise
        await self._count(job, status, ending)
        return wait

    async def _scale(self, job: Json, active: Sequence[_JobPod], succeeded: int) -> float | None:
        """Delete surplus pods or create missing ones. Returns in how many seconds it may create them."""
        wanted: int = job["spec"].get("parallelism", 1)
        completions: int | None = job["spec"].get("completions")
        if completions is not None:
            wanted = max(min(completions - succeeded, wanted), 0)
        elif succeeded:  # once one has succeeded, the others may finish but none is started
            wanted = len(active)
        for pod in active[wanted:]:
            await self._untrack(pod.entry)  # not wanted any more, so it is no failure
        await self._control.delete(job, [pod.entry for pod in active[wanted:]])
        missing = wanted - len(active)
        if missing <= 0:
            return None
        wait = self._failures.get(job["metadata"]["uid"], 0.0) + BACKOFF - seconds_now()
        if wait > 0:
            return wait
        made = [new_pod(job["spec"]["template"], job) for _ in range(missing)]
        for body in made:
            body["metadata"].setdefault("finalizers", []).append(TRACKING)
        await self._control.create(job, made)
        return None

    async def _count(self, job: Json, status: Json, ending: Ending | None) -> None:
        """Count pods that have ended, and end the Job with the last of them."""
        for pod in self._pods(job):
            if pod.tracked and (not pod.active or "deletionTimestamp" in job["metadata"]):
                await self._untrack(pod.entry)
                counted = "succeeded" if pod.succeeded else "failed"
                status[counted] = status.get(counted, 0) + 1
        active = [pod for pod in self._pods(job) if pod.active]
        status |= {"active": len(active), "ready": sum(pod.ready for pod in active), "uncountedTerminatedPods": {}}
        if ending is not None:
            set_condition(status, {"status": "True", "lastProbeTime": None} | ending._asdict())
            if ending is _COMPLETED:
                status["completionTime"] = clock.stamp(clock.now())
            self._events.record(job, ending.reason, ending.message, warning=ending is not _COMPLETED)
        await write_status(self._api, JOB, job, status)

    def _pods(self, job: Json) -> list[_JobPod]:
        uid = job["metadata"]["uid"]
        return [
            _JobPod(entry) for entry in self._store.owned(POD, uid) if entry.controller and entry.controller.uid == uid
        ]

    def _will_be_counted(self, pod: Entry) -> bool:
        """Whether the controller of a pod is there, or is none of ours."""
        owner = pod.controller
        job = self._store.get(JOB, (pod.key[0], owner.name)) if owner else None
        return owner is not None and (owner.kind != JOB.name or (job is not None and job.uid == owner.uid))

    async def _untrack(self, pod: Entry) -> None:
        await drop_finalizer(self._api, Target(POD, *pod.key), pod.uid, TRACKING)


def _ending(spec: Json, active: Sequence[_JobPod], succeeded: int, failed: int) -> Ending | None:
    """Why the Job ends now; None if it goes on. Where containers are restarted, their restarts count as failures."""
    limit: int = spec.get("backoffLimit", 6)
    restarts = sum(pod.restarts for pod in active)
    if failed > limit or (spec["template"]["spec"].get("restartPolicy") == "OnFailure" and restarts >= max(limit, 1)):
        return _TOO_MANY_FAILURES
    completions: int | None = spec.get("completions")
    enough = 1 if completions is None else completions
    return _COMPLETED if succeeded >= enough and not active else None
