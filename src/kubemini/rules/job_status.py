"""What must hold for a new status of a Job: nothing that has been counted or has ended is taken back."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules.faults import negative, required, wrong

_ENDS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_IMPOSSIBLE = (
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
)


def job_status_faults(body: Json, before: Json) -> Iterator[Fault]:
    """What is wrong with a new status."""
    status, old = body["status"], before.get("status", {})
    for key in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from negative(f"status.{key}", status.get(key))
    true, was = _true(status), _true(old)
    yield from _condition_faults(true, was)
    yield from _count_faults(body["spec"], status, old)
    if true & {"Complete", "Failed"}:
        yield from _finished_faults(status, true)
    elif "completionTime" in status:
        why = "cannot set completionTime when there is no Complete=True condition"
        yield wrong("status.completionTime", status["completionTime"], why)
    if status.get("ready", 0) > status.get("active", 0):
        yield wrong("status.ready", status["ready"], "cannot set more ready pods than active")
    started = old.get("startTime")
    if started and status.get("startTime") != started and not body["spec"].get("suspend") and "Suspended" not in was:
        why = "field is immutable for unsuspended job once set"
        yield wrong("status.startTime", status.get("startTime"), why)


def _condition_faults(true: set[str], was: set[str]) -> Iterator[Fault]:
    path = "status.conditions"
    for end in _ENDS:
        if end in was and end not in true:
            terminal = "" if end == "SuccessCriteriaMet" else "terminal "
            yield wrong(path, None, f"cannot disable the {terminal}{end}=True condition")
    for one, other in _IMPOSSIBLE:
        if one in true and other in true:
            yield wrong(path, None, f"cannot set {one}=True and {other}=true conditions")
    if "Failed" in true and "FailureTarget" not in true:
        yield wrong(path, None, "cannot set Failed=True condition without the FailureTarget=true condition")
    if "Complete" in true and "SuccessCriteriaMet" not in true:
        yield wrong(path, None, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _count_faults(spec: Json, status: Json, old: Json) -> Iterator[Fault]:
    if status.get("failed", 0) < old.get("failed", 0):
        yield wrong("status.failed", status.get("failed", 0), "cannot decrease the failed counter")
    elastic = spec["completionMode"] == "Indexed" and spec.get("completions") == spec["parallelism"]
    if status.get("succeeded", 0) < old.get("succeeded", 0) and not elastic:
        yield wrong("status.succeeded", status.get("succeeded", 0), "cannot decrease the succeeded counter")


def _finished_faults(status: Json, true: set[str]) -> Iterator[Fault]:
    for key in ("active", "terminating"):
        if status.get(key, 0) > 0:
            yield wrong(f"status.{key}", status[key], f"{key}>0 is invalid for finished job")
    if "startTime" not in status:
        yield required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if uncounted.get("succeeded") or uncounted.get("failed"):
        yield wrong("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")
    if "Complete" in true and "completionTime" not in status:
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    elif "completionTime" in status and status["completionTime"] < status.get("startTime", ""):
        yield wrong("status.completionTime", status["completionTime"], "must be equal to or after `startTime`")


def _true(status: Json) -> set[str]:
    return {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
