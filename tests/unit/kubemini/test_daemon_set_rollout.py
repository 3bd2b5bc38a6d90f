"""DaemonSets of the embedded cluster: how a new template reaches the nodes, and how one goes back."""

from kubemini.controllers.daemon_set import DaemonSetController
from kubemini.controllers.garbage import GarbageController
from kubemini.kinds import CONTROLLER_REVISION, DAEMON_SET, POD
from tests.unit.kubemini.controllers_at_work import IMAGE, Cluster, at_work
from tests.unit.kubemini.daemon_words import HASH, body, images, nodes, roll, started, status


@at_work(DaemonSetController)
async def test_a_new_template_replaces_one_pod_after_the_other(cluster: Cluster) -> None:
    scheduler = await started(cluster, 4)
    scheduler.starts = False
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    assert images(cluster) == ["hollow:1"] * 3 + ["hollow:2"]
    assert (status(cluster)["updatedNumberScheduled"], status(cluster)["numberUnavailable"]) == (1, 1)
    scheduler.starts = True
    for pod in cluster.all(POD):
        if pod["status"]["phase"] == "Pending":
            await cluster.runs(pod["metadata"]["name"])
    await scheduler.settled()
    assert images(cluster) == ["hollow:2"] * 4
    assert status(cluster)["updatedNumberScheduled"] == 4
    assert status(cluster)["observedGeneration"] == 2
    assert max(scheduler.most.values()) == 1
    first, second = sorted(cluster.all(CONTROLLER_REVISION), key=lambda each: int(each["revision"]))
    assert (first["revision"], second["revision"]) == (1, 2)


@at_work(DaemonSetController)
async def test_as_many_as_may_be_unavailable_are_replaced_at_once(cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}}
    scheduler = await started(cluster, 5, updateStrategy=rolling)
    scheduler.ends = False
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    assert len(nodes(cluster)) == 2


@at_work(DaemonSetController)
async def test_pods_that_do_not_work_are_replaced_first_and_without_limit(cluster: Cluster) -> None:
    scheduler = await started(cluster, 3)
    broken = cluster.all(POD)[:2]
    for pod in broken:
        await cluster.runs(pod["metadata"]["name"], ready="False")
    scheduler.ends = False
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    assert len(nodes(cluster)) == 1


@at_work(DaemonSetController)
async def test_with_a_surge_the_new_pod_comes_before_the_old_one_goes(cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    scheduler = await started(cluster, 3, updateStrategy=rolling)
    scheduler.starts = False
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    assert len(cluster.all(POD)) == 4
    assert status(cluster)["numberAvailable"] == 3
    scheduler.starts = True
    (new,) = [pod for pod in cluster.all(POD) if pod["status"]["phase"] == "Pending"]
    await cluster.runs(new["metadata"]["name"])
    await scheduler.settled()
    assert images(cluster) == ["hollow:2"] * 3
    assert nodes(cluster) == ["n0", "n1", "n2"]
    assert max(scheduler.most.values()) == 2


@at_work(DaemonSetController)
async def test_on_delete_old_pods_stay_until_somebody_deletes_them(cluster: Cluster) -> None:
    scheduler = await started(cluster, 2, updateStrategy={"type": "OnDelete"})
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    assert images(cluster) == ["hollow:1"] * 2
    assert "updatedNumberScheduled" not in status(cluster)
    await cluster.delete(POD, cluster.all(POD)[0]["metadata"]["name"])
    await scheduler.settled()
    assert images(cluster) == ["hollow:1", "hollow:2"]


@at_work(DaemonSetController)
async def test_going_back_to_an_old_template_takes_up_its_revision(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1)
    (first,) = cluster.all(CONTROLLER_REVISION)
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    await roll(cluster, IMAGE)
    await scheduler.settled()
    revisions = {each["metadata"]["name"]: each["revision"] for each in cluster.all(CONTROLLER_REVISION)}
    assert revisions[first["metadata"]["name"]] == 3
    assert len(revisions) == 2
    assert cluster.all(POD)[0]["metadata"]["labels"][HASH] == first["metadata"]["labels"][HASH]


@at_work(DaemonSetController)
async def test_old_revisions_beyond_the_limit_go(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1, revisionHistoryLimit=1)
    for number in range(2, 6):
        await roll(cluster, f"hollow:{number}")
        await scheduler.settled()
    assert sorted(int(each["revision"]) for each in cluster.all(CONTROLLER_REVISION)) == [4, 5]


@at_work(DaemonSetController, GarbageController)
async def test_a_new_daemon_set_takes_over_what_one_of_its_name_has_left(cluster: Cluster) -> None:
    scheduler = await started(cluster, 2)
    before = {pod["metadata"]["name"] for pod in cluster.all(POD)}
    await cluster.delete(DAEMON_SET, "agent", propagation="Orphan")
    await scheduler.settled()
    assert cluster.find(DAEMON_SET, "agent") is None
    made = await cluster.make(DAEMON_SET, "agent", body())
    await scheduler.settled()
    assert {pod["metadata"]["name"] for pod in cluster.all(POD)} == before
    children = [*cluster.all(POD), *cluster.all(CONTROLLER_REVISION)]
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in children} == {made["metadata"]["uid"]}
    assert len(children) == 3
