"""What the contract's tests ask of a cluster, so that one suite runs on the embedded one and on the real one.

`tests/contract/conftest.py` hands out a ClusterUnderTest, and to each test a Space: one namespace with the words that
tests use for what is in it. `tests.testbed.cluster.ControlPlane` is the real cluster, `tests.support.embedded` the
other. Nothing here depends on which of them it talks to, and nothing here is product code.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from rescheduler.model.json import Json
from tests.support.manifests import gated, on, pod, replica_set
from tests.testbed.api import Api, ApiError
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import StateNotReached, until

GROUPS = {
    "/api/v1": (
        "Event",
        "PersistentVolumeClaim",
        "Pod",
        "ReplicationController",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "/apis/apps/v1": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "/apis/batch/v1": ("CronJob", "Job"),
    "/apis/coordination.k8s.io/v1": ("Lease",),
    "/apis/policy/v1": ("PodDisruptionBudget",),
}
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
Items = list[Json]
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}
PATHS = {kind: f"{group}/namespaces/{{}}/{kind.lower()}s" for group, kinds in GROUPS.items() for kind in kinds}


class ClusterUnderTest(Protocol):
    """A running cluster that tests may fill."""

    @property
    def version(self) -> str: ...

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def api(self) -> Api: ...

    def kubectl(self, *args: str, stdin: str | None = None) -> str: ...

    def add_nodes(self, count: int, shape: NodeShape | None = None, *, prefix: str = "node") -> list[str]: ...

    def remove_nodes(self, names: list[str]) -> None: ...

    def configure_scheduler(self, *, extenders: list[Json] = ...) -> None: ...


BOTH = ["embedded", pytest.param("real", marks=pytest.mark.cluster)]
"""Parameters of a fixture that gives each cluster in turn, by `one_cluster`."""


def one_cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """The cluster that the fixture's parameter names."""
    if request.param == "real":
        real: ClusterUnderTest = request.getfixturevalue("control_plane")
        yield real
        return
    from tests.support.embedded import EmbeddedControlPlane  # noqa: PLC0415 - the real half must run without it

    with EmbeddedControlPlane() as embedded:
        yield embedded


def nodes_fixture(
    count: int, *, prefix: str, shape: NodeShape | None = None, scope: Literal["function", "module"] = "function"
) -> Any:
    """A fixture of nodes on the cluster under test, which are removed afterwards."""

    def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
        names = cluster.add_nodes(count, shape, prefix=prefix)
        yield names
        cluster.remove_nodes(names)

    return pytest.fixture(scope=scope)(nodes)


