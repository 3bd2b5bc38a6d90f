"""Events: those that the scheduler, the kubelets and the controllers emit, and the two forms of all Events.

A repeated message counts up instead of filling the store. Events are kept in the form of the core group; `shown` and
`stored` convert them to and from events.k8s.io.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict

from kubemini import clock
from kubemini.errors import Json
from kubemini.kinds import CORE_EVENT, EVENT
from kubemini.store import Key, Store

_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""What the core group calls the fields of events.k8s.io."""
_NEW_NAMES = {core: new for new, core in _CORE_NAMES.items()}
_REMEMBERED = 4096


def shown(event: Json) -> Json:
    """A stored Event in the form of events.k8s.io."""
    return {_NEW_NAMES.get(key, key): value for key, value in event.items()} | {"apiVersion": EVENT.api_version}


def stored(event: Json) -> Json:
    """An Event of events.k8s.io in the form in which it is stored."""
    always = {"reportingComponent": "", "reportingInstance": ""}
    renamed = {_CORE_NAMES.get(key, key): value for key, value in event.items()}
    return always | renamed | {"apiVersion": CORE_EVENT.api_version}


class EventRecorder:
    """Writes events for one component."""

    def __init__(self, store: Store, component: str) -> None:
        self._store = store
        self._component = component
        self._recorded: OrderedDict[tuple[str, str, str], Key] = OrderedDict()

    def record(self, about: Json, reason: str, message: str, *, warning: bool = False) -> None:
        """Record what happened to an object."""
        metadata = about["metadata"]
        key = (metadata["uid"], reason, message)
        now = clock.stamp(clock.now())
        entry = self._store.get(CORE_EVENT, self._recorded[key]) if key in self._recorded else None
        if entry is not None:
            event = entry.object()
            event["count"] += 1
            event["lastTimestamp"] = now
            self._store.replace(CORE_EVENT, event, entry.version)
            return
        namespace = metadata.get("namespace") or "default"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}",
                "namespace": namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": now,
            },
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata.get("resourceVersion", ""),
            }
            | ({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
            "count": 1,
        }
        self._recorded[key] = self._store.create(CORE_EVENT, event).key
        if len(self._recorded) > _REMEMBERED:
            self._recorded.popitem(last=False)
