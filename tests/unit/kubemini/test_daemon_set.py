"""DaemonSets of the embedded cluster: which nodes have a pod, which pods are replaced, and what the status says."""

import asyncio

from kubemini.api import Api, NoAdmission, Review
from kubemini.controllers.daemon_set import DaemonSetController
from kubemini.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD
from kubemini.refusals import Json, forbidden
from kubemini.store import Key
from tests.unit.kubemini.controllers_at_work import Cluster, at_work
from tests.unit.kubemini.daemon_words import HASH, body, nodes, started, status, taint, target


@at_work(DaemonSetController)
async def test_every_node_gets_a_pod_like_the_real_one_makes_them(cluster: Cluster) -> None:
    await started(cluster)
    assert nodes(cluster) == ["n0", "n1", "n2"]
    pod = cluster.all(POD)[0]
    assert pod["metadata"]["generateName"] == "agent-"
    (reference,) = pod["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["controller"], reference["blockOwnerDeletion"]) == ("DaemonSet", True, True)
    (revision,) = cluster.all(CONTROLLER_REVISION)
    assert pod["metadata"]["labels"][HASH] == revision["metadata"]["labels"][HASH]
    assert revision["metadata"]["name"] == f"agent-{revision['metadata']['labels'][HASH]}"
    assert revision["revision"] == 1
    assert revision["data"]["spec"]["template"]["$patch"] == "replace"
    tolerated = {
        (each["key"].removeprefix("node.kubernetes.io/"), each["effect"]) for each in pod["spec"]["tolerations"]
    }
    assert tolerated == {
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    }
    assert status(cluster) == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    }


@at_work(DaemonSetController)
async def test_a_pod_on_the_hosts_network_tolerates_that_there_is_no_other(cluster: Cluster) -> None:
    await started(cluster, 1, pod={"hostNetwork": True})
    keys = [each["key"] for each in cluster.all(POD)[0]["spec"]["tolerations"]]
    assert "node.kubernetes.io/network-unavailable" in keys


@at_work(DaemonSetController)
async def test_it_follows_nodes_that_come_and_go(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1)
    await cluster.node("new")
    await scheduler.settled()
    assert nodes(cluster) == ["n0", "new"]
    await cluster.delete(NODE, "new")
    await scheduler.settled()
    assert status(cluster)["desiredNumberScheduled"] == 1
    lost = next(pod for pod in cluster.all(POD) if target(pod) == "new")
    await cluster.delete(POD, lost["metadata"]["name"], grace=0)
    await scheduler.settled()
    assert nodes(cluster) == ["n0"]


@at_work(DaemonSetController)
async def test_a_pod_that_waits_for_a_node_that_is_gone_is_deleted(cluster: Cluster) -> None:
    await cluster.node("gone")
    await cluster.make(DAEMON_SET, "agent", body())
    await cluster.settled()
    assert nodes(cluster) == ["gone"]
    await cluster.delete(NODE, "gone")
    await cluster.settled()
    assert nodes(cluster) == []


@at_work(DaemonSetController)
async def test_labels_and_affinity_say_which_nodes(cluster: Cluster) -> None:
    scheduler = await started(cluster, 3, pod={"nodeSelector": {"zone": "z1"}})
    assert nodes(cluster) == ["n1"]
    await cluster.edit(NODE, "n0", lambda node: node["metadata"]["labels"].update(zone="z1"))
    await scheduler.settled()
    assert nodes(cluster) == ["n0", "n1"]
    await cluster.edit(NODE, "n1", lambda node: node["metadata"]["labels"].update(zone="elsewhere"))
    await scheduler.settled()
    assert nodes(cluster) == ["n0"]


@at_work(DaemonSetController)
async def test_required_affinity_of_the_template_counts_and_preferred_stays(cluster: Cluster) -> None:
    rule = {"key": "zone", "operator": "NotIn", "values": ["z0"]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [rule]}}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]},
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    await started(cluster, 3, pod={"affinity": {"nodeAffinity": affinity}})
    assert nodes(cluster) == ["n1", "n2"]
    made = cluster.all(POD)[0]["spec"]["affinity"]["nodeAffinity"]
    assert made["preferredDuringSchedulingIgnoredDuringExecution"] == preferred


@at_work(DaemonSetController)
async def test_taints_keep_it_away_and_drive_it_off(cluster: Cluster) -> None:
    scheduler = await started(cluster, 2)
    for effect, left, misplaced in (("NoSchedule", ["n0", "n1"], 1), ("NoExecute", ["n1"], 0)):
        await taint(cluster, "n0", effect)
        await scheduler.settled()
        assert nodes(cluster) == left
        assert status(cluster)["desiredNumberScheduled"] == 1
        assert status(cluster)["numberMisscheduled"] == misplaced
    await cluster.edit(NODE, "n0", lambda node: node["spec"].pop("taints"))
    await scheduler.settled()
    assert nodes(cluster) == ["n0", "n1"]


