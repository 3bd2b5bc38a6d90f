"""Leader election by a Lease: of all replicas, one acts. The times are those of client-go: 15 s, 10 s, 2 s.

`runtime` runs it. Whoever leads renews; if he cannot for `renew_deadline`, he must stop acting at once, before anybody
else may believe the lease to be free. How old a renewal is, is measured by our own clock from when we saw it change, so
that clocks of different machines need not agree. A process that was frozen cannot stop in time: so it asks `may_act`
before every write.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.kube.objects import path_of
from rescheduler.model.json import Json

_log = logging.getLogger(__name__)
_JITTER = 0.2
_RELEASES = 3  # a renewal that was on its way when we were told to go may still come between


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, within what time it must be renewed, and how often that is tried; in seconds."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which lease, and who we are in it. No two processes, not even one after the other, share an identity."""

    namespace: str
    name: str
    identity: str


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Spec(msgspec.Struct):
    holder: str | None = msgspec.field(name="holderIdentity", default=None)
    seconds: int | None = msgspec.field(name="leaseDurationSeconds", default=None)
    acquired: str | None = msgspec.field(name="acquireTime", default=None)
    transitions: int | None = msgspec.field(name="leaseTransitions", default=None)


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A lease as it was read: `whole` is written back with everything in it that is not ours to know."""

    whole: Json
    version: str
    spec: _Spec


@dataclass
class LeaderElector:
    """Takes part in the election. `leading` is set while we lead; `run` returns when we did and do not any more."""

    client: ApiClient
    lease: LeaseName
    times: LeaseTimes = field(default_factory=LeaseTimes)
    leading: asyncio.Event = field(default_factory=asyncio.Event)
    holder: str = ""
    on_new_leader: Callable[[str], None] = lambda _: None
    _seen: tuple[str, float] = ("", 0.0)
    _renewed: float = -math.inf

    async def run(self) -> None:
        """Try to lead until we do, then renew until that fails: returns when the lead is lost."""
        while True:
            started = _clock()
            held = await self._try()
            if held and _clock() - started < self.times.renew_deadline:
                self._renewed = started  # for others it began later, so we stop before they start
                self.leading.set()
            if self._is_lost():
                self.leading.clear()
                return
            pause = self.times.retry_period * (1 if held else 1 + _JITTER * random.random())  # noqa: S311  spread only
            await asyncio.sleep(min(pause, self._left()) if self.leading.is_set() else pause)

    def may_act(self) -> bool:
        """Whether nobody else can believe to lead at this moment. True only within `renew_deadline` of a renewal."""
        return self.leading.is_set() and self._left() > 0

    async def release(self) -> None:
        """Give the lease up, so that the next one need not wait for it to run out. Nothing of ours may act any more.

        `run` must have ended. A server that cannot be reached is no error: then the lease runs out.
        """
        if not self.leading.is_set():
            return
        self.leading.clear()
        try:
            async with asyncio.timeout(self.times.renew_deadline):
                for _ in range(_RELEASES):
                    if await self._released():
                        return
        except (ClusterError, TimeoutError) as error:
            _log.warning("lease %s could not be released: %s", self.lease.name, str(error) or "no answer in time")

    def _left(self) -> float:
        """For how many seconds we still may act."""
        return self._renewed + self.times.renew_deadline - _clock()

    def _is_lost(self) -> bool:
        if not self.leading.is_set():
            return False
        if self._left() <= 0:
            _log.error("lease %s could not be renewed for %g s: we stop", self.lease.name, self.times.renew_deadline)
            return True
        if self.holder != self.lease.identity:
            _log.error("lease %s is held by %s now: we stop", self.lease.name, self.holder or "nobody")
            return True
        return False

    async def _try(self) -> bool:
        """One attempt to take or keep the lease; a failure to reach the server is a failed attempt."""
        limit = self.times.renew_deadline / 2
        if self.leading.is_set():
            limit = min(limit, self._left())
            if limit <= 0:
                return False  # too late, even if nobody has taken it yet
        try:
            async with asyncio.timeout(limit):
                return await self._attempt()
        except (ClusterError, TimeoutError) as error:
            _log.warning("lease %s: %s; tried again", self.lease.name, str(error) or "no answer in time")
            return False

    async def _attempt(self) -> bool:
        found = await self._read()
        if found is None:
            metadata = {"name": self.lease.name, "namespace": self.lease.namespace}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            return await self._write("POST", body | {"spec": self._spec(None)})
        if found.version != self._seen[0]:
            self._seen = (found.version, _clock())
        self._note(found.spec.holder or "")
        if self.holder != self.lease.identity:
            fresh = _clock() - self._seen[1] < (found.spec.seconds or self.times.duration)
            if self.leading.is_set() or (self.holder and fresh):
                return False  # a leader never takes the lease again that others may have had meanwhile
        return await self._write("PUT", found.whole | {"spec": self._spec(found)})

    async def _released(self) -> bool:
        """Whether it is free, or not ours to free."""
        found = await self._read()
        if found is None or found.spec.holder != self.lease.identity:
            return True
        spec = found.whole["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
        return await self._write("PUT", found.whole | {"spec": spec})

    def _spec(self, found: _Found | None) -> Json:
        now = _micro_time()
        ours = {
            "holderIdentity": self.lease.identity,
            "leaseDurationSeconds": math.ceil(self.times.duration),
            "renewTime": now,
        }
        if found is None:
            return ours | {"acquireTime": now, "leaseTransitions": 0}
        transitions = found.spec.transitions or 0
        if found.spec.holder == self.lease.identity:
            ours |= {"acquireTime": found.spec.acquired or now, "leaseTransitions": transitions}
        else:
            ours |= {"acquireTime": now, "leaseTransitions": transitions + 1}
        return (found.whole.get("spec") or {}) | ours

    async def _read(self) -> _Found | None:
        path = path_of("Lease", self.lease.namespace, self.lease.name)
        answer = await self.client.find(path)
        return _found(answer, path) if answer is not None else None

    async def _write(self, method: str, body: Json) -> bool:
        """Whether nobody was faster."""
        name = self.lease.name if method == "PUT" else ""
        path = path_of("Lease", self.lease.namespace, name)
        try:
            answer = await self.client.send(
                ApiRequest(method, path, {}, msgspec.json.encode(body), answers=frozenset({409}))
            )
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        written = _found(answer, path)
        self._seen = (written.version, _clock())
        self._note(written.spec.holder or "")
        return True

    def _note(self, holder: str) -> None:
        if holder != self.holder:
            self.holder = holder
            if holder:
                self.on_new_leader(holder)


def _found(answer: bytes, path: str) -> _Found:
    try:
        lean, whole = msgspec.json.decode(answer, type=_Lease), msgspec.json.decode(answer, type=Json)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(None, NOT_KUBERNETES, f"a lease does not decode: {error}", path) from error
    return _Found(whole, lean.metadata.resource_version, lean.spec or _Spec())


def _clock() -> float:
    """Monotonic, and it goes on while a process is stopped."""
    return asyncio.get_running_loop().time()


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
