"""Which nodes could take the replacement of a failed pod, as far as the nodes themselves go.

Recovery asks before it moves a pod on, because where nothing is left that is to be told. The cache tells of the nodes,
planning's rules judge them. Room is not looked at: it comes and goes, and the scheduler waits for it.
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

_FRESH = 1.0  # seconds; laying out 5,000 nodes anew for each of many failing workloads would take longer than the rest

Volumes = tuple[tuple[NodeTerm, ...], ...]
"""For each volume that is bound to nodes, the terms by which it means them."""


@dataclass(frozen=True, slots=True)
class _Picture:
    """The nodes as they were at a time."""

    at: float
    masks: NodeMasks
    names: tuple[str, ...]
    is_open: Mask
    """Nodes that new pods may go to."""
    unready_share: float


class NodeFinder:
    """The nodes of one cluster."""

    def __init__(self, cache: ClusterCache, now: Callable[[], float]) -> None:
        self._cache = cache
        self._now = now
        self._drawn: _Picture | None = None

    @property
    def unready_share(self) -> float:
        """How many of all nodes are not ready, from 0 to 1."""
        return self._picture().unready_share

    def find(self, shape: Shape, template: Workload | None, volumes: Volumes) -> frozenset[str]:
        """The nodes whose labels and taints suit a pod; its template, if it has one, says which labels it wants.

        What the pod itself wants is more than that, if we told it to avoid nodes.
        """
        picture = self._picture()
        if template is not None:
            wanted = {"node_selector": template.node_selector, "node_affinity": template.node_affinity}
            shape = msgspec.structs.replace(shape, **wanted)
        mask = picture.is_open & picture.masks.tolerated(shape)
        if (selected := picture.masks.selected(shape)) is not None:
            mask &= selected
        for terms in volumes:
            mask &= picture.masks.any_of(terms)
        return frozenset(picture.names[index] for index in np.flatnonzero(mask))

    def volume_terms(self, pod: Pod) -> Volumes:
        """Where each of its volumes can be used, if not everywhere."""
        found: list[tuple[NodeTerm, ...]] = []
        for name in pod.shape.claims:
            claim: Claim | None = self._cache.row("PersistentVolumeClaim", (pod.namespace, name))
            volume: Volume | None = self._cache.row("PersistentVolume", claim.volume) if claim is not None else None
            if volume is not None and volume.node_affinity is not None:
                found.append(volume.node_affinity)
        return tuple(found)

    def _picture(self) -> _Picture:
        now = self._now()
        if self._drawn is None or not 0.0 <= now - self._drawn.at < _FRESH:
            nodes = tuple(sorted(self._cache.rows("Node"), key=lambda node: str(node.name)))
            columns = Columns(ClusterSnapshot(nodes=nodes))
            unready = sum(not node.ready for node in nodes)
            # Planning leaves more nodes out, but where a replacement goes is the scheduler's choice, not ours.
            is_open = [node.ready and not node.unschedulable and not node.deleting for node in nodes]
            self._drawn = _Picture(
                at=now,
                masks=NodeMasks(columns),
                names=tuple(node.name for node in nodes),
                is_open=np.array(is_open, np.bool_),
                unready_share=unready / len(nodes) if nodes else 0.0,
            )
        return self._drawn
