"""Kinds that show what another kind stores: Events of events.k8s.io."""

from __future__ import annotations

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
