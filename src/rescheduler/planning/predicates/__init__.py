"""Rules about a pod and a node, one per file and found automatically: kube-scheduler's, and ours about the node."""

from __future__ import annotations

from functools import lru_cache

from rescheduler.planning.discovery import find_classes
from rescheduler.planning.predicates.base import Predicate


@lru_cache(maxsize=1)
def discover() -> tuple[type[Predicate], ...]:
    """Find every predicate in this package, in the order in which a refusal is reported."""
    found = find_classes(__name__, __path__, Predicate)  # type: ignore[type-abstract]  # only concrete ones are yielded
    return tuple(sorted(found, key=lambda each: (each.order, each.name)))
