"""Whether rescheduling is paused: a ConfigMap of the controller that every replica reads and that outlives all of them.

`runtime.starting.holds` follows it; `rescheduler pause`, `resume` and the page write it. People may use kubectl too:
`data.paused` is "true" or "false", with by, since and reason beside it. An invalid value counts as a pause with an
explanation, because waiting does no harm. No write goes over another writer's.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, path_of
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
    nonsense: bool = False


def state_name(lease: str) -> str:
    """Return the name of the ConfigMap, derived from the controller's Lease in the same namespace."""
    return f"{lease}-state"


def shorten_reason(reason: str) -> str:
    """Return a reason in the length that is stored."""
    return reason if len(reason) <= _LONGEST else reason[: _LONGEST - 1] + "…"


class PauseStore:
    """The ConfigMap of one controller."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name
        self._path = path_of("ConfigMap", namespace, name)

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"

    async def read(self) -> PauseDetails | None:
        """Return the current pause, if any."""
        return (await self.look()).pause

    async def look(self) -> PauseState:
        """Return the whole state."""
        answer = await self._client.find(self._path)
        return self._parse(self._decode(answer)) if answer is not None else PauseState()

    async def pause(self, by: str, reason: str = "") -> PauseDetails:
        """Pause, and return the current pause. An existing pause stays as it is."""
        short = shorten_reason(reason)
        for _ in range(_TRIES):
            found = await self.look()
            if found.pause is not None and not found.nonsense:
                return found.pause
            wanted = PauseDetails(by, float(int(self._client.clock.now())), short)
            if await self._write(found, wanted, by):
                return wanted
        raise self._contended()

    async def resume(self, by: str) -> PauseDetails | None:
        """End the pause and return it; None if there was none."""
        for _ in range(_TRIES):
            found = await self.look()
            if found.pause is None or await self._write(found, None, by):
                return found.pause
        raise self._contended()

    async def remove(self) -> bool:
        """Delete the ConfigMap; return whether it existed. ClusterError if it is not ours."""
        answer = await self._client.find(self._path)
        if answer is None:
            return False
        metadata = self._decode(answer)["metadata"]
        if (metadata.get("labels") or {}).get(MANAGED_BY) != MANAGER:
            raise ClusterError(f"{self} is not ours, and is left alone; it has no label {MANAGED_BY}={MANAGER}")
        return await self._send("DELETE", {"preconditions": {"uid": metadata["uid"]}})

    async def _write(self, found: PauseState, pause: PauseDetails | None, by: str) -> bool:
        """Write the state; False if another writer was faster."""
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
            return await self._send("PATCH", {"metadata": metadata, "data": data})
        metadata |= {"name": self.name, "namespace": self.namespace}
        whole = {key: value for key, value in data.items() if value is not None}
        return await self._send("POST", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": whole})

    async def _send(self, method: str, body: Json) -> bool:
        path = path_of("ConfigMap", self.namespace) if method == "POST" else self._path
        params = {} if method == "DELETE" else {"fieldManager": FIELD_MANAGER}
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return (
            await self._client.write(ApiRequest(method, path, params, msgspec.json.encode(body), content_type))
            is not None
        )

    def _decode(self, answer: bytes) -> Json:
        try:
            whole: Json = msgspec.json.decode(answer, type=Json)
            _ = whole["metadata"]["resourceVersion"], whole["metadata"]["uid"]
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise ApiError(None, NOT_KUBERNETES, f"{self} does not decode: {error}", self._path) from error
        return whole

    def _parse(self, whole: Json) -> PauseState:
        metadata, data = whole["metadata"], whole.get("data") or {}
        by, reason = (str(data.get(key) or "") for key in ("by", "reason"))
        since, paused = read_instant(str(data.get("since") or "")), str(data.get("paused", "")).strip().lower()
        at = (by, since, str(metadata["uid"]), str(metadata["resourceVersion"]))
        if paused == "false" or not data:
            return PauseState(None, *at)
        if paused == "true":
            return PauseState(PauseDetails(by, since, reason), *at)
        what = f"paused is {data['paused']!r}" if "paused" in data else "paused is missing"
        cure = "write true or false there, or use `rescheduler resume`"
        return PauseState(PauseDetails("", since, f"{self} is invalid: {what}; {cure}"), *at, nonsense=True)

    def _contended(self) -> ClusterError:
        return ClusterError(f"{self} keeps changing; try again")
