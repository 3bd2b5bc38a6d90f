"""How every node is used, kept up to date change by change: what the heat map shows.

It listens to the cache. A pod that comes, goes or changes adds to its node or takes from it, so that no look at the
page goes over all pods. The figures are those of `planning.picture`: what pods hold on the node that they are on or
nominated to, unless they have ended; the spread is over all nodes but the control plane's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rescheduler.cluster.cache import Cache
from rescheduler.model.objects import Node, Pod
from rescheduler.model.policy import Thresholds
from rescheduler.planning.columns import CAP, Ints
from rescheduler.web.standing import COUNT, CPU, MEMORY, Amounts, Frame, Standing, Traits

PodKey = tuple[str, str]
"""Namespace and name."""
_FIRST = 64  # nodes that there is room for at first
_NO_PODS: frozenset[PodKey] = frozenset()


class Loads:
    """The nodes and what their pods hold, as the cache has told it so far."""

    def __init__(self, cache: Cache, thresholds: Thresholds) -> None:
        self._cache = cache
        self._thresholds = thresholds
        self._nodes: dict[str, Node] = {}
        self._traits: dict[str, Traits] = {}
        self._pods: dict[PodKey, Pod] = {}
        self._on: dict[str, set[PodKey]] = {}
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._used: Ints = np.zeros((3, _FIRST), np.int64)
        self._order: dict[str, int] | None = None
        self._frame: Frame | None = None
        self._standing: Standing | None = None
        self.layout = 0
        """Grows when nodes come or go, or stand elsewhere on the map."""
        self.changes = 0
        """Grows with every change of anything that is shown of nodes."""
        self.touched: set[str] = set()
        """Names of nodes about which something has changed; whoever tells others of it clears it."""
        for node in cache.rows("Node"):
            self._node(node.name)
        for pod in cache.rows("Pod"):
            self._pod((pod.namespace, pod.name))
        cache.listen(self._hear)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return len(self._pods)

    def node(self, name: str) -> Node | None:
        """One node."""
        return self._nodes.get(name)

    def pod(self, key: PodKey) -> Pod | None:
        """One pod."""
        return self._pods.get(key)

    def used(self, name: str) -> Amounts:
        """What the pods of a node hold."""
        cpu, memory, pods = self._used[:, self._slots[name]].tolist()
        return cpu, memory, pods

    def pods_on(self, name: str) -> list[Pod]:
        """The pods that are on a node or nominated to it, those that have ended included."""
        return [self._pods[key] for key in sorted(self._on.get(name, _NO_PODS))]

    def by_place(self) -> Iterator[list[PodKey]]:
        """All pods, in no order, those of a node at a time: what has changed since the last ones may be missed."""
        for place in list(self._on):
            yield list(self._on.get(place, _NO_PODS))

    def names(self) -> list[str]:
        """All nodes, sorted."""
        return list(self._places())

    def indexes(self, names: Iterable[str]) -> list[int]:
        """Where these nodes stand among all; those that are gone stand nowhere."""
        places = self._places()
        return sorted(places[name] for name in names if name in places)

    def standing(self) -> Standing:
        """All nodes as they stand now; the same object until something changes."""
        if self._standing is None:
            if self._frame is None:
                traits = {name: self._traits[name] for name in self._places()}
                self._frame = Frame.of(traits, [self._slots[name] for name in traits], self._thresholds)
            self._standing = Standing(self._frame, self._used[:, self._frame.slots])
        return self._standing

    def touch(self, name: str) -> None:
        """Note that something about a node has changed."""
        self.changes += 1
        self.touched.add(name)

    def _places(self) -> dict[str, int]:
        if self._order is None:
            self._order = {name: index for index, name in enumerate(sorted(self._nodes))}
        return self._order

    def _hear(self, kind: str, key: PodKey | str, version: str) -> None:
        if kind == "Pod" and not isinstance(key, str):
            self._pod(key)
        elif kind == "Node" and isinstance(key, str):
            self._node(key)

    def _node(self, name: str) -> None:
        known, node = self._nodes.get(name), self._cache.row("Node", name)
        if known == node:
            return  # heartbeats change nothing that is shown
        self._frame = self._standing = None
        self.touch(name)
        traits = self._traits.pop(name, None)
        if node is None:
            del self._nodes[name]
            self._free.append(self._slots.pop(name))
            self._order = None
            self.layout += 1
            return
        self._nodes[name] = node
        self._traits[name] = now = Traits.of(node)
        if traits is None or traits.layout != now.layout:
            self.layout += 1
        if known is None:
            self._order = None
            self._slots[name] = slot = self._new_slot()
            self._used[:, slot] = 0
            for key in self._on.get(name, _NO_PODS):
                self._weigh(self._pods[key], 1)

    def _pod(self, key: PodKey) -> None:
        known, pod = self._pods.get(key), self._cache.row("Pod", key)
        if pod is not None:
            self._pods[key] = pod
        elif known is not None:
            del self._pods[key]
        before, after = _place(known), _place(pod)
        if before != after:
            if before is not None:
                self._leave(before, key)
            if after is not None:
                self._on.setdefault(after, set()).add(key)
        elif known is None or pod is None or (known.held == pod.held and known.finished == pod.finished):
            return  # what it holds, and where, is as it was
        if known is not None:
            self._weigh(known, -1)
        if pod is not None:
            self._weigh(pod, 1)

    def _leave(self, place: str, key: PodKey) -> None:
        others = self._on[place]
        others.discard(key)
        if not others:
            del self._on[place]

    def _weigh(self, pod: Pod, sign: int) -> None:
        """Put what a pod holds onto its node, or take it off."""
        place = pod.node or pod.nominated
        slot = self._slots.get(place)
        if slot is None or pod.finished:
            return
        used = self._used
        for resource, amount in pod.held:
            if resource == "cpu":
                used[CPU, slot] += sign * min(amount, CAP)
            elif resource == "memory":
                used[MEMORY, slot] += sign * min(amount, CAP)
        used[COUNT, slot] += sign
        self._standing = None
        self.touch(place)

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        taken = len(self._slots)
        if taken == self._used.shape[1]:
            self._used = np.concatenate([self._used, np.zeros_like(self._used)], axis=1)
        return taken


def _place(pod: Pod | None) -> str | None:
    """The node on which a pod counts; empty for one that waits for a node."""
    return (pod.node or pod.nominated) if pod is not None else None
