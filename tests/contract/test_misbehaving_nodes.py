"""Nodes whose kubelets misbehave on demand: what they say, what becomes of it, and how they recover."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, condition, is_ready
from tests.support.manifests import on, pod
from tests.support.misbehaviour import kubelet_dies, kubelet_recovers, kubelet_says_not_ready
from tests.testbed import hollow
from tests.testbed.api import ApiError
from tests.testbed.processes import until

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
SECONDS_UNTIL_GIVEN_UP = 180.0  # a kubelet that is silent; most of a minute where nothing was done about it


@pytest.fixture
def node(cluster: ClusterUnderTest) -> Iterator[str]:
    """A node of this test's own, beside which there is another, so that not the whole cluster is down."""
    names = cluster.add_nodes(2, prefix="frail")
    yield names[0]
    cluster.remove_nodes(names)


def found_node(space: Space, name: str) -> Json:
    return space.api.get(f"/api/v1/nodes/{name}")


def taints(node: Json) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", ())}


def awaits_taints(space: Space, node: str, key: str) -> Json:
    wanted = {(key, "NoSchedule"), (key, "NoExecute")}
    until(
        f"{node} is tainted {key}",
        lambda: wanted <= taints(found_node(space, node)),
        seconds=SECONDS_UNTIL_GIVEN_UP,
    )
    return found_node(space, node)


def awaits_health(space: Space, node: str) -> None:
    def healthy() -> bool:
        found = found_node(space, node)
        return hollow.is_ready(found) and not taints(found)

    until(f"{node} is healthy again", healthy)


def renewal(space: Space, node: str) -> str:
    """When the kubelet last said that it lives; empty before it ever did."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
    try:
        return str(space.api.get(path)["spec"]["renewTime"])
    except ApiError as error:
        if error.code != 404:
            raise
        return ""


def tolerant(name: str, node: str, *keys: str) -> Json:
    """A pod that stays on a node with these taints, and can be bound there."""
    tolerations = [{"key": key, "operator": "Exists"} for key in keys]
    return pod(name, nodeSelector=on(node), tolerations=tolerations)


def test_a_kubelet_says_that_its_node_is_not_ready_and_recovers(space: Space, node: str) -> None:
    space.runs(pod("web", nodeSelector=on(node)))
    kubelet_says_not_ready(space.api, node)
    found = awaits_taints(space, node, NOT_READY)
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "KubeletNotReady")
    assert condition(found, "MemoryPressure")["status"] == "False"
    assert (UNREACHABLE, "NoExecute") not in taints(found)
    space.shunned(node)
    space.create(pod("new", nodeSelector=on(node)))
    assert "untolerated taint" in space.refused("new")
    kubelet_recovers(space.api, node)
    awaits_health(space, node)
    space.ready("new")
    space.ready("web")


def test_the_pods_of_a_kubelet_that_is_not_ready_go_on_and_end_when_deleted(space: Space, node: str) -> None:
    space.runs(tolerant("web", node, NOT_READY))
    kubelet_says_not_ready(space.api, node)
    awaits_taints(space, node, NOT_READY)
    space.ready("web")  # the node controller said otherwise for a moment, but the kubelet lives and knows better
    space.delete("Pod", "web")
    space.gone("Pod", "web")


def test_a_kubelet_that_dies_is_noticed_and_recovers(space: Space, node: str) -> None:
    space.runs(pod("web", nodeSelector=on(node)))
    space.runs(tolerant("idle", node, UNREACHABLE, NOT_READY))
    space.runs(
        pod(
            "flighty",
            nodeSelector=on(node),
            tolerations=[{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        )
    )
    first = until(f"{node} has a lease", lambda: renewal(space, node))
    until("it is renewed", lambda: renewal(space, node) != first)
    kubelet_dies(space.api, node)
    found = awaits_taints(space, node, UNREACHABLE)
    last = renewal(space, node)
    for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        said = condition(found, kind)
        assert (said["status"], said["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert said["message"] == "Kubelet stopped posting node status."
    space.reaches("Pod", "web", "is no longer Ready", lambda pod: not is_ready(pod))
    assert condition(space.get("Pod", "web"), "ContainersReady")["status"] == "True"

    space.reaches("Pod", "flighty", "is deleted", lambda pod: "deletionTimestamp" in pod["metadata"])
    space.delete("Pod", "web", gracePeriodSeconds=1)
    space.create(tolerant("late", node, UNREACHABLE, NOT_READY))
    assert space.bound("late") == node
    assert space.get("Pod", "late")["status"]["phase"] == "Pending"  # nobody is there to start it

    assert renewal(space, node) == last
    kubelet_recovers(space.api, node)
    awaits_health(space, node)
    until("it is renewed again", lambda: renewal(space, node) != last)
    space.gone("Pod", "web")
    space.gone("Pod", "flighty")
    space.ready("late")
    space.ready("idle")
