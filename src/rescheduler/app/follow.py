"""Follows objects of a live cluster as they change, for commands that wait or watch.

Lists, then watches, and resumes after cut watches like the controller's informers. Each change is reported once.
Waiting for migrations is built on that.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec
import structlog
from structlog.typing import EventDict, WrappedLogger

from rescheduler.app.planning import InputError
from rescheduler.decode.reader import Bytes
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import InvalidMigrationError, decode_migration, decode_migrations
from rescheduler.kube.objects import NotFoundError, ObjectClient, path_of
from rescheduler.kube.reflector import Reflector
from rescheduler.model.json import Json, ObjectKey
from rescheduler.model.migration import PodMigration
from rescheduler.model.time import InstantError, parse_instant

KIND = "PodMigration"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object after a change; if it is gone, its last state."""

    body: Json
    gone: bool = False

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        metadata = self.body["metadata"]
        return metadata.get("namespace", ""), metadata["name"]


Tell = Callable[[ObjectChange], None]
Settled = Callable[[], None]


@dataclass(frozen=True, slots=True)
class FollowedObjects:
    """The objects to follow: a kind, in one namespace or all, with a label or field selector."""

    kind: str
    namespace: str = ""
    selection: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """The path to list and watch."""
        query = f"?{urlencode(self.selection)}" if self.selection else ""
        return path_of(self.kind, self.namespace) + query


class ChangeSink:
    """A sink for a reflector that reports changes to `tell`. The first list is reported when it is complete, sorted."""

    def __init__(self, tell: Tell, settled: Settled = lambda: None) -> None:
        self._tell = tell
        self._settled = settled
        self._known: dict[ObjectKey, Json] = {}
        self._listed: dict[ObjectKey, Json] | None = None

    def begin(self) -> None:
        """Start a new list."""
        self._listed = {}

    def put(self, raw: Bytes) -> str:
        """Add or update an object; return its version."""
        change = ObjectChange(msgspec.json.decode(raw))
        if self._listed is not None:
            self._listed[change.key] = change.body
        else:
            self._take(change)
        return _version(change.body)

    def drop(self, raw: Bytes) -> str:
        """Remove an object; return its version."""
        change = ObjectChange(msgspec.json.decode(raw), gone=True)
        if self._listed is not None:
            self._listed.pop(change.key, None)
        elif self._known.pop(change.key, None) is not None:
            self._tell(change)
        return _version(change.body)

    def complete(self) -> None:
        """End the list: known objects that are not in it are gone."""
        listed, self._listed = self._listed or {}, None
        for key in sorted(self._known.keys() - listed.keys()):
            self._tell(ObjectChange(self._known.pop(key), gone=True))
        for _, body in sorted(listed.items()):
            self._take(ObjectChange(body))
        self._settled()

    def _take(self, change: ObjectChange) -> None:
        known = self._known.get(change.key)
        self._known[change.key] = change.body
        if known is None or _version(known) != _version(change.body):
            self._tell(change)


