"""Tells people what happened, as Kubernetes Events (`kubectl events`, `kubectl describe`).

The runtime gives it the news of each migration. An Event's name follows from what it tells, so that the same news are
told once: whoever repeats them after a crash, or after an answer that was lost, finds that they are there already. An
Event that cannot be written is logged and forgotten, because no move waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.json import Json

CONTROLLER = "rescheduler.io/rescheduler"
_NODES_NAMESPACE = "default"  # where Kubernetes keeps the events of what has no namespace
_LONGEST_NOTE = 1024  # bytes, as are all of these
_LONGEST_INSTANCE = 128
_LONGEST_NAME = 253
_DIGITS = 16
_log = logging.getLogger(__name__)


class EventRecorder:
    """Writes Events; `identity` says which replica tells."""

    def __init__(self, client: ApiClient, identity: str, now: Callable[[], float]) -> None:
        self._client = client
        self._instance = _cut(identity, _LONGEST_INSTANCE)
        self._now = now

    async def record(self, news: Iterable[ObjectEvent]) -> None:
        """Tell all of it; what cannot be told is logged."""
        await asyncio.gather(*(self._tell(each) for each in news))

    async def _tell(self, news: ObjectEvent) -> None:
        event = self._event(news)
        request = ApiRequest(
            "POST",
            path_of("Event", event["metadata"]["namespace"]),
            {"fieldManager": FIELD_MANAGER},
            msgspec.json.encode(event),
            answers=frozenset({409}),
        )
        try:
            await self._client.send(request)
        except ClusterError as error:
            if isinstance(error, ApiError) and error.reason == "AlreadyExists":
                return
            about = news.regarding
            _log.warning("event %s of %s %s is not told: %s", news.reason, about.kind, about.name, error)

    def _event(self, news: ObjectEvent) -> Json:
        moment = datetime.fromtimestamp(self._now(), UTC)
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": _name(news), "namespace": news.regarding.namespace or _NODES_NAMESPACE},
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning" if news.warning else "Normal",
            "reason": news.reason,
            "action": news.action,
            "note": _cut(news.note, _LONGEST_NOTE),
            "regarding": _reference(news.regarding),
            "related": _reference(news.related),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
        }


def _name(news: ObjectEvent) -> str:
    """`<object>.<hash>`, as events are called; the hash says which news they are."""
    about = news.regarding
    told = (news.occasion, news.reason, about.kind, about.namespace, about.name, about.uid)
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:_DIGITS]
    return f"{about.name[: _LONGEST_NAME - _DIGITS - 1].rstrip('-.')}.{digest}"


def _reference(subject: Subject) -> Json:
    found = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
    }
    return {key: value for key, value in found.items() if value}


def _cut(text: str, most: int) -> str:
    """The text in at most so many bytes, without half a letter at its end."""
    raw = text.encode()
    return text if len(raw) <= most else raw[: most - len("…".encode())].decode(errors="ignore") + "…"


_MOST = 10_000  # news that nobody could be told for so long; and those that are remembered as told


class Teller(Protocol):
    """Who tells people."""

    async def record(self, news: Iterable[ObjectEvent]) -> None: ...


class EventQueue:
    """News that are to be told, in order, each once."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._untold: deque[list[ObjectEvent]] = deque(maxlen=_MOST)
        self._known: OrderedDict[tuple[Subject, str, str], None] = OrderedDict()
        self._some = asyncio.Event()

    def add(self, news: Iterable[ObjectEvent]) -> list[ObjectEvent]:
        """Take note of what is new, and say what that is."""
        fresh = [each for each in news if self._is_fresh(each)]
        if fresh:
            self._untold.append(fresh)
            self._some.set()
        return fresh

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self.flush()

    async def flush(self) -> None:
        """Tell what is there to tell."""
        while self._untold:
            await self._teller.record(self._untold[0])
            self._untold.popleft()

    def _is_fresh(self, news: ObjectEvent) -> bool:
        key = (news.regarding, news.reason, news.occasion)
        is_known = key in self._known
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return not is_known
