"""Whom a ReplicaSet takes in, lets go and deletes first: what handoffs and their undoing rest on."""

from __future__ import annotations

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Items, Space, is_ready, name_of, names
from tests.support.manifests import GATE, deployment, lease, on, pod, replica_set
from tests.testbed.processes import until

COST = "controller.kubernetes.io/pod-deletion-cost"
IN_SERVICE = "contract.test/in-service"


def owners(found: Json) -> list[str]:
    return [owner["name"] for owner in found["metadata"].get("ownerReferences", ())]


def available(space: Space, replicas: int) -> Items:
    """The pods of the ReplicaSet `set`, once so many are available and no more are there."""

    def settled() -> Items | None:
        status, found = space.get("ReplicaSet", "set").get("status", {}), space.pods("set")
        counts = [status.get("availableReplicas", 0), status.get("replicas", 0), len(found)]
        return found if counts == [replicas] * 3 and all(map(is_ready, found)) else None

    return until(f"ReplicaSet set has {replicas} available", settled)


def scale(space: Space, replicas: int) -> None:
    space.patch("ReplicaSet", "set", {"spec": {"replicas": replicas}})


def left(space: Space, count: int) -> set[str]:
    """Who is there when only so many are left."""
    return set(names(space.exactly("set", count)))


def test_the_pods_of_a_replica_set_carry_its_labels_and_name_it_as_controller(space: Space, nodes: list[str]) -> None:
    made = space.create(replica_set("set", 2))
    for found in available(space, 2):
        assert name_of(found).startswith("set-")
        assert found["metadata"]["generateName"] == "set-"
        assert found["metadata"]["labels"]["app"] == "set"  # and, by newer clusters, its zone
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("ReplicaSet", made["metadata"]["uid"], True)


def test_a_deleted_pod_is_replaced_by_one_of_another_name(space: Space, nodes: list[str]) -> None:
    space.create(replica_set("set", 1))
    (first,) = available(space, 1)
    space.delete("Pod", name_of(first))
    space.gone("Pod", name_of(first))
    (second,) = available(space, 1)
    assert name_of(second) != name_of(first)


def test_a_matching_orphan_is_adopted_instead_of_a_new_pod(space: Space, nodes: list[str]) -> None:
    space.runs(pod("orphan", labels={"app": "set"}))
    space.create(replica_set("set", 2))
    assert "orphan" in names(available(space, 2))
    assert owners(space.get("Pod", "orphan")) == ["set"]


