"""A copy that lacks what its original was given after its template is not handed over to."""

from __future__ import annotations

import pytest

from rescheduler.migration.steps.common import Done, GiveUp
from rescheduler.migration.steps.handoff import CheckCopy
from rescheduler.model.json import Json
from tests.unit.migration.scenes import copy_of, migration, pod, scene

MAIN, SIDECAR = {"name": "main", "image": "x"}, {"name": "proxy", "image": "y"}


def sized(cpu: str, **limits: str) -> Json:
    return MAIN | {"resources": {"requests": {"cpu": cpu}, "limits": limits}}


def outlook(original: Json, copy: Json, generation: int = 1) -> Done | GiveUp:
    first, second = pod(generation=generation), copy_of()
    first["metadata"]["generation"] = generation
    first["spec"] |= original
    second["spec"] |= copy
    found = CheckCopy().look(scene(migration(), second, pod=first))
    assert isinstance(found, Done | GiveUp)
    return found


@pytest.mark.parametrize(
    ("original", "copy", "missing"),
    [
        ({"containers": [MAIN, SIDECAR]}, {"containers": [MAIN]}, "container proxy"),
        ({"initContainers": [SIDECAR]}, {}, "container proxy"),
        ({"serviceAccountName": "web"}, {"serviceAccountName": "default"}, "service account web"),
        ({"containers": [sized("2")]}, {"containers": [MAIN]}, "container main"),
        ({"containers": [sized("1500m")]}, {"containers": [sized("1")]}, "container main"),
        ({"containers": [sized("1", memory="2Gi")]}, {"containers": [sized("1", memory="1Gi")]}, "container main"),
    ],
)
def test_what_the_copy_lacks_is_left_to_another_method(original: Json, copy: Json, missing: str) -> None:
    found = outlook(original, copy)
    assert isinstance(found, GiveUp)
    assert found.other_method
    assert missing in found.reason


@pytest.mark.parametrize(
    ("original", "copy"),
    [
        ({}, {}),
        ({"containers": [MAIN]}, {"containers": [MAIN, SIDECAR]}),
        ({"containers": [sized("1")]}, {"containers": [sized("1000m")]}),
        ({"containers": [sized("1")]}, {"containers": [sized("2")]}),
        ({"serviceAccountName": "default"}, {}),
    ],
)
def test_a_copy_with_all_of_it_goes_on(original: Json, copy: Json) -> None:
    assert outlook(original, copy) == Done()


def test_a_pod_that_was_resized_in_place_stays_because_an_eviction_would_lose_it_too() -> None:
    found = outlook({"containers": [sized("2")]}, {"containers": [sized("1")]}, generation=2)
    assert isinstance(found, GiveUp)
    assert (found.retry, found.other_method) == (False, False)
    assert "resized in place" in found.reason
