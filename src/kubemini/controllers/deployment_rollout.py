"""The arithmetic of rollouts: how large each ReplicaSet of a Deployment shall be next. Pure.

`deployment` carries out the Resizes, one step per reconciliation, as kube-controller-manager does: new pods within
maxSurge first, then old ones as far as maxUnavailable allows, unhealthy ones before healthy ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kubemini.controllers.pods import scale_value
from kubemini.refusals import Json


@dataclass(frozen=True)
class Goal:
    """What a Deployment wants, as numbers."""

    replicas: int
    rolling: bool
    max_surge: int
    max_unavailable: int

    @property
    def limit(self) -> int:
        """How many pods there may be at a time."""
        return self.replicas + self.max_surge

    @property
    def min_available(self) -> int:
        """How many pods must stay available."""
        return self.replicas - self.max_unavailable


def goal_of(deployment: Json) -> Goal:
    """The numbers of a Deployment. maxSurge is rounded up, maxUnavailable down; never both to nothing."""
    spec = deployment["spec"]
    replicas: int = spec.get("replicas", 1)
    strategy = spec.get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Goal(replicas, rolling=False, max_surge=0, max_unavailable=0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scale_value(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scale_value(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Goal(replicas, rolling=True, max_surge=surge, max_unavailable=min(unavailable, replicas))


@dataclass(frozen=True)
class Share:
    """One ReplicaSet of a Deployment."""

    name: str
    created: str
    replicas: int
    """How many pods it shall have."""
    available: int = 0

    @property
    def age(self) -> tuple[str, str]:
        """Sorts from old to new."""
        return (self.created, self.name)


def share_of(replica_set: Json) -> Share:
    """The numbers of a ReplicaSet."""
    metadata, status = replica_set["metadata"], replica_set.get("status", {})
    return Share(
        metadata["name"],
        metadata.get("creationTimestamp", ""),
        replica_set["spec"].get("replicas", 1),
        status.get("availableReplicas", 0),
    )


@dataclass(frozen=True)
class Resize:
    """Give one ReplicaSet another size."""

    name: str
    replicas: int


def first_size(goal: Goal, olds: Sequence[Share]) -> int:
    """How large a new ReplicaSet is made."""
    return _grow(goal, Share("", "", 0), olds)


def rolling_step(goal: Goal, new: Share, olds: Sequence[Share]) -> list[Resize]:
    """The next step of a rolling update; none when there is nothing to do but wait."""
    if new.replicas > goal.replicas:
        return [Resize(new.name, goal.replicas)]
    if (grown := _grow(goal, new, olds)) != new.replicas:
        return [Resize(new.name, grown)]
    active = sorted((old for old in olds if old.replicas > 0), key=lambda old: old.age)
    # New pods that are not available yet must not make room for deleting old ones.
    waiting = new.replicas - new.available
    allowed = _total(active) + new.replicas - goal.min_available - waiting
    if not active or allowed <= 0:
        return []
    unhealthy, left = _give_up_unhealthy(active, allowed)
    if left is None:
        return unhealthy
    spare = sum(old.available for old in left) + new.available - goal.min_available
    return [*unhealthy, *_shrink(left, spare)]


def recreate_step(olds: Sequence[Share]) -> list[Resize]:
    """All old ReplicaSets go before anything new is created."""
    return [Resize(old.name, 0) for old in olds if old.replicas > 0]


def paused_step(goal: Goal, shares: Sequence[Share]) -> list[Resize]:
    """Scale a paused Deployment: its only active ReplicaSet, or the newest one if none is active.

    One that is paused in the middle of a rollout keeps its sizes until it is resumed.
    """
    active = [each for each in shares if each.replicas > 0]
    if len(active) > 1 or not shares:
        return []
    only = active[0] if active else max(shares, key=lambda each: each.age)
    return [Resize(only.name, goal.replicas)] if only.replicas != goal.replicas else []


def _grow(goal: Goal, new: Share, olds: Sequence[Share]) -> int:
    """The size of the new ReplicaSet that the limit allows now."""
    if not goal.rolling:
        return goal.replicas
    room = goal.limit - _total(olds) - new.replicas
    return new.replicas + max(min(room, goal.replicas - new.replicas), 0)


def _give_up_unhealthy(active: Sequence[Share], allowed: int) -> tuple[list[Resize], list[Share] | None]:
    """Give up pods that are not available. The second answer is what is left then.

    It is None if a ReplicaSet has more available pods than it shall have: it has not carried out its last step yet.
    """
    steps: list[Resize] = []
    left: list[Share] = []
    for old in active:
        fewer = min(allowed, old.replicas - old.available)
        if fewer < 0:
            return steps, None
        left.append(replace(old, replicas=old.replicas - fewer))
        if fewer > 0:
            steps.append(Resize(old.name, old.replicas - fewer))
            allowed -= fewer
    return steps, left


def _shrink(active: Sequence[Share], spare: int) -> list[Resize]:
    """Give up what is available beyond what must be, the oldest ReplicaSets first."""
    steps: list[Resize] = []
    for old in active:
        fewer = min(old.replicas, spare)
        if fewer > 0:
            steps.append(Resize(old.name, old.replicas - fewer))
            spare -= fewer
    return steps


def _total(shares: Iterable[Share]) -> int:
    return sum(each.replicas for each in shares)
