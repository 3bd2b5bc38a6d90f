"""Creating, reading and replacing objects: versions, conflicts, names, generations, status and spec apart, dry runs."""

from __future__ import annotations

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, name_of, names, refusal
from tests.support.manifests import budget, deployment, gated, lease, pod, replica_set, stateful_set
from tests.testbed.api import ApiError
from tests.testbed.processes import until

UUID = 36


def test_a_created_object_gets_what_only_the_server_gives(space: Space) -> None:
    made = space.create(lease("plain"))
    assert (made["apiVersion"], made["kind"]) == ("coordination.k8s.io/v1", "Lease")
    metadata = made["metadata"]
    assert metadata["namespace"] == space.name
    assert len(metadata["uid"]) == UUID
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert space.get("Lease", "plain") == made


def test_an_object_that_comes_again_has_another_uid(space: Space) -> None:
    first = space.create(lease("again"))
    space.delete("Lease", "again")
    second = space.create(lease("again"))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


def test_a_name_that_is_taken_is_refused(space: Space) -> None:
    space.create(lease("taken"))
    with refusal(409, "AlreadyExists") as refused:
        space.create(lease("taken"))
    assert refused.message == 'leases.coordination.k8s.io "taken" already exists'


def test_a_generated_name_is_its_prefix_and_five_letters(space: Space) -> None:
    body = lease("unnamed")
    body["metadata"] = {"generateName": "some-"}
    first, second = (space.create(body)["metadata"] for _ in range(2))
    assert first["name"].startswith("some-")
    assert len(first["name"]) == len("some-") + 5
    assert first["name"] != second["name"]
    assert first["generateName"] == "some-"


def test_a_replacement_made_on_an_old_version_conflicts(space: Space) -> None:
    old = space.create(lease("held", holderIdentity="a"))
    path = space.path("Lease", "held")
    new = space.api.put(path, old | {"spec": {"holderIdentity": "b"}})
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
    with refusal(409, "Conflict"):
        space.api.put(path, old | {"spec": {"holderIdentity": "c"}})
    assert space.get("Lease", "held")["spec"]["holderIdentity"] == "b"


def test_a_replacement_of_a_lease_must_say_which_version_it_replaces(space: Space) -> None:
    space.create(lease("held", holderIdentity="a"))
    with refusal(422, "Invalid") as refused:
        space.api.put(space.path("Lease", "held"), lease("held", holderIdentity="b"))
    assert refused.fields == ["metadata.resourceVersion"]


def test_a_replacement_of_a_deployment_without_a_version_always_wins(space: Space) -> None:
    space.create(deployment("web", 0, minReadySeconds=5))
    space.patch("Deployment", "web", {"metadata": {"labels": {"a": "b"}}})
    replaced = space.api.put(space.path("Deployment", "web"), deployment("web", 0, paused=True))
    assert replaced["metadata"]["labels"] == {"app": "web"}
    assert replaced["spec"]["paused"]
    assert "minReadySeconds" not in replaced["spec"]


def test_a_replacement_for_another_uid_conflicts(space: Space) -> None:
    made = space.create(lease("held"))
    body = lease("held")
    body["metadata"]["uid"] = "somebody-else"
    with refusal(409, "Conflict"):
        space.api.put(space.path("Lease", "held"), body)
    assert space.get("Lease", "held") == made


def test_nothing_is_replaced_or_patched_that_is_not_there(space: Space) -> None:
    with refusal(404, "NotFound") as refused:
        space.api.put(space.path("PodDisruptionBudget", "nobody"), budget("nobody", "web", minAvailable=1))
    assert refused.message == 'poddisruptionbudgets.policy "nobody" not found'
    with refusal(404, "NotFound"):
        space.patch("PodDisruptionBudget", "nobody", {"spec": {"minAvailable": 1}})


