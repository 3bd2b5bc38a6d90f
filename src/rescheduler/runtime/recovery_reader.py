"""Reads all that recovery needs to decide about one workload with failing pods.

The owner of the failure record, the controllers and the pods are read from the API server, and so are nodes that seem
lost. That a node is Ready, and which nodes are feasible, comes from the cache: a workload may have pods on hundreds of
nodes, and a stale answer costs no pod. Pods that failed and are gone already come from `VanishedPods`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from math import inf

import msgspec
import numpy as np

from rescheduler.config.live import LiveConfig
from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.reader import ObjectReader
from rescheduler.kube.record_owner import OwnedObjects, RecordOwnerKey, RecordOwners
from rescheduler.migration.observation import find_condition, is_terminating
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import Phase
from rescheduler.model.objects import Claim, Node, Pod, Volume, Workload
from rescheduler.model.shape import NodeTerm, Shape
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns, Mask
from rescheduler.planning.guards import objection_to_recovery
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.predicates.support.node_masks import NodeMasks
from rescheduler.recovery.avoidance import allow_nodes
from rescheduler.recovery.decision import WorkloadState
from rescheduler.recovery.record import EMPTY, WHOLE, RecordEntry, RecordError, parse_record
from rescheduler.runtime.failure_detector import VanishedPods
from rescheduler.runtime.informers import Informers

_SOURCE = "the API server"
_SLICE = 200  # pods; then other tasks get a turn
_FRESH = 1.0  # seconds; rebuilding the columns of 5,000 nodes for each failing workload would dominate


Volumes = tuple[tuple[NodeTerm, ...], ...]
"""The node affinity terms of each volume that is bound to nodes."""


class NodeFinder:
    """Finds nodes that could take the replacement of a failed pod, by their labels, taints and conditions.

    Recovery checks this before it reschedules a pod, to report when no node is left. The nodes come from the cache; the
    predicates of planning judge them. Free room is not checked: it changes, and the scheduler waits for it.
    """

    def __init__(self, nodes: Iterable[Node], at: float) -> None:
        self.at = at
        ordered = tuple(sorted(nodes, key=lambda node: node.name))
        self._names = [node.name for node in ordered]
        self._masks = NodeMasks(Columns(ClusterSnapshot(nodes=ordered)))
        # Planning excludes more nodes, but the scheduler chooses the node of a replacement.
        is_open = [node.ready and not node.unschedulable and not node.deleting for node in ordered]
        self._is_open: Mask = np.array(is_open, np.bool_)
        self.unready_share = sum(not node.ready for node in ordered) / max(1, len(ordered))
        """The share of nodes that are not ready, from 0 to 1."""

    def find(self, shape: Shape, template: Workload | None, volumes: Volumes) -> frozenset[str]:
        """The nodes whose labels and taints suit a pod; a template replaces the pod's own node selector and affinity.

        The pod's own affinity may exclude nodes because recovery had it avoid them.
        """
        if template is not None:
            wanted = {"node_selector": template.node_selector, "node_affinity": template.node_affinity}
            shape = msgspec.structs.replace(shape, **wanted)
        mask = self._is_open & self._masks.tolerated(shape)
        if (selected := self._masks.selected(shape)) is not None:
            mask &= selected
        for terms in volumes:
            mask &= self._masks.any_of(terms)
        return frozenset(self._names[index] for index in np.flatnonzero(mask))


def volume_terms(cache: ClusterCache, pod: Pod) -> Volumes:
    """The node affinity terms of a pod's volumes."""
    found: list[tuple[NodeTerm, ...]] = []
    for name in pod.shape.claims:
        claim: Claim | None = cache.row("PersistentVolumeClaim", (pod.namespace, name))
        volume: Volume | None = cache.row("PersistentVolume", claim.volume) if claim is not None else None
        if volume is not None and volume.node_affinity is not None:
            found.append(volume.node_affinity)
    return tuple(found)