def test_a_pod_that_another_controls_is_not_adopted(space: Space, nodes: list[str]) -> None:
    other = space.create(lease("other"))
    taken = pod("taken", labels={"app": "set"})
    owner = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "other", "uid": other["metadata"]["uid"]}
    taken["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    space.runs(taken)
    space.create(replica_set("set", 1))
    space.reaches("ReplicaSet", "set", "has one", lambda found: found.get("status", {}).get("availableReplicas") == 1)
    assert len(space.pods("set")) == 2
    assert owners(space.get("Pod", "taken")) == ["other"]


def test_a_pod_that_loses_its_label_is_released_and_replaced(space: Space, nodes: list[str]) -> None:
    space.create(replica_set("set", 2))
    released = name_of(available(space, 2)[0])
    space.patch("Pod", released, {"metadata": {"labels": {"app": None}}})
    until("it has no owner", lambda: not owners(space.get("Pod", released)))
    assert released not in names(available(space, 2))
    assert space.get("Pod", released)["status"]["phase"] == "Running"


def test_a_released_pod_that_gets_its_label_back_is_adopted_and_the_newest_goes(space: Space, nodes: list[str]) -> None:
    space.create(replica_set("set", 1))
    (first,) = available(space, 1)
    space.patch("Pod", name_of(first), {"metadata": {"labels": {"app": None}}})
    (second,) = space.exactly("set", 1)
    space.ready(name_of(second))
    space.patch("Pod", name_of(second), {"metadata": {"annotations": {COST: "-1"}}})
    space.patch("Pod", name_of(first), {"metadata": {"labels": {"app": "set"}}})
    space.gone("Pod", name_of(second))
    assert names(available(space, 1)) == [name_of(first)]
    assert owners(space.get("Pod", name_of(first))) == ["set"]


@pytest.mark.parametrize("cheapest", [0, 1, 2])
def test_the_pod_of_the_lowest_deletion_cost_goes_first(space: Space, nodes: list[str], cheapest: int) -> None:
    space.create(replica_set("set", 3))
    pods = names(available(space, 3))
    for number, name in enumerate(pods):
        space.patch("Pod", name, {"metadata": {"annotations": {COST: "-7" if number == cheapest else str(number)}}})
    space.pods_known()
    scale(space, 2)
    assert left(space, 2) == set(pods) - {pods[cheapest]}


def test_a_pod_without_a_cost_costs_nothing(space: Space, nodes: list[str]) -> None:
    space.create(replica_set("set", 2))
    first, second = names(available(space, 2))
    space.patch("Pod", first, {"metadata": {"annotations": {COST: "1"}}})
    space.pods_known()
    scale(space, 1)
    assert left(space, 1) == {first}
    space.gone("Pod", second)


def test_a_pod_that_is_not_ready_goes_before_a_cheap_one(space: Space, nodes: list[str]) -> None:
    made = replica_set("set", 3)
    made["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": IN_SERVICE}]
    space.create(made)
    pods = names(space.exactly("set", 3, "Running"))
    for name in pods[:2]:
        said = [{"type": IN_SERVICE, "status": "True"}]
        space.patch_status("Pod", name, {"conditions": said}, "strategic")
        space.ready(name)
    space.patch("Pod", pods[0], {"metadata": {"annotations": {COST: "-2147483647"}}})
    until("two are ready", lambda: space.get("ReplicaSet", "set")["status"].get("readyReplicas") == 2)
    scale(space, 2)
    assert left(space, 2) == set(pods[:2])


def test_a_pod_without_a_node_goes_before_a_cheap_one(space: Space, nodes: list[str]) -> None:
    made = replica_set("set", 1)
    made["spec"]["template"]["spec"]["schedulingGates"] = [{"name": GATE}]
    space.create(made)
    (first,) = space.exactly("set", 1)
    space.patch("Pod", name_of(first), {"spec": {"schedulingGates": None}})
    space.ready(name_of(first))
    space.patch("Pod", name_of(first), {"metadata": {"annotations": {COST: "-2147483647"}}})
    scale(space, 2)
    space.exactly("set", 2)
    space.pods_known()
    scale(space, 1)
    assert left(space, 1) == {name_of(first)}


def test_of_equal_pods_of_a_deployment_those_that_share_a_node_go_first(space: Space, nodes: list[str]) -> None:
    # Of a Deployment's: the pods of its other ReplicaSets count too, and where there is none nobody counts.
    made = deployment("web", 3)
    made["spec"]["template"]["spec"]["schedulingGates"] = [{"name": GATE}]
    space.create(made)
    *shared, alone = names(space.exactly("web", 3))
    for name, node in zip((*shared, alone), (nodes[0], nodes[0], nodes[1]), strict=True):
        space.patch("Pod", name, {"spec": {"nodeSelector": on(node)}})  # a gated pod may be narrowed
        space.patch("Pod", name, {"spec": {"schedulingGates": None}})
    space.rolled_out("web")
    space.patch("Deployment", "web", {"spec": {"replicas": 2}})
    assert alone in names(space.exactly("web", 2))


def test_a_finished_pod_is_replaced(space: Space, nodes: list[str]) -> None:
    space.create(replica_set("set", 1))
    (first,) = available(space, 1)
    ended = {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}
    space.patch_status("Pod", name_of(first), ended, "strategic")
    until("another is ready", lambda: any(map(is_ready, space.pods("set"))))
    assert space.get("Pod", name_of(first))["status"]["phase"] == "Failed"


def test_the_status_counts_and_is_up_to_date(space: Space, nodes: list[str]) -> None:
    space.create(replica_set("set", 2))
    available(space, 2)
    status = space.get("ReplicaSet", "set")["status"]
    for count in ("replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas"):
        assert status[count] == 2, count
    scale(space, 3)
    space.reaches("ReplicaSet", "set", "noticed", lambda found: found["status"]["observedGeneration"] == 2)