class Space:
    """One namespace of a cluster under test."""

    def __init__(self, cluster: ClusterUnderTest, name: str, api: Api | None = None) -> None:
        self.cluster = cluster
        self.api = api or cluster.api
        self.name = name

    def path(self, kind: str, name: str = "", **query: str) -> str:
        path = PATHS[kind].format(self.name) + (f"/{name}" if name else "")
        return f"{path}?{urlencode(query)}" if query else path

    def create(self, body: Json, **query: str) -> Json:
        return self.api.post(self.path(body["kind"], **query), body)

    def get(self, kind: str, name: str) -> Json:
        return self.api.get(self.path(kind, name))

    def find(self, kind: str, name: str) -> Json | None:
        """None where there is none."""
        return self.api.find(self.path(kind, name))

    def list(self, kind: str, **query: str) -> Items:
        found: Items = self.api.get(self.path(kind, **query))["items"]
        return found

    def patch(self, kind: str, name: str, body: Json | Items, how: str = "merge") -> Json:
        return self.api.patch(self.path(kind, name), body, how)

    def patch_status(self, kind: str, name: str, status: Json, how: str = "merge") -> Json:
        return self.api.patch(self.path(kind, name) + "/status", {"status": status}, how)

    def delete(self, kind: str, name: str, **options: Any) -> Json:
        return self.api.delete(self.path(kind, name), options)

    def evict(self, pod: str, **options: Any) -> Json:
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.name}}
        if options:
            body["deleteOptions"] = options
        return self.api.post(self.path("Pod", pod) + "/eviction", body)

    def version(self, kind: str) -> str:
        """The resource version of now: a watch from here has all that comes after."""
        found: str = self.api.get(self.path(kind))["metadata"]["resourceVersion"]
        return found

    def events(self, kind: str, since: str, last: Callable[[Json], bool], **query: str) -> Items:
        """The watch events after a version, in order, up to the first that is `last`."""
        seen: Items = []
        asked = {"resourceVersion": since, "timeoutSeconds": "60"} | query
        with self.api.watch(self.path(kind, **asked)) as events:
            for event in events:
                seen.append(event)
                if last(event):
                    return seen
        raise StateNotReached(f"the watch ended without its last event: {[each['type'] for each in seen]}")

    def gone(self, kind: str, name: str) -> None:
        until(f"{kind} {name} is gone", lambda: self.find(kind, name) is None)

    def reaches(self, kind: str, name: str, what: str, test: Callable[[Json], Any]) -> Json:
        """The object, as soon as the test says yes to it; it need not be there yet."""

        def reached() -> Json | None:
            found = self.find(kind, name)
            return found if found and test(found) else None

        return until(f"{kind} {name} {what}", reached)

    def observed(self, kind: str, name: str) -> Json:
        """The object, as soon as its controller has seen it as it is."""

        def is_observed(found: Json) -> bool:
            seen = found.get("status", {}).get("observedGeneration")
            return bool(seen == found["metadata"]["generation"])

        return self.reaches(kind, name, "is observed", is_observed)

    def pods_known(self) -> None:
        """The controllers have seen all that was done to pods so far: a later pod is gone because no replica is wanted.

        Each kind is watched on its own, so what is done to a workload may be seen before what was done to its pods.
        """
        name = f"later-{secrets.token_hex(4)}"
        self.create(replica_set(name, 0))
        self.create(gated(name))
        self.gone("Pod", name)

    def dependents_known(self, later: Json) -> None:
        """The garbage collector has seen all objects of this one's kind: this one is gone because its owner is nobody.

        It decides by what it has seen, and what it has not is neither waited for nor orphaned.
        """
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": str(uuid4())}
        later["metadata"] |= {"name": f"later-{secrets.token_hex(4)}", "ownerReferences": [owner]}
        self.gone(later["kind"], name_of(self.create(later)))

    def shunned(self, node: str) -> None:
        """The scheduler has seen that a node is closed: it refuses it to a pod of the namespace `default`.

        It watches nodes and pods apart, so a pod may come to it before a cordon or a taint that is older.
        """
        there = Space(self.cluster, "default", self.api)

        def is_refused() -> bool:
            probe = name_of(there.create(pod(f"probe-{secrets.token_hex(4)}", cpu="0", nodeSelector=on(node))))
            found = there.reaches("Pod", probe, "is judged", lambda pod: condition(pod, "PodScheduled"))
            there.delete("Pod", probe, gracePeriodSeconds=0)
            said = condition(found, "PodScheduled").get("message", "")
            return "were unschedulable" in said or "untolerated taint" in said

        until(f"the scheduler keeps off {node}", is_refused)

    def bound(self, pod: str) -> str:
        """The node that the scheduler gives it."""
        found = self.reaches("Pod", pod, "is bound", lambda pod: pod["spec"].get("nodeName"))
        name: str = found["spec"]["nodeName"]
        return name

    def ready(self, pod: str) -> Json:
        return self.reaches("Pod", pod, "is Ready", is_ready)

    def runs(self, pod: Json) -> Json:
        """Created, and waited for until it is Ready."""
        self.create(pod)
        return self.ready(pod["metadata"]["name"])

    def refused(self, pod: str) -> str:
        """What the scheduler says of a pod that fits nowhere."""
        found = self.reaches("Pod", pod, "is refused", _is_unschedulable)
        message: str = condition(found, "PodScheduled")["message"]
        return message

    def rolled_out(self, deployment: str) -> Json:
        """The Deployment, once its controller has done all that is specified, and old pods are gone from its count."""
        return self.reaches("Deployment", deployment, "is rolled out", _is_rolled_out)

    @contextlib.contextmanager
    def cordoned(self, node: str) -> Iterator[None]:
        """No new pods for this node, until the end of the block."""
        self._cordon(node, closed=True)
        try:
            yield
        finally:
            self._cordon(node, closed=False)

    @contextlib.contextmanager
    def tainted(self, node: str) -> Iterator[None]:
        """No new pods for this node, until the end of the block, though it is not cordoned."""
        path, taint = f"/api/v1/nodes/{node}", {"key": "example.com/full", "effect": "NoSchedule"}
        before = self.api.get(path)["spec"].get("taints") or []
        self.api.patch(path, {"spec": {"taints": [*before, taint]}})
        try:
            yield
        finally:
            self.api.patch(path, {"spec": {"taints": before or None}})

    def _cordon(self, node: str, *, closed: bool) -> None:
        path = f"/api/v1/nodes/{node}"
        self.api.patch(path, {"spec": {"unschedulable": closed or None}})
        until(f"{node} is tainted, or not", lambda: is_tainted(self.api.get(path), UNSCHEDULABLE) == closed)

    def pods(self, app: str) -> Items:
        """The app's pods that are not on their way out, by name."""
        found = self.list("Pod", labelSelector=f"app={app}")
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(staying, key=lambda pod: str(pod["metadata"]["name"]))

    def exactly(self, app: str, count: int, phase: str = "") -> Items:
        """The app's pods, as soon as there are so many (in this phase, where one is given) and no others."""

        def counted() -> Items | None:
            found = self.pods(app)
            settled = [pod for pod in found if phase in ("", pod["status"]["phase"])]
            return found if len(found) == len(settled) == count else None

        return until(f"{count} pods of {app} are there {phase}", counted)

    def replica_set(self, app: str) -> Json:
        (found,) = self.list("ReplicaSet", labelSelector=f"app={app}")
        return found


