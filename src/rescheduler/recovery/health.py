"""Whether pods are well, and whether a workload has been for long enough to start with a clean record."""

from __future__ import annotations

from rescheduler.migration.commands import Json
from rescheduler.migration.observation import condition, controller_of, has_ended, is_leaving, ready_for
from rescheduler.model.instant import parse_instant
from rescheduler.recovery.case import Case
from rescheduler.recovery.failures import statuses
from rescheduler.recovery.record import WHOLE, Entry, slot
from rescheduler.recovery.retries import wanted
from rescheduler.recovery.revisions import is_outdated
from rescheduler.recovery.settings import Settings


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
        if (done or is_well(pod, case.settings, case.now)) and not is_outdated(pod, case):
            return True
    return False


def is_live(pod: Json) -> bool:
    """Whether a pod stands for its workload; ended ones of a controller have been replaced."""
    return not is_leaving(pod) and (not has_ended(pod) or controller_of(pod) is None)


def pods_of(case: Case, name: str) -> list[Json]:
    """The live pods that an entry of the record is about."""
    kind = case.holder["kind"]
    live = [pod for pod in case.pods if is_live(pod)]
    return [pod for pod in live if slot(kind, pod["metadata"]["name"], pod["spec"].get("nodeName", "")) == name]


def recovers_in(case: Case, name: str, entry: Entry) -> float | None:
    """In how many seconds what an entry is about has been well for long enough; None if that is not in sight."""
    holder, settings = case.holder, case.settings
    if holder["kind"] == "Job" and condition(holder, "Complete").get("status") == "True":
        return 0.0
    if holder["kind"] == "CronJob" and _succeeded_since(case, entry):
        return 0.0
    pods = pods_of(case, name)
    least = wanted(holder) if name == WHOLE else 1
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
