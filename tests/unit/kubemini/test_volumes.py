"""Claims and volumes of the embedded cluster: who is bound to whom, what is made, and what becomes of what is left."""

from typing import Any

from kubemini.controllers.volumes import PROVISIONER, VolumeController
from kubemini.kinds import CLAIM, STORAGE_CLASS, VOLUME
from kubemini.refusals import Json
from rescheduler.model.marks import SELECTED_NODE
from tests.support.workloads import SPACE
from tests.unit.kubemini.controllers_at_work import Cluster, at_work


async def volume(cluster: Cluster, name: str, size: str = "1Gi", **spec: Any) -> Json:
    given = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "disks.example.com", "volumeHandle": name},
    }
    return await cluster.make(VOLUME, name, {"spec": given | spec})


async def claim(cluster: Cluster, name: str, size: str = "1Gi", **spec: Any) -> Json:
    given = {
        "resources": {"requests": {"storage": size}},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
    }
    made = await cluster.make(CLAIM, name, {"spec": given | spec})
    await cluster.settled()
    return made


async def storage_class(cluster: Cluster, name: str, provisioner: str = PROVISIONER, **fields: Any) -> None:
    await cluster.make(STORAGE_CLASS, name, {"provisioner": provisioner} | fields)


def phases(cluster: Cluster) -> dict[str, str]:
    found = [*cluster.all(VOLUME), *cluster.all(CLAIM)]
    return {each["metadata"]["name"]: each["status"]["phase"] for each in found}


def bound_to(cluster: Cluster, name: str) -> str:
    found: str = cluster.get(CLAIM, name)["spec"].get("volumeName", "")
    return found


@at_work(VolumeController)
async def test_a_volume_is_made_where_the_class_is_ours(cluster: Cluster) -> None:
    await storage_class(cluster, "fast")
    made = await claim(cluster, "data", "3Gi", storageClassName="fast")
    (found,) = cluster.all(VOLUME)
    assert found["metadata"]["name"] == f"pvc-{made['metadata']['uid']}" == bound_to(cluster, "data")
    assert found["spec"]["capacity"] == {"storage": "3Gi"}
    assert found["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert set(phases(cluster).values()) == {"Bound"}
    await cluster.delete(CLAIM, "data")
    await cluster.settled()
    assert cluster.all(VOLUME) == []


@at_work(VolumeController)
async def test_a_delayed_claim_waits_for_the_node_of_its_first_pod(cluster: Cluster) -> None:
    await storage_class(cluster, "fast", volumeBindingMode="WaitForFirstConsumer")
    await claim(cluster, "data", storageClassName="fast")
    assert phases(cluster) == {"data": "Pending"}
    await cluster.edit(CLAIM, "data", lambda body: body["metadata"].update(annotations={SELECTED_NODE: "n"}))
    await cluster.settled()
    assert bound_to(cluster, "data")
    assert set(phases(cluster).values()) == {"Bound"}


@at_work(VolumeController)
async def test_a_claim_takes_the_volume_that_names_it_or_that_it_names(cluster: Cluster) -> None:
    await volume(cluster, "free")
    await volume(cluster, "reserved", claimRef={"namespace": SPACE, "name": "data"})
    await claim(cluster, "data")
    await claim(cluster, "other")
    await claim(cluster, "choosy", volumeName="free")
    assert [bound_to(cluster, name) for name in ("data", "other", "choosy")] == ["reserved", "", "free"]
    assert phases(cluster)["other"] == "Pending"
