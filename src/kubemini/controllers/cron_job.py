"""CronJobs: Jobs that are made when their time comes, and taken away when there are enough of those that have ended.

When a time has come is decided in `cron_plan`. The status names the Jobs that run; it is written once for each look,
after all has been done. A Job's name says which time it is for, so no time is served twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.controllers.conditions import condition_of
from kubemini.controllers.cron_plan import Turn, job_of, turn_of
from kubemini.copies import fresh
from kubemini.cron_schedule import CronError
from kubemini.events import EventRecorder
from kubemini.kinds import CRON_JOB, JOB, NAMESPACE, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Key

_HISTORY = {"Complete": "successfulJobsHistoryLimit", "Failed": "failedJobsHistoryLimit"}


class CronJobController:
    """Makes the Jobs of every CronJob."""

    name = "cronjob-controller"
    kinds: tuple[Kind, ...] = (CRON_JOB, JOB)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = EventRecorder(api.store, self.name)
        self._times: dict[str, tuple[str, str]] = {}
        """The schedule and the time zone that each had when it was last looked at."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """The CronJob itself, and those that have or had a Job."""
        entry, before = change.entry, change.before
        if change.kind.resource == CRON_JOB.resource:
            if change.type == "DELETED":
                self._times.pop(entry.uid, None)
            return (entry.key,)
        owners = {each.controller for each in (entry, before) if each is not None}
        return [(entry.key[0], owner.name) for owner in owners if owner is not None and owner.kind == CRON_JOB.name]

    async def reconcile(self, key: Key) -> float | None:
        """One look at one CronJob."""
        cron_job = self._api.find(CRON_JOB, key)
        if cron_job is None:
            return None
        before = fresh(cron_job.setdefault("status", {}))
        try:
            jobs = await self._without_old(cron_job, self._jobs(cron_job))
            self._follow(cron_job, jobs)
            return await self._take_turn(cron_job)
        finally:
            if cron_job["status"] != before:
                await self._write(cron_job)

    def _jobs(self, cron_job: Json) -> list[Json]:
        uid = cron_job["metadata"]["uid"]
        entries = self._store.owned(JOB, uid)
        return [entry.object() for entry in entries if entry.controller is not None and entry.controller.uid == uid]

    async def _without_old(self, cron_job: Json, jobs: list[Json]) -> list[Json]:
        """Take away the oldest of those that have ended, as far as there are more than shall be kept."""
        gone: list[str] = []
        for how, limit in _HISTORY.items():
            ended = [job for job in jobs if _ending(job) == how and "deletionTimestamp" not in job["metadata"]]
            ended.sort(key=lambda job: (job["status"].get("startTime") or "9", job["metadata"]["name"]))
            for job in ended[: max(len(ended) - cron_job["spec"][limit], 0)]:
                await self._delete(cron_job, job)
                gone.append(job["metadata"]["uid"])
        return [job for job in jobs if job["metadata"]["uid"] not in gone]

    def _follow(self, cron_job: Json, jobs: list[Json]) -> None:
        """Bring the status up to what has become of the Jobs."""
        status = cron_job["status"]
        active = {each["uid"]: each["name"] for each in status.get("active", ())}
        for job in jobs:
            uid, name, ended = job["metadata"]["uid"], job["metadata"]["name"], _ending(job)
            if not ended and uid not in active:
                told = f"Saw a job that the controller did not create or forgot: {name}"
                self._events.say(cron_job, "UnexpectedJob", told, warning=True)
            elif ended and uid in active:
                _leave(status, uid)
                self._events.say(cron_job, "SawCompletedJob", f"Saw completed job: {name}, condition: {ended}")
            done = job["status"].get("completionTime") if ended == "Complete" else None
            if done and done > status.get("lastSuccessfulTime", ""):
                status["lastSuccessfulTime"] = done
        there = {job["metadata"]["uid"] for job in jobs}
        for uid in active.keys() - there:
            self._events.say(cron_job, "MissingJob", f"Active job went missing: {active[uid]}")
            _leave(status, uid)

    async def _take_turn(self, cron_job: Json) -> float | None:
        """Start a Job if it is time; the answer is when to look again."""
        spec, uid, now = cron_job["spec"], cron_job["metadata"]["uid"], clock.now()
        if "deletionTimestamp" in cron_job["metadata"] or spec["suspend"]:
            return None
        times = (spec["schedule"], spec.get("timeZone", ""))
        known = self._times.setdefault(uid, times)
        self._times[uid] = times
        try:
            turn = turn_of(cron_job, now)
        except CronError as error:
            self._events.say(cron_job, "InvalidSchedule", f"invalid schedule: {times[0]} : {error}", warning=True)
            return None
        # A new schedule counts from its next time on: what it would have meant before is not made up for.
        if turn.due is not None and known == times and not self._is_refused(cron_job, turn, now):
            await self._serve(cron_job, turn.due)
        return turn.wait

    def _is_refused(self, cron_job: Json, turn: Turn, now: datetime) -> bool:
        """Whether nothing is started although it is time."""
        spec, active = cron_job["spec"], cron_job["status"].get("active", [])
        if turn.many_missed:
            cure = "Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._events.say(cron_job, "TooManyMissedTimes", f"too many missed start times. {cure}", warning=True)
        if turn.due is not None and turn.is_late(spec, now):
            missed = turn.due.strftime("%a, %d %b %Y %H:%M:%S %z")
            told = f"Missed scheduled time to start a job: {missed}"
            self._events.say(cron_job, "MissSchedule", told, warning=True)
            return True
        if spec["concurrencyPolicy"] == "Forbid" and active:
            why = "prior execution is running and concurrency policy is Forbid"
            self._events.say(cron_job, "JobAlreadyActive", f"Not starting job because {why}")
            return True
        return False

    async def _serve(self, cron_job: Json, due: datetime) -> None:
        status, job = cron_job["status"], job_of(cron_job, due)
        active = status.get("active", [])
        if any(each["name"] == job["metadata"]["name"] for each in active):
            return
        if cron_job["spec"]["concurrencyPolicy"] == "Replace":
            for running in [each for each in self._jobs(cron_job) if _is_named(active, each)]:
                await self._delete(cron_job, running)
        made = await self._create(cron_job, job)
        if made is None:
            return
        metadata = made["metadata"]
        named = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
        status["active"] = [*status.get("active", []), {"apiVersion": "batch/v1", "kind": "Job"} | named]
        status["lastScheduleTime"] = clock.stamp(due)

    async def _create(self, cron_job: Json, job: Json) -> Json | None:
        """The Job; none if somebody else has made one by this name, or the namespace goes away."""
        namespace, name = cron_job["metadata"]["namespace"], job["metadata"]["name"]
        try:
            made = await self._api.create(Target(JOB, namespace), job)
        except Refusal as refusal:
            there = self._store.get(NAMESPACE, ("", namespace))
            if there is None or there.deleting:
                return None
            standing = self._api.find(JOB, (namespace, name)) if refusal.reason == "AlreadyExists" else None
            if standing is None:
                self._events.say(cron_job, "FailedCreate", f"Error creating job: {refusal}", warning=True)
                raise
            owners = standing["metadata"].get("ownerReferences", ())
            ours = any(each.get("controller") and each["uid"] == cron_job["metadata"]["uid"] for each in owners)
            return standing if ours else None
        self._events.say(cron_job, "SuccessfulCreate", f"Created job {name}")
        return made

    async def _delete(self, cron_job: Json, job: Json) -> None:
        metadata = job["metadata"]
        try:
            target = Target(JOB, metadata["namespace"], metadata["name"])
            await self._api.delete(target, Deletion(uid=metadata["uid"], propagation="Background"))
        except Refusal as refusal:
            there = self._store.get(JOB, (metadata["namespace"], metadata["name"]))
            if there is not None and there.uid == metadata["uid"]:
                self._events.say(cron_job, "FailedDelete", f"Deleted job: {refusal}", warning=True)
                raise
        else:
            self._events.say(cron_job, "SuccessfulDelete", f"Deleted job {metadata['name']}")
        _leave(cron_job["status"], metadata["uid"])

    async def _write(self, cron_job: Json) -> None:
        """The status as it is in `cron_job`."""
        metadata = cron_job["metadata"]

        def told(newest: Json) -> Json:
            same = newest["metadata"]["uid"] == metadata["uid"]
            return newest | {"status": cron_job["status"]} if same else newest

        try:
            await self._api.edit(Target(CRON_JOB, metadata["namespace"], metadata["name"], "status"), told)
        except Refusal as refusal:
            if refusal.code != 404:
                raise


def _ending(job: Json) -> str:
    """`Complete` or `Failed`, if it has ended."""
    return next((how for how in _HISTORY if condition_of(job, how).get("status") == "True"), "")


def _is_named(active: list[Json], job: Json) -> bool:
    return any(each["uid"] == job["metadata"]["uid"] for each in active)


def _leave(status: Json, uid: str) -> None:
    """Take a Job out of those that run."""
    left = [each for each in status.get("active", ()) if each["uid"] != uid]
    status.pop("active", None)
    if left:
        status["active"] = left
