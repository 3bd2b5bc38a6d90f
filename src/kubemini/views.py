"""Kinds that show what another kind stores: events.k8s.io Events are core Events.

The HTTP server asks what to store for such a kind, and what to show of what is stored.
"""

from __future__ import annotations

from kubemini.kinds import CORE_EVENT, EVENT, Kind, Kinds
from kubemini.refusals import Json

_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""What events.k8s.io calls otherwise than the core group."""
_CORE_FIELDS = {core: new for new, core in _EVENT_FIELDS.items()}
_SHOWN_BY_CORE = frozenset({"reportingController", "reportingInstance"})
"""What core Events show even when it is empty."""


def storage_kind(kinds: Kinds, kind: Kind) -> Kind:
    """The kind in whose form the objects of a kind are kept."""
    if not kind.storage:
        return kind
    return next(each for each in kinds if each.stored_as == kind.stored_as and not each.storage)


def shown(kind: Kind, body: Json) -> Json:
    """A stored object as this kind shows it."""
    if kind.resource == EVENT.resource:
        body = _renamed(body, _CORE_FIELDS)
        body = {key: value for key, value in body.items() if value != "" or key not in _SHOWN_BY_CORE}
    return {**body, "apiVersion": kind.api_version}


def stored(kind: Kind, body: Json) -> Json:
    """An object of this kind as it is stored; its version is whatever the storing kind's is."""
    if kind.resource == EVENT.resource:
        always = {"reportingComponent": "", "reportingInstance": ""}
        return always | _renamed(body, _EVENT_FIELDS) | {"apiVersion": CORE_EVENT.api_version}
    return body


def _renamed(body: Json, names: dict[str, str]) -> Json:
    return {names.get(key, key): value for key, value in body.items()}