class WorkloadStateReader:
    """Reads the state of workloads."""

    def __init__(
        self,
        owners: RecordOwners,
        informers: Informers,
        live: LiveConfig,
        vanished: VanishedPods,
    ) -> None:
        self._owners = owners
        self._cache = informers.cache
        self._migrations = informers.migrations
        self._live = live
        self._vanished = vanished
        self._now = informers.now
        self._finder = NodeFinder((), -inf)

    async def read(self, key: RecordOwnerKey) -> WorkloadState | RecordOwnerKey | None:
        """Read the state of a workload; or return the key that owns the record instead; or None if nothing is there."""
        found = await self._owners.look(key)
        if not isinstance(found, OwnedObjects):
            return found
        entry = _read_entry(found.holder) if key[0] == "Pod" else EMPTY
        reader = ObjectReader()  # it caches all that it reads, so each state has its own
        # A Ready pod has not failed, so its guards and feasible nodes are not needed.
        doubtful = [pod for pod in found.pods if find_condition(pod, "Ready").get("status") != "True"]
        rows: dict[str, Pod] = {}
        for index, pod in enumerate(doubtful, start=1):
            rows[pod["metadata"]["uid"]] = _read_row(reader, pod, entry)
            if index % _SLICE == 0:
                await asyncio.sleep(0)
        there = {pod["metadata"]["uid"] for pod in found.pods if not is_terminating(pod)}
        owners = {each["metadata"]["uid"] for each in found.controllers}
        vanished = [lost for lost in self._vanished.of(owners) if lost.pod.uid not in there]
        rows |= {lost.pod.uid: lost.pod for lost in vanished}
        return WorkloadState(
            workload=found.holder,
            controllers=found.controllers,
            pods=found.pods,
            vanished=tuple(lost.as_pod() for lost in vanished),
            nodes=await self._nodes(pod["spec"].get("nodeName", "") for pod in found.pods),
            unready_share=self._refresh_nodes().unready_share,
            feasible_nodes=self._find_feasible(rows, [_read_template(reader, each) for each in found.controllers]),
            objections=self._objections(rows),
            replacement=await self._owners.find("Pod", key[1], entry.replacement) if entry.replacement else None,
            settings=self._live.recovery(),
            now=self._now(),
        )

    async def refresh(self, key: RecordOwnerKey, state: WorkloadState) -> WorkloadState | RecordOwnerKey | None:
        """Read only the record's owner again.

        A Deployment whose pods fail changes all the time; a full read before each write would always be too late.
        """
        holder = await self._owners.find(*key)
        if key[0] == "Pod" or holder is None or holder["metadata"]["uid"] != state.workload["metadata"]["uid"]:
            return await self.read(key)
        controllers = tuple(holder if each is state.workload else each for each in state.controllers)
        return replace(state, workload=holder, controllers=controllers, now=self._now())

    def _find_feasible(self, rows: dict[str, Pod], templates: list[Workload | None]) -> dict[str, frozenset[str]]:
        """The feasible nodes for each pod's replacement, by UID."""
        by_owner = {each.uid: each for each in templates if each is not None}
        known: dict[object, frozenset[str]] = {}
        finder = self._refresh_nodes()
        free: dict[str, frozenset[str]] = {}
        for uid, row in rows.items():
            owner = row.owner.uid if row.owner is not None else ""
            shape, volumes, template = row.shape, volume_terms(self._cache, row), by_owner.get(owner)
            # With a template, the pod's own node affinity is ignored: each pod of a DaemonSet wants another node.
            wants = () if template is not None else (shape.node_selector, shape.node_affinity)
            alike = (owner, wants, shape.tolerations, volumes)
            if alike not in known:
                known[alike] = finder.find(shape, template, volumes)
            free[uid] = known[alike]
        return free

    def _refresh_nodes(self) -> NodeFinder:
        now = self._now()
        if not 0.0 <= now - self._finder.at < _FRESH:
            self._finder = NodeFinder(self._cache.rows("Node"), now)
        return self._finder

    async def _nodes(self, names: Iterable[str]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for name in sorted({name for name in names if name}):
            row: Node | None = self._cache.row("Node", name)
            if row is not None and row.ready:
                found[name] = _make_ready_node(name)
            elif (node := await self._owners.find("Node", "", name)) is not None:
                found[name] = node
        return found

    def _objections(self, rows: dict[str, Pod]) -> dict[str, str]:
        spoken_for = {(row.namespace, row.name): why for row in rows.values() if (why := self._describe_migration(row))}
        snapshot = replace(ClusterSnapshot(), spoken_for=spoken_for)
        context = GuardContext(self._live.policy(), snapshot)
        return {uid: why for uid, row in rows.items() if (why := objection_to_recovery(row, context))}

    def _describe_migration(self, row: Pod) -> str:
        """Which migration moves a pod; a pending one counts for bare pods only.

        It would find any other pod gone; but its copy of a bare pod would be one too many.
        """
        for key in sorted(self._migrations.by_pod((row.namespace, row.name))):
            migration = self._migrations.get(key)
            if migration is None or migration.status.over:
                continue
            if migration.status.phase is Phase.IN_PROGRESS or row.owner is None:
                return f"migration {migration.name} moves it"
        return ""


def _read_entry(holder: Json) -> RecordEntry:
    """The record of a bare pod; `decide` reports one that cannot be parsed."""
    try:
        return parse_record(annotations_of(holder).get(labels.FAILURES, "")).get(WHOLE, EMPTY)
    except RecordError:
        return EMPTY


def _read_row(reader: ObjectReader, pod: Json, entry: RecordEntry) -> Pod:
    """The pod as planning sees it, without the node affinity that recovery has added to a bare pod."""
    spec = pod["spec"]
    if entry.avoids and "affinity" in spec:
        pod = pod | {"spec": spec | {"affinity": allow_nodes(spec["affinity"], entry.avoids)}}
    row = reader.read("Pod", msgspec.json.encode(pod), _SOURCE).row
    if not isinstance(row, Pod):
        raise TypeError(f"pod {pod['metadata']['name']} has no name")
    return row


def _read_template(reader: ObjectReader, controller: Json) -> Workload | None:
    row = reader.read(controller["kind"], msgspec.json.encode(controller), _SOURCE).row
    return row if isinstance(row, Workload) else None


def _make_ready_node(name: str) -> Json:
    """A Ready node, with the fields that `decide` reads."""
    ready = {"type": "Ready", "status": "True"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": [ready]}}
