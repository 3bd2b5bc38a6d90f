"""StatefulSets of the embedded cluster: ordinals and order, names that come back, updates, claims, and the status."""

from datetime import timedelta
from typing import Any

import pytest

from kubemini import clock
from kubemini.api import NoAdmission, Review
from kubemini.controllers.stateful_set import StatefulSetController
from kubemini.kinds import POD
from kubemini.refusals import Json, forbidden
from kubemini.store import Change
from tests.support.manifests import pod, stateful_set
from tests.support.workloads import SPACE, Workloads, ended, name_of, names, ready, unready

REVISION = "controller-revision-hash"
CLAIMS = [
    {
        "metadata": {"name": "data", "labels": {"kept": "yes"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


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


def is_another(cluster: Workloads, name: str, before: Json) -> bool:
    """Whether there is a new pod of this name."""
    found = cluster.find("Pod", name)
    return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]


async def set_template(cluster: Workloads, version: str) -> None:
    def changed(body: Json) -> None:
        body["spec"]["template"]["metadata"]["annotations"] = {"version": version}

    await cluster.edit("StatefulSet", "db", changed)


def version_of(body: Json) -> str:
    return str(body["metadata"].get("annotations", {}).get("version", ""))


def versions(cluster: Workloads) -> dict[str, str]:
    return {name_of(each): version_of(each) for each in cluster.all("Pod", app="db")}


def rolling(**options: Any) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": options}


async def test_pods_are_made_one_after_the_other_each_with_a_name_of_its_own() -> None:
    body = stateful_set("db", 3)
    body["metadata"]["annotations"] = {"note": "x"}
    made: list[tuple[str, int]] = []
    async with Workloads() as cluster:

        def count(change: Change) -> None:
            if change.type == "ADDED":
                made.append((change.entry.key[1], status(cluster).get("availableReplicas", 0)))

        cluster.watch("Pod", count)
        found = await running(cluster, body)
        assert [name for name, _ in made] == ["db-0", "db-1", "db-2"]
        assert all(available <= number for number, (_, available) in enumerate(made))
        second = cluster.get("Pod", "db-1")
        revision = found["status"]["currentRevision"]
        assert second["metadata"]["labels"] == {
            "app": "db",
            REVISION: revision,
            "statefulset.kubernetes.io/pod-name": "db-1",
            "apps.kubernetes.io/pod-index": "1",
        }
        assert second["metadata"]["generateName"] == "db-"
        assert (second["spec"]["hostname"], second["spec"]["subdomain"]) == ("db-1", "db")
        assert second["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
        assert found["status"] == {
            "observedGeneration": 1,
            "replicas": 3,
            "readyReplicas": 3,
            "currentReplicas": 3,
            "updatedReplicas": 3,
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
            "availableReplicas": 3,
        }
        (kept,) = cluster.all("ControllerRevision")
        assert name_of(kept) == revision == f"db-{kept['metadata']['labels']['controller.kubernetes.io/hash']}"
        assert kept["revision"] == 1
        assert kept["metadata"]["annotations"] == {"note": "x"}
        assert kept["data"]["spec"]["template"]["$patch"] == "replace"
        assert cluster.events("db")[0] == ("SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful")


async def test_a_pod_that_is_not_ready_holds_up_the_next() -> None:
    async with Workloads() as cluster:
        cluster.kubelet.starts = lambda body: name_of(body) != "db-1"
        await cluster.create(stateful_set("db", 3))
        await cluster.until("two are there", lambda: status(cluster).get("replicas") == 2)
        await cluster.settled()
        assert sorted(versions(cluster)) == ["db-0", "db-1"]
        cluster.kubelet.starts = lambda _: True
        cluster.kubelet.look_again()
        await settled(cluster)


async def test_parallel_pods_are_made_at_once_and_ordinals_begin_where_they_shall() -> None:
    async with Workloads() as cluster:
        cluster.kubelet.starts = lambda _: False
        await cluster.create(stateful_set("db", 3, podManagementPolicy="Parallel", ordinals={"start": 5}))
        await cluster.until("all are there", lambda: status(cluster).get("replicas") == 3)
        assert sorted(versions(cluster)) == ["db-5", "db-6", "db-7"]
        cluster.kubelet.starts = lambda _: True
        cluster.kubelet.look_again()
        await settled(cluster)
        await cluster.set("StatefulSet", "db", ordinals={"start": 6})
        await cluster.until("they have moved", lambda: sorted(versions(cluster)) == ["db-6", "db-7", "db-8"])


async def test_a_deleted_pod_comes_back_under_its_name_when_it_is_gone() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 2))
        before = cluster.get("Pod", "db-0")["metadata"]["uid"]
        cluster.kubelet.ends = lambda _: False
        await cluster.delete("Pod", "db-0")
        await cluster.settled()
        assert cluster.get("Pod", "db-0")["metadata"]["uid"] == before
        cluster.kubelet.ends = lambda _: True
        cluster.kubelet.look_again()
        await settled(cluster)
        assert cluster.get("Pod", "db-0")["metadata"]["uid"] != before


async def test_a_pod_that_has_ended_is_deleted_and_made_again() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 2))
        before = cluster.get("Pod", "db-1")
        cluster.kubelet.write("db-1", ended)
        await cluster.until("another is there", lambda: is_another(cluster, "db-1", before))
        await settled(cluster)
        assert ("SuccessfulDelete", "Delete Pod db-1 in StatefulSet db successful") in cluster.events("db")


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


