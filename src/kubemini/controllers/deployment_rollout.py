"""How large each ReplicaSet of a Deployment shall be next: the arithmetic of rollouts and of scaling, without doing it.

`deployment` shows its ReplicaSets and carries out the Resizes that come back, one step a turn, as
kube-controller-manager does: new pods within maxSurge first, then old ones as far as maxUnavailable allows, unhealthy
ones before healthy ones; a Deployment that is scaled in the middle of a rollout, or while it is paused, keeps the
proportions of its ReplicaSets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kubemini.refusals import Json

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Goal:
    """What a Deployment wants, as numbers."""

    replicas: int
    rolling: bool
    max_surge: int
    max_unavailable: int
    paused: bool
    actual: int
    """How many replicas its status tells of."""

    @property
    def limit(self) -> int:
        """How many pods there may be at a time."""
        return self.replicas + self.max_surge

    @property
    def min_available(self) -> int:
        """How many pods must stay available."""
        return self.replicas - self.max_unavailable


def goal_of(deployment: Json) -> Goal:
    """The numbers of a Deployment."""
    spec = deployment["spec"]
    replicas: int = spec.get("replicas", 1)
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
    surge, unavailable = (0, 0) if not rolling else _fenceposts(strategy.get("rollingUpdate") or {}, replicas)
    return Goal(
        replicas=replicas,
        rolling=rolling,
        max_surge=surge,
        max_unavailable=min(unavailable, replicas),
        paused=bool(spec.get("paused")),
        actual=deployment.get("status", {}).get("replicas", 0),
    )


@dataclass(frozen=True)
class Share:
    """One ReplicaSet of a Deployment, as its rollout sees it."""

    name: str
    created: str
    replicas: int
    """How many pods it shall have."""
    actual: int = 0
    available: int = 0
    desired: int | None = None
    """How many replicas the Deployment wanted when it last sized this one."""
    limit: int | None = None
    """How many pods the Deployment might have had then."""

    @property
    def age(self) -> tuple[str, str]:
        """Sorts from old to new."""
        return (self.created, self.name)


def share_of(replica_set: Json) -> Share:
    """The numbers of a ReplicaSet."""
    metadata, status = replica_set["metadata"], replica_set.get("status", {})
    annotations = metadata.get("annotations", {})
    return Share(
        name=metadata["name"],
        created=metadata.get("creationTimestamp", ""),
        replicas=replica_set["spec"].get("replicas", 1),
        actual=status.get("replicas", 0),
        available=status.get("availableReplicas", 0),
        desired=_count(annotations.get(DESIRED_REPLICAS)),
        limit=_count(annotations.get(MAX_REPLICAS)),
    )


@dataclass(frozen=True)
class Resize:
    """Give one ReplicaSet another size; `noted` also where only what it remembers of the Deployment is out of date."""

    name: str
    replicas: int
    noted: bool = False


def first_size(goal: Goal, olds: Sequence[Share]) -> int:
    """With how many pods a new ReplicaSet begins."""
    return _grown(goal, Share("", "", 0), olds)


def rolling_step(goal: Goal, new: Share, olds: Sequence[Share]) -> list[Resize]:
    """The next step of a rolling update; none when there is nothing to do but wait."""
    if new.replicas > goal.replicas:
        return [Resize(new.name, goal.replicas)]
    if (grown := _grown(goal, new, olds)) != new.replicas:
        return [Resize(new.name, grown)]
    active = sorted((old for old in olds if old.replicas > 0), key=lambda old: old.age)
    # Pods of the new one that are not available yet must not make room for deleting old ones.
    waiting = new.replicas - new.available
    allowed = _total(active) + new.replicas - goal.min_available - waiting
    if not active or allowed <= 0:
        return []
    unhealthy, left = _without_unhealthy(active, allowed)
    if left is None:
        return unhealthy
    spare = sum(old.available for old in left) + new.available - goal.min_available
    return [*unhealthy, *_shrunk(left, spare)]


def recreate_step(olds: Sequence[Share]) -> list[Resize]:
    """Before anything new is created, all that is old goes."""
    return [Resize(old.name, 0) for old in olds if old.replicas > 0]


def is_scaling(goal: Goal, shares: Iterable[Share]) -> bool:
    """Whether the Deployment wants another number of replicas than when its ReplicaSets were last sized."""
    return any(each.desired not in (None, goal.replicas) for each in shares if each.replicas > 0)


def scaling_step(goal: Goal, new: Share | None, olds: Sequence[Share]) -> list[Resize]:
    """What a new number of replicas means for each ReplicaSet, while no rollout goes on."""
    everything = [*olds, *([new] if new else [])]
    active = [each for each in everything if each.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else new or max(olds, key=lambda old: old.age, default=None)
        return [Resize(only.name, goal.replicas)] if only and only.replicas != goal.replicas else []
    if new and new.replicas == new.desired == new.available == goal.replicas:
        return recreate_step(olds)
    return _in_proportion(goal, active) if goal.rolling else []


def _grown(goal: Goal, new: Share, olds: Sequence[Share]) -> int:
    """The size of the new ReplicaSet that the limit allows now."""
    if not goal.rolling:
        return goal.replicas
    room = goal.limit - _total(olds) - new.replicas
    return new.replicas + max(min(room, goal.replicas - new.replicas), 0)


def _without_unhealthy(active: Sequence[Share], allowed: int) -> tuple[list[Resize], list[Share] | None]:
    """Pods that are not available are given up first: nobody misses them. The second answer is what is left then.

    There is none if a ReplicaSet tells of more than it shall have: it has not come round to the last step yet.
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


