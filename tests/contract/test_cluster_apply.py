"""Server-side apply: who owns which field, who is refused, and what goes when it is no longer applied."""

from __future__ import annotations

from typing import Any

from tests.support.both_clusters import Space, name_of, refusal
from tests.support.manifests import deployment, gated, lease
from tests.testbed.api import Json


def apply(space: Space, manager: str, body: Json, **query: str) -> Json:
    path = space.path(body["kind"], name_of(body), fieldManager=manager, **query)
    return space.api.patch(path, body, "apply")


def partial(**spec: Any) -> Json:
    """Of a Deployment, only what one manager cares for."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def managers(found: Json) -> dict[tuple[str, str], Json]:
    return {(each["manager"], each["operation"]): each["fieldsV1"] for each in found["metadata"]["managedFields"]}


def test_applying_creates_what_is_not_there(space: Space) -> None:
    applied = apply(space, "us", lease("held", holderIdentity="us"))
    assert applied["spec"]["holderIdentity"] == "us"
    assert space.get("Lease", "held") == applied
    owned = managers(applied)[("us", "Apply")]
    assert owned["f:spec"] == {"f:holderIdentity": {}}


def test_applying_the_same_again_changes_nothing(space: Space) -> None:
    first = apply(space, "us", lease("held"))
    assert apply(space, "us", lease("held")) == first


def test_a_field_of_another_manager_conflicts_unless_it_is_forced(space: Space) -> None:
    apply(space, "them", lease("held", holderIdentity="them"))
    with refusal(409, "Conflict") as refused:
        apply(space, "us", lease("held", holderIdentity="us"))
    (cause,) = refused.error.causes
    assert cause["reason"] == "FieldManagerConflict"
    assert cause["field"] == ".spec.holderIdentity"
    assert '"them"' in cause["message"]
    assert space.get("Lease", "held")["spec"]["holderIdentity"] == "them"
    forced = apply(space, "us", lease("held", holderIdentity="us"), force="true")
    assert forced["spec"]["holderIdentity"] == "us"
    assert ("them", "Apply") not in managers(forced) or "f:spec" not in managers(forced)[("them", "Apply")]


def test_two_managers_may_say_the_same(space: Space) -> None:
    for manager in ("them", "us"):
        applied = apply(space, manager, lease("held", holderIdentity="both"))
    assert {manager for manager, _ in managers(applied)} == {"them", "us"}
    # And while one of them still says it, it stays.
    without = lease("held")
    del without["spec"]["holderIdentity"]
    assert apply(space, "us", without)["spec"]["holderIdentity"] == "both"


def test_a_field_that_is_no_longer_applied_goes(space: Space) -> None:
    apply(space, "us", lease("held", labels={"a": "1", "b": "2"}, leaseDurationSeconds=15))
    applied = apply(space, "us", lease("held", labels={"b": "2"}))
    assert applied["metadata"]["labels"] == {"b": "2"}
    assert applied["spec"] == {"holderIdentity": "somebody"}


def test_fields_of_others_are_left_alone(space: Space) -> None:
    space.create(deployment("web", 0))
    apply(space, "us", partial(minReadySeconds=7))
    space.patch("Deployment", "web", {"metadata": {"annotations": {"theirs": "yes"}}})
    applied = apply(space, "us", partial(paused=True))
    assert "minReadySeconds" not in applied["spec"]
    assert applied["spec"]["paused"]
    assert applied["metadata"]["annotations"]["theirs"] == "yes"
    assert applied["spec"]["template"]["spec"]["containers"][0]["name"] == "main"


def test_lists_with_keys_are_shared_element_by_element(space: Space) -> None:
    space.create(deployment("web", 0))
    side = {"name": "side", "image": "hollow:1"}
    applied = apply(space, "us", partial(template={"spec": {"containers": [side]}}))
    assert [each["name"] for each in applied["spec"]["template"]["spec"]["containers"]] == ["main", "side"]
    applied = apply(space, "us", partial(minReadySeconds=1))
    assert [each["name"] for each in applied["spec"]["template"]["spec"]["containers"]] == ["main"]


def test_an_update_takes_the_fields_that_it_changes(space: Space) -> None:
    apply(space, "them", lease("held", holderIdentity="them"))
    space.api.patch(space.path("Lease", "held", fieldManager="patcher"), {"spec": {"holderIdentity": "patched"}})
    with refusal(409, "Conflict") as refused:
        apply(space, "them", lease("held", holderIdentity="them"))
    assert '"patcher"' in refused.message


def test_a_status_is_applied_apart(space: Space) -> None:
    space.create(gated("said"))
    ours = {"type": "contract.test/seen", "status": "True"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "said"}, "status": {"conditions": [ours]}}
    space.api.patch(space.path("Pod", "said") + "/status?fieldManager=us", body, "apply")
    found = space.get("Pod", "said")
    assert "contract.test/seen" in [each["type"] for each in found["status"]["conditions"]]
    body["status"] = {}
    space.api.patch(space.path("Pod", "said") + "/status?fieldManager=us", body, "apply")
    found = space.get("Pod", "said")
    assert "contract.test/seen" not in [each["type"] for each in found["status"].get("conditions", ())]


def test_an_apply_must_say_who_applies_and_what_it_is(space: Space) -> None:
    with refusal(422, "Invalid") as refused:
        space.api.patch(space.path("Lease", "held"), lease("held"), "apply")
    assert refused.fields == ["fieldManager"]
    nameless = {key: value for key, value in lease("held").items() if key != "kind"}
    with refusal(400, "BadRequest"):
        space.api.patch(space.path("Lease", "held", fieldManager="us"), nameless, "apply")


def test_an_apply_for_another_version_conflicts(space: Space) -> None:
    old = apply(space, "us", lease("held"))["metadata"]["resourceVersion"]
    apply(space, "us", lease("held", labels={"a": "1"}))
    body = lease("held", labels={"a": "2"})
    body["metadata"]["resourceVersion"] = old
    with refusal(409, "Conflict"):
        apply(space, "us", body)


def test_an_invalid_apply_is_refused(space: Space) -> None:
    with refusal(422, "Invalid"):
        apply(space, "us", deployment("web", -1))
    assert space.find("Deployment", "web") is None