@at_work(DaemonSetController)
async def test_what_nodes_suffer_from_does_not_matter(cluster: Cluster) -> None:
    prefix = "node.kubernetes.io/"
    suffering = [
        *({"key": prefix + key, "effect": "NoExecute"} for key in ("not-ready", "unreachable")),
        *({"key": prefix + key, "effect": "NoSchedule"} for key in ("unschedulable", "disk-pressure")),
    ]
    await cluster.node("sick", unschedulable=True, taints=suffering)
    await cluster.make(DAEMON_SET, "agent", body())
    await cluster.settled()
    assert nodes(cluster) == ["sick"]


@at_work(DaemonSetController)
async def test_a_pod_that_failed_is_replaced_ever_more_slowly(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1)
    scheduler.starts = False

    async def fail() -> str:
        (pod,) = cluster.all(POD)
        name: str = pod["metadata"]["name"]
        await cluster.runs(name, ready="False", phase="Failed")
        await scheduler.settled()
        return name

    first = await fail()
    assert cluster.find(POD, first) is None
    assert "FailedDaemonPod" in cluster.events("agent")
    second = await fail()
    assert cluster.find(POD, second) is not None
    await asyncio.sleep(1.1)
    await scheduler.settled()
    assert cluster.find(POD, second) is None
    third = await fail()
    await asyncio.sleep(1.1)
    await scheduler.settled()
    assert cluster.find(POD, third) is not None
    await asyncio.sleep(1.1)
    await scheduler.settled()
    assert cluster.find(POD, third) is None


@at_work(DaemonSetController)
async def test_a_pod_that_has_ended_well_is_replaced_too(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1)
    (pod,) = cluster.all(POD)
    await cluster.runs(pod["metadata"]["name"], ready="False", phase="Succeeded")
    await scheduler.settled()
    (new,) = cluster.all(POD)
    assert new["metadata"]["uid"] != pod["metadata"]["uid"]


@at_work(DaemonSetController)
async def test_a_second_pod_on_a_node_goes_and_orphans_are_adopted(cluster: Cluster) -> None:
    scheduler = await started(cluster, 2)
    (kept,) = [pod for pod in cluster.all(POD) if target(pod) == "n0"]
    await asyncio.sleep(10)
    twin = {"metadata": {"labels": kept["metadata"]["labels"]}, "spec": kept["spec"]}
    await cluster.make(POD, "twin", twin)
    await scheduler.settled()
    assert cluster.find(POD, "twin") is None
    assert cluster.find(POD, kept["metadata"]["name"]) is not None


@at_work(DaemonSetController)
async def test_a_daemon_set_that_is_being_deleted_makes_nothing(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1)
    await cluster.edit(DAEMON_SET, "agent", lambda found: found["metadata"].update(finalizers=["test.io/held"]))
    await cluster.delete(DAEMON_SET, "agent")
    await cluster.node("late")
    await scheduler.settled()
    assert nodes(cluster) == ["n0"]


@at_work(DaemonSetController)
async def test_a_pod_counts_as_available_when_it_has_been_ready_for_long_enough(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1, minReadySeconds=30)
    assert (status(cluster)["numberReady"], status(cluster).get("numberAvailable")) == (1, None)
    await asyncio.sleep(31)
    await scheduler.settled()
    assert status(cluster)["numberAvailable"] == 1


class Counted(DaemonSetController):
    """Counts how often it is asked to look."""

    looks = 0

    async def reconcile(self, key: Key) -> float | None:
        Counted.looks += 1
        return await super().reconcile(key)


@at_work(Counted)
async def test_a_nodes_heartbeat_is_nothing_new(cluster: Cluster) -> None:
    await started(cluster, 2)
    looks = Counted.looks
    await asyncio.sleep(10)
    await cluster.heartbeat("n0")
    await cluster.settled()
    assert Counted.looks == looks


class Full(NoAdmission):
    """Has room for so many pods."""

    room = 2

    async def admit(self, review: Review) -> Json:
        if review.operation == "CREATE" and review.target.kind == POD:
            if not self.room:
                raise forbidden(POD, "", "exceeded quota")
            self.room -= 1
        return review.body


def on_full_cluster(api: Api) -> DaemonSetController:
    api.admission = Full()
    return DaemonSetController(api)


@at_work(on_full_cluster)
async def test_pods_that_are_refused_are_told_of_and_tried_again(cluster: Cluster) -> None:
    for number in range(4):
        await cluster.node(f"n{number}")
    await cluster.make(DAEMON_SET, "agent", body())
    await cluster.settled()
    assert len(nodes(cluster)) == 2
    assert status(cluster)["currentNumberScheduled"] == 2
    assert "FailedCreate" in cluster.events("agent")
    assert isinstance(cluster.api.admission, Full)
    cluster.api.admission.room = 10
    await cluster.until(lambda: len(nodes(cluster)) == 4)
