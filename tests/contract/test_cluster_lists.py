"""Lists: pages that belong together, and selectors by label and by field."""

from __future__ import annotations

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, name_of, names, refusal
from tests.support.manifests import gated, lease, pod
from tests.testbed.processes import until


def page(space: Space, **query: str) -> Json:
    return space.api.get(space.path("Lease", **query))


@pytest.fixture
def seven(space: Space) -> Space:
    """Seven leases, `lease-0` to `lease-6`; the even ones are red, the first is also large."""
    for number in range(7):
        labels = {"color": "blue" if number % 2 else "red"} | ({} if number else {"size": "large"})
        space.create(lease(f"lease-{number}", labels=labels))
    return space


def test_a_list_has_a_version_and_its_items_no_kind(seven: Space) -> None:
    found = page(seven)
    assert (found["kind"], found["apiVersion"]) == ("LeaseList", "coordination.k8s.io/v1")
    assert names(found["items"]) == [f"lease-{number}" for number in range(7)]
    newest = max(int(item["metadata"]["resourceVersion"]) for item in found["items"])
    assert int(found["metadata"]["resourceVersion"]) >= newest
    assert all("kind" not in item for item in found["items"])
    assert "continue" not in found["metadata"]


def test_pages_hold_everything_once_and_say_what_is_left(seven: Space) -> None:
    seen: list[str] = []
    left: list[int] = []
    token = ""
    while True:
        found = page(seven, limit="3", **({"continue": token} if token else {}))
        seen += names(found["items"])
        token = found["metadata"].get("continue", "")
        left.append(found["metadata"].get("remainingItemCount", 0))
        if not token:
            break
    assert seen == [f"lease-{number}" for number in range(7)]
    assert left == [4, 1, 0]


def test_later_pages_show_the_state_of_the_first(seven: Space) -> None:
    first = page(seven, limit="3")
    seven.create(lease("lease-55"))
    seven.delete("Lease", "lease-6")
    seven.patch("Lease", "lease-5", {"spec": {"holderIdentity": "later"}})
    rest = page(seven, limit="10", **{"continue": first["metadata"]["continue"]})
    assert names(rest["items"]) == [f"lease-{number}" for number in range(3, 7)]
    assert rest["items"][2]["spec"]["holderIdentity"] == "somebody"
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert names(page(seven)["items"]) == [f"lease-{number}" for number in (*range(6), 55)]


def test_pages_go_together_with_selectors(seven: Space) -> None:
    first = page(seven, limit="3", labelSelector="color=red")
    assert names(first["items"]) == ["lease-0", "lease-2", "lease-4"]
    assert "remainingItemCount" not in first["metadata"]  # nobody counts what a selector leaves
    rest = page(seven, limit="3", labelSelector="color=red", **{"continue": first["metadata"]["continue"]})
    assert names(rest["items"]) == ["lease-6"]


def test_a_token_that_is_none_is_a_bad_request(seven: Space) -> None:
    with refusal(400, "BadRequest"):
        page(seven, limit="3", **{"continue": "not-a-token"})


def test_a_list_at_any_version_may_be_asked_for(seven: Space) -> None:
    until("all are in a list of any version", lambda: len(page(seven, resourceVersion="0")["items"]) == 7)
    version = page(seven)["metadata"]["resourceVersion"]
    newer = page(seven, resourceVersion=version, resourceVersionMatch="NotOlderThan")
    assert len(newer["items"]) == 7
    assert int(newer["metadata"]["resourceVersion"]) >= int(version)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("color=red", [0, 2, 4, 6]),
        ("color==red", [0, 2, 4, 6]),
        ("color!=red", [1, 3, 5]),
        ("size", [0]),
        ("!size", [1, 2, 3, 4, 5, 6]),
        ("size!=large", [1, 2, 3, 4, 5, 6]),
        ("color in (red,green)", [0, 2, 4, 6]),
        ("color notin (red)", [1, 3, 5]),
        ("color=red,!size", [2, 4, 6]),
        ("color=green", []),
        ("", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_label_selector_selects(seven: Space, selector: str, found: list[int]) -> None:
    assert names(seven.list("Lease", labelSelector=selector)) == [f"lease-{number}" for number in found]


def test_objects_are_selected_by_name(seven: Space) -> None:
    assert names(seven.list("Lease", fieldSelector="metadata.name=lease-3")) == ["lease-3"]
    assert len(seven.list("Lease", fieldSelector="metadata.name!=lease-3")) == 6
    assert seven.list("Lease", fieldSelector="metadata.name=nobody") == []


def test_pods_are_selected_by_node_and_phase(space: Space, nodes: list[str]) -> None:
    space.create(gated("waiting"))
    for name in ("a", "b"):
        space.runs(pod(name))
    space.patch_status("Pod", "b", {"phase": "Failed"})
    where = space.get("Pod", "a")["spec"]["nodeName"]
    assert "a" in names(space.list("Pod", fieldSelector=f"spec.nodeName={where}"))
    assert names(space.list("Pod", fieldSelector="spec.nodeName=")) == ["waiting"]
    assert names(space.list("Pod", fieldSelector="spec.nodeName!=")) == ["a", "b"]
    assert names(space.list("Pod", fieldSelector="status.phase=Running")) == ["a"]
    assert names(space.list("Pod", fieldSelector="status.phase!=Running,status.phase!=Failed")) == ["waiting"]
    assert names(space.list("Pod", fieldSelector="status.phase=Running", labelSelector="app=b")) == []


def test_all_namespaces_are_listed_together(space: Space) -> None:
    space.create(lease("everywhere"))
    found = space.api.get("/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Deverywhere")["items"]
    assert [(item["metadata"]["namespace"], name_of(item)) for item in found] == [(space.name, "everywhere")]
    ours = f"/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.namespace%3D{space.name}"
    assert names(space.api.get(ours)["items"]) == ["everywhere"]


def test_a_list_may_be_had_as_a_table(seven: Space) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = seven.api.get(seven.path("Lease"), accept)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert [row["cells"][0] for row in table["rows"]] == [f"lease-{number}" for number in range(7)]
    assert name_of(table["rows"][0]["object"]) == "lease-0"
