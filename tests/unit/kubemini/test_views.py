"""Kinds that show what another kind stores: Events of events.k8s.io, and versions of custom resources."""

from __future__ import annotations

import pytest

from kubemini.custom_kind import kinds_of
from kubemini.kinds import CORE_EVENT, EVENT, POD, Kinds
from kubemini.refusals import Json
from kubemini.views import shown, storage_kind, stored

CORE: Json = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "reason": "Moved",
    "message": "it went",
    "source": {"component": "kubelet", "host": "n"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:01Z",
    "count": 2,
    "type": "Normal",
    "eventTime": None,
    "action": "Moving",
    "related": {"kind": "Node", "name": "n"},
    "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
    "reportingComponent": "rescheduler",
    "reportingInstance": "rescheduler-0",
}
NEW: Json = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"},
    "regarding": {"kind": "Pod", "name": "p"},
    "reason": "Moved",
    "note": "it went",
    "deprecatedSource": {"component": "kubelet", "host": "n"},
    "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2026-01-01T00:00:01Z",
    "deprecatedCount": 2,
    "type": "Normal",
    "eventTime": None,
    "action": "Moving",
    "related": {"kind": "Node", "name": "n"},
    "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
    "reportingController": "rescheduler",
    "reportingInstance": "rescheduler-0",
}


def definition(*versions: str, storage: str) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": each, "served": True, "storage": each == storage, "schema": {"openAPIV3Schema": schema}}
                for each in versions
            ],
        },
    }


def test_an_event_is_shown_in_the_words_of_either_group() -> None:
    assert shown(EVENT, CORE) == NEW
    assert stored(EVENT, NEW) == CORE


def test_an_event_without_a_reporter_shows_none_in_the_newer_group() -> None:
    old_style = CORE | {"reportingComponent": "", "reportingInstance": ""}
    new_style = {key: value for key, value in NEW.items() if not key.startswith("reporting")}
    assert shown(EVENT, old_style) == new_style
    assert stored(EVENT, new_style) == old_style


def test_events_are_stored_as_core_events_and_pods_as_pods() -> None:
    kinds = Kinds()
    assert storage_kind(kinds, EVENT) is CORE_EVENT
    assert storage_kind(kinds, POD) is POD


@pytest.mark.parametrize("storage", ["v1", "v1beta1"])
def test_all_versions_of_a_custom_resource_are_one(storage: str) -> None:
    kinds = Kinds()
    served = kinds_of(definition("v1beta1", "v1", storage=storage))
    for kind in served:
        kinds.add(kind)
    assert served[0].version == storage
    other = served[1]
    assert other.storage == "widgets.example.com"
    assert storage_kind(kinds, other) is served[0]
    body = {"apiVersion": other.api_version, "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": "1", "b": "2"}}
    kept = stored(other, body)
    assert kept == {**body, "apiVersion": f"example.com/{storage}", "spec": {"a": "1"}}
    assert shown(other, kept)["apiVersion"] == other.api_version


def test_a_version_that_is_not_served_has_no_kind() -> None:
    made = definition("v1beta1", "v1", storage="v1beta1")
    made["spec"]["versions"][0]["served"] = False
    (only,) = kinds_of(made)
    assert (only.version, only.storage) == ("v1", "")
