"""How objects go: grace periods step by step, preconditions, finalizers, and what becomes of those that they own."""

from __future__ import annotations

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, name_of, names, refusal
from tests.support.manifests import deployment, gated, lease, pod, replica_set, simulated
from tests.testbed.processes import until

HOLD = "contract.test/hold"


def is_deletion(event: Json) -> bool:
    return bool(event["type"] == "DELETED")


def test_a_running_pod_is_marked_then_ends_then_is_gone(space: Space, nodes: list[str]) -> None:
    space.runs(pod("ending"))
    since = space.version("Pod")
    answered = space.delete("Pod", "ending")
    assert answered["metadata"]["deletionGracePeriodSeconds"] == 30
    assert answered["metadata"]["deletionTimestamp"]
    seen = space.events("Pod", since, is_deletion)
    assert {event["type"] for event in seen[:-1]} == {"MODIFIED"}
    first, last = seen[0]["object"], seen[-1]["object"]
    assert first["metadata"]["deletionTimestamp"] == answered["metadata"]["deletionTimestamp"]
    assert first["status"]["phase"] == "Running"
    assert int(last["metadata"]["resourceVersion"]) > int(seen[-2]["object"]["metadata"]["resourceVersion"])
    assert space.find("Pod", "ending") is None


def test_a_pod_that_does_not_end_is_there_for_its_grace_period(space: Space, nodes: list[str]) -> None:
    space.runs(simulated(pod("stubborn"), ends_in="600"))
    space.delete("Pod", "stubborn", gracePeriodSeconds=600)
    space.delete("Pod", "stubborn", gracePeriodSeconds=300)
    assert space.get("Pod", "stubborn")["metadata"]["deletionGracePeriodSeconds"] == 300
    space.delete("Pod", "stubborn", gracePeriodSeconds=400)  # it never gets longer
    assert space.get("Pod", "stubborn")["metadata"]["deletionGracePeriodSeconds"] == 300
    space.delete("Pod", "stubborn", gracePeriodSeconds=1)
    space.gone("Pod", "stubborn")


def test_the_grace_period_in_the_spec_is_the_default(space: Space, nodes: list[str]) -> None:
    space.runs(simulated(pod("patient", terminationGracePeriodSeconds=77), ends_in="600"))
    assert space.delete("Pod", "patient")["metadata"]["deletionGracePeriodSeconds"] == 77


def test_a_pod_without_grace_is_gone_at_once(space: Space, nodes: list[str]) -> None:
    space.runs(simulated(pod("killed"), ends_in="600"))
    since = space.version("Pod")
    space.delete("Pod", "killed", gracePeriodSeconds=0)
    assert space.find("Pod", "killed") is None
    assert space.events("Pod", since, is_deletion)[-1]["type"] == "DELETED"


def test_a_pod_that_has_no_node_is_gone_at_once(space: Space) -> None:
    space.create(gated("waiting"))
    space.delete("Pod", "waiting")
    assert space.find("Pod", "waiting") is None


def test_the_grace_period_may_stand_in_the_query(space: Space, nodes: list[str]) -> None:
    space.runs(simulated(pod("killed"), ends_in="600"))
    space.api.delete(space.path("Pod", "killed", gracePeriodSeconds="0"))
    assert space.find("Pod", "killed") is None


def test_what_is_not_there_cannot_be_deleted(space: Space) -> None:
    with refusal(404, "NotFound"):
        space.delete("Pod", "nobody")


def test_a_deletion_meant_for_another_uid_or_version_conflicts(space: Space) -> None:
    old = space.create(lease("held"))["metadata"]
    new = space.patch("Lease", "held", {"metadata": {"labels": {"a": "b"}}})["metadata"]
    for wrong in ({"uid": "somebody-else"}, {"resourceVersion": old["resourceVersion"]}):
        with refusal(409, "Conflict"):
            space.delete("Lease", "held", preconditions=wrong)
    space.delete("Lease", "held", preconditions={"uid": old["uid"], "resourceVersion": new["resourceVersion"]})
    assert space.find("Lease", "held") is None


def test_a_deleted_plain_object_is_answered_with_its_uid(space: Space) -> None:
    made = space.create(lease("plain"))
    answered = space.delete("Lease", "plain")
    assert (answered["kind"], answered["status"]) == ("Status", "Success")
    assert answered["details"]["uid"] == made["metadata"]["uid"]


