"""What a Job's status tells: how many pods are at work and how many have ended, and that it comes to an end.

Each function changes the status that it is given, in the order in which `job` calls them. Pure otherwise.
"""

from __future__ import annotations

from datetime import datetime

from kubemini import clock
from kubemini.controllers.conditions import condition_of
from kubemini.controllers.job_indexes import format_indexes
from kubemini.controllers.job_plan import FAILURE, SUCCESS, Ending, Sight
from kubemini.controllers.job_pods import JobPod
from kubemini.controllers.job_policy import judged
from kubemini.refusals import Json

_FINAL = {FAILURE: "Failed", SUCCESS: "Complete"}
_MOST_UNCOUNTED = 500  # uids in a status at a time; more have their turn next time


def suspended_or_resumed(job: Json, now: datetime) -> str:
    """Put down that a Job is suspended, or no longer; what is news is the answer: `Suspended`, `Resumed` or nothing."""
    status = job["status"]
    suspended = bool(job["spec"].get("suspend"))
    before = condition_of(job, "Suspended").get("status")
    if before == str(suspended) or (before is None and not suspended):
        return ""
    reason, message = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    _put(status, Ending("Suspended", reason, message), now, value=str(suspended))
    if suspended:
        status.pop("startTime", None)
        return "Suspended"
    status["startTime"] = clock.stamp(now)  # its deadline counts from here
    return "Resumed"


def counted(sight: Sight, after: Sight, end: Ending | None) -> list[JobPod]:
    """Put down how many pods there are, and which have ended; the answer are those to be counted now."""
    status = sight.job["status"]
    _put_numbers(after)
    still_tracked = {pod.uid for pod in sight.pods if pod.tracked}
    _settle(status, still_tracked)
    uncounted: Json = status["uncountedTerminatedPods"]
    to_count: list[JobPod] = []
    for pod in sorted(sight.pods, key=lambda pod: (pod.index is None, pod.index or 0)):
        if len(to_count) == _MOST_UNCOUNTED:
            break
        if not pod.tracked or not _is_over(sight, pod, end):
            continue
        to_count.append(pod)
        if pod.phase == "Succeeded":
            if not sight.indexed and pod.uid not in (*uncounted.get("succeeded", ()), *uncounted.get("failed", ())):
                uncounted.setdefault("succeeded", []).append(pod.uid)
        elif _is_failure(sight, pod, end) and pod.uid not in uncounted.get("failed", ()):
            uncounted.setdefault("failed", []).append(pod.uid)
    if sight.indexed:
        _number(status, "succeeded", len(sight.completed_indexes))
        if text := format_indexes(sight.completed_indexes):
            status["completedIndexes"] = text
    return to_count


def with_endings(status: Json, end: Ending | None, now: datetime) -> None:
    """Say that a Job will end, before the pods that tell why are let go."""
    if end is not None and not condition_of({"status": status}, end.kind):
        _put(status, end, now)


def finished(sight: Sight, end: Ending | None, now: datetime) -> bool:
    """Count those that have been let go of; say that a Job has ended, if it has. Whether it has is the answer."""
    status = sight.job["status"]
    _put_numbers(sight)
    tracked = {pod.uid for pod in sight.pods if pod.tracked}
    _settle(status, tracked)
    if end is None or tracked or status["terminating"]:
        return False
    _put(status, end._replace(kind=_FINAL[end.kind]), now)
    if end.kind == SUCCESS:
        status["completionTime"] = clock.stamp(now)
    return True


def _is_over(sight: Sight, pod: JobPod, end: Ending | None) -> bool:
    """Whether nothing more is to be expected of a pod."""
    leaving = "deletionTimestamp" in sight.job["metadata"]
    return leaving or end is not None or pod.phase == "Succeeded" or sight.has_failed(pod)


def _is_failure(sight: Sight, pod: JobPod, end: Ending | None) -> bool:
    """Whether a pod that is over counts as failed; when the Job fails, all that had not ended do."""
    ended_with_job = end is not None and end.kind == FAILURE
    if not (sight.has_failed(pod) or ended_with_job) or not sight.has_valid_index(pod):
        return False
    return judged(sight.spec.get("podFailurePolicy"), pod).counts


def _put_numbers(sight: Sight) -> None:
    status = sight.job["status"]
    _number(status, "active", len(sight.active))
    status["ready"] = sum(pod.ready for pod in sight.active)
    status["terminating"] = sum(pod.terminating for pod in sight.pods)


def _settle(status: Json, tracked: set[str]) -> None:
    """Pods that are named as uncounted and have lost their finalizer become numbers."""
    uncounted: Json = status.setdefault("uncountedTerminatedPods", {})
    for key in ("succeeded", "failed"):
        named: list[str] = uncounted.pop(key, None) or []
        left = [uid for uid in named if uid in tracked]
        _number(status, key, int(status.get(key) or 0) + len(named) - len(left))
        if left:
            uncounted[key] = left


def _number(status: Json, key: str, count: int) -> None:
    """Zero is not written."""
    if count:
        status[key] = count
    else:
        status.pop(key, None)


def _put(status: Json, said: Ending, now: datetime, *, value: str = "True") -> None:
    conditions: list[Json] = status.setdefault("conditions", [])
    moment = clock.stamp(now)
    condition = {
        "type": said.kind,
        "status": value,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
        "reason": said.reason,
        "message": said.message,
    }
    conditions[:] = [each for each in conditions if each["type"] != said.kind]
    conditions.append(condition)
