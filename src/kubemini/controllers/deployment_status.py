"""What a Deployment's status says: its numbers, whether it is available, and how its rollout gets on.

`deployment` shows it the Deployment and its ReplicaSets and writes what comes back. The Progressing condition is the
rollout's diary: each sign of progress renews its time, and progressDeadlineSeconds after the last one the rollout
counts as stuck.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from kubemini import clock
from kubemini.controllers.deployment_rollout import Goal
from kubemini.refusals import Json

TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"
CREATED = "NewReplicaSetCreated"
FOUND = "FoundNewReplicaSet"
NOT_CREATED = "ReplicaSetCreateError"
_DONE = "NewReplicaSetAvailable"
_GOING_ON = "ReplicaSetUpdated"
_NO_DEADLINE = 2**31 - 1


def deadline_of(deployment: Json) -> int | None:
    """Within how many seconds a rollout must show progress."""
    seconds: int = deployment["spec"].get("progressDeadlineSeconds", 600)
    return seconds if seconds != _NO_DEADLINE else None


def condition_in(status: Json, kind: str) -> Json | None:
    """One of the conditions in a status."""
    return next((each for each in status.get("conditions", ()) if each["type"] == kind), None)


def progressing(state: str, reason: str, message: str) -> Json:
    """A Progressing condition, as of now."""
    return _condition("Progressing", state, reason, message)


def set_condition(status: Json, condition: Json) -> None:
    """Enter a condition, unless it says what is there; the time of transition stays while the state is the same."""
    before = condition_in(status, condition["type"])
    if before is not None and before["status"] == condition["status"]:
        if before["reason"] == condition["reason"]:
            return
        condition = condition | {"lastTransitionTime": before["lastTransitionTime"]}
    drop_condition(status, condition["type"])
    status.setdefault("conditions", []).append(condition)


def drop_condition(status: Json, kind: str) -> None:
    """Take a condition out."""
    others = [each for each in status.pop("conditions", ()) if each["type"] != kind]
    if others:
        status["conditions"] = others


def is_complete(deployment: Json, goal: Goal, status: Json) -> bool:
    """Whether all replicas are new and available, and no old ones are left."""
    counts = (status.get(key, 0) for key in ("updatedReplicas", "replicas", "availableReplicas"))
    return all(count == goal.replicas for count in counts) and (
        status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def counted(deployment: Json, goal: Goal, new: Json | None, olds: Sequence[Json]) -> Json:
    """The status with its numbers and whether enough is available; other conditions stay as they are."""
    before = deployment.get("status", {})
    every = [*olds, *([new] if new else [])]
    available = _sum(every, "availableReplicas")
    wanted = sum(each["spec"].get("replicas", 1) for each in every)
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": _sum(every, "replicas"),
        "updatedReplicas": _sum([new], "replicas") if new else 0,
        "readyReplicas": _sum(every, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(wanted - available, 0),
    }
    status: Json = {key: count for key, count in counts.items() if count}
    if (terminating := _terminating(every)) is not None:
        status["terminatingReplicas"] = terminating
    if conditions := [dict(each) for each in before.get("conditions", ())]:
        status["conditions"] = conditions
    if "collisionCount" in before:
        status["collisionCount"] = before["collisionCount"]
    set_condition(status, _availability(available >= goal.min_available))
    return status


def rolled_out(deployment: Json, goal: Goal, new: Json | None, olds: Sequence[Json]) -> Json:
    """The status while the Deployment is not paused: its numbers, how the rollout gets on, and what fails."""
    before = deployment.get("status", {})
    status = counted(deployment, goal, new, olds)
    current = condition_in(before, "Progressing")
    if deadline_of(deployment) is None:
        drop_condition(status, "Progressing")
    elif not _was_done(current, status):
        _note_progress(deployment, goal, new, status)
    if failure := _replica_failure([*([new] if new else []), *olds]):
        set_condition(status, failure)
    else:
        drop_condition(status, "ReplicaFailure")
    return status


def next_check(deployment: Json, goal: Goal, status: Json) -> float | None:
    """In how many seconds to look whether the rollout is stuck; None if that is no question."""
    deadline, current = deadline_of(deployment), condition_in(status, "Progressing")
    if deadline is None or current is None or current["reason"] == TIMED_OUT or is_complete(deployment, goal, status):
        return None
    due = clock.moment(current["lastUpdateTime"]) + timedelta(seconds=deadline)
    # The times in conditions are cut to whole seconds, so a second more makes sure that it is over.
    return max((due - clock.now()).total_seconds() + 1.0, 1.0)


def _was_done(current: Json | None, status: Json) -> bool:
    """Whether the rollout had ended before and nothing new has begun: then progress is no question."""
    done = current is not None and current["reason"] == _DONE
    return done and status.get("replicas", 0) == status.get("updatedReplicas", 0)


def _note_progress(deployment: Json, goal: Goal, new: Json | None, status: Json) -> None:
    """Renew the Progressing condition by comparing what was with what is."""
    kind, name = ("ReplicaSet", new["metadata"]["name"]) if new else ("Deployment", deployment["metadata"]["name"])
    current = condition_in(deployment.get("status", {}), "Progressing")
    if is_complete(deployment, goal, status):
        set_condition(status, progressing("True", _DONE, f'{kind} "{name}" has successfully progressed.'))
    elif _has_progressed(deployment.get("status", {}), status):
        condition = progressing("True", _GOING_ON, f'{kind} "{name}" is progressing.')
        if current is not None:
            if current["status"] == "True":
                condition["lastTransitionTime"] = current["lastTransitionTime"]
            drop_condition(status, "Progressing")
        set_condition(status, condition)
    elif _is_stuck(deployment, status):
        set_condition(status, progressing("False", TIMED_OUT, f'{kind} "{name}" has timed out progressing.'))


def _has_progressed(before: Json, status: Json) -> bool:
    """Whether there are more new pods, fewer old ones, or more that are ready or available."""

    def old_pods(of: Json) -> int:
        replicas: int = of.get("replicas", 0) - of.get("updatedReplicas", 0)
        return replicas

    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return any(status.get(key, 0) > before.get(key, 0) for key in more) or old_pods(status) < old_pods(before)


def _is_stuck(deployment: Json, status: Json) -> bool:
    current, deadline = condition_in(status, "Progressing"), deadline_of(deployment)
    if current is None or deadline is None or current["reason"] == _DONE:
        return False
    if current["reason"] == TIMED_OUT:
        return True
    return clock.moment(current["lastUpdateTime"]) + timedelta(seconds=deadline) < clock.now()


def _replica_failure(sets: Iterable[Json]) -> Json | None:
    """The failure that a ReplicaSet tells of, the new one's before those of the old."""
    for each in sets:
        if failure := condition_in(each.get("status", {}), "ReplicaFailure"):
            return failure | {"lastUpdateTime": failure["lastTransitionTime"]}
    return None


def _terminating(sets: Iterable[Json]) -> int | None:
    """How many pods are on their way out; unknown if a ReplicaSet that was looked at does not say."""
    total = 0
    for status in (each.get("status", {}) for each in sets):
        if "terminatingReplicas" not in status and status.get("observedGeneration"):
            return None
        total += status.get("terminatingReplicas", 0)
    return total


def _availability(enough: bool) -> Json:  # noqa: FBT001  it is the only thing that is said
    if enough:
        return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    message = "Deployment does not have minimum availability."
    return _condition("Available", "False", "MinimumReplicasUnavailable", message)


def _condition(kind: str, state: str, reason: str, message: str) -> Json:
    stamp = clock.stamp(clock.now())
    return {
        "type": kind,
        "status": state,
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }


def _sum(sets: Iterable[Json], count: str) -> int:
    return sum(each.get("status", {}).get(count, 0) for each in sets)
