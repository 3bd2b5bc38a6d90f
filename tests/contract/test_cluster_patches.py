"""Merge, JSON and strategic merge patches: what each does to maps, lists, and lists whose elements have keys."""

from __future__ import annotations

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, refusal
from tests.support.manifests import deployment, gated, lease, pod


def container(name: str, **fields: object) -> Json:
    return {"name": name, "image": "hollow:1"} | fields


@pytest.fixture
def two(space: Space) -> Space:
    """A Deployment without replicas whose template has two containers."""
    made = deployment("web", 0)
    made["spec"]["template"]["spec"]["containers"] = [container("main"), container("side")]
    space.create(made)
    return space


def containers(found: Json) -> list[tuple[str, str]]:
    return [(each["name"], each["image"]) for each in found["spec"]["template"]["spec"]["containers"]]


def template(**spec: object) -> Json:
    return {"spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize("how", ["merge", "strategic"])
def test_maps_are_merged_and_null_takes_a_key_out(space: Space, how: str) -> None:
    space.create(lease("plain", labels={"a": "1", "b": "2"}))
    patched = space.patch("Lease", "plain", {"metadata": {"labels": {"a": None, "c": "3", "missing": None}}}, how)
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}
    patched = space.patch("Lease", "plain", {"metadata": {"labels": None}}, how)
    assert "labels" not in patched["metadata"]


def test_a_merge_patch_replaces_lists(two: Space) -> None:
    patched = two.patch("Deployment", "web", template(containers=[container("only")]))
    assert containers(patched) == [("only", "hollow:1")]


def test_a_strategic_patch_merges_containers_by_name(two: Space) -> None:
    changed = [{"name": "side", "image": "hollow:2"}, container("new")]
    patched = two.patch("Deployment", "web", template(containers=changed), "strategic")
    assert sorted(containers(patched)) == [("main", "hollow:1"), ("new", "hollow:1"), ("side", "hollow:2")]


def test_a_strategic_patch_deletes_an_element_by_its_key(two: Space) -> None:
    gone = [{"name": "side", "$patch": "delete"}]
    assert containers(two.patch("Deployment", "web", template(containers=gone), "strategic")) == [("main", "hollow:1")]


def test_a_strategic_patch_merges_conditions_by_type(space: Space) -> None:
    space.create(gated("said"))
    space.reaches("Pod", "said", "says that it is gated", lambda found: condition(found, "PodScheduled"))
    ours = {"type": "contract.test/seen", "status": "True"}
    patched = space.patch_status("Pod", "said", {"conditions": [ours]}, "strategic")
    assert condition(patched, "contract.test/seen")["status"] == "True"
    assert condition(patched, "PodScheduled")["reason"] == "SchedulingGated"


def test_a_json_patch_does_its_steps_in_order(space: Space) -> None:
    space.create(lease("plain", labels={"a": "1", "with/slash": "2"}))
    steps: list[Json] = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/a", "value": "3"},
        {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/copied"},
        {"op": "move", "from": "/metadata/labels/with~1slash", "path": "/metadata/labels/moved"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["contract.test/b"]},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "contract.test/a"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "contract.test/c"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]
    metadata = space.patch("Lease", "plain", steps, "json")["metadata"]
    assert metadata["labels"] == {"a": "3", "copied": "3", "moved": "2"}
    assert metadata["finalizers"] == ["contract.test/a", "contract.test/c"]
    space.patch("Lease", "plain", [{"op": "remove", "path": "/metadata/finalizers"}], "json")


@pytest.mark.parametrize(
    "step",
    [
        {"op": "test", "path": "/spec/holderIdentity", "value": "somebody else"},
        {"op": "test", "path": "/spec/missing", "value": "x"},
        {"op": "remove", "path": "/metadata/labels/missing"},
        {"op": "add", "path": "/metadata/missing/key", "value": "x"},
        {"op": "frobnicate", "path": "/metadata/labels"},
    ],
    ids=lambda step: f"{step['op']} {step['path']}",
)
def test_a_json_patch_that_fails_is_invalid_and_changes_nothing(space: Space, step: Json) -> None:
    made = space.create(lease("plain", labels={"a": "1"}))
    first: Json = {"op": "replace", "path": "/metadata/labels/a", "value": "2"}
    with refusal(422, "Invalid"):
        space.patch("Lease", "plain", [first, step], "json")
    assert space.get("Lease", "plain") == made


def test_a_json_patch_may_test_the_version(space: Space) -> None:
    made = space.create(lease("plain"))
    version = made["metadata"]["resourceVersion"]
    guarded: list[Json] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/spec/holderIdentity", "value": "me"},
    ]
    assert space.patch("Lease", "plain", guarded, "json")["spec"]["holderIdentity"] == "me"
    with refusal(422, "Invalid"):
        space.patch("Lease", "plain", guarded, "json")


def test_patches_of_pods_reach_their_metadata(space: Space, nodes: list[str]) -> None:
    """What the controller does to pods that run: marks, deletion costs, labels that it gives and takes."""
    space.runs(pod("marked"))
    space.patch("Pod", "marked", {"metadata": {"annotations": {"a": "1"}, "labels": {"b": "2"}}})
    space.patch("Pod", "marked", {"metadata": {"annotations": {"c": "3"}}}, "strategic")
    space.patch("Pod", "marked", [{"op": "remove", "path": "/metadata/labels/b"}], "json")
    metadata = space.get("Pod", "marked")["metadata"]
    assert metadata["annotations"] == {"a": "1", "c": "3"}
    assert "b" not in metadata["labels"]


def test_a_patch_that_is_no_patch_is_a_bad_request(space: Space) -> None:
    space.create(lease("plain"))
    for content in ("application/merge-patch+json", "application/json-patch+json"):
        with refusal(400, "BadRequest"):
            space.api.send("PATCH", space.path("Lease", "plain"), "{nope", content)


def test_the_name_cannot_be_patched(space: Space) -> None:
    space.create(lease("plain"))
    with refusal(400, "BadRequest"):
        space.patch("Lease", "plain", {"metadata": {"name": "other"}})
