"""What a CronJob is to do now: which of its times has come and is not served yet, and when the next one comes.

`cron_job` asks at each look, and does it. Times that passed while nobody looked are one turn, the latest, and no more.
Pure: it is told what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubemini import clock
from kubemini.controllers.children import controller_reference
from kubemini.copies import fresh
from kubemini.cron_schedule import CronError, Schedule, schedule_of, zone_named
from kubemini.refusals import Json

SCHEDULED_FOR = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY = 100  # missed times, from which on a warning is due
_PAD = timedelta(milliseconds=100)  # looked at a little late, so that a clock that is a little off does not look early


@dataclass(frozen=True, slots=True)
class Turn:
    """How a CronJob stands."""

    due: datetime | None
    """The latest time that has come since the last Job."""
    wait: float
    """The seconds until the next time comes."""
    many_missed: bool = False

    def is_late(self, spec: Json, now: datetime) -> bool:
        """Whether it is too late to start what is due."""
        deadline = spec.get("startingDeadlineSeconds")
        return self.due is not None and deadline is not None and self.due + _seconds(deadline) < now


def turn_of(cron_job: Json, now: datetime) -> Turn:
    """How a CronJob stands now; a CronError if its times never come."""
    spec = cron_job["spec"]
    schedule = schedule_of(spec["schedule"], spec.get("timeZone", ""))
    since = _since(cron_job)
    looked_from = since
    if (deadline := spec.get("startingDeadlineSeconds")) is not None:
        looked_from = max(since, now - _seconds(deadline))
    first = schedule.next(looked_from)
    if first is None:
        raise CronError("the times that it names do not come in the next years")
    following = schedule.next(schedule.latest(since, now) or since)
    wait = ((following or now + timedelta(days=1)) + _PAD - now).total_seconds()
    if first > now:
        return Turn(None, wait)
    return Turn(schedule.latest(looked_from, now), wait, _missed(schedule, first, now) > _MANY)


def job_of(cron_job: Json, due: datetime) -> Json:
    """The Job for one of a CronJob's times; its name is the same however often it is made."""
    spec, name = cron_job["spec"], cron_job["metadata"]["name"]
    template = fresh(spec["jobTemplate"])
    given = template.get("metadata") or {}
    local = due.astimezone(zone_named(spec.get("timeZone", ""))).isoformat(timespec="seconds")
    stamped = local.removesuffix("+00:00") + "Z" if local.endswith("+00:00") else local
    metadata: dict[str, Any] = {
        "name": f"{name}-{int(due.timestamp()) // 60}",
        "annotations": (given.get("annotations") or {}) | {SCHEDULED_FOR: stamped},
        "ownerReferences": [controller_reference(cron_job)],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {"metadata": metadata, "spec": template["spec"]}


def _since(cron_job: Json) -> datetime:
    """What is counted from: the last time that was served, or when the CronJob was made."""
    last = cron_job.get("status", {}).get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
    return clock.moment(last).astimezone(UTC)


def _seconds(deadline: int) -> timedelta:
    """A deadline, cut to what a date can be moved by."""
    return timedelta(seconds=min(deadline, 10**9))


def _missed(schedule: Schedule, first: datetime, now: datetime) -> int:
    """About how many times have come since the first; one is none missed."""
    second = schedule.next(first)
    if second is None or second > now:
        return 0
    return int((now - first) / (second - first)) + 1