def test_a_finalizer_holds_an_object_until_it_is_taken_off(space: Space) -> None:
    body = lease("held")
    body["metadata"]["finalizers"] = [HOLD]
    space.create(body)
    since = space.version("Lease")
    answered = space.delete("Lease", "held")
    assert answered["metadata"]["deletionTimestamp"]
    assert answered["metadata"]["deletionGracePeriodSeconds"] == 0
    space.patch("Lease", "held", {"metadata": {"labels": {"still": "there"}}})
    with refusal(422, "Invalid"):
        space.patch("Lease", "held", {"metadata": {"finalizers": [HOLD, "contract.test/another"]}})
    space.patch("Lease", "held", {"metadata": {"finalizers": None}})
    assert space.find("Lease", "held") is None
    kinds = [event["type"] for event in space.events("Lease", since, is_deletion)]
    assert kinds == ["MODIFIED", "MODIFIED", "DELETED"]


def test_a_finalizer_holds_a_pod_that_has_ended(space: Space, nodes: list[str]) -> None:
    body = pod("held")
    body["metadata"]["finalizers"] = [HOLD]
    space.runs(body)
    space.delete("Pod", "held")
    ended = space.reaches("Pod", "held", "has ended", lambda pod: pod["metadata"]["deletionGracePeriodSeconds"] == 0)
    assert ended["status"]["phase"] in ("Succeeded", "Failed")
    space.patch("Pod", "held", {"metadata": {"finalizers": None}})
    space.gone("Pod", "held")


def test_a_collection_is_deleted_by_its_selector(space: Space) -> None:
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        space.create(lease(name, labels={"color": color}))
    space.api.delete(space.path("Lease", labelSelector="color=red"))
    until("they are gone", lambda: names(space.list("Lease")) == ["c"])


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    space.create(deployment("web", 2))
    space.rolled_out("web")
    for later in (replica_set("later", 0), gated("later")):
        space.dependents_known(later)
    return space


def test_what_a_deleted_object_owned_goes_after_it(web: Space) -> None:
    pods, owned = web.pods("web"), name_of(web.replica_set("web"))
    web.delete("Deployment", "web", propagationPolicy="Background")
    assert web.find("Deployment", "web") is None
    web.gone("ReplicaSet", owned)
    for each in pods:
        web.gone("Pod", name_of(each))


def test_background_is_the_default(web: Space) -> None:
    owned = name_of(web.replica_set("web"))
    web.delete("Deployment", "web")
    assert web.find("Deployment", "web") is None
    web.gone("ReplicaSet", owned)


def test_in_the_foreground_the_owner_goes_last(web: Space) -> None:
    owned = name_of(web.replica_set("web"))
    since = web.version("Deployment")
    web.delete("Deployment", "web", propagationPolicy="Foreground")
    seen = web.events("Deployment", since, is_deletion)
    marked = next(event["object"] for event in seen if "deletionTimestamp" in event["object"]["metadata"])
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert web.find("ReplicaSet", owned) is None
    assert web.list("Pod") == []


def test_orphans_stay_and_forget_their_owner(web: Space) -> None:
    owned, before = name_of(web.replica_set("web")), names(web.pods("web"))
    web.delete("Deployment", "web", propagationPolicy="Orphan")
    web.gone("Deployment", "web")
    left = web.reaches("ReplicaSet", owned, "is free", lambda found: not found["metadata"].get("ownerReferences"))
    assert left["spec"]["replicas"] == 2
    assert names(web.pods("web")) == before


def test_an_object_whose_owner_is_not_there_goes(space: Space) -> None:
    gone = space.create(lease("owner"))
    space.delete("Lease", "owner")
    body = lease("owned")
    body["metadata"]["ownerReferences"] = [reference(gone)]
    space.create(body)
    space.gone("Lease", "owned")


def test_an_object_stays_while_one_of_its_owners_does(space: Space) -> None:
    first, second = space.create(lease("first")), space.create(lease("second"))
    body = lease("owned")
    body["metadata"]["ownerReferences"] = [reference(first), reference(second)]
    space.create(body)
    space.delete("Lease", "first")
    left = space.reaches(
        "Lease", "owned", "has one owner", lambda found: len(found["metadata"]["ownerReferences"]) == 1
    )
    assert left["metadata"]["ownerReferences"][0]["name"] == "second"
    space.delete("Lease", "second")
    space.gone("Lease", "owned")


def reference(owner: Json) -> Json:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": owner["metadata"]["uid"],
    }


def test_a_namespace_takes_all_that_is_in_it_along(space: Space) -> None:
    name = f"{space.name[:50]}-2"
    space.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    second = Space(space.cluster, name)
    second.create(lease("inside"))
    space.api.delete(f"/api/v1/namespaces/{name}")
    second.gone("Lease", "inside")
