"""How many moves of a namespace may still begin within the hour, as far as a plan goes (`movesPerHourPerNamespace`).

A snapshot carries how many of each namespace count already (`hourly`): what has begun within the hour, and what is
ordered and has yet to begin. The planner asks before each move, and spends; so a plan takes its moves from namespaces
that have some left. Whether one may begin is `runtime.timing`'s to say, which goes by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rescheduler.model.migration import Migration
from rescheduler.model.objects import Pod
from rescheduler.model.outcome import by_choice
from rescheduler.model.snapshot import ClusterSnapshot

GUARD = "MovesPerHourPerNamespace"
FIELD = "when.movesPerHourPerNamespace"
HOUR = 3600.0
COUNTS = HOUR + 1.0  # start times are written in whole seconds


def heeds(migration: Migration) -> bool:
    """Whether it waits for its hour, and counts: also what had to be approved of before there were such hours."""
    return migration.order.windowed or (migration.order.needs_approval and by_choice(migration))


def is_ordered(migration: Migration) -> bool:
    """Whether it has yet to begin for the first time."""
    return not migration.progress.over and not migration.progress.attempts


def counting(migrations: Iterable[Migration], now: float | None) -> Counter[str]:
    """How many moves of each namespace count for the hour."""
    found: Counter[str] = Counter()
    for each in migrations:
        started = each.progress.started
        lately = started is not None and now is not None and now - started < COUNTS
        if heeds(each) and (lately or is_ordered(each)):
            found[each.namespace] += 1
    return found


class Hours:
    """What is left of each namespace's hour; spent by each move that nobody has asked for."""

    def __init__(self, snapshot: ClusterSnapshot, most: int | None) -> None:
        self._before = snapshot.hourly
        self._most = most
        self._planned: Counter[str] = Counter()

    def objection(self, pod: Pod) -> tuple[str, str] | None:
        """Why no more pods of its namespace may go within the hour, as a guard and a reason."""
        if self._most is None:
            return None
        before, planned = self._before.get(pod.namespace, 0), self._planned[pod.namespace]
        if before + planned < self._most:
            return None
        of_these = f"{before} begun or ordered within the hour and {planned} in this plan"
        return GUARD, f"{FIELD} ({self._most}) is reached for {pod.namespace}, with {of_these}"

    def spend(self, pod: Pod, sign: int = 1) -> None:
        """Take a move into account, or with sign -1 out of it."""
        self._planned[pod.namespace] += sign
