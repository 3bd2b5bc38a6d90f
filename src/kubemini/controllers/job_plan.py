"""What a Job has to do: how it stands, whether it has come to an end, which pods it lacks or has too many.

Pure, from a Job and its pods to what is to be done and told; `job` does it. A Job ends in two steps, as in Kubernetes:
first a condition says that it will (FailureTarget, SuccessCriteriaMet), then its pods are counted and gone, and then
one says that it has (Failed, Complete). Limits for single indexes (backoffLimitPerIndex) are not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kubemini import clock
from kubemini.controllers.conditions import condition_of
from kubemini.controllers.job_indexes import parse_indexes
from kubemini.controllers.job_pods import JobPod
from kubemini.controllers.job_policy import enough, judged
from kubemini.refusals import Json

FAILURE, SUCCESS = "FailureTarget", "SuccessCriteriaMet"
LONGEST_BACKOFF = 600.0


class Ending(NamedTuple):
    """That a Job comes to an end, and why."""

    kind: str
    """FailureTarget or SuccessCriteriaMet."""
    reason: str
    message: str


COMPLETED = Ending(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True)
class Backoff:
    """How often pods of a Job have failed in a row, and when last; new pods are made ever more slowly."""

    failures: int = 0
    last: float = 0.0

    def after(self, succeeded: Sequence[JobPod], failed: Sequence[JobPod]) -> Backoff:
        """With pods that have ended since."""
        if not succeeded and not failed:
            return self
        if not succeeded:
            return Backoff(self.failures + len(failed), max(pod.finished_at for pod in failed))
        success = max(pod.finished_at for pod in succeeded)
        later = [pod.finished_at for pod in failed if pod.finished_at > success]
        return Backoff(len(later), max(later, default=0.0))

    def wait(self, first: float, at: float) -> float:
        """For how many more seconds no pod is made."""
        if not self.failures:
            return 0.0
        delay = min(first * (1 << min(self.failures - 1, 30)), LONGEST_BACKOFF)
        return max(self.last + delay - at, 0.0)


@dataclass(frozen=True)
class Sight:
    """A Job and its pods, at one moment."""

    job: Json
    pods: list[JobPod]
    at: float
    """Seconds since the epoch."""

    @property
    def spec(self) -> Json:
        found: Json = self.job["spec"]
        return found

    @property
    def status(self) -> Json:
        found: Json = self.job.get("status") or {}
        return found

    @property
    def indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def completions(self) -> int | None:
        found: int | None = self.spec.get("completions")
        return found

    @property
    def parallelism(self) -> int:
        found: int = self.spec.get("parallelism", 1)
        return found

    @property
    def replaces_only_ended(self) -> bool:
        """Whether a pod that is being deleted is replaced only when it has ended."""
        return bool(self.spec.get("podReplacementPolicy") == "Failed")

    @cached_property
    def active(self) -> list[JobPod]:
        return [pod for pod in self.pods if pod.active]

    @cached_property
    def uncounted(self) -> tuple[frozenset[str], frozenset[str]]:
        """The pods that are counted but whose finalizer may still be there: succeeded, failed."""
        found = self.status.get("uncountedTerminatedPods") or {}
        return frozenset(found.get("succeeded") or ()), frozenset(found.get("failed") or ())

    def has_failed(self, pod: JobPod) -> bool:
        """Whether a pod counts as failed for this Job."""
        return pod.failed(only_ended=self.replaces_only_ended)

    def has_valid_index(self, pod: JobPod) -> bool:
        """Whether a pod is one of those that an Indexed Job asks for."""
        return not self.indexed or (pod.index is not None and pod.index < (self.completions or 0))

    @cached_property
    def new_succeeded(self) -> list[JobPod]:
        """Pods that have succeeded and are not counted yet."""
        fresh = (pod for pod in self.pods if pod.tracked and pod.uid not in self.uncounted[0])
        return [pod for pod in fresh if pod.phase == "Succeeded" and self.has_valid_index(pod)]

    @cached_property
    def new_failed(self) -> list[JobPod]:
        """Pods that have failed and are not counted yet."""
        fresh = (pod for pod in self.pods if pod.tracked and pod.uid not in self.uncounted[1])
        return [pod for pod in fresh if self.has_failed(pod) and self.has_valid_index(pod)]

    @cached_property
    def completed_indexes(self) -> set[int]:
        """The indexes that have succeeded, the newest too."""
        before = parse_indexes(self.status.get("completedIndexes") or "", self.completions or 0)
        newest = {pod.index for pod in self.new_succeeded if pod.index is not None}
        return before | newest if self.indexed else set()

    @property
    def succeeded(self) -> int:
        if self.indexed:
            return len(self.completed_indexes)
        return int(self.status.get("succeeded") or 0) + len(self.new_succeeded) + len(self.uncounted[0])

    @property
    def failed(self) -> int:
        counting = sum(judged(self.spec.get("podFailurePolicy"), pod).counts for pod in self.new_failed)
        return int(self.status.get("failed") or 0) + counting + len(self.uncounted[1])

    @property
    def deadline_in(self) -> float | None:
        """In how many seconds its time is over; None if it has no deadline, or is suspended."""
        seconds, start = self.spec.get("activeDeadlineSeconds"), self.status.get("startTime")
        if seconds is None or start is None or self.suspended:
            return None
        left: float = clock.moment(start).timestamp() + seconds - self.at
        return left


def ending(sight: Sight) -> Ending | None:
    """Why a Job comes to an end whatever its active pods do; None if it goes on."""
    for kind in (SUCCESS, FAILURE):
        said = condition_of(sight.job, kind)
        if said.get("status") == "True":
            return Ending(kind, said["reason"], said["message"])
    policy = sight.spec.get("podFailurePolicy")
    for pod in sight.pods if policy else ():
        if sight.has_failed(pod) and (why := judged(policy, pod).fails_job):
            return Ending(FAILURE, "PodFailurePolicy", why)
    limit: int = sight.spec.get("backoffLimit", 6)
    if sight.failed > limit or _too_many_restarts(sight, limit):
        return Ending(FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if sight.deadline_in is not None and sight.deadline_in <= 0:
        return Ending(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
    if sight.indexed and (
        why := enough(sight.spec.get("successPolicy"), sight.completed_indexes, sight.completions or 0)
    ):
        return Ending(SUCCESS, "SuccessPolicy", why)
    return None


def is_complete(sight: Sight, active: int) -> bool:
    """Whether a Job has had its successes: as many as asked for, or one where no number is asked for."""
    wanted = 1 if sight.completions is None else sight.completions
    return sight.succeeded >= wanted and active == 0


def surplus(sight: Sight) -> list[JobPod]:
    """The active pods that must go, those that have done the least first."""
    if sight.suspended:
        return list(sight.active)
    too_many = max(len(sight.active) - _wanted_active(sight), 0)
    doomed: list[JobPod] = []
    left = sorted(sight.active, key=lambda pod: pod.keep_rank)
    if sight.indexed:
        kept = {pod.index: pod for pod in left if sight.has_valid_index(pod)}  # the last one of each index
        doomed = [pod for pod in left if kept.get(pod.index) is not pod]
        left = [pod for pod in left if kept.get(pod.index) is pod]
    return [*doomed, *left[: max(too_many - len(doomed), 0)]]


def missing(sight: Sight) -> list[int | None]:
    """The pods that must be made: their indexes, or nothing where pods have none."""
    if sight.suspended:
        return []
    leaving = [pod for pod in sight.pods if pod.terminating] if sight.replaces_only_ended else []
    number = max(_wanted_active(sight) - len(sight.active) - len(leaving), 0)
    if not sight.indexed:
        return [None] * number
    taken = sight.completed_indexes | {pod.index for pod in (*sight.active, *leaving) if pod.index is not None}
    free = (index for index in range(sight.completions or 0) if index not in taken)
    return [index for index, _ in zip(free, range(number), strict=False)]


def _wanted_active(sight: Sight) -> int:
    if sight.completions is None:
        # Once one has succeeded, the others may finish what they do, but nobody begins anew.
        return len(sight.active) if sight.succeeded else sight.parallelism
    return max(min(sight.completions - sight.succeeded, sight.parallelism), 0)


def _too_many_restarts(sight: Sight, limit: int) -> bool:
    """Pods that restart their containers themselves count by these restarts."""
    if sight.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(pod.restarts for pod in sight.pods if pod.phase in ("Running", "Pending"))
    return restarts > 0 if limit == 0 else restarts >= limit
