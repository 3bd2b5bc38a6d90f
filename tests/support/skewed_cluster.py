"""A cluster out of balance, of every kind of workload, and what must be true of it after the controller's work.

Its pods are placed while only a few nodes are there; the others come late and stand empty. End-to-end tests build it on
a cluster under test, run `rescheduler run` on it, and ask here whether balance is reached and nothing was broken.
Nothing here depends on how moves are made: it goes by the objects, and by the record of the pods' events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rescheduler.model.json import Json
from tests.support.both_clusters import Items, Space, is_ready, name_of
from tests.support.cli import rescheduler
from tests.support.controller_process import Controller
from tests.support.manifests import budget, daemon_set, deployment, pod, stateful_set
from tests.support.migrations import MIGRATIONS
from tests.support.pod_record import PodRecord
from tests.testbed.api import ApiError
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import until

OVER = ("Completed", "Failed")
NOT_SERVED_YET = (404, 429, 503)  # it takes a moment from its definition to a new kind
SOMETHING_TO_MOVE = 3  # the exit code of `rescheduler plan --exit-code`
SECONDS_TO_BALANCE = 240.0
REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True)
class Mix:
    """How large a cluster, and of what; each pod but the DaemonSet's asks for the same."""

    nodes: int
    crowded: int
    deployments: int
    replicas: int
    stateful_sets: int
    members: int
    bare_pods: int
    cpu: str

    @property
    def pods(self) -> int:
        return self.deployments * self.replicas + self.stateful_sets * self.members + self.bare_pods + self.nodes


LARGE = Mix(nodes=20, crowded=6, deployments=12, replicas=12, stateful_sets=3, members=6, bare_pods=18, cpu="120m")
"""20 nodes and 200 pods; at first six nodes are 92 % full, and later 30 % would be the mean."""
SMALL = Mix(nodes=6, crowded=2, deployments=3, replicas=8, stateful_sets=1, members=4, bare_pods=4, cpu="200m")


class SkewedCluster:
    """The nodes and workloads of one scenario."""

    def __init__(self, space: Space, mix: Mix) -> None:
        self.space = space
        self.mix = mix
        self.nodes = space.cluster.add_nodes(mix.crowded, NodeShape(), prefix="crowded")
        for body in self._workloads():
            space.create(body)
        self._all_ready(mix.pods - mix.nodes + mix.crowded)
        self.nodes += space.cluster.add_nodes(mix.nodes - mix.crowded, NodeShape(), prefix="late")
        self._all_ready(mix.pods)
        self.budgets = {app: self._healthy(app) for app in self._budgeted()}
        """For each app with a disruption budget, how many Ready pods it demands."""

    def _workloads(self) -> Iterator[Json]:
        mix = self.mix
        yield daemon_set("agent")
        for number in range(mix.deployments):
            name = f"web-{number}"
            yield from _budget_of(name, [{}, {"minAvailable": mix.replicas}, {"maxUnavailable": "25%"}], number)
            yield deployment(name, mix.replicas, cpu=mix.cpu)
        for number in range(mix.stateful_sets):
            yield budget(f"db-{number}", f"db-{number}", maxUnavailable=1)
            yield stateful_set(f"db-{number}", mix.members, cpu=mix.cpu, podManagementPolicy="Parallel")
        for number in range(mix.bare_pods):
            yield pod(f"bare-{number}", cpu=mix.cpu)

    def _all_ready(self, count: int) -> None:
        def ready() -> bool:
            found = self.space.list("Pod")
            return len(found) == count and all(is_ready(each) for each in found)

        until(f"{count} pods are Ready", ready)

    def _budgeted(self) -> list[str]:
        return [name_of(each) for each in self.space.list("PodDisruptionBudget")]

    def _healthy(self, app: str) -> int:
        wanted = self.mix.members if app.startswith("db-") else self.mix.replicas
        counted = self.space.reaches(
            "PodDisruptionBudget", app, "counts", lambda pdb: pdb.get("status", {}).get("currentHealthy") == wanted
        )
        healthy: int = counted["status"]["desiredHealthy"]
        return healthy

    def reaches_balance(self, controller: Controller, config: Path) -> Json:
        """The plan with nothing left to move, once that is so and no move is under way."""

        def balanced() -> Json | None:
            found = migrations(self.space)
            if not found or active(found):
                return None
            plan = plan_now(self.space.cluster.kubeconfig, config)
            return plan if not plan["moves"] and not active(migrations(self.space)) else None

        return until("the planner has nothing left to move", balanced, [controller], SECONDS_TO_BALANCE, every=0.5)

    def assert_within_thresholds(self, plan: Json) -> None:
        """No node over 80 %, and no two nodes further apart than 20 points."""
        now = plan["before"]
        assert now["hotNodes"] == 0, now
        assert now["cpu"]["max"] - now["cpu"]["min"] <= 20, now

    def assert_all_ready(self) -> None:
        """As many pods of each app as there were, and each of them Ready."""
        self._all_ready(self.mix.pods)

    def assert_no_rollout(self) -> None:
        for each in self.space.list("Deployment"):
            assert each["metadata"]["annotations"][REVISION] == "1", name_of(each)
        assert len(self.space.list("ReplicaSet")) == self.mix.deployments

    def assert_never_below(self, record: PodRecord) -> None:
        """Budgets were kept, and workloads that were handed off or copied never had fewer pods than wanted."""
        evicted = {app_of(each) for each in migrations(self.space) if each["status"].get("method") == "evict"}
        for app, lowest in record.lowest().items():
            floor = self.budgets.get(app, 1) if app in evicted else self._wanted(app)
            assert lowest.ready >= floor, f"{app}: {lowest} is less than {floor}"

    def _wanted(self, app: str) -> int:
        kind = app.partition("-")[0]
        return {"agent": self.mix.nodes, "web": self.mix.replicas, "db": self.mix.members, "bare": 1}[kind]


