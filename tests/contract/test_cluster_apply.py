"""Server-side apply, as far as the product uses it: create what is not there, by force change what is."""

from __future__ import annotations

from typing import Any

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, name_of, refusal
from tests.support.manifests import deployment, lease


def apply(space: Space, body: Json) -> Json:
    path = space.path(body["kind"], name_of(body), fieldManager="us", force="true")
    return space.api.patch(path, body, "apply")


def partial(**spec: Any) -> Json:
    """Some fields of a Deployment."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_applying_creates_what_is_not_there(space: Space) -> None:
    applied = apply(space, lease("held", holderIdentity="us"))
    assert applied["spec"]["holderIdentity"] == "us"
    assert space.get("Lease", "held") == applied


def test_applying_the_same_again_changes_nothing(space: Space) -> None:
    first = apply(space, lease("held"))
    assert apply(space, lease("held")) == first


def test_what_is_applied_by_force_replaces_what_others_wrote_and_leaves_the_rest(space: Space) -> None:
    space.create(deployment("web", 0, minReadySeconds=3))
    space.patch("Deployment", "web", {"metadata": {"annotations": {"theirs": "yes"}}})
    applied = apply(space, partial(minReadySeconds=7))
    assert applied["spec"]["minReadySeconds"] == 7
    assert applied["metadata"]["annotations"]["theirs"] == "yes"
    assert applied["spec"]["template"]["spec"]["containers"][0]["name"] == "main"


def test_lists_with_keys_are_merged_item_by_item(space: Space) -> None:
    space.create(deployment("web", 0))
    side = {"name": "side", "image": "hollow:1"}
    applied = apply(space, partial(template={"spec": {"containers": [side]}}))
    assert [each["name"] for each in applied["spec"]["template"]["spec"]["containers"]] == ["main", "side"]


def test_an_apply_for_another_version_conflicts(space: Space) -> None:
    old = apply(space, lease("held"))["metadata"]["resourceVersion"]
    apply(space, lease("held", labels={"a": "1"}))
    body = lease("held", labels={"a": "2"})
    body["metadata"]["resourceVersion"] = old
    with refusal(409, "Conflict"):
        apply(space, body)


def test_an_invalid_apply_is_refused(space: Space) -> None:
    with refusal(422, "Invalid"):
        apply(space, deployment("web", -1))
    assert space.find("Deployment", "web") is None