def _shrunk(active: Sequence[Share], spare: int) -> list[Resize]:
    """Old ReplicaSets give up what is available beyond what must be, the oldest first."""
    steps: list[Resize] = []
    for old in active:
        fewer = min(old.replicas, spare)
        if fewer > 0:
            steps.append(Resize(old.name, old.replicas - fewer))
            spare -= fewer
    return steps


def _in_proportion(goal: Goal, active: Sequence[Share]) -> list[Resize]:
    """More or fewer pods for all, by their size; what does not divide goes to the largest."""
    to_add = (goal.limit if goal.replicas else 0) - _total(active)
    # Equals: the newer one grows first, the older one shrinks first.
    by_age = sorted(active, key=lambda each: each.age, reverse=to_add > 0)
    ordered = sorted(by_age, key=lambda each: each.replicas, reverse=True)
    sizes: list[int] = []
    added = 0
    for each in ordered:
        allowed = to_add - added
        part = _fraction(goal, each) if to_add and allowed else 0
        part = min(part, allowed) if to_add > 0 else max(part, allowed)
        sizes.append(each.replicas + part)
        added += part
    sizes[0] = max(sizes[0] + to_add - added, 0)
    return [Resize(each.name, size, noted=True) for each, size in zip(ordered, sizes, strict=True)]


def _fraction(goal: Goal, share: Share) -> int:
    """How many pods more a ReplicaSet would have, had it grown as the Deployment does."""
    if goal.replicas == 0:
        return -share.replicas
    before = share.limit or goal.actual
    if not before:
        return 0
    return math.floor(share.replicas * goal.limit / before + 0.5) - share.replicas


def _fenceposts(rolling: Json, replicas: int) -> tuple[int, int]:
    """maxSurge, rounded up, and maxUnavailable, rounded down; never both nothing, or no step could be made."""
    surge = scaled(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """A number, or a percentage of the total."""
    if isinstance(value, int):
        return value
    exact = int(value.removesuffix("%")) * total
    return -(-exact // 100) if up else exact // 100


def _total(shares: Iterable[Share]) -> int:
    return sum(each.replicas for each in shares)


def _count(text: str | None) -> int | None:
    """A number in an annotation; what is no number was not said."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if int(text) <= _LARGEST else None
