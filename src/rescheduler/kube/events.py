"""Kubernetes Events about what happened (`kubectl events`, `kubectl describe`).

The name of an Event is derived from its content, so that each is written once: a repetition, after a crash or a lost
answer, finds that it exists already. An Event that cannot be written is logged and dropped, because no move waits for
it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec
import structlog

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, api_version_of, path_of
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.json import Json

CONTROLLER = "rescheduler.io/rescheduler"
_NODES_NAMESPACE = "default"  # where Kubernetes keeps the Events of cluster-scoped objects
_LONGEST_NOTE = 1024  # bytes, as are all of these
_LONGEST_INSTANCE = 128
_LONGEST_NAME = 253
_DIGITS = 16
_MOST = 10_000  # Events that wait to be written; and recent ones that are remembered
_log = structlog.stdlib.get_logger(__name__)


class EventRecorder:
    """Writes Events; `identity` is the name of this replica."""

    def __init__(self, client: ApiClient, identity: str, now: Callable[[], float]) -> None:
        self._client = client
        self._instance = _cut(identity, _LONGEST_INSTANCE)
        self._now = now

    async def record(self, events: Iterable[ObjectEvent]) -> None:
        """Write Events; log those that cannot be written."""
        await asyncio.gather(*(self._write(each) for each in events))

    async def _write(self, event: ObjectEvent) -> None:
        body = self._build(event)
        request = ApiRequest(
            "POST",
            path_of("Event", body["metadata"]["namespace"]),
            {"fieldManager": FIELD_MANAGER},
            msgspec.json.encode(body),
            answers=frozenset({409}),
        )
        try:
            await self._client.send(request)
        except ClusterError as error:
            if isinstance(error, ApiError) and error.reason == "AlreadyExists":
                return
            about = event.regarding
            _log.warning("event not written", reason=event.reason, kind=about.kind, name=about.name, error=str(error))

    def _build(self, event: ObjectEvent) -> Json:
        moment = datetime.fromtimestamp(self._now(), UTC)
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": _name(event), "namespace": event.regarding.namespace or _NODES_NAMESPACE},
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "action": event.action,
            "note": _cut(event.note, _LONGEST_NOTE),
            "regarding": _reference(event.regarding),
            "related": _reference(event.related),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
        }


def _name(event: ObjectEvent) -> str:
    """Return `<object>.<hash>`, the usual form of Event names; the hash identifies the content."""
    about = event.regarding
    content = (event.occasion, event.reason, about.kind, about.namespace, about.name, about.uid)
    digest = hashlib.sha256("\n".join(content).encode()).hexdigest()[:_DIGITS]
    return f"{about.name[: _LONGEST_NAME - _DIGITS - 1].rstrip('-.')}.{digest}"


def _reference(subject: Subject) -> Json:
    found = {
        "apiVersion": api_version_of(subject.kind),
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
    }
    return {key: value for key, value in found.items() if value}


def _cut(text: str, most: int) -> str:
    """Cut a text to so many bytes, at the boundary of a character."""
    raw = text.encode()
    return text if len(raw) <= most else raw[: most - len("…".encode())].decode(errors="ignore") + "…"


class EventQueue:
    """Events that wait to be written: in order, each once."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._waiting: deque[list[ObjectEvent]] = deque(maxlen=_MOST)
        self._known: OrderedDict[tuple[Subject, str, str], None] = OrderedDict()
        self._added = asyncio.Event()

    def add(self, events: Iterable[ObjectEvent]) -> list[ObjectEvent]:
        """Queue the Events that are new, and return those."""
        fresh = [each for each in events if self._is_fresh(each)]
        if fresh:
            self._waiting.append(fresh)
            self._added.set()
        return fresh

    async def run(self) -> None:
        """Write Events until cancelled."""
        while True:
            await self._added.wait()
            self._added.clear()
            await self.flush()

    async def flush(self) -> None:
        """Write everything that is queued now."""
        while self._waiting:
            await self._recorder.record(self._waiting[0])
            self._waiting.popleft()

    def _is_fresh(self, event: ObjectEvent) -> bool:
        key = (event.regarding, event.reason, event.occasion)
        is_known = key in self._known
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return not is_known
