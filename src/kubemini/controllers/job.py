"""Jobs: pods that run until enough of them have succeeded, and what becomes of those that fail.

What is to be done is decided in `job_plan`. Pods are counted once each, however they go: the status first names those
that are about to be counted, then they lose their finalizer, and then the numbers go up. A finished Job is deleted
when its time to live is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from kubemini import clock
from kubemini.api import Api, Deletion, Edit, Target
from kubemini.controllers.children import Family, everyone, selector_in
from kubemini.controllers.conditions import condition_of
from kubemini.controllers.facts import Facts
from kubemini.controllers.job_mould import JobMould
from kubemini.controllers.job_plan import (
    COMPLETED,
    Backoff,
    Ending,
    Sight,
    ending,
    is_complete,
    missing,
    surplus,
)
from kubemini.controllers.job_pods import TRACKING, read_job_pod
from kubemini.controllers.job_status import counted, finished, suspended_or_resumed, with_endings
from kubemini.controllers.pod_control import PodControl
from kubemini.events import EventRecorder
from kubemini.kinds import JOB, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key

BACKOFF = 10.0
"""The seconds that a Job waits after the first of its pods has failed; after each further one twice as long."""

_BURST = 500  # pods created or deleted before others have their turn, as in kube-controller-manager
_OURS = "kubernetes.io/job-controller"
_POD = "pod/"
"""What the name in a key begins with that stands for a pod that is nobody's any more."""


