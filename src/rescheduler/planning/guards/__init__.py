"""Guards: which pods are never moved, whatever a strategy proposes. One per file, discovered automatically.

The planner checks them for every pod that a strategy proposes; the first that refuses becomes the Rejection that
`plan`, `explain`, the page and the metrics show. Guards look at the pod and its surroundings only; what depends on the
rest of the plan is in `planning.budgets`, and its names are in `planning.refusals`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from rescheduler.model.objects import Pod
from rescheduler.model.plan import HeldBack
from rescheduler.planning.discovery import find_modules
from rescheduler.planning.guards.base import Guard, GuardContext
from rescheduler.planning.refusals import PlanGuard


@lru_cache(maxsize=1)
def discover() -> dict[str, Guard]:
    """Find every guard in this package, by name, in the order in which they are asked."""
    found = [each for module in find_modules(__name__, __path__) for each in vars(module).values()]
    rules = sorted((each for each in found if isinstance(each, Guard)), key=lambda each: (each.order, each.name))
    return {each.name: each for each in rules}


@lru_cache(maxsize=1)
def _by_name() -> tuple[tuple[str, Callable[[Pod, GuardContext], str]], ...]:
    """Return names and functions: looking up 33 functions for each of 100,000 pods would take longer than most do."""
    return tuple((name, guard.objection) for name, guard in discover().items())


def objections(pod: Pod, context: GuardContext) -> list[tuple[str, str]]:
    """Find every guard that objects to moving the pod, with its reason."""
    return [(name, why) for name, objection in _by_name() if (why := objection(pod, context))]


def first_objection(pod: Pod, context: GuardContext) -> tuple[str, str] | None:
    """Find the first guard that objects, with its reason."""
    for name, objection in _by_name():
        why = objection(pod, context)
        if why:
            return name, why
    return None


def count_held_back(pods: Iterable[Pod], context: GuardContext) -> tuple[HeldBack, ...]:
    """Count the running pods that each guard holds back, the most first; of several guards the first counts."""
    running = (pod for pod in pods if pod.node and not pod.finished)
    counts = Counter(found[0] for pod in running if (found := first_objection(pod, context)))
    guards = ((guard, counts[name]) for name, guard in discover().items() if counts[name])
    ordered = sorted(guards, key=lambda each: -each[1])
    return tuple(HeldBack(guard.name, count, guard.changed_by.replace("`", "")) for guard, count in ordered)


def objection_to_removal(pod: Pod, context: GuardContext) -> tuple[str, str] | None:
    """Find the first guard that objects to removing a pod that has ended, with its reason."""
    if not pod.finished:
        return str(PlanGuard.STILL_RUNNING), "it has not ended"
    for name, guard in discover().items():
        why = guard.objection(pod, context) if guard.on_removal else ""
        if why:
            return name, why
    return None


def objection_to_recovery(pod: Pod, context: GuardContext) -> str:
    """Find the first reason why recovery leaves a failed pod alone; empty if there is none."""
    found = (guard.objection(pod, context) for guard in discover().values() if guard.on_recovery)
    return next((why for why in found if why), "")