def _render(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Return the event and the values of its fields, as a message for people."""
    return ": ".join(map(str, (event.pop("event"), *event.values())))


async def follow(client: ApiClient, followed: Mapping[FollowedObjects, ChangeSink], enough: asyncio.Event) -> None:
    """Follow until `enough` is set; errors of a sink are raised."""
    if not structlog.is_configured():  # then structlog would print to stdout, beside the command's output
        structlog.configure(
            processors=[structlog.stdlib.filter_by_level, _render], logger_factory=structlog.stdlib.LoggerFactory()
        )
    tasks = [asyncio.create_task(Reflector(client, part.path, sink).run()) for part, sink in followed.items()]
    end = asyncio.create_task(enough.wait())
    try:
        done, _ = await asyncio.wait([*tasks, end], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        for task in (*tasks, end):
            task.cancel()
        await asyncio.gather(*tasks, end, return_exceptions=True)


async def list_migrations(client: ApiClient, part: FollowedObjects, name: str | None = None) -> list[Json]:
    """List PodMigrations, sorted by namespace and name; NotFoundError if the named one does not exist."""
    found = await ObjectClient(client).list_migrations(part.namespace, dict(part.selection))
    if name is not None and not found:
        others = await ObjectClient(client).list_names(KIND, part.namespace)
        raise NotFoundError(KIND, part.namespace, name, [each for each in others if each != name])
    return sorted(found, key=lambda body: ObjectChange(body).key)


async def watch_migrations(
    client: ApiClient, part: FollowedObjects, follower: ChangeSink, name: str | None = None
) -> None:
    """Report changes of PodMigrations until interrupted; NotFoundError if the named one does not exist at first."""
    await list_migrations(client, part, name)  # fail now if it is missing, instead of retrying
    await follow(client, {part: follower}, asyncio.Event())


async def await_migrations(
    client: ApiClient, keys: Collection[ObjectKey], noticed: Callable[[PodMigration], None], limit: float | None
) -> dict[ObjectKey, PodMigration | None]:
    """Wait until these are over, and report each change; None is a deleted one. TimeoutError after `limit` seconds."""
    wanted, seen = frozenset(keys), set[ObjectKey]()
    ended: dict[ObjectKey, PodMigration | None] = {}
    enough = asyncio.Event()

    def tell(change: ObjectChange) -> None:
        if change.key not in wanted:
            return
        seen.add(change.key)
        if change.gone:
            ended.setdefault(change.key, None)
        else:
            migration = _decode(change.body)
            noticed(migration)
            if migration.status.over:
                ended[change.key] = migration
        look()

    def settled() -> None:
        for key in wanted - seen:  # deleted before
            ended.setdefault(key, None)
        look()

    def look() -> None:
        if len(ended) == len(wanted):
            enough.set()

    async with asyncio.timeout(limit):
        await follow(client, {_select(keys): ChangeSink(tell, settled)}, enough)
    return ended


async def read_migrations(client: ApiClient, namespace: str = "") -> list[PodMigration]:
    """Read PodMigrations, except malformed ones: nothing is moved for those, and the controller reports them."""
    return decode_migrations(await ObjectClient(client).list_migrations(namespace))


def _select(keys: Collection[ObjectKey]) -> FollowedObjects:
    """Return the smallest selection that includes them all."""
    namespaces = {namespace for namespace, _ in keys}
    if len(keys) == 1:
        [(namespace, name)] = keys
        return FollowedObjects(KIND, namespace, (("fieldSelector", f"metadata.name={name}"),))
    return FollowedObjects(KIND, namespaces.pop() if len(namespaces) == 1 else "")


def _decode(body: Json) -> PodMigration:
    try:
        return decode_migration(body)
    except InvalidMigrationError as error:
        raise InputError(str(error)) from error


def _version(body: Json) -> str:
    return str(body["metadata"].get("resourceVersion", ""))


_DURATION = 15.0  # of a lease that does not say how long it lasts
_SKEW = 30.0  # seconds that clocks may differ before a lease counts as expired


async def explain_absence(client: ApiClient, lease: str) -> str:
    """Explain why no controller seems to run; empty if one does, or if Leases may not be listed."""
    found = await find_everywhere(client, "Lease", lease)  # it is in the controller's namespace, wherever that is
    if found is None:
        return ""
    if not found:
        return f"no controller seems to run: there is no Lease {lease} in any namespace"
    late = [_seconds_overdue(each, time.time()) for each in found if (each.get("spec") or {}).get("holderIdentity")]
    if not late:
        return f"no controller seems to run: the Lease {lease} has no holder"
    if min(late) <= _SKEW:
        return ""
    return f"no controller seems to run: the Lease {lease} ran out {min(late):.0f} s ago"


async def find_everywhere(client: ApiClient, kind: str, name: str) -> list[Json] | None:
    """Find the objects of a name in all namespaces; None without the right to list them."""
    try:
        return await ObjectClient(client).list_all(kind, selection={"fieldSelector": f"metadata.name={name}"})
    except ApiError as error:
        if error.status != 403:
            raise
        return None


def _seconds_overdue(lease: Json, now: float) -> float:
    """Return the seconds since it expired; negative while it is valid."""
    spec = lease["spec"]
    try:
        renewed = parse_instant(spec.get("renewTime") or "")
    except InstantError:
        return -math.inf  # the holder writes times in a form of its own: assume that it is valid
    return now - renewed - float(spec.get("leaseDurationSeconds") or _DURATION)
