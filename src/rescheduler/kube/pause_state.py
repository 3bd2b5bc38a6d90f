"""Whether rescheduling is paused: one ConfigMap of ours that every replica reads and that outlives all of them.

`runtime.pausing` follows it; `rescheduler pause`, `resume` and the page write it. So may people with kubectl:
`data.paused` is "true" or "false", with by, since and reason beside it. What makes no sense there counts as a pause
that says so, because whoever wrote it wanted something, and nothing is lost by waiting. No write goes over another.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER
from rescheduler.model.time import InstantError, format_instant, parse_instant

_TRIES = 10  # others may write at the same time
_LONGEST = 500  # characters of a reason
_WRITTEN = {"fieldManager": FIELD_MANAGER}


@dataclass(frozen=True, slots=True)
class PauseDetails:
    """That nothing new is begun: who wants that, since when, and why."""

    by: str
    since: float | None = None
    """None where the ConfigMap does not say, or it makes no sense."""
    reason: str = ""

    def __str__(self) -> str:
        """`rescheduling is paused by jane: the network is being worked on`."""
        by = f" by {self.by}" if self.by else ""
        return f"rescheduling is paused{by}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class PauseState:
    """What the ConfigMap says."""

    pause: PauseDetails | None = None
    by: str = ""
    """Who wrote it last: he paused, or resumed."""
    since: float | None = None
    """Since when it is so."""
    uid: str = ""
    version: str = ""
    """Empty where there is no such ConfigMap."""
    nonsense: bool = False


def state_name(lease: str) -> str:
    """What the ConfigMap is called: after the controller's Lease, which is in the same namespace."""
    return f"{lease}-state"


def shorten_reason(reason: str) -> str:
    """A reason as it is written down."""
    return reason if len(reason) <= _LONGEST else reason[: _LONGEST - 1] + "…"


class PauseStore:
    """The ConfigMap of one controller; as text, it is its name."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name
        self._all = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
        self._path = f"{self._all}/{quote(name, safe='')}"

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"

    async def read(self) -> PauseDetails | None:
        """The pause that holds now, if one does."""
        return (await self.look()).pause

    async def look(self) -> PauseState:
        """All that is said."""
        answer = await self._client.find(self._path)
        return self._state(self._decoded(answer)) if answer is not None else PauseState()

    async def pause(self, by: str, reason: str = "") -> PauseDetails:
        """Pause, and give what holds now; where it is paused already, the first one's word stands."""
        said = shorten_reason(reason)
        for _ in range(_TRIES):
            found = await self.look()
            if found.pause is not None and not found.nonsense:
                return found.pause
            wanted = PauseDetails(by, float(int(self._client.clock.now())), said)
            if await self._write(found, wanted, by):
                return wanted
        raise self._contended()

    async def resume(self, by: str) -> PauseDetails | None:
        """Go on; gives the pause that has ended, None if there was none."""
        for _ in range(_TRIES):
            found = await self.look()
            if found.pause is None or await self._write(found, None, by):
                return found.pause
        raise self._contended()

    async def remove(self) -> bool:
        """Delete it, if it is there; whether it was. ClusterError if it is not ours."""
        answer = await self._client.find(self._path)
        if answer is None:
            return False
        metadata = self._decoded(answer)["metadata"]
        if (metadata.get("labels") or {}).get(MANAGED_BY) != MANAGER:
            raise ClusterError(f"{self} is not ours, and is left alone; it has no label {MANAGED_BY}={MANAGER}")
        return await self._send("DELETE", {"preconditions": {"uid": metadata["uid"]}})

    async def _write(self, found: PauseState, pause: PauseDetails | None, by: str) -> bool:
        """Whether nobody has been faster."""
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
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        path, params = (self._all if method == "POST" else self._path), ({} if method == "DELETE" else _WRITTEN)
        answers = frozenset({404, 409})
        try:
            await self._client.send(ApiRequest(method, path, params, msgspec.json.encode(body), kind, answers))
        except ApiError as error:
            # A 404 on a creation: it is the namespace that is not there.
            if error.status == 409 or (error.status == 404 and method != "POST"):
                return False
            raise
        return True

    def _decoded(self, answer: bytes) -> Json:
        try:
            whole: Json = msgspec.json.decode(answer, type=Json)
            _ = whole["metadata"]["resourceVersion"], whole["metadata"]["uid"]
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise ApiError(None, NOT_KUBERNETES, f"{self} does not decode: {error}", self._path) from error
        return whole

    def _state(self, whole: Json) -> PauseState:
        metadata, data = whole["metadata"], whole.get("data") or {}
        told = {key: str(data.get(key) or "") for key in ("by", "reason")}
        since, said = _instant(str(data.get("since") or "")), str(data.get("paused", "")).strip().lower()
        at = (told["by"], since, str(metadata["uid"]), str(metadata["resourceVersion"]))
        if said == "false" or not data:
            return PauseState(None, *at)
        if said == "true":
            return PauseState(PauseDetails(told["by"], since, told["reason"]), *at)
        what = f"paused is {data['paused']!r}" if "paused" in data else "paused is missing"
        cure = "write true or false there, or use `rescheduler resume`"
        return PauseState(PauseDetails("", since, f"{self} makes no sense: {what}; {cure}"), *at, nonsense=True)

    def _contended(self) -> ClusterError:
        return ClusterError(f"{self} is changed by others all the time; try again")


def _instant(text: str) -> float | None:
    try:
        return parse_instant(text) if text else None
    except InstantError:
        return None
