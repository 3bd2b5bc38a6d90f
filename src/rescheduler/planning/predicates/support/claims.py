"""What the predicates about volumes share: a pod's claims, and rules that depend on claims and nodes alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache

import numpy as np

from rescheduler.model.objects import Claim
from rescheduler.planning.columns import Columns, Mask
from rescheduler.planning.predicates.base import Predicate, PredicateContext


def claims_of(columns: Columns, pod: int) -> list[tuple[str, Claim | None]]:
    """List the claims that a pod uses, with their objects if the input has them."""
    row = columns.pods[pod]
    return [(name, columns.snapshot.claims.get((row.namespace, name))) for name in row.shape.claims]


def claiming_pods(columns: Columns) -> list[int]:
    """List the pods that use claims."""
    found: list[int] = columns.pods_with(lambda shape: bool(shape.claims)).tolist()
    return found


class ClaimRule(Predicate):
    """A rule that depends on the pod's claims and the node's labels only; computed once for each claim."""

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self.allowed: Callable[[str, str], tuple[Mask, str]] = cache(self._find_allowed)
        """Finds where a claim (namespace, name) lets its pod be, and the reason elsewhere."""

    def mask(self, pod: int) -> Mask | None:
        row = self._columns.pods[pod]
        if not self._columns.shape(pod).claims:
            return None
        found: Mask = np.logical_and.reduce(
            [self.allowed(row.namespace, name)[0] for name in self._columns.shape(pod).claims]
        )
        return found

    def reason(self, pod: int, node: int) -> str:
        row = self._columns.pods[pod]
        verdicts = (self.allowed(row.namespace, name) for name in self._columns.shape(pod).claims)
        return next(why for mask, why in verdicts if not mask[node])

    def _find_allowed(self, namespace: str, name: str) -> tuple[Mask, str]:
        return self._where(name, self._columns.snapshot.claims.get((namespace, name)))

    @abstractmethod
    def _where(self, name: str, claim: Claim | None) -> tuple[Mask, str]:
        """Find where a claim lets its pod be, and the reason elsewhere."""

    def _all(self, *, allowed: bool) -> Mask:
        return np.full(len(self._columns.nodes), allowed)
