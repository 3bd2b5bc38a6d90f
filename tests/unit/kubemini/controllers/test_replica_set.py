"""ReplicaSets of the embedded cluster: how many pods, whose pods, which go first, and what the status says."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kubemini import clock
from kubemini.api import Creation
from kubemini.controllers.pods import DELETION_COST, PodState
from kubemini.controllers.replica_set import Candidate, ReplicaSetController, rank_for_deletion
from kubemini.errors import Json, forbidden
from kubemini.kinds import POD
from kubemini.store import Entry
from tests.support.manifests import pod, replica_set
from tests.support.workloads import SPACE, Workloads, ended, name_of, names, ready

NOW = 1_800_000_000.0
HOLD = "test/hold"


def replicas(cluster: Workloads, name: str, count: str = "readyReplicas") -> int:
    status = cluster.get("ReplicaSet", name).get("status", {})
    return int(status.get(count, 0))


async def running(cluster: Workloads, body: Json) -> Json:
    """The ReplicaSet, once all of its pods are ready."""
    await cluster.create(body)
    name, wanted = name_of(body), body["spec"]["replicas"]
    await cluster.until("all are ready", lambda: replicas(cluster, name, "availableReplicas") == wanted)
    await cluster.settled()
    return cluster.get("ReplicaSet", name)


def controllers(body: Json) -> list[str]:
    return [each["name"] for each in body["metadata"].get("ownerReferences", ()) if each.get("controller")]


def noted(body: Json, cost: str) -> None:
    body["metadata"]["annotations"] = {DELETION_COST: cost}


async def test_a_selector_without_any_fixed_label_adopts_and_releases_too() -> None:
    body = replica_set("web", 2)
    body["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "site"]}]}
    async with Workloads() as cluster:
        await cluster.create(pod("lone", labels={"app": "site"}))
        await cluster.settled()
        await running(cluster, body)
        assert controllers(cluster.get("Pod", "lone")) == ["web"]
        await cluster.edit("Pod", "lone", lambda body: body["metadata"]["labels"].update(app="else"))
        await cluster.until("it is released", lambda: not controllers(cluster.get("Pod", "lone")))
        await cluster.edit("Pod", "lone", lambda body: body["metadata"]["labels"].update(app="web"))
        await cluster.until("one is deleted", lambda: [each for each in cluster.events("web") if "Deleted" in each[1]])
        await cluster.settled()
        assert len(cluster.owned("Pod", "web")) == 2


async def test_nobody_adopts_a_pod_that_is_being_deleted_or_has_ended_or_has_a_controller() -> None:
    held, failed, owned = (pod(name, labels={"app": "web"}) for name in ("held", "failed", "owned"))
    held["metadata"]["finalizers"] = [HOLD]
    owner = {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "1", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    async with Workloads() as cluster:
        for each in (held, failed, owned):
            await cluster.create(each)
        await cluster.delete("Pod", "held")
        cluster.kubelet.write("failed", ended)
        await running(cluster, replica_set("web", 1))
        found = {name: controllers(cluster.get("Pod", name)) for name in ("held", "failed", "owned")}
        assert found == {"held": [], "failed": [], "owned": ["x"]}
        assert len(cluster.owned("Pod", "web")) == 1


async def test_a_pod_is_available_after_min_ready_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start)
    async with Workloads() as cluster:
        cluster.kubelet.starts = lambda _: False
        await cluster.create(replica_set("web", 2, minReadySeconds=100))
        await cluster.until("both are there", lambda: replicas(cluster, "web", "replicas") == 2)
        first, second = names(cluster.pods("web"))
        cluster.kubelet.write(first, ready, clock.stamp(start - timedelta(seconds=100)))
        cluster.kubelet.write(second, ready, clock.stamp(start))
        await cluster.until("one is available", lambda: replicas(cluster, "web", "availableReplicas") == 1)
        assert replicas(cluster, "web") == 2

        controller = ReplicaSetController(cluster.api)
        wait = await controller.reconcile((SPACE, "web"))
        assert wait is not None
        assert 0 < wait <= 100
        monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=101))
        assert await controller.reconcile((SPACE, "web")) is None
        assert replicas(cluster, "web", "availableReplicas") == 2


class _Refusing:
    """Lets so many pods be created and refuses the others, as a quota does; or takes its time over each."""

    def __init__(self, allowed: int, *, slow: bool = False) -> None:
        self.allowed = allowed
        self.asked = 0
        self.called = asyncio.Event()
        self.gate = asyncio.Event()
        if not slow:
            self.gate.set()

    async def admit(self, creation: Creation) -> Json:
        if creation.kind == POD:
            self.asked += 1
            self.called.set()
            await self.gate.wait()
            if self.asked > self.allowed:
                raise forbidden(POD, creation.body["metadata"]["name"], "exceeded quota")
        return creation.body


async def test_what_is_refused_is_told_and_tried_again_but_not_a_hundred_times() -> None:
    quota = _Refusing(2)
    async with Workloads(quota) as cluster:
        await cluster.create(replica_set("web", 50))
        await cluster.until("the status is written", lambda: replicas(cluster, "web", "observedGeneration") == 1)
        assert quota.asked < 50
        said = [message for reason, message in cluster.events("web") if reason == "FailedCreate"]
        assert said[0].startswith('Error creating: pods "web-')

        quota.allowed = 1000
        await cluster.until("all are there", lambda: replicas(cluster, "web") == 50)


def candidate(name: str, node: str = "n", uid: str = "", **facts: Any) -> Candidate:
    plain: dict[str, Any] = {
        "phase": "Running",
        "deleting": False,
        "ready_since": NOW - 5000,
        "created": NOW - 5000,
        "cost": 0,
        "restarts": 0,
    }
    entry = Entry((SPACE, name), 1, b"", uid or name, {}, (), {"spec.nodeName": node}, deleting=False)
    return Candidate(entry, PodState(**(plain | facts)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"node": "", "phase": "Running"}, {"phase": "Pending"}, id="without a node"),
        pytest.param({"phase": "Pending"}, {"phase": "Unknown", "ready_since": None}, id="Pending before Unknown"),
        pytest.param({"phase": "Unknown"}, {"ready_since": None}, id="Unknown before Running"),
        pytest.param({"ready_since": None, "cost": 9}, {"cost": -9}, id="not ready, whatever it costs"),
        pytest.param({"cost": -(2**31)}, {"ready_since": NOW, "restarts": 9}, id="cheaper"),
        pytest.param({"node": "full"}, {"ready_since": NOW}, id="doubled up"),
        pytest.param({"ready_since": NOW - 100}, {"created": NOW, "restarts": 9}, id="ready more recently"),
        pytest.param({"restarts": 2}, {"restarts": 1, "created": NOW}, id="more restarts"),
        pytest.param({"created": NOW - 100}, {}, id="created more recently"),
    ],
)
def test_the_surplus_goes_in_the_order_of_kubernetes(first: dict[str, Any], second: dict[str, Any]) -> None:
    pods = [candidate("one", **first), candidate("two", **second)]
    crowd = [candidate("c1", node="full"), candidate("c2", node="full"), candidate("c3")]
    for given in (pods, pods[::-1]):
        assert [each.entry.key[1] for each in rank_for_deletion(given, crowd)] == ["one", "two"]


@pytest.mark.parametrize(
    ("written", "cost"),
    [
        ("-5", -5),
        ("+7", 0),
    ],
)
async def test_a_deletion_cost_that_is_no_number_counts_as_none(written: str, cost: int) -> None:
    async with Workloads() as cluster:
        await running(cluster, replica_set("web", 3))
        cheap, other, dear = names(cluster.pods("web"))
        for name, value in ((cheap, written), (other, str(cost)), (dear, "2147483647")):
            cluster.kubelet.write(name, noted, value)
        await cluster.set("ReplicaSet", "web", replicas=1)
        await cluster.until("one is left", lambda: len(cluster.all("Pod")) == 1)
        assert names(cluster.all("Pod")) == [dear]
