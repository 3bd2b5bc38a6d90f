"""Pods that have failed just now, by their controllers: known from the watch before anybody could record them.

`knowledge` asks it. A ReplicaSet or a Job makes another pod as soon as one has failed, and a StatefulSet deletes the
failed one at once; the leader writes its record seconds later. Until then the new pod would go to the same node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rescheduler.decode.cache import Cache
from rescheduler.model.objects import Pod

JUST_NOW = 60.0
"""What failed longer ago is recorded by now, or was not worth a record."""

Key = tuple[str, str]


class Fall(NamedTuple):
    """One pod that has failed."""

    pod: str
    uid: str
    owner: Key
    """Its namespace, and its controller's UID: who writes an owner's UID on pods elsewhere is no kin of its."""
    node: str
    reason: str
    seen: float


class FreshFailures:
    """The failed pods of every controller; those that are gone are remembered for as long as they are fresh."""

    def __init__(self, cache: Cache, reasons: Callable[[], tuple[str, ...]], now: Callable[[], float]) -> None:
        self._cache = cache
        self._reasons = reasons
        self._now = now
        self._falls: dict[Key, dict[str, Fall]] = {}
        self._known: dict[Key, Fall] = {}
        self._gone: deque[Fall] = deque()

    def __len__(self) -> int:
        """How many pods are remembered."""
        return sum(map(len, self._falls.values()))

    def of(self, namespace: str, owner: str) -> Iterator[Fall]:
        """Those of one controller that are fresh."""
        oldest = self._now() - JUST_NOW
        yield from (fall for fall in self._falls.get((namespace, owner), {}).values() if fall.seen > oldest)

    def changed(self, key: Key) -> None:
        """Look at a pod that has changed or gone."""
        row: Pod | None = self._cache.row("Pod", key)
        known = self._known.get(key)
        fall = self._fall(row) if row is not None and row.phase == "Failed" else None
        if fall is None:
            if known is not None:
                self._forget(key)
        elif known is None or known.uid != fall.uid:  # else it is said once more, and not fresher for that
            self._forget(key)
            self._known[key] = fall
            self._falls.setdefault(fall.owner, {})[fall.uid] = fall

    def _fall(self, row: Pod) -> Fall | None:
        """What a failed pod tells about its node, if anything."""
        if row.owner is None or row.ailment is None or not row.node:
            return None
        reason = row.ailment.reason
        if not any(reason.startswith(each[:-1]) if each.endswith("*") else reason == each for each in self._reasons()):
            return None
        return Fall(row.name, row.uid, (row.namespace, row.owner.uid), row.node, reason, self._now())

    def _forget(self, key: Key) -> None:
        """A failed pod is gone, or another has its name: it is remembered for as long as it is fresh."""
        fall = self._known.pop(key, None)
        if fall is not None:
            self._gone.append(fall)
        oldest = self._now() - JUST_NOW
        while self._gone and self._gone[0].seen <= oldest:
            stale = self._gone.popleft()
            siblings = self._falls.get(stale.owner, {})
            siblings.pop(stale.uid, None)
            if not siblings:
                self._falls.pop(stale.owner, None)
