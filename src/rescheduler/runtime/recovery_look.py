"""Gathers all that recovery decides by: one workload with failing pods, its nodes, its guards, and where it could go.

The recovery loop asks by the record's holder and gives the answer to `recovery.deciding`. Holder, controllers and pods
are read anew, as are nodes that seem lost; that a node is well, and which nodes are open, is the cache's word, because
a workload may have pods on hundreds of them and nobody loses a pod by it. Pods that failed and are gone already are
those that `fallen` remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from rescheduler.decode.cache import Cache
from rescheduler.decode.reader import Reader
from rescheduler.kube.record_owner import HolderKey, Holding
from rescheduler.migration.commands import Json
from rescheduler.migration.observation import condition, is_leaving, notes_of
from rescheduler.model import marks
from rescheduler.model.migration import Phase
from rescheduler.model.objects import Node, Pod, Workload
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import guards
from rescheduler.planning.methods import Methods
from rescheduler.planning.workloads import Workloads
from rescheduler.recovery.avoidance import without
from rescheduler.recovery.case import Case
from rescheduler.recovery.record import EMPTY, WHOLE, Entry, RecordError, read
from rescheduler.recovery.settings import Settings
from rescheduler.runtime.board import Board
from rescheduler.runtime.fallen import Fallen
from rescheduler.runtime.places import Places

_GUARDS = (
    *(guards.unreadable, guards.excluded_namespace, guards.excluded_selector, guards.opted_out),
    *(guards.static, guards.system_critical, guards.migrating),
)
"""The others keep pods that run well from being moved; what fails on its node has nothing to lose there."""
_SOURCE = "the API server"
_SLICE = 200  # pods; then others have a turn


class Reads(Protocol):
    """Who reads workloads, as they are now."""

    async def look(self, key: HolderKey) -> Holding | HolderKey | None: ...
    async def find(self, kind: str, namespace: str, name: str) -> Json | None: ...


@dataclass(frozen=True, slots=True)
class Known:
    """What is known without asking."""

    cache: Cache
    board: Board
    policy: Callable[[], Policy]
    settings: Callable[[], Settings]
    now: Callable[[], float]


class Cases:
    """Makes cases."""

    def __init__(self, reads: Reads, known: Known, fallen: Fallen) -> None:
        self._reads = reads
        self._known = known
        self._fallen = fallen
        self._places = Places(known.cache, known.now)

    async def case(self, key: HolderKey) -> Case | HolderKey | None:
        """All there is to say about a holder; or who keeps the record instead; or None where nothing is."""
        found = await self._reads.look(key)
        if not isinstance(found, Holding):
            return found
        entry = _entry(found.holder) if key[0] == "Pod" else EMPTY
        reader = Reader()  # it remembers all that it has read, so each case has its own
        # A pod that is Ready has not failed, so nobody asks what guards it and where else it could be.
        doubtful = [pod for pod in found.pods if condition(pod, "Ready").get("status") != "True"]
        rows: dict[str, Pod] = {}
        for index, pod in enumerate(doubtful, start=1):
            rows[pod["metadata"]["uid"]] = _row(reader, pod, entry)
            if index % _SLICE == 0:
                await asyncio.sleep(0)
        there = {pod["metadata"]["uid"] for pod in found.pods if not is_leaving(pod)}
        owners = {each["metadata"]["uid"] for each in found.controllers}
        vanished = [fall for fall in self._fallen.of(owners) if fall.pod.uid not in there]
        rows |= {fall.pod.uid: fall.pod for fall in vanished}
        free = self._free(rows, [_template(reader, each) for each in _by_age(found.controllers)])
        everywhere = next(iter(free.values()), frozenset[str]())
        return Case(
            holder=found.holder,
            controllers=found.controllers,
            pods=found.pods,
            vanished=tuple(fall.as_pod() for fall in vanished),
            nodes=await self._nodes(pod["spec"].get("nodeName", "") for pod in found.pods),
            unready_share=self._places.unready_share,
            free_nodes=everywhere,
            free_for={uid: nodes for uid, nodes in free.items() if nodes != everywhere},
            objections=self._objections(rows),
            replacement=await self._reads.find("Pod", key[1], entry.replacement) if entry.replacement else None,
            settings=self._known.settings(),
            now=self._known.now(),
        )

    async def renewed(self, key: HolderKey, case: Case) -> Case | HolderKey | None:
        """The same with the holder as it is now. A Deployment whose pods fail changes all the time, and between a
        whole look and the writing of its record too much of that goes by."""
        holder = await self._reads.find(*key)
        if key[0] == "Pod" or holder is None or holder["metadata"]["uid"] != case.holder["metadata"]["uid"]:
            return await self.case(key)
        controllers = tuple(holder if each is case.holder else each for each in case.controllers)
        return replace(case, holder=holder, controllers=controllers, now=self._known.now())

    def _free(self, rows: dict[str, Pod], templates: list[Workload | None]) -> dict[str, frozenset[str]]:
        """By UID, where each pod's replacement could be; pods of the newest controller come first."""
        by_owner = {each.uid: each for each in templates if each is not None}
        ages = {uid: age for age, uid in enumerate(by_owner)}
        owners = {uid: row.owner.uid if row.owner is not None else "" for uid, row in rows.items()}
        known: dict[object, frozenset[str]] = {}
        free: dict[str, frozenset[str]] = {}
        for uid, row in sorted(rows.items(), key=lambda item: (-ages.get(owners[item[0]], -1), item[0])):
            shape, volumes, template = row.shape, self._places.volumes(row), by_owner.get(owners[uid])
            # What a pod wants itself is not asked where it has a template: each pod of a DaemonSet wants another node.
            wants = () if template is not None else (shape.node_selector, shape.node_affinity)
            alike = (owners[uid], wants, shape.tolerations, volumes)
            if alike not in known:
                known[alike] = self._places.free(shape, template, volumes)
            free[uid] = known[alike]
        return free

    async def _nodes(self, names: Iterable[str]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for name in sorted({name for name in names if name}):
            row: Node | None = self._known.cache.row("Node", name)
            if row is not None and row.ready:
                found[name] = _well(name)
            elif (node := await self._reads.find("Node", "", name)) is not None:
                found[name] = node
        return found

    def _objections(self, rows: dict[str, Pod]) -> dict[str, str]:
        policy = self._known.policy()
        spoken_for = {(row.namespace, row.name): why for row in rows.values() if (why := self._moving(row))}
        snapshot = replace(ClusterSnapshot(), spoken_for=spoken_for)
        workloads = Workloads(snapshot)
        context = guards.Context(policy, snapshot, workloads, Methods(snapshot, workloads, policy.migration_method))
        found: dict[str, str] = {}
        for uid, row in rows.items():
            why = next((said for guard in _GUARDS if (said := guard(row, context))), "")
            if why:
                found[uid] = why
        return found

    def _moving(self, row: Pod) -> str:
        """Which migration moves a pod. One that only waits would find it gone; but a copy of a single pod that begins
        while we make another is one too many."""
        for key in sorted(self._known.board.about((row.namespace, row.name))):
            migration = self._known.board.get(key)
            if migration is None or migration.progress.over:
                continue
            if migration.progress.phase is Phase.IN_PROGRESS or row.owner is None:
                return f"migration {migration.name} moves it"
        return ""


def _entry(holder: Json) -> Entry:
    """What a single pod's record says; one that cannot be read is told of by whoever decides."""
    try:
        return read(notes_of(holder).get(marks.FAILURES, "")).get(WHOLE, EMPTY)
    except RecordError:
        return EMPTY


def _row(reader: Reader, pod: Json, entry: Entry) -> Pod:
    """The pod as planning knows it; where we told a pod that nobody manages not to go counts as not said."""
    spec = pod["spec"]
    if entry.avoids and "affinity" in spec:
        pod = pod | {"spec": spec | {"affinity": without(spec["affinity"], entry.avoids)}}
    row = reader.read("Pod", msgspec.json.encode(pod), _SOURCE).row
    if not isinstance(row, Pod):
        raise TypeError(f"pod {pod['metadata']['name']} has no name")
    return row


def _template(reader: Reader, controller: Json) -> Workload | None:
    row = reader.read(controller["kind"], msgspec.json.encode(controller), _SOURCE).row
    return row if isinstance(row, Workload) else None


def _by_age(controllers: Iterable[Json]) -> list[Json]:
    return sorted(controllers, key=lambda each: str(each["metadata"].get("creationTimestamp")))


def _well(name: str) -> Json:
    """A node that the cache knows to be well, as far as anybody decides by it."""
    ready = {"type": "Ready", "status": "True"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": [ready]}}