def test_a_patch_that_names_an_old_version_conflicts(space: Space) -> None:
    old = space.create(lease("held"))["metadata"]["resourceVersion"]
    new = space.patch("Lease", "held", {"metadata": {"resourceVersion": old, "labels": {"a": "1"}}})
    for how in ("merge", "strategic"):
        with refusal(409, "Conflict"):
            space.patch("Lease", "held", {"metadata": {"resourceVersion": old, "labels": {"a": "2"}}}, how)
    assert space.get("Lease", "held") == new


def test_a_patch_meant_for_another_uid_is_invalid(space: Space) -> None:
    space.create(lease("held"))
    with refusal(422, "Invalid"):
        space.patch("Lease", "held", {"metadata": {"uid": "somebody-else", "labels": {"a": "1"}}})


def test_a_change_that_changes_nothing_keeps_the_version(space: Space) -> None:
    made = space.create(lease("held", holderIdentity="a"))
    assert space.patch("Lease", "held", {"spec": {"holderIdentity": "a"}}) == made
    assert space.api.put(space.path("Lease", "held"), made) == made


def test_the_server_keeps_its_own_fields_through_a_replacement(space: Space) -> None:
    made = space.create(stateful_set("web", 0))  # a Deployment's controller adds annotations meanwhile, which count
    body = stateful_set("web", 0)
    body["metadata"] |= {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    replaced = space.api.put(space.path("StatefulSet", "web"), body)
    for field in ("uid", "creationTimestamp", "generation"):
        assert replaced["metadata"][field] == made["metadata"][field]


def test_of_a_deployment_the_generation_counts_changes_of_annotations_too(space: Space) -> None:
    for body, counted in ((deployment("web", 0), 2), (replica_set("lone", 0), 1), (stateful_set("db", 0), 1)):
        space.create(body)
        noted = space.patch(body["kind"], name_of(body), {"metadata": {"annotations": {"a": "b"}}})
        assert noted["metadata"]["generation"] == counted, body["kind"]


def test_the_generation_counts_changes_of_the_spec_only(space: Space) -> None:
    made = space.create(deployment("web", 0))
    assert made["metadata"]["generation"] == 1
    assert space.patch("Deployment", "web", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1
    assert space.patch_status("Deployment", "web", {"replicas": 0})["metadata"]["generation"] == 1
    changed = space.patch("Deployment", "web", {"spec": {"paused": True}})
    assert changed["metadata"]["generation"] == 2
    space.reaches("Deployment", "web", "is observed", lambda found: found["status"].get("observedGeneration") == 2)


def test_a_change_of_the_object_leaves_its_status_alone(space: Space) -> None:
    sent = gated("apart")
    sent["status"] = {"phase": "Running", "nominatedNodeName": "early"}
    made = space.create(sent)
    assert made["status"]["phase"] == "Pending"
    space.patch("Pod", "apart", {"metadata": {"labels": {"a": "b"}}, "status": {"nominatedNodeName": "nowhere"}})
    found = space.get("Pod", "apart")
    assert found["metadata"]["labels"]["a"] == "b"
    assert "nominatedNodeName" not in found["status"]


def test_a_change_of_the_status_leaves_the_spec_alone(space: Space) -> None:
    space.create(deployment("web", 0))
    body = {"spec": {"replicas": 7}, "status": {"conditions": [progress("contract")]}}
    space.api.patch(space.path("Deployment", "web") + "/status", body)
    assert space.get("Deployment", "web")["spec"]["replicas"] == 0


def progress(reason: str) -> Json:
    return {"type": "contract.test/Seen", "status": "True", "reason": reason}


def test_a_status_is_replaced_with_its_version_checked(space: Space) -> None:
    space.create(gated("apart"))
    read = space.reaches("Pod", "apart", "says that it is gated", lambda pod: condition(pod, "PodScheduled"))
    path = space.path("Pod", "apart") + "/status"
    space.api.put(path, read | {"status": read["status"] | {"nominatedNodeName": "somewhere"}})
    assert space.api.get(path)["status"]["nominatedNodeName"] == "somewhere"
    with refusal(409, "Conflict"):
        space.api.put(path, read | {"status": read["status"] | {"nominatedNodeName": "elsewhere"}})


def test_a_nomination_is_set_and_taken_back_by_the_status(space: Space) -> None:
    space.create(gated("nominated"))
    space.patch_status("Pod", "nominated", {"nominatedNodeName": "somewhere"})
    assert space.get("Pod", "nominated")["status"]["nominatedNodeName"] == "somewhere"
    space.patch_status("Pod", "nominated", {"nominatedNodeName": None})
    assert "nominatedNodeName" not in space.get("Pod", "nominated")["status"]


def test_the_spec_of_a_pod_stays_what_it_was(space: Space, nodes: list[str]) -> None:
    space.runs(pod("fixed"))
    changes: list[Json] = [{"nodeSelector": {"a": "b"}}, {"nodeName": "elsewhere"}, {"priority": 7}, {"affinity": {}}]
    for change in changes:
        with refusal(422, "Invalid") as refused:
            space.patch("Pod", "fixed", {"spec": change})
        assert "pod updates may not change fields" in refused.message


def test_an_image_and_further_tolerations_are_all_that_may_change_in_a_pod(space: Space, nodes: list[str]) -> None:
    before = space.runs(pod("changing"))["spec"]["tolerations"]
    space.patch("Pod", "changing", {"spec": {"containers": [{"name": "main", "image": "hollow:2"}]}}, "strategic")
    more = {"key": "contract.test/taint", "operator": "Exists"}
    space.patch("Pod", "changing", {"spec": {"tolerations": [*before, more]}})
    spec = space.get("Pod", "changing")["spec"]
    assert spec["containers"][0]["image"] == "hollow:2"
    assert more in spec["tolerations"]


def test_a_pod_gets_its_defaults(space: Space) -> None:
    spec = space.create(gated("plain"))["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["serviceAccountName"] == "default"
    tolerated = {(each["key"], each["effect"], each["tolerationSeconds"]) for each in spec["tolerations"]}
    for condition_name in ("not-ready", "unreachable"):
        assert (f"node.kubernetes.io/{condition_name}", "NoExecute", 300) in tolerated


def test_a_priority_class_gives_a_pod_its_priority(space: Space) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    name = f"high-{space.name[-8:]}"
    space.api.post(path, {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"})

    def is_known() -> bool:
        try:
            return bool(space.create(gated("probe", priorityClassName=name), dryRun="All"))
        except ApiError as refused:
            if refused.code != 403:
                raise
            return False

    try:
        until("admission has heard of the class", is_known)
        spec = space.create(gated("important", priorityClassName=name))["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
        with refusal(403, "Forbidden"):
            space.create(gated("unknown", priorityClassName="no-such-class"))
    finally:
        space.api.delete(f"{path}/{name}")


@pytest.mark.parametrize("what", ["create", "replace", "patch", "delete"])
def test_a_dry_run_answers_and_changes_nothing(space: Space, what: str) -> None:
    made = space.create(lease("dry", holderIdentity="a"))
    path = space.path("Lease", "dry", dryRun="All")
    changed = made | {"spec": {"holderIdentity": "b"}}
    match what:
        case "create":
            assert name_of(space.create(lease("another"), dryRun="All")) == "another"
        case "replace":
            assert space.api.put(path, changed)["spec"]["holderIdentity"] == "b"
        case "patch":
            assert space.api.patch(path, {"spec": {"holderIdentity": "b"}})["spec"]["holderIdentity"] == "b"
        case "delete":
            space.api.delete(path)
    assert space.list("Lease") == [{key: made[key] for key in ("metadata", "spec")}]


def test_a_dry_run_is_refused_as_the_real_one_would_be(space: Space) -> None:
    space.create(lease("dry"))
    with refusal(409, "AlreadyExists"):
        space.create(lease("dry"), dryRun="All")
    with refusal(422, "Invalid"):
        space.create(deployment("web", -1), dryRun="All")
    assert names(space.list("Deployment")) == []
