"""The placeholder: it asks for what the pod asks for, runs nowhere, and belongs to its migration alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.decode.pods import pod_requests
from rescheduler.decode.structs import ApiPodSpec
from rescheduler.migration.steps.placeholder import build_placeholder, find_placeholder, placeholder_name, release_room
from rescheduler.model.json import Json
from rescheduler.model.labels import GATE, MANAGED_BY, MANAGER, PLACEHOLDER
from rescheduler.model.plan import Method
from rescheduler.model.quantity import amount
from tests.unit.migration.scenes import leaving, migration, pod, replica_set, scene

EVICT = migration(Method.EVICT)

_quantities = st.sampled_from(["0", "100m", "1", "1500m", "64Mi", "1Gi", "0.5", "3"])
_resources = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu", "hugepages-2Mi"]), _quantities)
_containers = st.fixed_dictionaries({"resources": _resources.map(lambda asked: {"requests": asked})})
_inits = st.tuples(_containers, st.booleans()).map(
    lambda drawn: drawn[0] | ({"restartPolicy": "Always"} if drawn[1] else {})
)


def held_for(spec: Json) -> Json:
    original = pod()
    original["spec"] |= spec
    return build_placeholder(scene(EVICT), original)


def container(**requests: str) -> Json:
    return {"name": "c", "image": "registry.test/app:1", "resources": {"requests": requests}}


@given(st.lists(_containers, min_size=1, max_size=3), st.lists(_inits, max_size=3), _resources, st.none() | _resources)
def test_it_asks_for_what_planning_counts_for_the_pod(
    containers: list[Json], inits: list[Json], overhead: dict[str, str], whole: dict[str, str] | None
) -> None:
    import msgspec  # noqa: PLC0415 - only this oracle reads bytes

    named = [each | {"name": f"c{index}", "image": "x"} for index, each in enumerate(containers)]
    before = [each | {"name": f"i{index}", "image": "x"} for index, each in enumerate(inits)]
    spec: Json = {"containers": named, "initContainers": before, "overhead": overhead}
    if whole is not None:
        spec["resources"] = {"requests": whole}
    (room,) = held_for(spec)["spec"]["containers"]
    counted = {name: amount(name, text) for name, text in room["resources"]["requests"].items()}
    assert counted == dict(pod_requests(msgspec.json.decode(msgspec.json.encode(spec), type=ApiPodSpec)))
    assert room["resources"]["limits"] == room["resources"]["requests"]


def test_policies_let_it_in_and_the_same_scheduler_keeps_room_for_it() -> None:
    kept: Json = {
        "schedulerName": "special",
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
        "serviceAccountName": "web",
    }
    dropped: dict[str, Any] = {
        "volumes": [{"name": "data"}],
        "runtimeClassName": "sandbox",
        "hostNetwork": True,
        "nodeSelector": {"a": "b"},
        "priority": 7,
    }
    spec = held_for({"containers": [container(cpu="1")], **kept, **dropped})["spec"]
    assert kept.items() <= spec.items()
    assert not dropped.keys() & spec.keys()
    assert spec["containers"][0]["image"] == "registry.test/app:1"
    assert spec["automountServiceAccountToken"] is False
    assert spec["terminationGracePeriodSeconds"] == 0
    guarded = spec["containers"][0]["securityContext"]
    assert (guarded["runAsNonRoot"], guarded["allowPrivilegeEscalation"]) == (True, False)
    assert guarded["capabilities"] == {"drop": ["ALL"]}
    assert guarded["seccompProfile"] == {"type": "RuntimeDefault"}


def test_it_stays_behind_its_gate_and_goes_with_its_migration() -> None:
    body = held_for({})
    assert body["spec"]["schedulingGates"] == [{"name": GATE}]
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner.get("controller")) == ("PodMigration", "m-uid", None)


def test_nothing_that_selects_the_pod_selects_it() -> None:
    labels = held_for({})["metadata"]["labels"]
    assert labels == {PLACEHOLDER: "m", MANAGED_BY: MANAGER}
    assert not replica_set()["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_its_name_follows_from_its_migrations_and_fits() -> None:
    assert placeholder_name("web-a-1234") == "web-a-1234-room"
    assert len(placeholder_name("x" * 253)) == 253


def test_only_its_own_placeholder_is_released_and_only_once() -> None:
    ours = {**held_for({}), "metadata": held_for({})["metadata"] | {"uid": "p", "resourceVersion": "1"}}
    stranger = pod("m-room", owner=False)
    theirs = {**ours, "metadata": ours["metadata"] | {"labels": ours["metadata"]["labels"] | {PLACEHOLDER: "n"}}}
    assert [each.name for each in release_room(scene(EVICT, placeholder=ours))] == ["m-room"]
    for other in (None, stranger, theirs):
        assert find_placeholder(scene(EVICT, placeholder=other)) is None
        assert release_room(scene(EVICT, placeholder=other)) == []
    assert release_room(scene(EVICT, placeholder=leaving(ours))) == []
