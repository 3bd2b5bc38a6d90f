"""Claims and volumes of the embedded cluster: a claim is bound at once, and what was made for it goes with it."""

from kubemini.controllers.volumes import VolumeController
from kubemini.errors import Json
from kubemini.kinds import CLAIM, VOLUME
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work


async def claim(cluster: Cluster, name: str, volume: str = "") -> Json:
    spec: Json = {"resources": {"requests": {"storage": "3Gi"}}, "accessModes": ["ReadWriteOnce"]}
    made = await cluster.make(CLAIM, name, {"spec": spec | ({"volumeName": volume} if volume else {})})
    await cluster.settled()
    return made


@at_work(VolumeController)
async def test_a_volume_is_made_for_a_claim_and_goes_with_it(cluster: Cluster) -> None:
    made = await claim(cluster, "data")
    (found,) = cluster.all(VOLUME)
    bound = cluster.get(CLAIM, "data")
    assert found["metadata"]["name"] == f"pvc-{made['metadata']['uid']}" == bound["spec"]["volumeName"]
    assert found["spec"]["capacity"] == bound["status"]["capacity"] == {"storage": "3Gi"}
    assert (found["status"]["phase"], bound["status"]["phase"]) == ("Bound", "Bound")
    await cluster.delete(CLAIM, "data")
    await cluster.settled()
    assert cluster.all(VOLUME) == []


@at_work(VolumeController)
async def test_a_claim_takes_the_volume_that_it_names(cluster: Cluster) -> None:
    reserved = {"capacity": {"storage": "9Gi"}, "claimRef": {"namespace": SPACE, "name": "choosy"}}
    await cluster.make(VOLUME, "disk", {"spec": reserved})
    await claim(cluster, "choosy", "disk")
    assert cluster.get(CLAIM, "choosy")["status"] == {"phase": "Bound", "capacity": {"storage": "9Gi"}}
    await cluster.delete(CLAIM, "choosy")
    await cluster.settled()
    assert len(cluster.all(VOLUME)) == 1
