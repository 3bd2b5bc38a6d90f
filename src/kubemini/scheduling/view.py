"""One build of the board: positions in the planner's columns, with reservations and scores on top.

`board` keeps it and tells it what becomes of pods; `scheduler` asks it where a pod could be, where best, and why not.
A node that others are nominated to is judged with them in place and without them, as kube-scheduler does it: both must
let the pod in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from kubemini.scheduling.ledger import KnownPod, Ledger, PodChange
from kubemini.scheduling.reasons import Reasons
from kubemini.scheduling.scores import Scores
from kubemini.scheduling.siblings import Siblings
from kubemini.scheduling.unschedulable import Unschedulable
from kubemini.store import Key
from rescheduler.model.objects import Pod
from rescheduler.model.shape import Taint
from rescheduler.planning.columns import Columns, Ints, Mask
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.growing import GrowingColumns
from rescheduler.planning.whatif import WhatIf

_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_ANTI = "PodAntiAffinity"
_SPARE_KINDS = 2000  # of pods: those that are gone are let go of when it is built anew, once there are many


class NodeUnschedulable:
    """The node is not cordoned, or the pod tolerates that."""

    name = "NodeUnschedulable"

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._open = np.array([not node.unschedulable for node in columns.nodes], np.bool_)

    def mask(self, pod: int) -> Mask | None:
        return None if self._columns.shape(pod).tolerates(_CORDONED) else self._open

    def reason(self, pod: int, node: int) -> str:
        return "the node is cordoned"


class View:
    """Where pods are, by position."""

    def __init__(self, ledger: Ledger, assumed: Mapping[Key, str], siblings: Siblings) -> None:
        self._ledger = ledger
        self._assumed = assumed
        self._columns = GrowingColumns(ledger.snapshot())
        self._whatif = WhatIf(self._columns)
        self._feasibility = Feasibility(self._whatif, [NodeUnschedulable(self._columns)])
        self._anti = next(each for each in self._feasibility.predicates if each.name == _ANTI)
        self._reasons = Reasons(self._feasibility)
        self.scores = Scores(self._feasibility, ledger.wishes, siblings)
        self.nodes = [node.name for node in self._columns.nodes]
        self._slots = dict(self._columns.pod_index)
        self._end = len(self._slots)
        self._empty: list[int] = []
        """Positions of pods that are gone."""
        self._most_kinds = 2 * (len(self._columns.groups) + len(self._columns.shapes)) + _SPARE_KINDS
        self._nominees: dict[int, dict[Key, int]] = {}
        self._nominated_to: dict[Key, int] = {}
        for key, name in assumed.items():
            self.place(key, name)
        for key, known in ledger.pods.items():
            if known.nominated:
                self._nominate(key, known)

    def number(self, node: str) -> int | None:
        """The position of a node, if it is there."""
        return self._columns.node_index.get(node)

    # What becomes of pods

    def follow(self, changes: list[PodChange]) -> bool:
        """Bring pods up to date; False when that can't be done here, and all must be built anew."""
        written: dict[Key, Pod] = {}
        for key, _, after in changes:
            slot = self._slots.get(key)
            if slot is not None and after is not None and self._stays(slot, key, after.row):
                self._columns.swap(slot, after.row)
                continue
            if slot is not None:
                self._take_off(slot)
            if after is not None:
                written[key] = after.row
            elif slot is not None:
                self._empty.append(self._slots.pop(key))
        if not all(self._columns.measures(row.shape) for row in written.values()):
            return False
        self._write(written)
        for key, _, after in changes:
            self._nominate(key, after)
        return len(self._columns.groups) + len(self._columns.shapes) <= self._most_kinds

    def place(self, key: Key, node: str) -> None:
        """Count a pod on a node from now on."""
        self._nominate(key, None)
        number = self.number(node)
        if number is not None and key in self._slots:
            self._whatif.place(self._slots[key], number)

    def take_back(self, key: Key) -> None:
        """Count a pod nowhere again: what was assumed did not come about."""
        if key in self._slots:
            self._take_off(self._slots[key])
            self._nominate(key, self._ledger.pods.get(key))

    def _stays(self, slot: int, key: Key, row: Pod) -> bool:
        """Whether nothing of a pod has changed that counts."""
        old = self._columns.pods[slot]
        return (
            old.shape is row.shape
            and old.labels is row.labels
            and old.deleting == row.deleting
            and (old.held is row.held or old.held == row.held)
            and int(self._whatif.at[slot]) == self._place_of(key, row)
        )

    def _place_of(self, key: Key, row: Pod) -> int:
        """Where a pod counts; -1 for nowhere."""
        name = row.node or self._assumed.get(key, "")
        return -1 if row.finished else self._columns.node_index.get(name, -1)

    def _take_off(self, slot: int) -> None:
        at = int(self._whatif.at[slot])
        if at >= 0:
            self._whatif.remove(slot, at)

    def _write(self, rows: dict[Key, Pod]) -> None:
        """Put pods that are nowhere into the columns, and then where they are."""
        if not rows:
            return
        for key in rows:
            if key not in self._slots:
                self._slots[key] = self._empty.pop() if self._empty else self._end
                self._end = max(self._end, self._slots[key] + 1)
        growth = self._columns.put({self._slots[key]: row for key, row in rows.items()})
        self._feasibility.grown(growth)
        self.scores.grown(growth)
        for key, row in rows.items():
            slot, at = self._slots[key], self._place_of(key, row)
            if at >= 0:
                self._columns.pod_at[slot] = at  # its home: it holds there what it holds, not what it asks
                self._whatif.place(slot, at)

    def _nominate(self, key: Key, known: KnownPod | None) -> None:
        """Note where room is reserved for a pod, if it is."""
        before = self._nominated_to.pop(key, None)
        if before is not None:
            del self._nominees[before][key]
            if not self._nominees[before]:
                del self._nominees[before]
        if known is None or not known.nominated or not known.waiting or key in self._assumed:
            return
        node = self.number(known.nominated)
        if node is not None:
            self._nominated_to[key] = node
            self._nominees.setdefault(node, {})[key] = self._slots[key]

    # Where a pod could be

    def feasible(self, key: Key) -> Mask:
        """[N]: the nodes that let a pod in."""
        pod = self._slots[key]
        mask = self._feasibility.mask(pod)
        for node in self._nominees:
            if mask[node]:
                mask[node] = self._lets_in_beside(pod, node, self._rivals(key, node))
        return mask

    def lets_in(self, key: Key, node: int) -> bool:
        """Whether one node lets a pod in."""
        pod = self._slots[key]
        return bool(self._feasibility.mask(pod)[node]) and self._lets_in_beside(pod, node, self._rivals(key, node))

    def total(self, key: Key, left: Mask) -> Ints:
        """[N]: how good each of the nodes that are left is for a pod."""
        return self.scores.total(self._slots[key], left)

    def refusal(self, key: Key) -> Unschedulable:
        """Why no node lets a pod in."""
        pod = self._slots[key]
        refusal = self._reasons.start(pod, preempts=self._ledger.pods[key].preempts)
        if refusal.whole:
            return refusal
        rivals = {node: found for node in self._nominees if (found := self._rivals(key, node))}
        left = np.ones(len(self.nodes), np.bool_)
        left[list(rivals)] = False
        self._reasons.count(refusal, pod, left)
        for node, found in rivals.items():
            alone = np.zeros(len(self.nodes), np.bool_)
            alone[node] = True
            if self._lets_in_beside(pod, node, found):
                self._reasons.count(refusal, pod, alone)
                continue
            ignored = "" if self._minds_company(pod) else _ANTI
            with self._beside(found, node):
                self._reasons.count(refusal, pod, alone, ignored)
        return refusal

    def _rivals(self, key: Key, node: int) -> list[int]:
        """The others that are nominated to a node and don't rank lower."""
        priority = self._ledger.pods[key].row.priority
        nominees = self._nominees.get(node, {})
        return [
            slot
            for other, slot in nominees.items()
            if other != key and self._ledger.pods[other].row.priority >= priority
        ]

    @contextmanager
    def _beside(self, rivals: list[int], node: int) -> Iterator[None]:
        """As if these were on the node already."""
        for rival in rivals:
            self._whatif.place(rival, node)
        try:
            yield
        finally:
            for rival in reversed(rivals):
                self._whatif.remove(rival, node)

    def _lets_in_beside(self, pod: int, node: int, rivals: list[int]) -> bool:
        if not rivals:
            return True
        minds = self._minds_company(pod)
        shape = self._columns.shape(pod)
        if not (minds or shape.spread or shape.host_ports or shape.claims):
            taken = sum(self._columns.requests(rival) for rival in rivals)
            free = self._whatif.free[:, node] - taken
            return all(free[resource] >= asked for resource, asked in self._feasibility.fit.asked(pod))
        with self._beside(rivals, node):
            refused = self._feasibility.refused_by(pod, node)
        return not (refused if minds else refused - {_ANTI})

    def _minds_company(self, pod: int) -> bool:
        """Whether it matters who else comes: to the pod's own rules, or to those of pods that are there.

        The scheduler leaves inter-pod affinity out altogether when nothing that is there speaks of the pod, so what
        a nominated pod keeps away from is heeded only if another pod has made it look.
        """
        shape = self._columns.shape(pod)
        if shape.affinity or shape.anti_affinity:
            return True
        mask = self._anti.mask(pod)
        return mask is not None and not mask.all()