class JobController:
    """Runs every Job to its end."""

    name = "job-controller"
    kinds: tuple[Kind, ...] = (JOB, POD)

    def __init__(self, api: Api, backoff: float = BACKOFF) -> None:
        self._api = api
        self._store = api.store
        self._first_backoff = backoff
        self._family = Family(api, JOB, POD)
        self._pods = Facts(read_job_pod)
        self._events = EventRecorder(api.store, self.name)
        self._control = PodControl(api, self._events)
        self._backoffs: dict[str, Backoff] = {}

    def concerned(self, change: Change) -> Iterable[Key]:
        """The Job itself, the one that has or had a pod, and pods whose Job will never count them."""
        entry = change.entry
        if change.kind.resource == JOB.resource:
            keys = list(self._family.parent_changed(change))
            if change.type == "DELETED":
                self._backoffs.pop(entry.uid, None)
                keys += [_pod_key(pod) for pod in self._store.owned(POD, entry.uid)]
            return keys
        self._pods.note(change)
        keys = list(self._family.child_changed(change))
        if change.type != "DELETED" and TRACKING.encode() in entry.raw and not self._is_counted(entry):
            keys.append(_pod_key(entry))
        return keys

    async def reconcile(self, key: Key) -> float | None:
        """One step of one Job."""
        namespace, name = key
        if name.startswith(_POD):
            await self._let_go_of_orphan((namespace, name.removeprefix(_POD)))
            return None
        job = self._api.find(JOB, key)
        selector = selector_in(job["spec"]) if job else None
        if job is None or selector is None or job["spec"].get("managedBy", _OURS) != _OURS:
            return None
        if _is_finished(job):
            self._backoffs.pop(job["metadata"]["uid"], None)
            return await self._outlived(job)
        owned = {entry.uid for entry in self._family.of(job)}
        for entry in await self._family.claim(job, selector, everyone, everyone):
            if entry.uid not in owned:
                await self._track(entry)
        return await self._step(job)

    async def _step(self, job: Json) -> float | None:
        status = job.setdefault("status", {})
        if not status.get("startTime") and not job["spec"].get("suspend"):
            status["startTime"] = clock.stamp(clock.now())
        sight = self._sight(job)
        uid = job["metadata"]["uid"]
        backoff = self._backoffs.get(uid, Backoff()).after(sight.new_succeeded, sight.new_failed)
        waits = [wait for wait in (sight.deadline_in,) if wait is not None]
        failure: Refusal | None = None
        end = ending(sight)
        try:
            if end is not None:
                await self._control.delete(job, [pod.entry for pod in sight.active])
            elif "deletionTimestamp" not in job["metadata"]:
                waits += await self._manage(sight, backoff)
        except Refusal as refusal:
            failure = refusal
        after = self._sight(job)
        if end is None and is_complete(sight, len(after.active)):
            end = COMPLETED
        elif end is None and failure is None and "deletionTimestamp" not in job["metadata"]:
            self._tell_suspension(job)
        elif after.active:
            end = None  # a deletion was refused: it cannot end yet
        self._backoffs[uid] = backoff
        await self._count(sight, after, end)
        if failure is not None:
            raise failure
        return min(waits, default=None) if end is None else None

    def _sight(self, job: Json) -> Sight:
        pods = [self._pods.of(entry) for entry in self._family.of(job)]
        return Sight(job, pods, clock.now().timestamp())

    async def _manage(self, sight: Sight, backoff: Backoff) -> list[float]:
        """Too many pods go, or missing ones are made; the seconds that the latter has to wait."""
        doomed = surplus(sight)[:_BURST]
        if doomed:
            for pod in doomed:
                await self._untrack(pod.entry)  # it is no failure: it is not wanted any more
            await self._control.delete(sight.job, [pod.entry for pod in doomed])
            return []
        wanted = missing(sight)[:_BURST]
        wait = backoff.wait(self._first_backoff, sight.at) if wanted else 0.0
        if wait > 0:
            return [wait]
        mould = JobMould(sight.job)
        await self._control.create(sight.job, [mould.pod(index) for index in wanted])
        return []

    def _tell_suspension(self, job: Json) -> None:
        said = suspended_or_resumed(job, clock.now())
        if said:
            self._events.say(job, said, f"Job {said.lower()}")

    async def _count(self, sight: Sight, after: Sight, end: Ending | None) -> None:
        """Count the pods that have ended, and end the Job with the last of them."""
        job = sight.job
        to_count = counted(sight, after, end)
        with_endings(job["status"], end, clock.now())
        await self._write(job)
        for pod in to_count:
            await self._untrack(pod.entry)
        done = finished(self._sight(job), end, clock.now())
        await self._write(job)
        if done:
            complete = condition_of(job, "Complete")
            said = condition_of(job, "Failed")
            reason, message = ("Completed", "Job completed") if complete else (said["reason"], said["message"])
            self._events.say(job, reason, message, warning=not complete)

    async def _write(self, job: Json) -> None:
        """The status as it is in `job`, if that is news."""

        def told(newest: Json) -> Json:
            same = newest["metadata"]["uid"] == job["metadata"]["uid"]
            return newest | {"status": job["status"]} if same else newest

        metadata = job["metadata"]
        try:
            await self._api.edit(Target(JOB, metadata["namespace"], metadata["name"], "status"), told)
        except Refusal as refusal:
            if refusal.code != 404:
                raise

    async def _track(self, entry: Entry) -> None:
        """An adopted pod is counted like one that the Job has made."""

        def tracked(pod: Json) -> Json:
            finalizers = pod["metadata"].setdefault("finalizers", [])
            if TRACKING not in finalizers:
                finalizers.append(TRACKING)
            return pod

        await self._edit(entry, tracked)

    async def _untrack(self, entry: Entry) -> None:
        def untracked(pod: Json) -> Json:
            kept = [each for each in pod["metadata"].pop("finalizers", []) if each != TRACKING]
            if kept:
                pod["metadata"]["finalizers"] = kept
            return pod

        await self._edit(entry, untracked)

    async def _edit(self, entry: Entry, change: Edit) -> None:
        def checked(pod: Json) -> Json:
            return change(pod) if pod["metadata"]["uid"] == entry.uid else pod

        try:
            await self._api.edit(Target(POD, *entry.key), checked)
        except Refusal as refusal:
            if refusal.code != 404:
                raise

    def _is_counted(self, entry: Entry) -> bool:
        """Whether a Job is there that counts a pod, or will want to; pods of other controllers are theirs."""
        owner = entry.controller
        if owner is None:
            return False
        if owner.kind != JOB.name:
            return True
        job = self._store.get(JOB, (entry.key[0], owner.name))
        return job is not None and job.uid == owner.uid and not _is_finished(job.object())

    async def _let_go_of_orphan(self, key: Key) -> None:
        entry = self._store.get(POD, key)
        if entry is not None and not self._is_counted(entry):
            await self._untrack(entry)

    async def _outlived(self, job: Json) -> float | None:
        """Delete a finished Job whose time to live is over; when it has some left, how much."""
        lifetime = job["spec"].get("ttlSecondsAfterFinished")
        if lifetime is None or "deletionTimestamp" in job["metadata"]:
            return None
        end = condition_of(job, "Complete") or condition_of(job, "Failed")
        gone_at = clock.moment(end["lastTransitionTime"]) + timedelta(seconds=lifetime)
        left = (gone_at - clock.now()).total_seconds()
        if left > 0:
            return left
        metadata = job["metadata"]
        deletion = Deletion(uid=metadata["uid"], propagation="Foreground")
        await self._api.delete(Target(JOB, metadata["namespace"], metadata["name"]), deletion)
        return None


def _is_finished(job: Json) -> bool:
    return any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def _pod_key(entry: Entry) -> Key:
    namespace, name = entry.key
    return (namespace, _POD + name)
