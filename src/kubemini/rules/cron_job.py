"""The rules for CronJobs: a schedule that can be read, a time zone that there is, a template that Jobs can be made of.

The template's spec is that of a Job without the selector, which the API server gives to each Job; see `job_spec`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubemini.cron_schedule import CronError, schedule_of, zone_named
from kubemini.refusals import Fault, Json
from kubemini.rules.faults import negative, one_of, required, unsupported, wrong
from kubemini.rules.job_spec import default_job_pods, job_spec_faults
from kubemini.rules.typed import TypedRules

_LONGEST_NAME = 52  # the Jobs' names have eleven characters more
_POLICIES = ("Allow", "Forbid", "Replace")
_ZONE_PART = re.compile(r"[A-Za-z._0-9+][-A-Za-z._0-9+]{0,13}", re.ASCII)
_COUNTS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


class CronJobRules(TypedRules):
    """What holds for CronJobs."""

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        spec = body["spec"]
        spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        default_job_pods(spec["jobTemplate"]["spec"])

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a CronJob; of its status nothing is asked."""
        if subresource == "status":
            return []
        spec = body["spec"]
        found = list(_schedule_faults(spec["schedule"]))
        if before is None or before["spec"].get("timeZone") != spec.get("timeZone"):
            found += _zone_faults(spec.get("timeZone"))
        found += one_of("spec.concurrencyPolicy", spec["concurrencyPolicy"], _POLICIES)
        for key in _COUNTS:
            found += negative(f"spec.{key}", spec.get(key))
        found += _template_faults("spec.jobTemplate.spec", spec["jobTemplate"]["spec"])
        name = body["metadata"].get("name", "")
        if before is None and len(name) > _LONGEST_NAME:
            found.append(wrong("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
        return found


def _schedule_faults(schedule: str) -> Iterator[Fault]:
    path = "spec.schedule"
    if not schedule:
        yield required(path)
        return
    if "TZ" in schedule:
        yield wrong(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        return
    try:
        schedule_of(schedule)
    except CronError as error:
        yield wrong(path, schedule, str(error))


def _zone_faults(zone: str | None) -> Iterator[Fault]:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        yield wrong(path, zone, "timeZone must be nil or non-empty string")
        return
    if any(part in (".", "..") or not _ZONE_PART.fullmatch(part) for part in zone.split("/")):
        yield wrong(path, zone, f"unknown time zone {zone}")
        return
    if zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield wrong(path, zone, why)
        return
    try:
        zone_named(zone)
    except CronError as error:
        yield wrong(path, zone, str(error))


def _template_faults(path: str, spec: Json) -> Iterator[Fault]:
    yield from job_spec_faults(path, spec)
    if "selector" in spec:
        yield wrong(f"{path}.selector", spec["selector"], "`selector` will be auto-generated")
    if spec.get("manualSelector"):
        yield unsupported(f"{path}.manualSelector", spec["manualSelector"], ("nil", "false"))
