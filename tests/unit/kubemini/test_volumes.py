"""Claims and volumes of the embedded cluster: who is bound to whom, what is made, and what becomes of what is left."""

from typing import Any

from kubemini.controllers.volume_matching import PROVISIONER
from kubemini.controllers.volumes import VolumeController
from kubemini.kinds import CLAIM, NODE, STORAGE_CLASS, VOLUME
from kubemini.refusals import Json
from rescheduler.model.marks import SELECTED_NODE
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work

ZONE = "topology.kubernetes.io/zone"


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


def on(key: str, *values: str) -> Json:
    rule = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}


@at_work(VolumeController)
async def test_a_claim_gets_the_smallest_volume_that_suits_it(cluster: Cluster) -> None:
    await volume(cluster, "small", "500Mi")
    await volume(cluster, "large", "5Gi")
    await volume(cluster, "fits", "2Gi")
    await volume(cluster, "of-another-class", "1Gi", storageClassName="fast")
    await volume(cluster, "of-another-mode", "1Gi", accessModes=["ReadOnlyMany"])
    await volume(cluster, "a-device", "1Gi", volumeMode="Block")
    await claim(cluster, "data")
    found = cluster.get(CLAIM, "data")
    assert found["spec"]["volumeName"] == "fits"
    assert found["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    taken = cluster.get(VOLUME, "fits")
    assert taken["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    assert taken["status"]["phase"] == "Bound"
    assert phases(cluster)["large"] == "Available"


@at_work(VolumeController)
async def test_a_claim_waits_for_a_volume_and_gets_one_that_comes_later(cluster: Cluster) -> None:
    await claim(cluster, "data", storageClassName="")
    assert phases(cluster) == {"data": "Pending"}
    assert cluster.events("data") == ["FailedBinding"]
    await volume(cluster, "late", storageClassName="")
    await cluster.settled()
    assert phases(cluster) == {"late": "Bound", "data": "Bound"}


@at_work(VolumeController)
async def test_two_claims_never_get_the_same_volume(cluster: Cluster) -> None:
    await volume(cluster, "only")
    await claim(cluster, "one")
    await claim(cluster, "two")
    assert phases(cluster) == {"only": "Bound", "one": "Bound", "two": "Pending"}


@at_work(VolumeController)
async def test_labels_select_volumes(cluster: Cluster) -> None:
    await volume(cluster, "plain")
    await cluster.make(
        VOLUME,
        "labelled",
        {
            "metadata": {"labels": {"disk": "ssd"}},
            "spec": (await volume(cluster, "twin", "9Gi"))["spec"],
        },
    )
    await claim(cluster, "data", selector={"matchLabels": {"disk": "ssd"}})
    assert bound_to(cluster, "data") == "labelled"


@at_work(VolumeController)
async def test_a_volume_may_be_kept_for_a_claim_and_a_claim_may_name_its_volume(cluster: Cluster) -> None:
    await volume(cluster, "kept", "9Gi", claimRef={"namespace": SPACE, "name": "special"})
    await volume(cluster, "named", "8Gi")
    await claim(cluster, "other", "8Gi", volumeName="named")
    await claim(cluster, "special")
    assert (bound_to(cluster, "special"), bound_to(cluster, "other")) == ("kept", "named")
    assert set(phases(cluster).values()) == {"Bound"}


@at_work(VolumeController)
async def test_a_volume_that_is_asked_for_but_does_not_suit_is_not_bound(cluster: Cluster) -> None:
    await volume(cluster, "small", "1Gi")
    await claim(cluster, "data", "2Gi", volumeName="small")
    assert phases(cluster) == {"small": "Available", "data": "Pending"}


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
async def test_a_class_that_comes_later_serves_claims_that_wait_for_it(cluster: Cluster) -> None:
    await claim(cluster, "data", storageClassName="fast")
    assert cluster.events("data") == ["ProvisioningFailed"]
    await storage_class(cluster, "fast")
    await cluster.settled()
    assert phases(cluster)["data"] == "Bound"


@at_work(VolumeController)
async def test_claims_of_other_provisioners_wait_for_them(cluster: Cluster) -> None:
    await storage_class(cluster, "cloud", "disks.example.com")
    await claim(cluster, "data", storageClassName="cloud")
    assert phases(cluster) == {"data": "Pending"}
    assert cluster.events("data") == ["ExternalProvisioning"]


@at_work(VolumeController)
async def test_a_delayed_claim_waits_for_its_first_pods_node(cluster: Cluster) -> None:
    await storage_class(
        cluster,
        "local",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}],
    )
    await cluster.make(NODE, "n", {"metadata": {"labels": {ZONE: "b"}}})
    await claim(cluster, "data", storageClassName="local")
    assert phases(cluster) == {"data": "Pending"}
    assert cluster.events("data") == ["WaitForFirstConsumer"]
    await cluster.edit(CLAIM, "data", lambda body: body["metadata"].update(annotations={SELECTED_NODE: "n"}))
    await cluster.settled()
    (found,) = cluster.all(VOLUME)
    assert found["spec"]["nodeAffinity"] == on(ZONE, "b")
    assert phases(cluster)["data"] == "Bound"


@at_work(VolumeController)
async def test_a_delayed_claim_takes_a_volume_that_its_node_can_have(cluster: Cluster) -> None:
    await storage_class(cluster, "local", "kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")
    await cluster.make(NODE, "n", {"metadata": {"labels": {ZONE: "b"}}})
    await volume(cluster, "over-there", storageClassName="local", nodeAffinity=on(ZONE, "a"))
    await volume(cluster, "here", "7Gi", storageClassName="local", nodeAffinity=on(ZONE, "b"))
    await claim(cluster, "data", storageClassName="local")
    assert phases(cluster)["data"] == "Pending"
    await cluster.edit(CLAIM, "data", lambda body: body["metadata"].update(annotations={SELECTED_NODE: "n"}))
    await cluster.settled()
    assert bound_to(cluster, "data") == "here"


@at_work(VolumeController)
async def test_a_delayed_claim_is_bound_to_what_the_scheduler_has_kept_for_it(cluster: Cluster) -> None:
    await storage_class(cluster, "local", "kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")
    made = await claim(cluster, "data", storageClassName="local")
    await volume(cluster, "chosen", storageClassName="local")
    await cluster.settled()
    assert phases(cluster) == {"chosen": "Available", "data": "Pending"}
    kept = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": SPACE, "name": "data"}
    await cluster.edit(
        VOLUME, "chosen", lambda body: body["spec"].update(claimRef=kept | {"uid": made["metadata"]["uid"]})
    )
    await cluster.settled()
    assert phases(cluster) == {"chosen": "Bound", "data": "Bound"}


@at_work(VolumeController)
async def test_a_volume_that_is_to_be_kept_is_released_and_bound_to_nobody_else(cluster: Cluster) -> None:
    await volume(cluster, "disk")
    await claim(cluster, "data")
    await cluster.delete(CLAIM, "data")
    await cluster.settled()
    assert phases(cluster) == {"disk": "Released"}
    await claim(cluster, "data")
    assert phases(cluster) == {"disk": "Released", "data": "Pending"}


@at_work(VolumeController)
async def test_a_claim_whose_volume_is_gone_is_lost(cluster: Cluster) -> None:
    await volume(cluster, "disk")
    await claim(cluster, "data")
    await cluster.delete(VOLUME, "disk")
    await cluster.settled()
    assert phases(cluster) == {"data": "Lost"}
    assert cluster.events("data") == ["ClaimLost"]
