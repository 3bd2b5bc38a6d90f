"""The workloads that are moved while the controller dies: one for each way in which a method goes.

A Stage is a namespace that holds one of each. `kills` and `faults` order moves of its pods by making PodMigrations, as
a person would; the auditor and the watch on Ready pods hold the result to what each case promises.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.plan import Method
from tests.chaos.lives import forget_lease
from tests.support.both_clusters import ClusterUnderTest, Items, Space, is_ready, name_of
from tests.support.manifests import budget, deployment, pod, replica_set, simulated, stateful_set
from tests.support.migrations import MIGRATIONS
from tests.support.ready_watch import Floor, floor_of
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

STARTS_IN, ENDS_IN = "0.7", "0.7"  # seconds
_counter = itertools.count(1)
_PASSED = frozenset({"CheckBudgets", "AwaitMembers"})
"""Steps that have nothing to do where all is as it should be, so that they are not recorded."""


@dataclass(frozen=True)
class Case:
    """A workload called like the case, and how its pods are moved."""

    name: str
    method: Method
    replicas: int
    objects: tuple[Json, ...]
    without: frozenset[str] = frozenset()
    """Steps of the method that this workload has nothing to do in."""
    by_order: bool = False
    """Whether the method must be asked for."""

    @property
    def steps(self) -> list[str]:
        """The steps that are recorded when a pod of it is moved."""
        return [step for step in Lifecycle().steps(self.method) if step not in self.without | _PASSED]


def _slow(body: Json) -> Json:
    """Its pods take their time to start and to end, so that there is something to be killed in."""
    return simulated(body, starts_in=STARTS_IN, ends_in=ENDS_IN)


def _evicted(body: Json) -> Json:
    body["metadata"]["annotations"] = {labels.MIGRATION_METHOD: "evict"}
    return body


def _service(name: str) -> Json:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


_NO_TEMPLATE = frozenset({"Pause", "Prefer", "Restore"})
_NO_BUDGET = frozenset({"Protect", "Unprotect"})
CASES = {
    case.name: case
    for case in (
        # No disruption is allowed: a handoff causes none.
        Case(
            "handoff",
            Method.HANDOFF,
            2,
            (_slow(deployment("handoff", 2)), budget("handoff", "handoff", minAvailable=2)),
        ),
        Case(
            "lone",
            Method.HANDOFF,
            1,
            (_slow(deployment("lone", 1)), budget("lone", "lone", minAvailable=1), _service("lone")),
        ),
        Case("evict", Method.EVICT, 2, (_slow(_evicted(deployment("evict", 2))),)),
        Case(
            "recreate",
            Method.EVICT,
            3,
            (
                _slow(deployment("recreate", 3, strategy={"type": "Recreate"})),
                budget("recreate", "recreate", maxUnavailable=1),
            ),
            without=_NO_BUDGET,
        ),
        Case("stateful", Method.EVICT, 2, (_slow(stateful_set("stateful", 2)),), without=_NO_TEMPLATE),
        Case(
            "replicas",
            Method.EVICT,
            2,
            (_slow(replica_set("replicas", 2)),),
            without=frozenset({"Pause"}),
            by_order=True,
        ),
        Case("copy", Method.COPY, 1, (_slow(pod("copy")), _service("copy"))),
    )
}


@dataclass
class Stage:
    """A namespace with a workload of each case, all Ready."""

    space: Space
    nodes: list[str]
    cases: list[Case]
    ordered: list[str] = field(default_factory=list)

    def pods(self, case: Case) -> Items:
        """The case's pods that are Ready, by name."""
        return [pod for pod in self.space.pods(case.name) if is_ready(pod)]

    def order(self, case: Case, choice: int = 0) -> str:
        """A migration of one of its pods to another node, as a person would make it; the answer is its name."""
        found = self.pods(case)
        chosen = found[choice % len(found)]
        others = [node for node in self.nodes if node != chosen["spec"]["nodeName"]]
        name = f"{case.name}-{next(_counter)}"
        spec: Json = {"pod": {"name": name_of(chosen)}, "target": others[choice % len(others)]}
        if case.by_order:
            spec["method"] = case.method.value
        body = {
            "apiVersion": "rescheduler.io/v1alpha1",
            "kind": "PodMigration",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.space.api.post(MIGRATIONS.format(self.space.name), body)
        self.ordered.append(name)
        return name

    def time_is_up(self, migration: str) -> None:
        """Whoever works on it next rolls it back."""
        self.space.api.patch(f"{MIGRATIONS.format(self.space.name)}/{migration}", {"spec": {"timeout": "1ms"}})

    def forget(self, migration: str) -> None:
        """Somebody deletes it, in the middle of the move."""
        self.space.api.delete(f"{MIGRATIONS.format(self.space.name)}/{migration}")

    def migrations(self) -> dict[str, Json]:
        """All of them, by name."""
        found: Items = self.space.api.get(MIGRATIONS.format(self.space.name))["items"]
        return {name_of(each): each for each in found}

    def clear(self) -> None:
        """Forget the migrations that are over."""
        for name in self.migrations():
            self.space.api.delete(f"{MIGRATIONS.format(self.space.name)}/{name}")
        self.ordered.clear()

    def floors(self) -> list[Floor]:
        """How many pods of each case must be Ready at every moment: for all that is not evicted, all of them."""
        return [
            floor_of(self.space.api, self.space.name, case.name, case.replicas)
            if case.method is Method.EVICT
            else Floor(self.space.name, case.name, case.replicas)
            for case in self.cases
        ]


@contextmanager
def stage(cluster: ClusterUnderTest, nodes: list[str], cases: Iterable[str]) -> Iterator[Stage]:
    """A new one, cleared away at the end of the block."""
    with own_namespace(cluster.api, "chaos") as name:
        made = Stage(Space(cluster, name), nodes, [CASES[each] for each in cases])
        for case in made.cases:
            for body in case.objects:
                made.space.create(body)
        until(
            "all pods of the stage are Ready",
            lambda: all(len(made.pods(case)) == case.replicas for case in made.cases),
        )
        try:
            yield made
        finally:
            forget_lease(cluster.api)
