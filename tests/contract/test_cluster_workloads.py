"""StatefulSets, DaemonSets and Jobs: how their pods come, go and come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, condition, name_of, names
from tests.support.manifests import daemon_set, job, simulated, stateful_set
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import until


def ready_replicas(space: Space, count: int) -> Json:
    return space.reaches("StatefulSet", "db", f"has {count} ready", lambda found: counts(found) == (count, count))


def counts(found: Json) -> tuple[int, int]:
    status = found.get("status", {})
    return int(status.get("replicas", 0)), int(status.get("readyReplicas", 0))


def added(space: Space, since: str, count: int) -> list[str]:
    """The names of pods in the order in which they came."""
    came: list[str] = []

    def enough(event: Json) -> bool:
        if event["type"] == "ADDED":
            came.append(name_of(event["object"]))
        return len(came) == count

    space.events("Pod", since, enough)
    return came


def test_a_stateful_set_starts_its_pods_in_order_each_after_the_other_is_ready(space: Space, nodes: list[str]) -> None:
    since = space.version("Pod")
    space.create(stateful_set("db", 3))
    ready_replicas(space, 3)
    assert added(space, since, 3) == ["db-0", "db-1", "db-2"]
    born = {name: space.get("Pod", name) for name in ("db-0", "db-1", "db-2")}
    for earlier, later in (("db-0", "db-1"), ("db-1", "db-2")):
        assert condition(born[earlier], "Ready")["lastTransitionTime"] <= born[later]["metadata"]["creationTimestamp"]
    assert born["db-1"]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert born["db-1"]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert born["db-1"]["spec"]["hostname"] == "db-1"
    (owner,) = born["db-1"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("StatefulSet", "db", True)


def test_a_stateful_set_waits_for_a_pod_that_is_not_ready(space: Space, nodes: list[str]) -> None:
    space.create(simulated(stateful_set("db", 2), starts_in="600"))
    space.bound("db-0")
    space.reaches("StatefulSet", "db", "is observed", lambda found: counts(found) == (1, 0))
    assert names(space.list("Pod")) == ["db-0"]


def test_in_parallel_it_does_not_wait(space: Space, nodes: list[str]) -> None:
    space.create(simulated(stateful_set("db", 3, podManagementPolicy="Parallel"), starts_in="600"))
    space.exactly("db", 3)


def test_it_is_scaled_down_from_the_last(space: Space, nodes: list[str]) -> None:
    space.create(stateful_set("db", 3))
    ready_replicas(space, 3)
    space.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    assert names(space.exactly("db", 1)) == ["db-0"]


def test_an_evicted_pod_comes_back_under_its_name_only_after_it_is_gone(space: Space, nodes: list[str]) -> None:
    space.create(stateful_set("db", 2))
    ready_replicas(space, 2)
    old, since = space.get("Pod", "db-0"), space.version("Pod")
    space.evict("db-0")
    seen = space.events("Pod", since, lambda event: event["type"] == "ADDED")
    (deleted,) = [event["object"] for event in seen if event["type"] == "DELETED"]
    assert deleted["metadata"]["uid"] == old["metadata"]["uid"]
    assert name_of(seen[-1]["object"]) == "db-0"
    assert seen[-1]["object"]["metadata"]["uid"] != old["metadata"]["uid"]
    ready_replicas(space, 2)


def test_each_of_its_pods_has_a_claim_that_outlives_it(space: Space, nodes: list[str]) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    space.create(stateful_set("db", 1, volumeClaimTemplates=[claim]))
    found = space.reaches("PersistentVolumeClaim", "data-db-0", "is there", lambda found: True)
    assert found["metadata"]["labels"]["app"] == "db"
    pod = space.reaches("Pod", "db-0", "is there", lambda found: True)
    volume = next(each for each in pod["spec"]["volumes"] if each["name"] == "data")
    assert volume["persistentVolumeClaim"]["claimName"] == "data-db-0"
    space.delete("Pod", "db-0", gracePeriodSeconds=0)
    again = space.reaches("Pod", "db-0", "is back", lambda back: back["metadata"]["uid"] != pod["metadata"]["uid"])
    assert any(each.get("persistentVolumeClaim") for each in again["spec"]["volumes"])
    assert space.get("PersistentVolumeClaim", "data-db-0")["metadata"]["uid"] == found["metadata"]["uid"]
    space.delete("StatefulSet", "db")
    space.gone("Pod", "db-0")
    assert space.get("PersistentVolumeClaim", "data-db-0")["metadata"]["uid"] == found["metadata"]["uid"]


def test_a_new_template_replaces_its_pods_from_the_last(space: Space, nodes: list[str]) -> None:
    space.create(stateful_set("db", 2))
    ready_replicas(space, 2)
    since = space.version("Pod")
    change = {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}}
    space.patch("StatefulSet", "db", change)
    assert added(space, since, 2) == ["db-1", "db-0"]
    done = ready_replicas(space, 2)
    space.reaches("StatefulSet", "db", "is at its new revision", lambda found: len(set(revisions(found))) == 1)
    assert done["status"]["observedGeneration"] == 2


def revisions(found: Json) -> tuple[str, str]:
    return found["status"]["currentRevision"], found["status"]["updateRevision"]


@pytest.mark.parametrize("made", [stateful_set("db", 1), daemon_set("db")], ids=lambda made: str(made["kind"]))
def test_an_old_revision_is_a_patch_that_brings_its_template_back(space: Space, nodes: list[str], made: Json) -> None:
    def numbers() -> dict[str, int]:
        return {name_of(each): each["revision"] for each in space.list("ControllerRevision")}

    before = space.create(made)["spec"]["template"]
    (first,) = until("it has a revision", numbers)
    space.patch(made["kind"], "db", {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}})
    until("it has two revisions", lambda: sorted(numbers().values()) == [1, 2])
    undo = space.get("ControllerRevision", first)["data"]  # as `kubectl rollout undo` does
    assert space.patch(made["kind"], "db", undo, "strategic")["spec"]["template"] == before
    until("it is the newest again", lambda: numbers()[first] == 3)


@pytest.fixture
def tainted(cluster: ClusterUnderTest) -> Iterator[str]:
    """A node that few tolerate."""
    taint = {"key": "contract.test/special", "effect": "NoSchedule"}
    (name,) = cluster.add_nodes(1, NodeShape(taints=[taint]), prefix="tainted")
    yield name
    cluster.remove_nodes([name])


def nodes_of(space: Space, app: str) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in space.pods(app) if "nodeName" in pod["spec"]}


def test_a_daemon_set_has_a_pod_on_every_node_that_it_tolerates(space: Space, nodes: list[str], tainted: str) -> None:
    space.create(daemon_set("agent"))
    tolerant = daemon_set("tolerant")
    tolerant["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    space.create(tolerant)
    until("every open node has one", lambda: nodes_of(space, "agent") == set(nodes))
    until("every node has one", lambda: nodes_of(space, "tolerant") == {*nodes, tainted})
    found = space.reaches("DaemonSet", "tolerant", "is ready", lambda found: found["status"].get("numberReady") == 5)
    numbers = ("desiredNumberScheduled", "currentNumberScheduled", "numberAvailable")
    assert [found["status"][each] for each in numbers] == [5, 5, 5]
    space.reaches("DaemonSet", "agent", "wants four", lambda found: found["status"].get("desiredNumberScheduled") == 4)


def test_a_daemon_set_follows_new_nodes(space: Space, nodes: list[str]) -> None:
    space.create(daemon_set("agent"))
    until("every node has one", lambda: nodes_of(space, "agent") == set(nodes))
    (new,) = space.cluster.add_nodes(1, prefix="new")
    try:
        until("the new node has one", lambda: nodes_of(space, "agent") == {*nodes, new})
    finally:
        space.cluster.remove_nodes([new])


def test_a_daemon_pod_is_bound_to_its_node_and_tolerates_what_ails_it(space: Space, nodes: list[str]) -> None:
    space.create(daemon_set("agent"))
    found = space.exactly("agent", 4)[0]
    term = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (field,) = term["nodeSelectorTerms"][0]["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    assert space.bound(name_of(found)) == field["values"][0]
    tolerated = {each["key"] for each in found["spec"]["tolerations"]}
    assert {"node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"} <= tolerated


def test_a_daemon_pod_comes_back_to_a_cordoned_node(space: Space, nodes: list[str]) -> None:
    space.create(daemon_set("agent"))
    until("every node has one", lambda: nodes_of(space, "agent") == set(nodes))
    with space.cordoned(nodes[0]):
        (victim,) = [pod for pod in space.pods("agent") if pod["spec"].get("nodeName") == nodes[0]]
        space.delete("Pod", name_of(victim), gracePeriodSeconds=0)
        until("it is back", lambda: nodes_of(space, "agent") == set(nodes))


def test_a_job_runs_until_it_has_its_completions(space: Space, nodes: list[str]) -> None:
    space.create(simulated(job("batch", completions=3, parallelism=2), completes_in="0"))
    done = space.reaches("Job", "batch", "is complete", lambda found: condition(found, "Complete"))
    assert condition(done, "Complete")["status"] == "True"
    assert done["status"]["succeeded"] == 3
    assert done["status"]["completionTime"] >= done["status"]["startTime"]
    assert {pod["status"]["phase"] for pod in space.pods("batch")} == {"Succeeded"}
    for pod in space.pods("batch"):
        assert pod["metadata"]["labels"]["job-name"] == "batch"
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"


def test_a_job_counts_a_deleted_pod_as_failed_and_replaces_it(space: Space, nodes: list[str]) -> None:
    space.create(simulated(job("batch"), completes_in="600"))
    (first,) = space.exactly("batch", 1, "Running")
    space.delete("Pod", name_of(first))
    space.reaches("Job", "batch", "has a failure", lambda found: found["status"].get("failed") == 1)
    (second,) = space.exactly("batch", 1, "Running")
    assert name_of(second) != name_of(first)


def test_a_job_gives_up_after_its_backoff_limit(space: Space, nodes: list[str]) -> None:
    space.create(simulated(job("batch", backoffLimit=0), completes_in="600"))
    (only,) = space.exactly("batch", 1, "Running")
    space.patch_status("Pod", name_of(only), {"phase": "Failed"})
    failed = space.reaches("Job", "batch", "has failed", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "BackoffLimitExceeded"
    assert failed["status"]["failed"] == 1
