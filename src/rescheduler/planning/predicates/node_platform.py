"""Keeps pods on the architecture and operating system that they run on: their images may have no other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescheduler.model.shape import Shape
from rescheduler.planning.columns import Mask
from rescheduler.planning.predicates.base import Predicate, PredicateContext

_KEYS = ("kubernetes.io/arch", "kubernetes.io/os")


class NodePlatform(Predicate):
    """The node has no other architecture or system than the pod's, unless the pod itself says which it needs."""

    name = "NodePlatform"
    order = 85
    caption = "Another architecture or system"
    of_scheduler = False

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._mixed = [key for key in _KEYS if len(self._columns.domain_values(key)) > 1]
        self._known: dict[tuple[tuple[str, int], ...], Mask] = {}

    def mask(self, pod: int) -> Mask | None:
        wanted = tuple(self._wanted(pod)) if self._mixed else ()
        if not wanted:
            return None
        if wanted not in self._known:
            columns = [(self._columns.domains(key), own) for key, own in wanted]
            self._known[wanted] = np.logical_and.reduce([(found == own) | (found < 0) for found, own in columns])
        return self._known[wanted]

    def reason(self, pod: int, node: int) -> str:
        labels = self._columns.nodes[node].labels
        for key, own in self._wanted(pod):
            value = self._columns.domain_values(key)[own]
            if labels.get(key, value) != value:
                return f"it runs on {key}={value}, and the node has {labels[key]}"
        return ""

    def _wanted(self, pod: int) -> Iterator[tuple[str, int]]:
        """The labels that a target must have, and the numbers of their values."""
        source = self._columns.node_index.get(self._columns.pods[pod].node)
        if source is None:
            return  # it has never run
        named = _named_keys(self._columns.shape(pod))
        for key in self._mixed:
            own = int(self._columns.domains(key)[source])
            if own >= 0 and key not in named:
                yield key, own


def _named_keys(shape: Shape) -> set[str]:
    """The labels that the pod's node selector and its required node affinity ask for."""
    terms = (requirement.key for term in shape.node_affinity or () for requirement in term.expressions)
    return {key for key, _ in shape.node_selector} | set(terms)
