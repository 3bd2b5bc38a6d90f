"""Whether rescheduling is paused: a ConfigMap of the controller that every replica reads and that outlives all of them.

`runtime.starting.holds` follows it; `rescheduler pause`, `resume` and the page write it. People may use kubectl too:
`data.paused` is "true" or "false", with by, since and reason beside it. An invalid value counts as a pause with an
explanation, because waiting does no harm. No write goes over another writer's.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.objects import ManagedObject
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER
from rescheduler.model.time import format_instant, read_instant

_TRIES = 10  # others may write at the same time
_LONGEST = 500  # characters of a reason


@dataclass(frozen=True, slots=True)
class PauseDetails:
    """A pause, during which no migration starts: by whom, since when, and why."""

    by: str
    since: float | None = None
    """None if the ConfigMap has no valid time."""
    reason: str = ""

    def __str__(self) -> str:
        """`rescheduling is paused by jane: the network is being worked on`."""
        by = f" by {self.by}" if self.by else ""
        return f"rescheduling is paused{by}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class PauseState:
    """The content of the ConfigMap."""

    pause: PauseDetails | None = None
    by: str = ""
    """The user who paused or resumed last."""
    since: float | None = None
    """The time of that change."""
    uid: str = ""
    version: str = ""
    """Empty if the ConfigMap does not exist."""
    is_invalid: bool = False


def state_name(lease: str) -> str:
    """Return the name of the ConfigMap, derived from the controller's Lease in the same namespace."""
    return f"{lease}-state"


def shorten_reason(reason: str) -> str:
    """Return a reason in the length that is stored."""
    return reason if len(reason) <= _LONGEST else reason[: _LONGEST - 1] + "…"


class PauseStore(ManagedObject):
    """The ConfigMap of one controller."""

    kind = "ConfigMap"

    async def read(self) -> PauseDetails | None:
        """Return the current pause, if any."""
        return (await self.look()).pause

    async def look(self) -> PauseState:
        """Return the whole state."""
        body = await self.fetch()
        return self._parse(body) if body is not None else PauseState()

    async def pause(self, by: str, reason: str = "") -> PauseDetails:
        """Pause, and return the current pause. An existing pause stays as it is."""
        short = shorten_reason(reason)
        for _ in range(_TRIES):
            found = await self.look()
            if found.pause is not None and not found.is_invalid:
                return found.pause
            wanted = PauseDetails(by, float(int(self._client.clock.now())), short)
            if await self._store(found, wanted, by):
                return wanted
        raise self._contended()

    async def resume(self, by: str) -> PauseDetails | None:
        """End the pause and return it; None if there was none."""
        for _ in range(_TRIES):
            found = await self.look()
            if found.pause is None or await self._store(found, None, by):
                return found.pause
        raise self._contended()

    async def _store(self, found: PauseState, pause: PauseDetails | None, by: str) -> bool:
        """Write the state over the one that was found; False if another writer was faster."""
        since = pause.since if pause is not None and pause.since is not None else self._client.clock.now()
        data = {
            "paused": "true" if pause is not None else "false",
            "by": by,
            "since": format_instant(since),
            "reason": (pause.reason if pause is not None else "") or None,
        }
        metadata: Json = {"labels": {MANAGED_BY: MANAGER}}
        if found.version:
            metadata["resourceVersion"] = found.version
            return await self._write("PATCH", {"metadata": metadata, "data": data})
        metadata |= {"name": self.name, "namespace": self.namespace}
        data = {key: value for key, value in data.items() if value is not None}
        return await self._write("POST", {"apiVersion": "v1", "kind": self.kind, "metadata": metadata, "data": data})

    def _parse(self, body: Json) -> PauseState:
        metadata, data = body["metadata"], body.get("data") or {}
        by, reason = (str(data.get(key) or "") for key in ("by", "reason"))
        since, paused = read_instant(str(data.get("since") or "")), str(data.get("paused", "")).strip().lower()
        at = (by, since, str(metadata["uid"]), str(metadata["resourceVersion"]))
        if paused == "false" or not data:
            return PauseState(None, *at)
        if paused == "true":
            return PauseState(PauseDetails(by, since, reason), *at)
        what = f"paused is {data['paused']!r}" if "paused" in data else "paused is missing"
        cure = "write true or false there, or use `rescheduler resume`"
        return PauseState(PauseDetails("", since, f"{self} is invalid: {what}; {cure}"), *at, is_invalid=True)

    def _contended(self) -> ClusterError:
        return ClusterError(f"{self} keeps changing; try again")