@contextmanager
def skewed_cluster(space: Space, mix: Mix) -> Iterator[SkewedCluster]:
    """Its nodes are gone after the block."""
    skewed = SkewedCluster(space, mix)
    try:
        yield skewed
    finally:
        space.cluster.remove_nodes(skewed.nodes)


def migrations(space: Space) -> Items:
    """The PodMigrations of the namespace; none if the kind is not installed yet."""
    return _found(space) or []


def kind_is_served(space: Space, controller: Controller) -> None:
    """The controller installs it."""
    until("PodMigration is served", lambda: _found(space) is not None, [controller])


def _found(space: Space) -> Items | None:
    try:
        found: Items = space.api.get(MIGRATIONS.format(space.name))["items"]
    except ApiError as error:
        if error.code not in NOT_SERVED_YET:
            raise
        return None
    return found


def active(found: Items) -> Items:
    return [each for each in found if each.get("status", {}).get("phase") not in OVER]


def app_of(migration: Json) -> str:
    """Pods of a scenario are called after their app: `web-3-5d9c-x2x`, `db-1-0`, `rescheduled-bare-7-1789…`."""
    kind, number = migration["spec"]["pod"]["name"].removeprefix("rescheduled-").split("-")[:2]
    return f"{kind}-{number}"


def plan_now(kubeconfig: Path, config: Path) -> Json:
    """What `rescheduler plan` says now."""
    flags = ["--kubeconfig", str(kubeconfig), "--config", str(config), "-o", "json", "--exit-code"]
    done = rescheduler("plan", *flags)
    assert done.code in (0, SOMETHING_TO_MOVE), done.said
    plan: Json = done.data
    assert bool(plan["moves"]) == (done.code == SOMETHING_TO_MOVE)
    return plan


def landing_node(migration: Json, record: PodRecord) -> str:
    """The node on which the replacement came to stand; it may have been moved on since."""
    name = migration["status"]["replacement"]["name"]  # of its own: no other pod ever had it
    found = [each["object"] for each in record.events if name_of(each["object"]) == name]
    nodes = [str(each["spec"]["nodeName"]) for each in found if each["spec"].get("nodeName")]
    return nodes[-1] if nodes else ""


def _budget_of(name: str, ways: Sequence[dict[str, Any]], number: int) -> Iterator[Json]:
    """The budget of a Deployment, if it has one: in turn by each of these ways."""
    way = ways[number % len(ways)]
    if way:
        yield budget(name, name, **way)
