"""StatefulSets of the embedded cluster: ordinals and order, names that come back, updates, claims, and the status."""

from kubemini.errors import Json
from kubemini.store import Change
from tests.support.manifests import stateful_set
from tests.support.workloads import Workloads, name_of, ready, unready


def status(cluster: Workloads) -> Json:
    found: Json = cluster.get("StatefulSet", "db").get("status", {})
    return found


async def running(cluster: Workloads, body: Json) -> Json:
    await cluster.create(body)
    return await settled(cluster)


async def settled(cluster: Workloads) -> Json:
    """The set, once it has all of its pods and they are available, and nothing moves."""

    def is_complete() -> bool:
        body = cluster.get("StatefulSet", "db")
        found, wanted = body.get("status", {}), body["spec"]["replicas"]
        counts = [found.get(key, 0) for key in ("replicas", "availableReplicas", "updatedReplicas", "currentReplicas")]
        return counts == [wanted] * 4 and found["observedGeneration"] == body["metadata"]["generation"]

    await cluster.until("all are there", is_complete)
    await cluster.settled()
    return cluster.get("StatefulSet", "db")


async def set_template(cluster: Workloads, version: str) -> None:
    def changed(body: Json) -> None:
        body["spec"]["template"]["metadata"]["annotations"] = {"version": version}

    await cluster.edit("StatefulSet", "db", changed)


def version_of(body: Json) -> str:
    return str(body["metadata"].get("annotations", {}).get("version", ""))


def versions(cluster: Workloads) -> dict[str, str]:
    return {name_of(each): version_of(each) for each in cluster.all("Pod", app="db")}


async def test_scaling_down_deletes_the_highest_first_and_one_at_a_time() -> None:
    gone: list[str] = []
    most = [0]
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 4))

        def count(change: Change) -> None:
            if change.type == "DELETED":
                gone.append(change.entry.key[1])
            most.append(sum("deletionTimestamp" in each["metadata"] for each in cluster.all("Pod")))

        cluster.watch("Pod", count)
        await cluster.set("StatefulSet", "db", replicas=1)
        await settled(cluster)
        assert gone == ["db-3", "db-2", "db-1"]
        assert max(most) == 1


async def test_an_unhealthy_pod_holds_up_scaling_down_until_it_is_healthy() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 3))
        cluster.kubelet.write("db-0", unready)
        await cluster.set("StatefulSet", "db", replicas=2)
        await cluster.until("it was looked at", lambda: status(cluster)["observedGeneration"] == 2)
        await cluster.settled()
        assert len(cluster.pods("db")) == 3
        cluster.kubelet.write("db-0", ready)
        await settled(cluster)


async def test_an_update_stops_at_a_pod_that_does_not_become_ready() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 3))
        cluster.kubelet.starts = lambda body: version_of(body) != "bad"
        await set_template(cluster, "bad")
        await cluster.until("it has begun", lambda: versions(cluster).get("db-2") == "bad")
        await cluster.settled()
        assert versions(cluster) == {"db-0": "", "db-1": "", "db-2": "bad"}
        found = status(cluster)
        assert (found["currentReplicas"], found["updatedReplicas"], found["readyReplicas"]) == (2, 1, 2)
        assert found["currentRevision"] != found["updateRevision"]


async def test_with_on_delete_a_pod_becomes_new_when_somebody_deletes_it() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 2, updateStrategy={"type": "OnDelete"}))
        await set_template(cluster, "2")
        await cluster.until("it was looked at", lambda: status(cluster)["observedGeneration"] == 2)
        await cluster.settled()
        assert versions(cluster) == {"db-0": "", "db-1": ""}
        await cluster.delete("Pod", "db-0")
        await cluster.until("it is new", lambda: versions(cluster).get("db-0") == "2")
        assert versions(cluster)["db-1"] == ""


async def test_parallel_pods_that_are_broken_anyway_are_updated_first() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 4, podManagementPolicy="Parallel"))
        for name in ("db-0", "db-1"):
            cluster.kubelet.write(name, unready)
        await cluster.until("it is told", lambda: status(cluster).get("readyReplicas") == 2)
        cluster.kubelet.starts = lambda _: False
        await set_template(cluster, "2")
        await cluster.until("they are new", lambda: list(versions(cluster).values()).count("2") == 2)
        await cluster.settled()
        assert versions(cluster) == {"db-0": "2", "db-1": "2", "db-2": "", "db-3": ""}
