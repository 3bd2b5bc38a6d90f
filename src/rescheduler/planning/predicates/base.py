"""The base class of predicates: rules about a pod and a node, evaluated for all nodes at once.

A predicate is one file in this package: a class with a mask over all nodes and the reason for one node. Its docstring
says what holds on the nodes that it accepts. `planning.feasibility` discovers the files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rescheduler.model.objects import Node
from rescheduler.planning.columns import Mask
from rescheduler.planning.matching import Matching
from rescheduler.planning.predicates.support.node_masks import NodeMasks
from rescheduler.planning.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class PredicateContext:
    """What the predicates of one what-if share."""

    whatif: WhatIf
    matching: Matching
    node_masks: NodeMasks


class Predicate(ABC):
    """One rule. The docstring of a subclass is its documentation."""

    name: ClassVar[str]
    order: ClassVar[int]
    """Where several predicates refuse a node, the one with the lowest number is reported."""
    caption: ClassVar[str]
    """What the page calls a refusal, in two or three words."""
    node_only: ClassVar[bool] = False
    """Whether it depends on the node and on the pod's shape alone, and not on other pods: it is asked once a shape."""
    of_scheduler: ClassVar[bool] = True
    """Whether kube-scheduler has this rule, too; the others are ours."""

    def __init__(self, context: PredicateContext) -> None:
        self._whatif = context.whatif
        self._columns = context.whatif.columns
        self._matching = context.matching
        self._masks = context.node_masks

    @abstractmethod
    def mask(self, pod: int) -> Mask | None:
        """[N]: where the rule lets the pod be. None where it does not concern the pod: the common case, for free."""

    @abstractmethod
    def reason(self, pod: int, node: int) -> str:
        """Explain a refusal; called only where the mask refuses."""


class NodeRule(Predicate):
    """A rule of ours on the node itself, the same for every pod, whatever the scheduler would say."""

    node_only: ClassVar[bool] = True
    of_scheduler: ClassVar[bool] = False

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._refusals = [self.refusal(node) for node in self._columns.nodes]
        self._mask = np.array([not refusal for refusal in self._refusals], np.bool_)
        self._harmless = bool(self._mask.all())

    @abstractmethod
    def refusal(self, node: Node) -> str:
        """Why the node takes no pods; empty if it does."""

    def mask(self, pod: int) -> Mask | None:
        return None if self._harmless else self._mask

    def reason(self, pod: int, node: int) -> str:
        return self._refusals[node]
