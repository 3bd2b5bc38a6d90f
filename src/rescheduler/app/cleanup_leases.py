"""The Leases that a cleanup takes before it does anything, so that it never works beside a controller.

`app.cleanup` claims them. A Lease that goes with its namespace need not be taken: nobody can lead there any more, once
whoever held it must have stopped. What cannot be had is told with the reason and the cure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.lease import Election
from rescheduler.runtime.leadership import HeldError, while_leading

_NAMESPACES = "/api/v1/namespaces"
Result = TypeVar("Result")


class _Place(Enum):
    """What becomes of a Lease in a namespace."""

    OPEN = "it can be made"
    ENDING = "what is there goes, and nothing new can be made"
    ABSENT = "nothing is there"


class _Meta(msgspec.Struct):
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _Namespace(msgspec.Struct):
    metadata: _Meta


class _Namespaces(msgspec.Struct):
    items: list[_Namespace]


@dataclass
class Claim(Election):
    """Takes part in an election, and leads also where nobody can."""

    _lasts: float = 0.0  # seconds for which its holder may act after a renewal
    _refusal: str = ""  # what the last attempt ended with

    def hindrance(self) -> str:
        """What keeps the Lease from us, if it is not a controller that runs."""
        title = f"Lease {self.lease.namespace}/{self.lease.name}"
        if self._refusal:
            return f"{title} cannot be taken: {self._refusal}"
        silent = _clock() - self._seen[1]
        if self.holder in ("", self.lease.identity) or silent < self.times.duration:
            return ""
        return (
            f"{title} is held by {self.holder}, who has not renewed it for {silent:.0f} s; it lasts {self._lasts:g} s. "
            f"If no controller runs, delete it: kubectl -n {self.lease.namespace} delete lease {self.lease.name}"
        )

    async def _attempt(self) -> bool:
        try:
            held = await super()._attempt()
        except ApiError as error:
            self._refusal = str(error)
            place = await self._place() if error.status in (403, 404) else _Place.OPEN
            if place is _Place.OPEN:
                raise
        else:
            self._refusal = ""
            return held
        if not self._seen[0] and place is _Place.ENDING:  # a holder that we have never seen may have renewed just now
            self._seen, self._lasts = ("gone", _clock()), self.times.duration
        if self.holder != self.lease.identity and _clock() < self._seen[1] + self._lasts:
            return False  # for so long it may act without its Lease
        self._note(self.lease.identity)
        return True

    async def _read(self) -> Any:
        found = await super()._read()
        if found is not None:
            self._lasts = float(found.spec.seconds or self.times.duration) if found.spec.holder else 0.0
        return found

    async def _place(self) -> _Place:
        """Open for who may not look: it is tried again."""
        selection = {"fieldSelector": f"metadata.name={self.lease.namespace}"}
        try:
            answer = await self.client.request("GET", _NAMESPACES, params=selection)
            found = msgspec.json.decode(answer, type=_Namespaces).items
        except (ApiError, msgspec.MsgspecError):
            return _Place.OPEN
        if not found:
            return _Place.ABSENT
        return _Place.ENDING if found[0].metadata.deleted else _Place.OPEN


async def while_claiming(claims: Sequence[Claim], patience: float, work: Coroutine[Any, Any, Result]) -> Result:
    """What the work gives; ClusterError says why one of the Leases is not to be had within so many seconds."""
    try:
        return await while_leading(claims, patience, work)
    except HeldError:
        for claim in claims:
            if hindrance := claim.hindrance():
                raise ClusterError(hindrance) from None
        raise


def _clock() -> float:
    return asyncio.get_running_loop().time()
