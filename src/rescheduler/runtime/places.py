"""Finds nodes that could take the replacement of a failed pod, by their labels, taints and conditions.

Recovery checks this before it reschedules a pod, to report when no node is left. The nodes come from the cache; the
predicates of planning judge them. Free room is not checked: it changes, and the scheduler waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np

from rescheduler.decode.cache import ClusterCache
from rescheduler.model.objects import Claim, Pod, Volume, Workload
from rescheduler.model.shape import NodeTerm, Shape
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns, Mask
from rescheduler.planning.predicates.support.node_masks import NodeMasks

_FRESH = 1.0  # seconds; rebuilding the columns of 5,000 nodes for each failing workload would dominate

Volumes = tuple[tuple[NodeTerm, ...], ...]
"""The node affinity terms of each volume that is bound to nodes."""


@dataclass(frozen=True, slots=True)
class _NodeColumns:
    """The nodes at one moment."""

    at: float
    masks: NodeMasks
    names: tuple[str, ...]
    is_open: Mask
    """Nodes that accept new pods."""
    unready_share: float


class NodeFinder:
    """Finds nodes of one cluster."""

    def __init__(self, cache: ClusterCache, now: Callable[[], float]) -> None:
        self._cache = cache
        self._now = now
        self._cached: _NodeColumns | None = None

    @property
    def unready_share(self) -> float:
        """The share of nodes that are not ready, from 0 to 1."""
        return self._columns().unready_share

    def find(self, shape: Shape, template: Workload | None, volumes: Volumes) -> frozenset[str]:
        """The nodes whose labels and taints suit a pod; a template replaces the pod's own node selector and affinity.

        The pod's own affinity may exclude nodes because recovery had it avoid them.
        """
        nodes = self._columns()
        if template is not None:
            wanted = {"node_selector": template.node_selector, "node_affinity": template.node_affinity}
            shape = msgspec.structs.replace(shape, **wanted)
        mask = nodes.is_open & nodes.masks.tolerated(shape)
        if (selected := nodes.masks.selected(shape)) is not None:
            mask &= selected
        for terms in volumes:
            mask &= nodes.masks.any_of(terms)
        return frozenset(nodes.names[index] for index in np.flatnonzero(mask))

    def volume_terms(self, pod: Pod) -> Volumes:
        """The node affinity terms of its volumes."""
        found: list[tuple[NodeTerm, ...]] = []
        for name in pod.shape.claims:
            claim: Claim | None = self._cache.row("PersistentVolumeClaim", (pod.namespace, name))
            volume: Volume | None = self._cache.row("PersistentVolume", claim.volume) if claim is not None else None
            if volume is not None and volume.node_affinity is not None:
                found.append(volume.node_affinity)
        return tuple(found)

    def _columns(self) -> _NodeColumns:
        now = self._now()
        if self._cached is None or not 0.0 <= now - self._cached.at < _FRESH:
            nodes = tuple(sorted(self._cache.rows("Node"), key=lambda node: str(node.name)))
            columns = Columns(ClusterSnapshot(nodes=nodes))
            unready = sum(not node.ready for node in nodes)
            # Planning excludes more nodes, but the scheduler chooses the node of a replacement.
            is_open = [node.ready and not node.unschedulable and not node.deleting for node in nodes]
            self._cached = _NodeColumns(
                at=now,
                masks=NodeMasks(columns),
                names=tuple(node.name for node in nodes),
                is_open=np.array(is_open, np.bool_),
                unready_share=unready / len(nodes) if nodes else 0.0,
            )
        return self._cached
