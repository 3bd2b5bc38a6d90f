"""Whether pods are well, and whether a workload has been for long enough to start with a clean record."""

from __future__ import annotations

from rescheduler.migration.commands import Json
from rescheduler.migration.observation import condition, controller_of, has_ended, is_leaving, ready_for
from rescheduler.model.instant import parse_instant
from rescheduler.recovery.case import Case
from rescheduler.recovery.failures import statuses
from rescheduler.recovery.record import Entry, slot
from rescheduler.recovery.retries import wanted
from rescheduler.recovery.revisions import is_outdated
from rescheduler.recovery.settings import Settings

_PROOF = 60.0  # seconds


def is_well(pod: Json, settings: Settings, now: float) -> bool:
    """Whether a pod is Ready and not just between two crashes: without a readiness probe it is Ready there, too."""
    lasting = ready_for(pod, now)
    if lasting is None:
        return False
    restarts = max((each.get("restartCount") or 0 for each in statuses(pod)), default=0)
    return restarts < settings.crash_restarts or lasting >= settings.clear_after


def runs_somewhere(case: Case) -> bool:
    """Whether a pod shows that its workload can run, with the template that is in use."""
    for pod in case.pods:
        done = (pod.get("status") or {}).get("phase") == "Succeeded"
        if (done or _runs_for(pod, case) >= _PROOF) and not is_outdated(pod, case):
            return True
    return False


def may_show_in(case: Case) -> float | None:
    """In how many seconds a pod will have shown it; None if none is about to.

    One that was made a moment ago shows nothing: without a readiness probe it is Ready before its first crash.
    """
    young = [each for pod in case.pods if not is_outdated(pod, case) and (each := _runs_for(pod, case)) > 0]
    return _PROOF - max(young) if young else None


def _runs_for(pod: Json, case: Case) -> float:
    """For how many seconds it has been well."""
    return max(ready_for(pod, case.now) or 0.0, 0.001) if is_well(pod, case.settings, case.now) else 0.0


def is_live(pod: Json) -> bool:
    """Whether a pod stands for its workload; ended ones of a controller have been replaced."""
    return not is_leaving(pod) and (not has_ended(pod) or controller_of(pod) is None)


def by_entry(case: Case) -> dict[str, list[Json]]:
    """The live pods that each entry of the record is about."""
    found: dict[str, list[Json]] = {}
    for pod in filter(is_live, case.pods):
        name = slot(case.holder["kind"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
        found.setdefault(name, []).append(pod)
    return found


def success(case: Case, entry: Entry) -> str:
    """What was reached in spite of the failures, so that nothing is left to be well; empty where pods just go on."""
    holder = case.holder
    if holder["kind"] == "Job" and condition(holder, "Complete").get("status") == "True":
        return "the Job has completed"
    if holder["kind"] == "CronJob" and _succeeded_since(case, entry):
        return "the last Job has completed"
    return ""


def recovers_in(case: Case, pods: list[Json], entry: Entry) -> float | None:
    """In how many seconds the pods that an entry is about have been well for long enough; None: not in sight."""
    holder, settings = case.holder, case.settings
    if success(case, entry):
        return 0.0
    least = 1 if holder["kind"] in ("StatefulSet", "DaemonSet") else wanted(holder)
    ready = [ready_for(pod, case.now) for pod in pods]
    if not pods or len(pods) < least or None in ready:
        return None
    # What failed meanwhile may have been replaced by no pod of these: a pod too many, or one that somebody moved.
    quiet = [case.now - failure.at for failure in entry.nodes.values()]
    return max(0.0, settings.clear_after - min([*quiet, *(each for each in ready if each is not None)]))


def _succeeded_since(case: Case, entry: Entry) -> bool:
    """Whether the CronJob's last Job has completed after everything that failed."""
    last = max(case.controllers, key=lambda job: job["metadata"].get("creationTimestamp") or "", default=None)
    if last is None or condition(last, "Complete").get("status") != "True":
        return False
    at = parse_instant(last["status"]["completionTime"]) if (last["status"]).get("completionTime") else case.now
    return all(failure.at < at for failure in entry.nodes.values())
