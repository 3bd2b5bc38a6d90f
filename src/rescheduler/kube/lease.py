"""Leader election by a Lease: one of all replicas acts. The times are those of client-go: 15 s, 10 s, 2 s.

The leader renews the lease. If that fails for `renew_deadline`, it must stop acting at once, before another replica may
take the lease. The age of a renewal is measured by the local clock from when the change was seen, so that the clocks of
different machines need not agree. A frozen process cannot stop in time, so it checks `may_act` before every write.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import structlog

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.kube.objects import path_of
from rescheduler.model.json import Json

_log = structlog.stdlib.get_logger(__name__)
_JITTER = 0.2
_RELEASES = 3  # a renewal that was under way may still conflict


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, how soon it must be renewed, and how often that is tried; in seconds."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseName:
    """A lease, and the identity of this process in it. No two processes ever share an identity."""

    namespace: str
    name: str
    identity: str


class _Spec(msgspec.Struct):
    holder: str | None = msgspec.field(name="holderIdentity", default=None)
    seconds: int | None = msgspec.field(name="leaseDurationSeconds", default=None)
    acquired: str | None = msgspec.field(name="acquireTime", default=None)
    transitions: int | None = msgspec.field(name="leaseTransitions", default=None)


@dataclass(frozen=True, slots=True)
class _Found:
    """A lease as it was read; `body` keeps the fields that are unknown here, for the write."""

    body: Json
    version: str
    spec: _Spec


@dataclass
class LeaderElector:
    """Takes part in the election. `leading` is set while this process leads; `run` returns when the lead is lost."""

    client: ApiClient
    lease: LeaseName
    times: LeaseTimes = field(default_factory=LeaseTimes)
    leading: asyncio.Event = field(default_factory=asyncio.Event)
    holder: str = ""
    on_new_leader: Callable[[str], None] = lambda _: None
    _seen: tuple[str, float] = ("", 0.0)
    _renewed: float = -math.inf

    async def run(self) -> None:
        """Acquire the lease, then renew it until that fails; return when the lead is lost."""
        while True:
            started = _clock()
            held = await self._try()
            if held and _clock() - started < self.times.renew_deadline:
                self._renewed = started  # others saw it later, so this process stops before they start
                self.leading.set()
            if self._is_lost():
                self.leading.clear()
                return
            pause = self.times.retry_period * (1 if held else 1 + _JITTER * random.random())  # noqa: S311  spread only
            await asyncio.sleep(min(pause, self._left()) if self.leading.is_set() else pause)

    def may_act(self) -> bool:
        """Whether no other replica can be leading now. True only within `renew_deadline` of a renewal."""
        return self.leading.is_set() and self._left() > 0

    async def release(self) -> None:
        """Release the lease, so that the next leader need not wait for it to expire. Nothing may act any more.

        `run` must have ended. An unreachable server is no error: the lease then expires.
        """
        if not self.leading.is_set():
            return
        self.leading.clear()
        try:
            async with asyncio.timeout(self.times.renew_deadline):
                for _ in range(_RELEASES):
                    if await self._try_release():
                        return
        except (ClusterError, TimeoutError) as error:
            _log.warning("lease not released", lease=self.lease.name, error=str(error) or "no answer in time")

    def _left(self) -> float:
        """Return for how many seconds this process may still act."""
        return self._renewed + self.times.renew_deadline - _clock()

    def _is_lost(self) -> bool:
        if not self.leading.is_set():
            return False
        if self._left() <= 0:
            _log.error("lease not renewed in time, stopping", lease=self.lease.name, seconds=self.times.renew_deadline)
            return True
        if self.holder != self.lease.identity:
            _log.error("lease lost, stopping", lease=self.lease.name, holder=self.holder)
            return True
        return False

    async def _try(self) -> bool:
        """Try once to acquire or renew the lease; a failure to reach the server is a failed attempt."""
        limit = self.times.renew_deadline / 2
        if self.leading.is_set():
            limit = min(limit, self._left())
            if limit <= 0:
                return False  # too late, even if no other replica has taken it yet
        try:
            async with asyncio.timeout(limit):
                return await self._attempt()
        except (ClusterError, TimeoutError) as error:
            _log.warning(
                "lease attempt failed, retrying", lease=self.lease.name, error=str(error) or "no answer in time"
            )
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
                return False  # a leader never takes a lease back that others may have held meanwhile
        return await self._write("PUT", found.body | {"spec": self._spec(found)})

    async def _try_release(self) -> bool:
        """Whether the lease is free, or held by another process."""
        found = await self._read()
        if found is None or found.spec.holder != self.lease.identity:
            return True
        spec = found.body["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
        return await self._write("PUT", found.body | {"spec": spec})

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
        return (found.body.get("spec") or {}) | ours

    async def _read(self) -> _Found | None:
        path = path_of("Lease", self.lease.namespace, self.lease.name)
        answer = await self.client.find(path)
        return _decode(answer, path) if answer is not None else None

    async def _write(self, method: str, body: Json) -> bool:
        """Write the lease; False if another replica was faster."""
        name = self.lease.name if method == "PUT" else ""
        path = path_of("Lease", self.lease.namespace, name)
        answer = await self.client.write(ApiRequest(method, path, {}, msgspec.json.encode(body)))
        if answer is None:
            return False
        written = _decode(answer, path)
        self._seen = (written.version, _clock())
        self._note(written.spec.holder or "")
        return True

    def _note(self, holder: str) -> None:
        if holder != self.holder:
            self.holder = holder
            if holder:
                self.on_new_leader(holder)


def _decode(answer: bytes, path: str) -> _Found:
    try:
        body = msgspec.json.decode(answer, type=Json)
        return _Found(body, body["metadata"]["resourceVersion"], msgspec.convert(body.get("spec") or {}, _Spec))
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ApiError(None, NOT_KUBERNETES, f"a lease does not decode: {error}", path) from error


def _clock() -> float:
    """Return monotonic time, which continues while a process is stopped."""
    return asyncio.get_running_loop().time()


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
