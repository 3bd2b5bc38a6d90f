"""Scenario: people go on working while pods are moved: they scale, roll out, delete, cordon and forbid.

What they do is drawn by lot, with a seed: every run does the same things, at moments that differ. Afterwards the
workloads are as people left them, every pod is Ready, every migration is over, and no trace of a move under way is
left on anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rescheduler.model import labels
from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.controller_process import QUICK, Controller, write_config
from tests.support.migrations import MIGRATIONS
from tests.support.skewed_cluster import SMALL, SkewedCluster, active, migrations, skewed_cluster
from tests.testbed.api import ApiError
from tests.testbed.processes import StateNotReached, until

pytestmark = pytest.mark.chaos
DEEDS = 25
SEED = 5
STRATEGIES = ["LoadBalancing", "NodeMaintenance", "ResourceOptimization"]
GONE_MEANWHILE = (404, 409)
UNDER_WAY = (labels.WITHHELD, labels.COST_BEFORE, labels.MARKS_BEFORE, labels.PAUSED_BY, labels.AFFINITY_BEFORE)


@pytest.fixture
def skewed(space: Space) -> Iterator[SkewedCluster]:
    with skewed_cluster(space, SMALL) as made:
        yield made


class People:
    """They know nothing of the controller."""

    def __init__(self, skewed: SkewedCluster, seed: int) -> None:
        self.space = skewed.space
        self.done: list[str] = []
        self._nodes = skewed.nodes
        self._lot = random.Random(seed)
        self.wanted = {f"web-{number}": skewed.mix.replicas for number in range(skewed.mix.deployments)}

    def do_something(self) -> None:
        """One action; what it was about may be gone by then, as in real life."""
        actions: list[Callable[[], str]] = [
            self._scale, self._scale, self._roll_out, self._delete_a_pod, self._make_anew,
            self._cordon_and_open, self._maintain, self._forbid, self._take_back_a_move,
        ]  # fmt: skip
        try:
            self.done.append(self._lot.choice(actions)())
        except ApiError as error:
            if error.code not in GONE_MEANWHILE:
                raise
            self.done.append(str(error))

    def _app(self) -> str:
        return self._lot.choice(sorted(self.wanted))

    def _scale(self) -> str:
        app, replicas = self._app(), self._lot.randint(3, 9)
        self.space.patch("Deployment", app, {"spec": {"replicas": replicas}})
        self.wanted[app] = replicas
        return f"scale {app} to {replicas}"

    def _roll_out(self) -> str:
        app = self._app()
        notes = {"restarted": str(self._lot.random())}
        self.space.patch("Deployment", app, {"spec": {"template": {"metadata": {"annotations": notes}}}})
        return f"roll {app} out"

    def _delete_a_pod(self) -> str:
        found = self.space.pods(self._app())
        name = name_of(self._lot.choice(found)) if found else ""
        if name:
            self.space.delete("Pod", name)
        return f"delete pod {name}"

    def _make_anew(self) -> str:
        app = self._app()
        old = self.space.get("Deployment", app)
        self.space.delete("Deployment", app, propagationPolicy="Foreground")
        self.space.gone("Deployment", app)
        spec = {key: value for key, value in old["spec"].items() if key != "paused"}  # their manifest has it not
        metadata = {"name": app, "labels": {"app": app}}
        self.space.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        return f"delete {app}, and create it again"

    def _cordon_and_open(self) -> str:
        node = self._lot.choice(self._nodes)
        with self.space.cordoned(node):
            return f"cordon {node} for a moment"

    def _maintain(self) -> str:
        node, path = self._lot.choice(self._nodes), "/api/v1/nodes/"
        value = self._lot.choice(["true", None])
        self.space.api.patch(path + node, {"metadata": {"labels": {labels.MAINTENANCE: value}}})
        return f"maintenance of {node}: {value}"

    def _forbid(self) -> str:
        app = self._app()
        least = self._lot.choice([1, "50%", "100%"])
        self.space.patch("PodDisruptionBudget", app, {"spec": {"minAvailable": least, "maxUnavailable": None}})
        return f"demand {least} of {app}"

    def _take_back_a_move(self) -> str:
        found = active(migrations(self.space))
        name = name_of(self._lot.choice(found)) if found else ""
        if name:
            self.space.api.delete(f"{MIGRATIONS.format(self.space.name)}/{name}")
        return f"delete migration {name}"

    def end(self) -> None:
        """All nodes are open again."""
        for node in self._nodes:
            self.space.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {labels.MAINTENANCE: None}}})


def traces(space: Space) -> Iterator[str]:
    """What is left of moves that are not under way any more."""
    for kind in ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "PodDisruptionBudget"):
        for body in space.list(kind):
            pod_labels, notes = body["metadata"].get("labels") or {}, body["metadata"].get("annotations") or {}
            left = [key for key in UNDER_WAY if key in notes]
            if kind == "Pod":
                left += ["gate"] if body["spec"].get("schedulingGates") else []
                left += ["cost"] if labels.DELETION_COST in notes else []
                left += ["status"] if pod_labels.get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS else []
            else:
                left += ["id"] if labels.MIGRATION_ID in pod_labels | notes else []
                left += ["paused"] if body["spec"].get("paused") else []
            if left:
                yield f"{kind} {name_of(body)}: {', '.join(left)}"
    for node in space.api.get("/api/v1/nodes")["items"]:
        if node["spec"].get("unschedulable") or labels.CORDONED in (node["metadata"].get("annotations") or {}):
            yield f"Node {name_of(node)}: cordoned"


def find_unsettled(space: Space, wanted: dict[str, int]) -> Iterator[str]:
    """What is still going on, or should be there and is not."""
    for each in active(migrations(space)):
        yield f"PodMigration {name_of(each)}: {each.get('status', {}).get('message')}"
    for pod in space.list("Pod"):
        if not is_ready(pod):
            yield f"Pod {name_of(pod)} is not Ready"
    for app, count in wanted.items():
        if len(space.pods(app)) != count:
            yield f"{app} has {len(space.pods(app))} pods, and should have {count}"


def plans_anew(controller: Controller) -> None:
    """Once more, since it was asked."""

    def plans() -> int:
        return sum(each["msg"] == "planned" for each in controller.said())

    before = plans()
    until("it plans again", lambda: plans() > before, [controller])


def comes_to_rest(people: People, controller: Controller) -> None:
    """Until nothing is wrong; what still is at the end is in the failure, and all that people did."""

    def wrong() -> list[str]:
        return [*find_unsettled(people.space, people.wanted), *traces(people.space)]

    try:
        until("all is settled", lambda: not wrong(), [controller], every=0.5)
    except StateNotReached as error:
        error.add_note("\n".join(["still wrong:", *wrong(), "what people did:", *people.done]))
        raise


def test_people_go_on_working_while_pods_are_moved(skewed: SkewedCluster, space: Space, tmp_path: Path) -> None:
    quick = {**QUICK["migration"], "timeout": "20s"}
    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=STRATEGIES, migration=quick)
    people = People(skewed, SEED)
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        until("moves are under way", lambda: active(migrations(space)), [controller])
        for _ in range(DEEDS):
            people.do_something()
            plans_anew(controller)
        people.end()
        comes_to_rest(people, controller)
        assert controller.stop() == 0
    assert len(space.list("Pod", labelSelector="app=agent")) == skewed.mix.nodes