async def test_the_only_unhealthy_pod_may_go_when_it_is_beyond_the_last() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 3))
        cluster.kubelet.write("db-2", unready)
        await cluster.set("StatefulSet", "db", replicas=2)
        await settled(cluster)


async def test_parallel_pods_are_deleted_at_once() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 4, podManagementPolicy="Parallel"))
        cluster.kubelet.ends = lambda _: False
        await cluster.set("StatefulSet", "db", replicas=1)
        await cluster.until("all are on their way", lambda: names(cluster.pods("db")) == ["db-0"])
        cluster.kubelet.ends = lambda _: True
        cluster.kubelet.look_again()
        await settled(cluster)


async def test_a_new_template_is_rolled_out_from_the_highest_ordinal_down() -> None:
    order: list[str] = []
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 3))
        first = status(cluster)["currentRevision"]
        cluster.watch("Pod", lambda change: order.append(change.entry.key[1]) if change.type == "ADDED" else None)
        await set_template(cluster, "2")
        await settled(cluster)
        assert order == ["db-2", "db-1", "db-0"]
        found = status(cluster)
        assert found["currentRevision"] == found["updateRevision"] != first
        assert {each["metadata"]["labels"][REVISION] for each in cluster.pods("db")} == {found["updateRevision"]}


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


async def test_pods_below_the_partition_stay_and_come_back_with_the_old_template() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 3, updateStrategy=rolling(partition=2)))
        await set_template(cluster, "2")
        await cluster.until("one is new", lambda: status(cluster).get("updatedReplicas") == 1)
        await cluster.settled()
        assert versions(cluster) == {"db-0": "", "db-1": "", "db-2": "2"}
        before = cluster.get("Pod", "db-0")
        await cluster.delete("Pod", "db-0")
        await cluster.until("it is back", lambda: is_another(cluster, "db-0", before))
        assert versions(cluster)["db-0"] == ""
        await cluster.set("StatefulSet", "db", updateStrategy=rolling(partition=0))
        await settled(cluster)
        assert set(versions(cluster).values()) == {"2"}


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


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_as_many_pods_are_updated_at_a_time_as_may_be_unavailable(policy: str) -> None:
    most = [0]
    options: Json = {"podManagementPolicy": policy, "updateStrategy": rolling(maxUnavailable="50%")}
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 5, **options))
        cluster.watch("Pod", lambda _: most.append(5 - len(cluster.pods("db"))))
        await set_template(cluster, "2")
        await settled(cluster)
        assert set(versions(cluster).values()) == {"2"}
    assert max(most) == 2


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


