"""Leader election by a Lease: of all replicas, one acts. The times are those of client-go: 15 s, 10 s, 2 s.

`runtime` runs it. Whoever leads renews; if he cannot for `renew_deadline`, he must stop acting at once, before anybody
else may believe the lease to be free. How old a renewal is, is measured by our own clock from when we saw it change, so
that clocks of different machines need not agree.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from rescheduler.cluster.client import ApiClient, Request
from rescheduler.cluster.errors import ApiError, ClusterError
from rescheduler.cluster.paths import path_of

_log = logging.getLogger(__name__)
_JITTER = 0.2
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, within what time it must be renewed, and how often that is tried; in seconds."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which lease, and who we are in it."""

    namespace: str
    name: str
    identity: str


@dataclass
class Election:
    """Takes part in the election. `leading` is set while we lead; `lost` when we did and do not any more."""

    client: ApiClient
    lease: LeaseName
    times: LeaseTimes = field(default_factory=LeaseTimes)
    leading: asyncio.Event = field(default_factory=asyncio.Event)
    holder: str = ""
    on_new_leader: Callable[[str], None] = lambda _: None
    _seen: tuple[str, float] = ("", 0.0)
    _renewed: float = 0.0

    async def run(self) -> None:
        """Try to lead until we do, then renew until that fails: returns when the lead is lost."""
        clock = asyncio.get_running_loop().time
        while True:
            held = await self._try()
            now = clock()
            if held:
                self._renewed = now
                self.leading.set()
            elif self.leading.is_set() and now - self._renewed >= self.times.renew_deadline:
                _log.error("lease %s could not be renewed for %.0f s: we stop", self.lease.name, now - self._renewed)
                self.leading.clear()
                return
            elif self.leading.is_set() and self.holder != self.lease.identity:
                _log.error("lease %s is held by %s now: we stop", self.lease.name, self.holder)
                self.leading.clear()
                return
            pause = self.times.retry_period
            await asyncio.sleep(pause if held else pause * (1 + _JITTER * random.random()))  # noqa: S311 - spread only

    async def release(self) -> None:
        """Give the lease up, so that the next one need not wait for it to run out."""
        if not self.leading.is_set():
            return
        self.leading.clear()
        found = await self._read()
        if found is not None and found["spec"].get("holderIdentity") == self.lease.identity:
            found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
            await self._write("PUT", found)

    async def _try(self) -> bool:
        """One attempt to take or keep the lease; a failure to reach the server is a failed attempt."""
        try:
            async with asyncio.timeout(self.times.renew_deadline / 2):
                return await self._attempt()
        except (ClusterError, TimeoutError) as error:
            _log.warning("lease %s: %s; tried again", self.lease.name, error)
            return False

    async def _attempt(self) -> bool:
        clock = asyncio.get_running_loop().time
        found = await self._read()
        if found is None:
            metadata = {"name": self.lease.name, "namespace": self.lease.namespace}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            return await self._write("POST", body | {"spec": self._spec({})})
        spec = found.get("spec") or {}
        version = found["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, clock())
        self._note(spec.get("holderIdentity") or "")
        mine = self.holder == self.lease.identity
        fresh = clock() - self._seen[1] < float(spec.get("leaseDurationSeconds") or self.times.duration)
        if self.holder and not mine and fresh:
            return False
        return await self._write("PUT", found | {"spec": self._spec(spec)})

    def _spec(self, before: Json) -> Json:
        now = _micro_time()
        changes = before.get("holderIdentity") != self.lease.identity
        return {
            **before,
            "holderIdentity": self.lease.identity,
            "leaseDurationSeconds": int(self.times.duration),
            "renewTime": now,
            "acquireTime": now if changes else before.get("acquireTime", now),
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (1 if changes and before else 0),
        }

    async def _read(self) -> Json | None:
        path = path_of("Lease", self.lease.namespace, self.lease.name)
        try:
            answer = await self.client.send(Request("GET", path, answers=frozenset({404})))
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        found: Json = msgspec.json.decode(answer)
        return found

    async def _write(self, method: str, body: Json) -> bool:
        """Whether nobody was faster."""
        name = self.lease.name if method == "PUT" else ""
        path = path_of("Lease", self.lease.namespace, name)
        try:
            answer = await self.client.send(
                Request(method, path, {}, msgspec.json.encode(body), answers=frozenset({409}))
            )
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        written: Json = msgspec.json.decode(answer)
        self._seen = (written["metadata"]["resourceVersion"], asyncio.get_running_loop().time())
        self._note(written["spec"].get("holderIdentity") or "")
        return True

    def _note(self, holder: str) -> None:
        if holder != self.holder:
            self.holder = holder
            if holder:
                self.on_new_leader(holder)


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
