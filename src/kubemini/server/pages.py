"""Pages of a list that all show the state of the first one, however long the client takes over them.

A continue token says at which version the list began and where the next page starts, as etcd's do. What was there at
that version is kept for a while, or put together from the history; if both have forgotten it, the client is told so
and may go on inconsistently.
"""

from __future__ import annotations

import base64
import binascii
import bisect
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kubemini.kinds import Kind
from kubemini.refusals import Json, Refusal, bad_request, expired
from kubemini.store import Entry, Key, Store

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105  the name of a format, not a secret
_NEWEST = -1
_KEPT_SECONDS = 300.0
_KEPT_STATES = 32
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a page begins, and at which version; the newest if there is none."""

    version: int | None
    key: Key


class PageExpired(Refusal):
    """The state that a page belongs to is forgotten; the Status has a token to go on with at the newest one."""

    def __init__(self, start: Start) -> None:
        super().__init__(410, "Expired", _TOO_OLD)
        self._token = _encoded(_NEWEST, start.key)

    @property
    def status(self) -> Json:
        """The Status, with the other token."""
        return super().status | {"metadata": {"continue": self._token}}


class States:
    """What was there at earlier versions. `time` is a clock that never goes back."""

    def __init__(self, store: Store, time: Callable[[], float]) -> None:
        self._store = store
        self._time = time
        self._kept: OrderedDict[tuple[str, str, int], tuple[float, list[Entry]]] = OrderedDict()

    def keep(self, kind: Kind, namespace: str, entries: list[Entry]) -> None:
        """Keep the newest state of a kind for later pages: entries never change, so it is a list of references."""
        where = (kind.stored_as, namespace, self._store.version)
        if where not in self._kept:
            self._kept[where] = (self._time() + _KEPT_SECONDS, entries)
        self._forget()

    def at(self, kind: Kind, namespace: str, version: int) -> list[Entry]:
        """The objects as they were at a version; refused when that is forgotten."""
        self._forget()
        kept = self._kept.get((kind.stored_as, namespace, version))
        if kept is not None:
            return kept[1]
        try:
            changes = self._store.since(kind, version)
        except Refusal:
            raise expired("The resourceVersion for the provided list is too old.") from None
        entries = {entry.key: entry for entry in self._store.entries(kind, namespace)}
        for change in reversed(changes):
            key = change.entry.key
            if namespace and key[0] != namespace:
                continue
            if change.before is None:
                entries.pop(key, None)
            else:
                entries[key] = change.before
        return [entries[key] for key in sorted(entries)]

    def _forget(self) -> None:
        now = self._time()
        for where, (until, _) in list(self._kept.items()):
            if until > now and len(self._kept) <= _KEPT_STATES:
                return
            del self._kept[where]


def token_for(version: int, after: Key) -> str:
    """The token of the page that begins after an object."""
    return _encoded(version, (after[0], f"{after[1]}\0"))


def start_of(token: str) -> Start:
    """What a token says; refused if it is none of ours."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        read = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if read.v != _TOKEN_VERSION or not read.start or read.rv == 0:
        why = f"server does not recognize this encoded version {read.v!r} with start key {read.start!r}"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    namespace, slash, name = read.start.partition("/")
    key = (namespace, name) if slash else ("", read.start)
    return Start(None if read.rv == _NEWEST else read.rv, key)


def after(entries: list[Entry], key: Key) -> int:
    """The place of the first object at or after a key."""
    return bisect.bisect_left(entries, key, key=lambda entry: entry.key)


def _encoded(version: int, key: Key) -> str:
    token = _Token(_TOKEN_VERSION, version, "/".join(key))
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()