async def test_going_back_to_an_old_template_renumbers_its_revision() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 1))
        first = status(cluster)["updateRevision"]
        await set_template(cluster, "2")
        await settled(cluster)
        await cluster.edit("StatefulSet", "db", lambda body: body["spec"]["template"]["metadata"].pop("annotations"))
        await settled(cluster)
        assert status(cluster)["updateRevision"] == first
        assert sorted(each["revision"] for each in cluster.all("ControllerRevision")) == [2, 3]


async def test_only_so_many_old_revisions_are_kept() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 1, revisionHistoryLimit=1))
        for version in "2345":
            await set_template(cluster, version)
            await settled(cluster)
        await cluster.until("old ones are gone", lambda: len(cluster.all("ControllerRevision")) == 2)
        assert sorted(each["revision"] for each in cluster.all("ControllerRevision")) == [4, 5]


async def test_the_next_pod_waits_until_the_one_before_was_ready_for_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start)
    async with Workloads() as cluster:
        await cluster.create(stateful_set("db", 2, minReadySeconds=100))
        await cluster.until("one is ready", lambda: status(cluster).get("readyReplicas") == 1)
        await cluster.settled()
        assert sorted(versions(cluster)) == ["db-0"]
        assert status(cluster)["availableReplicas"] == 0
        controller = StatefulSetController(cluster.api)
        wait = await controller.reconcile((SPACE, "db"))
        assert wait is not None
        assert 0 < wait <= 100
        monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=101))
        await controller.reconcile((SPACE, "db"))
        await cluster.until("the next is there", lambda: "db-1" in versions(cluster))


async def test_claims_are_made_with_the_pod_and_kept_when_it_goes() -> None:
    body = stateful_set("db", 2, volumeClaimTemplates=CLAIMS)
    own = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    body["spec"]["template"]["spec"]["volumes"] = own
    async with Workloads() as cluster:
        await running(cluster, body)
        assert names(cluster.all("PersistentVolumeClaim")) == ["data-db-0", "data-db-1"]
        claim = cluster.get("PersistentVolumeClaim", "data-db-1")
        assert claim["metadata"]["labels"] == {"app": "db", "kept": "yes"}
        assert "ownerReferences" not in claim["metadata"]
        assert claim["spec"]["resources"]["requests"] == {"storage": "1Gi"}
        volumes = cluster.get("Pod", "db-1")["spec"]["volumes"]
        assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}, own[1]]
        await cluster.set("StatefulSet", "db", replicas=1)
        await settled(cluster)
        await cluster.set("StatefulSet", "db", replicas=2)
        await settled(cluster)
        again = cluster.get("PersistentVolumeClaim", "data-db-1")
        assert again["metadata"]["uid"] == claim["metadata"]["uid"]
        said = ("SuccessfulCreate", "Create Claim data-db-0 Pod db-0 in StatefulSet db success")
        assert said in cluster.events("db")


def owners(cluster: Workloads, claim: str) -> list[tuple[str, str]]:
    found = cluster.get("PersistentVolumeClaim", claim)["metadata"].get("ownerReferences", [])
    return [(each["kind"], each["name"]) for each in found]


async def test_the_retention_policy_is_carried_out_by_owners() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    options: Json = {"volumeClaimTemplates": CLAIMS, "persistentVolumeClaimRetentionPolicy": policy}
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 2, **options))
        assert owners(cluster, "data-db-1") == [("StatefulSet", "db")]

        both = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        cluster.kubelet.ends = lambda _: False
        await cluster.set("StatefulSet", "db", replicas=1, persistentVolumeClaimRetentionPolicy=both)
        await cluster.until("it is on its way", lambda: names(cluster.pods("db")) == ["db-0"])
        assert owners(cluster, "data-db-1") == [("Pod", "db-1")]
        assert owners(cluster, "data-db-0") == [("StatefulSet", "db")]

        none = {"whenDeleted": "Retain", "whenScaled": "Retain"}
        await cluster.set("StatefulSet", "db", persistentVolumeClaimRetentionPolicy=none)
        await cluster.until(
            "nobody has them", lambda: owners(cluster, "data-db-0") == owners(cluster, "data-db-1") == []
        )
        assert ("SuccessfulUpdate", "Update Pod db-0 in StatefulSet db successful") in cluster.events("db")


