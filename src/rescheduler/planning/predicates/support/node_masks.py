"""Masks over nodes for selectors and tolerations: they depend on nothing that moves, so each is computed once."""

from __future__ import annotations

import numpy as np

from rescheduler.model.selector import Operator, Requirement
from rescheduler.model.shape import NodeTerm, Shape, Taint, Toleration
from rescheduler.planning.columns import Columns, Mask

BLOCKING = ("NoSchedule", "NoExecute")


class NodeMasks:
    """Masks over nodes for selector terms and tolerations: evaluated once per label value, not per node."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._terms: dict[tuple[NodeTerm, ...], Mask] = {}
        self._tolerated: dict[tuple[Toleration, ...], Mask] = {}
        self._selected: dict[tuple[object, object], Mask | None] = {}
        kinds: dict[tuple[Taint, ...], int] = {}
        self._taint_kind = np.array([kinds.setdefault(node.taints, len(kinds)) for node in columns.nodes], np.int32)
        self._taint_kinds = list(kinds)

    def requirement(self, requirement: Requirement) -> Mask:
        """[N]: nodes whose label meets a requirement."""
        key = requirement.key
        table = [requirement.matches({key: value}) for value in self._columns.domain_values(key)]
        table.append(requirement.matches({}))  # nodes without the label have the number -1: the last place
        found: Mask = np.array(table, np.bool_)[self._columns.domains(key)]
        return found

    def any_of(self, terms: tuple[NodeTerm, ...]) -> Mask:
        """[N]: nodes that match at least one term; an empty term matches none."""
        if terms not in self._terms:
            self._terms[terms] = np.logical_or.reduce(
                [self._term(term) for term in terms] or [np.zeros(len(self._columns.nodes), np.bool_)]
            )
        return self._terms[terms]

    def _term(self, term: NodeTerm) -> Mask:
        if not term.expressions and not term.fields:
            return np.zeros(len(self._columns.nodes), np.bool_)
        names = [[f.matches({"metadata.name": node.name}) for node in self._columns.nodes] for f in term.fields]
        met: Mask = np.logical_and.reduce(
            [self.requirement(r) for r in term.expressions] + [np.array(row, np.bool_) for row in names]
        )
        return met

    def selected(self, shape: Shape) -> Mask | None:
        """[N]: nodes that match the pod's node selector and required affinity; None if it has neither."""
        key = (shape.node_selector, shape.node_affinity)
        if key not in self._selected:
            masks = [self.requirement(Requirement(k, Operator.IN, (v,))) for k, v in shape.node_selector]
            if shape.node_affinity is not None:
                masks.append(self.any_of(shape.node_affinity))
            self._selected[key] = np.logical_and.reduce(masks) if masks else None
        return self._selected[key]

    def tolerated(self, shape: Shape) -> Mask:
        """[N]: nodes whose NoSchedule and NoExecute taints the pod tolerates."""
        if shape.tolerations not in self._tolerated:
            self._tolerated[shape.tolerations] = ~self._intolerable(shape, BLOCKING)
        return self._tolerated[shape.tolerations]

    def discouraged(self, shape: Shape) -> Mask:
        """[N]: nodes with a PreferNoSchedule taint that the pod does not tolerate."""
        return self._intolerable(shape, ("PreferNoSchedule",))

    def _intolerable(self, shape: Shape, effects: tuple[str, ...]) -> Mask:
        """[N]: nodes with a taint of one of these effects that the pod does not tolerate."""
        table = [
            any(taint.effect in effects and not shape.tolerates(taint) for taint in taints)
            for taints in self._taint_kinds
        ]
        found: Mask = np.array(table, np.bool_)[self._taint_kind]
        return found
