"""What makes a Deployment replace its pods, and what doesn't: template patches, pausing, strategies, scale, revisions.

The first fact of our design: a preference put into the template replaces every replica. The fourth: a paused Deployment
leaves its ReplicaSet's template to us, and steers one recreated pod by it.
"""

from __future__ import annotations

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, name_of, names, refusal
from tests.support.manifests import deployment, prefers, replica_set
from tests.testbed.processes import until

REVISION = "deployment.kubernetes.io/revision"


def revision(found: Json) -> str:
    return str(found["metadata"]["annotations"][REVISION])


def template(**spec: object) -> Json:
    return {"spec": {"template": {"spec": spec}}}


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A Deployment of three that is rolled out."""
    space.create(deployment("web", 3))
    space.rolled_out("web")
    return space


def test_a_preference_in_the_template_replaces_every_replica(web: Space, nodes: list[str]) -> None:
    before = uids(web.pods("web"))
    web.patch("Deployment", "web", template(affinity=prefers("NotIn", nodes[0])))
    web.reaches("Deployment", "web", "is at revision 2", lambda found: revision(found) == "2")
    web.rolled_out("web")
    assert not uids(web.pods("web")) & before
    sets = {revision(found): found["spec"]["replicas"] for found in web.list("ReplicaSet", labelSelector="app=web")}
    assert sets == {"1": 0, "2": 3}


@pytest.mark.real_only
@pytest.mark.parametrize("weight", [-50, 0, 101])
def test_a_preference_weighs_1_to_100(web: Space, nodes: list[str], weight: int) -> None:
    with refusal(422, "Invalid") as refused:
        web.patch("Deployment", "web", template(affinity=prefers("In", nodes[0], weight=weight)))
    (field,) = refused.fields
    assert field.endswith("nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight")
    assert "1-100" in refused.message


def test_labels_annotations_and_scale_are_no_rollout(web: Space) -> None:
    before = uids(web.pods("web"))
    web.patch("Deployment", "web", {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}})
    web.patch("Deployment", "web", {"spec": {"replicas": 4, "minReadySeconds": 0, "revisionHistoryLimit": 3}})
    found = web.rolled_out("web")
    assert revision(found) == "1"
    assert uids(web.pods("web")) > before
    assert web.replica_set("web")["spec"]["replicas"] == 4


def test_a_replica_set_is_named_after_the_hash_that_its_pods_carry(web: Space) -> None:
    made = web.replica_set("web")
    digest = made["metadata"]["labels"]["pod-template-hash"]
    assert name_of(made) == f"web-{digest}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Deployment", "web", True)
    for pod in web.pods("web"):
        assert pod["metadata"]["labels"]["pod-template-hash"] == digest
        assert name_of(pod).startswith(f"web-{digest}-")


def test_a_template_that_comes_back_brings_its_old_replica_set_back(web: Space) -> None:
    first = name_of(web.replica_set("web"))
    web.patch("Deployment", "web", template(terminationGracePeriodSeconds=5))
    web.rolled_out("web")
    web.patch("Deployment", "web", template(terminationGracePeriodSeconds=30))
    back = web.reaches("Deployment", "web", "is at revision 3", lambda found: revision(found) == "3")
    web.rolled_out(name_of(back))
    assert web.get("ReplicaSet", first)["spec"]["replicas"] == 3
    assert revision(web.get("ReplicaSet", first)) == "3"


def test_a_paused_deployment_rolls_nothing_out_until_it_is_resumed(web: Space) -> None:
    web.patch("Deployment", "web", {"spec": {"paused": True}})
    changed = web.patch("Deployment", "web", template(terminationGracePeriodSeconds=5))
    generation = changed["metadata"]["generation"]
    paused = web.reaches(
        "Deployment", "web", "noticed", lambda found: found["status"]["observedGeneration"] == generation
    )
    assert condition(paused, "Progressing")["reason"] == "DeploymentPaused"
    assert revision(paused) == "1"
    assert paused["status"].get("updatedReplicas", 0) == 0
    assert len(web.list("ReplicaSet", labelSelector="app=web")) == 1
    web.patch("Deployment", "web", {"spec": {"paused": False}})
    assert revision(web.rolled_out("web")) == "2"


def test_a_paused_deployment_can_be_scaled(web: Space) -> None:
    web.patch("Deployment", "web", {"spec": {"paused": True, "replicas": 2}})
    web.reaches("Deployment", "web", "is scaled", lambda found: found["status"]["availableReplicas"] == 2)
    until("one has gone", lambda: len(web.pods("web")) == 2)


def test_a_recreated_pod_is_steered_by_the_replica_set_of_a_paused_deployment(web: Space, nodes: list[str]) -> None:
    before, replaced, target = web.pods("web"), web.pods("web")[0], nodes[3]
    web.patch("Deployment", "web", {"spec": {"paused": True}})
    web.reaches(
        "Deployment", "web", "is paused", lambda found: condition(found, "Progressing")["reason"] == "DeploymentPaused"
    )
    set_name = name_of(web.replica_set("web"))
    preference = prefers("In", target)
    web.patch("ReplicaSet", set_name, template(affinity=preference))
    web.observed("ReplicaSet", set_name)

    web.evict(name_of(replaced))
    new = until(
        "it is recreated", lambda: [pod for pod in web.pods("web") if pod["metadata"]["uid"] not in uids(before)]
    )
    web.patch("ReplicaSet", set_name, template(affinity=None))
    web.observed("ReplicaSet", set_name)
    resumed = web.patch("Deployment", "web", {"spec": {"paused": None}})
    assert web.bound(name_of(new[0])) == target
    assert web.get("Pod", name_of(new[0]))["spec"]["affinity"] == preference

    done = web.rolled_out("web")
    assert done["status"]["observedGeneration"] >= resumed["metadata"]["generation"]
    assert revision(done) == "1"
    assert name_of(web.replica_set("web")) == set_name
    assert uids(web.pods("web")) == uids(before) - uids([replaced]) | uids(new)


def test_a_rollout_keeps_within_surge_and_unavailability(space: Space, nodes: list[str]) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    space.create(deployment("web", 3, strategy=strategy))
    space.rolled_out("web")
    since = {kind: space.version(kind) for kind in ("Deployment", "ReplicaSet")}
    first = space.replica_set("web")
    space.patch("Deployment", "web", template(terminationGracePeriodSeconds=5))
    space.rolled_out("web")
    space.create(deployment("last", 0))
    space.create(replica_set("last", 0))

    def is_last(event: Json) -> bool:
        return name_of(event["object"]) == "last"

    *told, _ = space.events("Deployment", since["Deployment"], is_last)
    assert min(event["object"]["status"]["availableReplicas"] for event in told) == 3
    # What is wanted counts: the replicas in the status are summed up from counts of different moments.
    wanted = {name_of(first): 3}
    sums = []
    for event in space.events("ReplicaSet", since["ReplicaSet"], is_last):
        wanted[name_of(event["object"])] = event["object"]["spec"]["replicas"]
        sums.append(sum(wanted.values()))
    assert (min(sums), max(sums)) == (3, 4)


def test_a_rollout_that_never_gets_ready_stops_at_its_unavailability(space: Space, nodes: list[str]) -> None:
    space.create(deployment("web", 4))  # 25 %: one may be missing, one may be added
    space.rolled_out("web")
    space.patch("Deployment", "web", template(nodeSelector={"nowhere": "at-all"}))

    def is_stuck(found: Json) -> bool:
        counts = ("replicas", "updatedReplicas", "availableReplicas", "unavailableReplicas")
        return [found["status"].get(each) for each in counts] == [5, 2, 3, 2]

    space.reaches("Deployment", "web", "is stuck", is_stuck)
    assert len([pod for pod in space.pods("web") if pod["status"]["phase"] == "Running"]) == 3


def test_recreate_ends_all_before_it_starts_any(space: Space, nodes: list[str]) -> None:
    space.create(deployment("web", 2, strategy={"type": "Recreate"}))
    space.rolled_out("web")
    start = space.api.get(space.path("Pod", labelSelector="app=web"))
    old = names(start["items"])
    space.patch("Deployment", "web", template(terminationGracePeriodSeconds=5))
    *before, _ = space.events("Pod", start["metadata"]["resourceVersion"], lambda event: event["type"] == "ADDED")
    last = {name_of(event["object"]): event for event in before}
    assert sorted(last) == sorted(old)
    for event in last.values():  # one that has ended may still be on its way out
        assert event["type"] == "DELETED" or event["object"]["status"]["phase"] in ("Succeeded", "Failed")
    space.rolled_out("web")


def test_the_scale_subresource_reads_and_sets_the_replicas(web: Space) -> None:
    path = web.path("Deployment", "web") + "/scale"
    web.reaches("Deployment", "web", "is done", has_progressed)
    scale = web.api.get(path)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 3}, 3)
    assert scale["status"]["selector"] == "app=web"
    web.api.put(path, scale | {"spec": {"replicas": 1}})
    assert web.rolled_out("web")["spec"]["replicas"] == 1
    with refusal(409, "Conflict"):
        web.api.put(path, scale | {"spec": {"replicas": 2}})


def has_progressed(found: Json) -> bool:
    return bool(condition(found, "Progressing").get("reason") == "NewReplicaSetAvailable")


def test_its_conditions_say_that_a_deployment_is_available_and_has_progressed(web: Space) -> None:
    done = web.reaches("Deployment", "web", "is done", has_progressed)
    assert condition(done, "Available")["status"] == "True"
    assert condition(done, "Available")["reason"] == "MinimumReplicasAvailable"