async def test_a_pod_waits_for_a_claim_that_goes_with_its_predecessor() -> None:
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    options: Json = {"volumeClaimTemplates": CLAIMS, "persistentVolumeClaimRetentionPolicy": policy}
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 2, **options))
        await cluster.set("StatefulSet", "db", replicas=1)
        await settled(cluster)
        assert owners(cluster, "data-db-1") == [("Pod", "db-1")]  # the garbage collector is not here to delete it
        await cluster.set("StatefulSet", "db", replicas=2)
        await cluster.until("it was looked at", lambda: status(cluster)["observedGeneration"] == 3)
        await cluster.settled()
        assert sorted(versions(cluster)) == ["db-0"]


async def test_a_claim_that_somebody_else_manages_is_not_touched() -> None:
    other = {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "1", "controller": True}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-0", "ownerReferences": [other]},
        "spec": CLAIMS[0]["spec"],
    }
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    options: Json = {"volumeClaimTemplates": CLAIMS, "persistentVolumeClaimRetentionPolicy": policy}
    async with Workloads() as cluster:
        await cluster.create(claim)
        await running(cluster, stateful_set("db", 1, **options))
        assert owners(cluster, "data-db-0") == [("Thing", "x")]


async def test_a_pod_that_is_refused_is_told_and_the_status_too() -> None:
    class Quota(NoAdmission):
        allowed = False

        async def admit(self, review: Review) -> Json:
            if review.target.kind == POD and review.operation == "CREATE" and not self.allowed:
                raise forbidden(POD, review.body["metadata"]["name"], "exceeded quota")
            return review.body

    quota = Quota()
    async with Workloads(quota) as cluster:
        await cluster.create(stateful_set("db", 1))
        await cluster.until("the status is there", lambda: status(cluster).get("observedGeneration") == 1)
        assert status(cluster)["replicas"] == 0
        why = 'pods "db-0" is forbidden: exceeded quota'
        said = ("FailedCreate", f"Create Pod db-0 in StatefulSet db failed error: {why}")
        assert cluster.events("db") == [said]
        quota.allowed = True
        await settled(cluster)


async def test_an_orphan_is_adopted_by_its_name_and_made_the_one_that_it_is() -> None:
    async with Workloads() as cluster:
        for name in ("db-0", "db-x", "other-1"):
            await cluster.create(pod(name, labels={"app": "db"}))
        await cluster.settled()
        await cluster.create(stateful_set("db", 1, updateStrategy={"type": "OnDelete"}))
        marks = {"apps.kubernetes.io/pod-index": "0", "statefulset.kubernetes.io/pod-name": "db-0"}
        await cluster.until("it is marked", lambda: names(cluster.all("Pod", **marks)) == ["db-0"])
        assert names(cluster.owned("Pod", "db")) == ["db-0"]


async def test_an_adopted_pod_of_no_revision_is_replaced_by_a_rolling_update() -> None:
    async with Workloads() as cluster:
        before = await cluster.create(pod("db-0", labels={"app": "db"}))
        await cluster.settled()
        await running(cluster, stateful_set("db", 1))
        assert is_another(cluster, "db-0", before)


async def test_a_pod_whose_labels_no_longer_match_is_released_and_its_name_is_missed() -> None:
    async with Workloads() as cluster:
        await running(cluster, stateful_set("db", 1))
        await cluster.edit("Pod", "db-0", lambda body: body["metadata"]["labels"].update(app="debug"))
        await cluster.until("it is released", lambda: not cluster.get("Pod", "db-0")["metadata"].get("ownerReferences"))
        await cluster.delete("Pod", "db-0")
        await settled(cluster)


async def test_a_set_that_is_being_deleted_only_tells_its_status() -> None:
    body = stateful_set("db", 2)
    body["metadata"]["finalizers"] = ["test/hold"]
    async with Workloads() as cluster:
        await running(cluster, body)
        await cluster.delete("StatefulSet", "db")
        await cluster.delete("Pod", "db-1")
        await cluster.until("it is told", lambda: status(cluster)["replicas"] == 1)
        await cluster.settled()
        assert names(cluster.all("Pod")) == ["db-0"]
