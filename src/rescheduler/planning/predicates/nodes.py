"""Rules that look at the node alone: ours (ready, not cordoned, no control plane…), taints, selectors and affinity.

They depend on nothing that moves, so each is computed once per distinct text and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rescheduler.model.objects import Node
from rescheduler.model.selector import Operator, Requirement
from rescheduler.model.shape import NodeTerm, Shape, Taint, Toleration
from rescheduler.planning.columns import Columns, Mask

_BLOCKING = ("NoSchedule", "NoExecute")


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
        """Nodes whose label meets a requirement."""
        key = requirement.key
        table = [requirement.matches({key: value}) for value in self._columns.domain_values(key)]
        table.append(requirement.matches({}))  # nodes without the label have the number -1: the last place
        found: Mask = np.array(table, np.bool_)[self._columns.domains(key)]
        return found

    def any_of(self, terms: tuple[NodeTerm, ...]) -> Mask:
        """Nodes that at least one term means; an empty term means none."""
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
        """Nodes that the pod's node selector and required affinity mean; None when it has neither."""
        key = (shape.node_selector, shape.node_affinity)
        if key not in self._selected:
            masks = [self.requirement(Requirement(k, Operator.IN, (v,))) for k, v in shape.node_selector]
            if shape.node_affinity is not None:
                masks.append(self.any_of(shape.node_affinity))
            self._selected[key] = np.logical_and.reduce(masks) if masks else None
        return self._selected[key]

    def tolerated(self, shape: Shape) -> Mask:
        """Nodes whose NoSchedule and NoExecute taints the pod tolerates."""
        if shape.tolerations not in self._tolerated:
            table = [
                all(shape.tolerates(taint) for taint in taints if taint.effect in _BLOCKING)
                for taints in self._taint_kinds
            ]
            self._tolerated[shape.tolerations] = np.array(table, np.bool_)[self._taint_kind]
        return self._tolerated[shape.tolerations]

    def frowned_on(self, shape: Shape) -> Mask:
        """Nodes with a PreferNoSchedule taint that the pod does not tolerate."""
        table = [
            any(taint.effect == "PreferNoSchedule" and not shape.tolerates(taint) for taint in taints)
            for taints in self._taint_kinds
        ]
        found: Mask = np.array(table, np.bool_)[self._taint_kind]
        return found


class NodeRule:
    """A rule of ours on the node itself, the same for every pod."""

    def __init__(self, name: str, columns: Columns, refuses: Callable[[Node], str]) -> None:
        self.name = name
        self._texts = [refuses(node) for node in columns.nodes]
        self._mask = np.array([not text for text in self._texts], np.bool_)
        self._harmless = bool(self._mask.all())

    def mask(self, pod: int) -> Mask | None:
        return None if self._harmless else self._mask

    def reason(self, pod: int, node: int) -> str:
        return self._texts[node]


def node_rules(columns: Columns) -> list[NodeRule]:
    """Where nothing is ever moved to, whatever the scheduler would say."""
    rules: Sequence[tuple[str, Callable[[Node], str]]] = (
        ("ControlPlane", lambda n: "the node runs the control plane" if n.control_plane else ""),
        ("NodeNotReady", lambda n: "" if n.ready else "the node is not Ready"),
        ("NodeUnschedulable", lambda n: "the node is cordoned" if n.unschedulable else ""),
        ("Maintenance", lambda n: "the node is under maintenance" if n.maintenance else ""),
        ("NodeDeleting", lambda n: "the node is being deleted" if n.deleting else ""),
        ("NodeProblem", lambda n: n.problem),
    )
    return [NodeRule(name, columns, refuses) for name, refuses in rules]


class TaintToleration:
    """The pod tolerates the node's NoSchedule and NoExecute taints."""

    name = "TaintToleration"

    def __init__(self, columns: Columns, masks: NodeMasks) -> None:
        self._columns = columns
        self._masks = masks

    def mask(self, pod: int) -> Mask | None:
        return self._masks.tolerated(self._columns.shape(pod))

    def reason(self, pod: int, node: int) -> str:
        shape = self._columns.shape(pod)
        taints = self._columns.nodes[node].taints
        return f"taint {next(str(t) for t in taints if t.effect in _BLOCKING and not shape.tolerates(t))} not tolerated"


class RequiredNodeAffinity:
    """The node has the labels that the pod's node selector and required node affinity ask for."""

    name = "NodeAffinity"

    def __init__(self, columns: Columns, masks: NodeMasks) -> None:
        self._columns = columns
        self._masks = masks

    def mask(self, pod: int) -> Mask | None:
        return self._masks.selected(self._columns.shape(pod))

    def reason(self, pod: int, node: int) -> str:
        labels = self._columns.nodes[node].labels
        for key, value in self._columns.shape(pod).node_selector:
            if labels.get(key) != value:
                return f"node selector {key}={value} not met"
        return "required node affinity not met"