def condition(found: Json, kind: str) -> Json:
    """One condition of an object's status; empty where there is none."""
    conditions = found.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def is_ready(pod: Json) -> bool:
    return bool(condition(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"])


def is_tainted(node: Json, key: str) -> bool:
    return key in [taint["key"] for taint in node["spec"].get("taints", ())]


def is_discovered(cluster: ClusterUnderTest, group: str) -> bool:
    """Whether kubectl finds the kinds of a group, which is a moment after the first of them is served."""
    found = cluster.api.get("/apis", AGGREGATED)
    aggregated = {name_of(each) for each in found.get("items", ()) if any(one["resources"] for one in each["versions"])}
    return group in aggregated | {each["name"] for each in found.get("groups", ())}


def name_of(found: Json) -> str:
    return str(found["metadata"]["name"])


def names(found: Items) -> list[str]:
    return [name_of(each) for each in found]


@contextlib.contextmanager
def refusal(code: int, reason: str) -> Iterator[Refusal]:
    """The block must be refused by the API server with this code and reason; afterwards the refusal can be read."""
    kept = Refusal()
    with pytest.raises(ApiError) as caught:
        yield kept
    kept.error = caught.value
    assert (kept.error.code, kept.error.reason) == (code, reason), kept.error


class Refusal:
    """How the API server said no."""

    error: ApiError

    @property
    def message(self) -> str:
        return self.error.message

    @property
    def fields(self) -> list[str]:
        return [cause["field"] for cause in self.error.causes]


def _is_unschedulable(pod: Json) -> bool:
    return bool(condition(pod, "PodScheduled").get("reason") == "Unschedulable")


def _is_rolled_out(deployment: Json) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    counts = [status.get(each, 0) for each in ("replicas", "updatedReplicas", "availableReplicas")]
    return bool(status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == [wanted] * 3)
