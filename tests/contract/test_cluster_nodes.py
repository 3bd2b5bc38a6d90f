"""Nodes as kubelets register them, cordons, and what becomes of pods whose node is gone.

Kubelets that misbehave are in `test_misbehaving_nodes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import UNSCHEDULABLE, ClusterUnderTest, Space, condition, is_tainted, names
from tests.support.manifests import deployment, on, pod
from tests.testbed.hollow import NodeShape
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

SECONDS_UNTIL_COLLECTED = 180.0  # Kubernetes waits for 40 s whether the node comes back, and looks every 20


@pytest.fixture(scope="module", autouse=True)
def bereft(cluster: ClusterUnderTest) -> Iterator[Space]:
    """A namespace whose pods lost their node when this module's tests began: it takes long until they are collected."""
    (lost,) = cluster.add_nodes(1, NodeShape(labels={"contract.test/lost": "yes"}), prefix="lost")
    with own_namespace(cluster.api, "bereft") as name:
        space = Space(cluster, name)
        web = deployment("web", 1)
        web["spec"]["template"]["spec"]["nodeSelector"] = on(lost)
        space.create(web)
        space.rolled_out("web")
        space.runs(pod("bare", nodeSelector=on(lost)))
        cluster.remove_nodes([lost])
        yield space


def node(space: Space, name: str) -> Json:
    return space.api.get(f"/api/v1/nodes/{name}")


def test_a_node_says_what_it_has_and_who_it_is(space: Space, nodes: list[str]) -> None:
    found = node(space, nodes[0])
    assert found["status"]["capacity"] == found["status"]["allocatable"]
    assert (found["status"]["allocatable"]["cpu"], found["status"]["allocatable"]["pods"]) == ("4", "110")
    labels = found["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == nodes[0]
    assert labels["topology.kubernetes.io/zone"].startswith("zone-")
    assert {each["type"] for each in found["status"]["addresses"]} >= {"InternalIP", "Hostname"}
    assert "kubeletVersion" in found["status"]["nodeInfo"]


def test_a_healthy_node_is_ready_and_under_no_pressure(space: Space, nodes: list[str]) -> None:
    found = node(space, nodes[0])
    said = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    pressures = {f"{each}Pressure": "False" for each in ("Memory", "Disk", "PID")}
    assert {key: value for key, value in said.items() if key != "NetworkUnavailable"} == {"Ready": "True", **pressures}
    assert condition(found, "Ready")["lastTransitionTime"]
    assert not found["spec"].get("taints")


def test_a_kubelet_keeps_a_lease_that_its_node_owns(space: Space, nodes: list[str]) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    until("they have leases", lambda: set(nodes) <= set(names(space.api.get(leases)["items"])))
    owners = until("it is owned", lambda: space.api.get(f"{leases}/{nodes[0]}")["metadata"].get("ownerReferences"))
    assert [(each["kind"], each["name"]) for each in owners] == [("Node", nodes[0])]
    assert space.api.get(f"{leases}/{nodes[0]}")["spec"]["renewTime"]


def test_a_cordoned_node_is_tainted_and_gets_no_new_pods(space: Space, nodes: list[str]) -> None:
    closed, *others = nodes
    space.runs(pod("before", nodeSelector=on(closed)))
    with space.cordoned(closed):
        taints = node(space, closed)["spec"]["taints"]
        assert [(taint["key"], taint["effect"]) for taint in taints] == [(UNSCHEDULABLE, "NoSchedule")]
        space.shunned(closed)
        space.create(pod("refused", nodeSelector=on(closed)))
        assert "1 node(s) were unschedulable" in space.refused("refused")
        space.create(pod("elsewhere"))
        assert space.bound("elsewhere") in others
        space.ready("before")
    assert not is_tainted(node(space, closed), UNSCHEDULABLE)
    assert space.bound("refused") == closed  # the scheduler hears of it


def test_a_cordoned_node_takes_pods_that_tolerate_it(space: Space, nodes: list[str]) -> None:
    with space.cordoned(nodes[0]):
        tolerations = [{"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}]
        space.create(pod("tolerant", nodeSelector=on(nodes[0]), tolerations=tolerations))
        assert space.bound("tolerant") == nodes[0]


def test_a_label_on_a_node_lets_pods_in(space: Space, nodes: list[str]) -> None:
    space.create(pod("choosy", nodeSelector={"contract.test/disk": "fast"}))
    space.refused("choosy")
    path = f"/api/v1/nodes/{nodes[1]}"
    space.api.patch(path, {"metadata": {"labels": {"contract.test/disk": "fast"}}})
    assert space.bound("choosy") == nodes[1]
    space.api.patch(path, {"metadata": {"labels": {"contract.test/disk": None}}})
    space.ready("choosy")  # those who are there stay


def test_a_taint_that_does_not_execute_leaves_running_pods_alone(space: Space, nodes: list[str]) -> None:
    space.runs(pod("resident", nodeSelector=on(nodes[0])))
    path = f"/api/v1/nodes/{nodes[0]}"
    space.api.patch(path, {"spec": {"taints": [{"key": "contract.test/full", "effect": "NoSchedule"}]}})
    try:
        space.shunned(nodes[0])
        space.create(pod("newcomer", nodeSelector=on(nodes[0])))
        assert "untolerated taint" in space.refused("newcomer")
        space.ready("resident")
    finally:
        space.api.patch(path, {"spec": {"taints": None}})
    assert space.bound("newcomer") == nodes[0]


def test_a_taint_that_executes_evicts_who_does_not_tolerate_it(space: Space, nodes: list[str]) -> None:
    tolerations = [{"key": "contract.test/fire", "operator": "Exists"}]
    space.runs(pod("brave", nodeSelector=on(nodes[0]), tolerations=tolerations))
    space.runs(pod("timid", nodeSelector=on(nodes[0])))
    path = f"/api/v1/nodes/{nodes[0]}"
    space.api.patch(path, {"spec": {"taints": [{"key": "contract.test/fire", "effect": "NoExecute"}]}})
    try:
        space.gone("Pod", "timid")
        space.ready("brave")
    finally:
        space.api.patch(path, {"spec": {"taints": None}})


def test_a_new_node_gets_waiting_pods(space: Space, nodes: list[str]) -> None:
    space.create(pod("large", cpu="8"))
    space.reaches("Pod", "large", "fits on none of the four", is_too_large)  # once the last test's taint is forgotten
    (new,) = space.cluster.add_nodes(1, NodeShape(cpu="16"), prefix="large")
    try:
        assert space.bound("large") == new
        space.delete("Pod", "large", gracePeriodSeconds=0)
    finally:
        space.cluster.remove_nodes([new])


def is_too_large(found: Json) -> bool:
    return "4 Insufficient cpu" in condition(found, "PodScheduled").get("message", "")


def test_pods_of_a_node_that_is_gone_are_collected_and_replaced(bereft: Space, nodes: list[str]) -> None:
    def collected() -> bool:
        return bereft.find("Pod", "bare") is None

    until("the bare pod is collected", collected, seconds=SECONDS_UNTIL_COLLECTED)
    (waiting,) = bereft.exactly("web", 1, "Pending")  # its own is gone too, and the new one's selector finds no node
    assert "nodeName" not in waiting["spec"]
