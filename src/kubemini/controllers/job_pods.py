"""What the Job controller has to know of a pod: how it ended and when, its index, whether it is still to be counted.

Read from the stored pod once per version. A pod of a Job carries a finalizer until it has been counted, so that none
is lost however fast it is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubemini import clock
from kubemini.controllers.conditions import condition_of
from kubemini.controllers.job_indexes import COMPLETION_INDEX
from kubemini.refusals import Json
from kubemini.store import Entry

TRACKING = "batch.kubernetes.io/job-tracking"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, eq=False)
class JobPod:
    """One pod of a Job."""

    entry: Entry
    phase: str
    tracked: bool
    """Whether it is still to be counted."""
    index: int | None
    ready: bool
    finished_at: float
    """When it ended, or the best guess at that, in seconds since the epoch."""
    restarts: int
    exits: tuple[tuple[str, int], ...]
    """The containers that have ended, and with which code."""
    conditions: tuple[tuple[str, str], ...]
    keep_rank: tuple[bool, int, bool, float, int, float]
    """Of several, the one with the smallest goes first: it has done the least."""

    @property
    def uid(self) -> str:
        """Its identity."""
        return self.entry.uid

    @property
    def ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether it is at work, or will be."""
        return not self.ended and not self.entry.deleting

    @property
    def terminating(self) -> bool:
        """Whether it is deleted and may still be at work."""
        return not self.ended and self.entry.deleting

    def failed(self, *, only_ended: bool) -> bool:
        """Whether it counts as failed: also when it is only deleted, unless the Job waits for pods to end."""
        return self.phase == "Failed" or (not only_ended and self.terminating)


def read_job_pod(entry: Entry) -> JobPod:
    """The facts of one pod."""
    pod = entry.object()
    metadata, status = pod["metadata"], pod.get("status") or {}
    index = (metadata.get("annotations") or {}).get(COMPLETION_INDEX, "")
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    restarts = [int(each.get("restartCount") or 0) for each in statuses]
    ended = [(each["name"], (each.get("state") or {}).get("terminated")) for each in _main_first(status)]
    ready = condition_of(pod, "Ready")
    is_ready = ready.get("status") == "True"
    ready_since = clock.moment(ready["lastTransitionTime"]).timestamp() if is_ready else 0.0
    created = clock.moment(metadata["creationTimestamp"]).timestamp()
    phase = status.get("phase", "Pending")
    bound = bool(entry.fields["spec.nodeName"])
    return JobPod(
        entry=entry,
        phase=phase,
        tracked=TRACKING in (metadata.get("finalizers") or ()),
        index=int(index) if index.isdecimal() else None,
        ready=is_ready,
        finished_at=_finished_at(pod),
        restarts=sum(restarts),
        exits=tuple((name, int(end["exitCode"])) for name, end in ended if end),
        conditions=tuple((each["type"], each["status"]) for each in status.get("conditions") or ()),
        keep_rank=(bound, _PHASES.get(phase, 0), is_ready, -ready_since, -max(restarts, default=0), -created),
    )


def _main_first(status: Json) -> list[Json]:
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def _finished_at(pod: Json) -> float:
    """When its containers ended; else when it stopped being ready, was deleted, or at least was created."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    sidecars = {
        each["name"] for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"
    }
    counted = [
        *(status.get("containerStatuses") or ()),
        *(each for each in status.get("initContainerStatuses") or () if each["name"] in sidecars),
    ]
    ends = [((each.get("state") or {}).get("terminated") or {}).get("finishedAt") for each in counted]
    if ends and all(ends):
        return max(clock.moment(end).timestamp() for end in ends if end)
    ready = condition_of(pod, "Ready")
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return clock.moment(ready["lastTransitionTime"]).timestamp()
    if deleted := metadata.get("deletionTimestamp"):
        return clock.moment(deleted).timestamp() - (metadata.get("deletionGracePeriodSeconds") or 0)
    return clock.moment(metadata["creationTimestamp"]).timestamp()
