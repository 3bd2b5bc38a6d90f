"""A look that leaves out what a step does not go by leads to the same decision as one that shows everything."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.migration.lifecycle import ROLL_BACK, Lifecycle, Transition
from rescheduler.migration.observation import EVERYTHING, ObservedPart, StepContext
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase
from rescheduler.model.plan import Method
from tests.support.pod_migrations import replace
from tests.unit.migration.scenes import budget, copy_of, leaving, migration, pod, replica_set, scene

LIFE = Lifecycle()
FIELDS: dict[ObservedPart, Json] = {
    ObservedPart.SERVICES: {"services": ()},
    ObservedPart.BUDGETS: {"budgets": (), "temporary_budget": None},
    ObservedPart.REPLICA_SETS: {"replica_sets": ()},
    ObservedPart.SIBLINGS: {"siblings": ()},
}
SERVICE = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}
NOTED = replica_set(annotations={labels.MIGRATION_ID: "m"})
ADOPTED = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "uid": "rs-uid", "controller": True}]}
HASHLESS = replica_set()
HASHLESS["spec"] |= {
    "selector": {"matchLabels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
}
WORLDS: list[tuple[tuple[Json, ...], dict[str, Any]]] = [
    ((), {"services": (SERVICE,), "budgets": (budget(),)}),
    ((), {"services": (SERVICE,), "controller": HASHLESS, "deployment": None}),
    ((), {"budgets": (budget(),), "controller": HASHLESS, "deployment": None}),
    ((), {"budgets": (budget(allowed=0),)}),
    ((copy_of(),), {"budgets": (budget(allowed=0),)}),
    ((copy_of(),), {"siblings": (pod(), pod("web-b", ready=False))}),
    ((copy_of(**ADOPTED),), {"siblings": (pod(), pod("web-b"), copy_of(**ADOPTED))}),
    ((copy_of(**ADOPTED),), {"pod": leaving(pod()), "replica_sets": (NOTED,)}),
    ((copy_of(**ADOPTED),), {"pod": None, "replica_sets": (NOTED,)}),
    ((copy_of(),), {"pod": None}),
]
CASES = [
    pytest.param(method, step, id=f"{method.value} {step or 'begun'}")
    for method in (Method.HANDOFF, Method.COPY)
    for step in ("", *LIFE.steps(method), ROLL_BACK)
]


def as_asked(shown: StepContext) -> StepContext:
    """The same scene, without what is not asked for."""
    parts = LIFE.needs(shown.migration)
    hidden = {key: value for part in EVERYTHING - parts for key, value in FIELDS[part].items()}
    return replace(shown, seen=replace(shown.seen, parts=parts, **hidden))


def decided(shown: StepContext) -> Transition:
    """As the executor comes to a decision: it looks again when the next step goes by something else."""
    while True:
        decision = LIFE.advance(as_asked(shown))
        if decision.commands or decision.wait != 0.0:
            return decision
        assert decision.status.step != shown.migration.status.step, "it would look at the same for ever"
        shown = replace(shown, migration=replace(shown.migration, status=decision.status))


@pytest.mark.parametrize(("method", "step"), CASES)
def test_less_is_shown_and_the_same_is_decided(method: Method, step: str) -> None:
    for copies, seen in WORLDS:
        whole = scene(migration(method, step), *copies, **seen)
        assert decided(whole) == LIFE.advance(whole)


def test_an_eviction_and_whatever_is_not_under_way_is_shown_everything() -> None:
    assert all(LIFE.needs(migration(Method.EVICT, step)) == EVERYTHING for step in LIFE.steps(Method.EVICT))
    assert LIFE.needs(migration(phase=Phase.PENDING)) == EVERYTHING
    assert LIFE.needs(migration(step=ROLL_BACK)) == EVERYTHING
