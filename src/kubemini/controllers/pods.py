"""Pods as the controllers see them: their state, their node, how they are made from a template, created and deleted.

A workload of a thousand pods is reconciled whenever one of them changes. Decoding the other 999 would be most of the
work, so what controllers need is read from the stored bytes once per version (`Facts`, `PodStates`).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

import msgspec

from kubemini import clock
from kubemini.api import SUFFIX_LETTERS, Api, Deletion, Target
from kubemini.conditions import condition_of
from kubemini.controllers.controller_refs import controller_reference
from kubemini.controllers.writes import delete_if_present
from kubemini.events import EventRecorder
from kubemini.kinds import NAMESPACE, POD
from kubemini.pods import TERMINAL
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Store

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
NODE_NAME = "spec.nodeName"
TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"
_LARGEST_BATCH = 32
_LARGEST_COST = 2**31 - 1
_LONGEST_NAME = 253
_INTEGER = re.compile(r"0|[1-9][0-9]*|-[0-9]+")

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode

Fact = TypeVar("Fact")


class Facts(Generic[Fact]):
    """What one controller has read from objects of one kind, kept until the object changes."""

    def __init__(self, read: Callable[[Entry], Fact]) -> None:
        self._read = read
        self._known: dict[str, tuple[int, Fact]] = {}

    def of(self, entry: Entry) -> Fact:
        """The facts of this version of an object."""
        known = self._known.get(entry.uid)
        if known is None or known[0] != entry.version:
            known = self._known[entry.uid] = (entry.version, self._read(entry))
        return known[1]

    def last(self, entry: Entry) -> Fact | None:
        """The facts that were read last, of whichever version."""
        known = self._known.get(entry.uid)
        return known[1] if known else None

    def note(self, change: Change) -> None:
        """Forget an object that is gone."""
        if change.type == "DELETED":
            self._known.pop(change.entry.uid, None)


class PodState(msgspec.Struct, frozen=True, gc=False):
    """The state of a pod, with times in seconds since the epoch."""

    phase: str
    deleting: bool
    ready_since: float | None
    """None while it is not Ready; 0 where the condition has no time."""
    created: float
    cost: int
    restarts: int
    """The highest restart count among its containers."""

    @property
    def finished(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in TERMINAL

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return self.ready_since is not None

    @property
    def active(self) -> bool:
        """Whether it counts as a replica."""
        return not self.deleting and not self.finished

    def available_in(self, min_ready: int, now: float) -> float | None:
        """In how many seconds it will be available: 0 if it is, None if that is unknown."""
        if self.ready_since is None:
            return None
        if not min_ready:
            return 0.0
        return max(self.ready_since + min_ready - now, 0.0) if self.ready_since else None

    def available(self, min_ready: int, now: float) -> bool:
        """Whether it has been Ready for minReadySeconds."""
        return self.available_in(min_ready, now) == 0


class PodStates(Facts[PodState]):
    """The states of pods, as far as one controller has looked at them."""

    def __init__(self) -> None:
        super().__init__(_read_state)

    def is_different(self, change: Change) -> bool:
        """Whether a change of a pod matters to workload controllers."""
        entry, before = change.entry, change.before
        if before is None or change.type == "DELETED" or (before.labels, before.owners) != (entry.labels, entry.owners):
            return True
        old, new = self.of(before), self.of(entry)
        return (old.phase, old.deleting, old.ready_since) != (new.phase, new.deleting, new.ready_since)

    def next_available(self, pods: Sequence[Entry], min_ready: int, now: float) -> float | None:
        """In how many seconds the next of these pods becomes available."""
        waits = [self.of(pod).available_in(min_ready, now) for pod in pods] if min_ready else ()
        return min((wait for wait in waits if wait), default=None)


def pods_on(store: Store, node: str) -> list[Entry]:
    """The pods that are bound to a node, in the order of their keys."""
    return [entry for entry in store.entries(POD) if entry.fields[NODE_NAME] == node]


class PodTemplate:
    """Makes pods from one template for one owner."""

    def __init__(self, template: Json, owner: Json) -> None:
        given = template.get("metadata") or {}
        metadata: Json = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
        metadata["generateName"] = f"{owner['metadata']['name']}-"
        metadata["ownerReferences"] = [controller_reference(owner)]
        self._bytes = _encode({"metadata": metadata, "spec": template.get("spec") or {}})

    def new_pod(self) -> Json:
        """One more pod; the caller may change it."""
        made: Json = _decode(self._bytes)
        return made


class PodControl:
    """Creates and deletes pods for one controller, with an Event for each.

    Pods are created and deleted in batches that double while all goes well: what a quota or a webhook refuses once, it
    would refuse a hundred times. The first refusal ends it, and is raised.
    """

    def __init__(self, api: Api, events: EventRecorder) -> None:
        self._api = api
        self._events = events

    async def create(self, owner: Json, pods: Sequence[Json]) -> None:
        """Create pods for an owner. In a namespace that is being deleted this does nothing."""
        await run_in_batches([partial(self._create, owner, pod) for pod in pods])

    async def delete(self, owner: Json, pods: Sequence[Entry]) -> None:
        """Delete pods of an owner, if they are still there."""
        await run_in_batches([partial(self._delete, owner, pod) for pod in pods])

    async def _create(self, owner: Json, pod: Json) -> None:
        namespace = owner["metadata"]["namespace"]
        try:
            made = await self._api.create(Target(POD, namespace), pod)
        except Refusal as refusal:
            there = self._api.store.get(NAMESPACE, ("", namespace))
            if there is None or there.deleting:
                return
            self._events.say(owner, "FailedCreate", f"Error creating: {refusal}", warning=True)
            raise
        self._events.say(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _delete(self, owner: Json, pod: Entry) -> None:
        try:
            await delete_if_present(self._api, Target(POD, *pod.key), Deletion(uid=pod.uid))
        except Refusal as refusal:
            self._events.say(owner, "FailedDelete", f"Error deleting: {refusal}", warning=True)
            raise
        self._events.say(owner, "SuccessfulDelete", f"Deleted pod: {pod.key[1]}")


async def run_in_batches(jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run one job, then two, then four…; after a batch with a failure, raise the first failure."""
    done, size = 0, 1
    while batch := jobs[done : done + size]:
        results = await asyncio.gather(*(job() for job in batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        done, size = done + size, min(size * 2, _LARGEST_BATCH)


def hash_template(template: Json, collisions: int | None = None) -> str:
    """The hash of a pod template in Kubernetes' form; a count of collisions makes it another one.

    The label with the hash itself does not count.
    """
    salt = b"" if collisions is None else str(collisions).encode()
    digest = hashlib.blake2s(_encode(without_hash(template)), digest_size=4, key=salt).digest()
    number = int.from_bytes(digest, "little")
    return "".join(SUFFIX_LETTERS[ord(digit) % len(SUFFIX_LETTERS)] for digit in str(number))


def name_with_hash(name: str, hashed: str) -> str:
    """`web-5d8f9c7b6`, cut to a legal length."""
    return f"{name[: _LONGEST_NAME - 1 - len(hashed)]}-{hashed}"


def without_hash(template: Json) -> Json:
    """A pod template without the label that names its hash; equal templates make equal pods."""
    metadata = template.get("metadata") or {}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def scale_value(value: int | str, total: int, *, up: bool) -> int:
    """A number, or a percentage of the total; a text that is no percentage is a ValueError."""
    if isinstance(value, int):
        return value
    if not (value.endswith("%") and value[:-1].isdecimal()):
        raise ValueError(f'invalid value for IntOrString: invalid type: string is not a percentage: "{value}"')
    exact = int(value[:-1]) * total
    return -(-exact // 100) if up else exact // 100


def seconds_now() -> float:
    """The time of day in seconds since the epoch."""
    return clock.now().timestamp()


def _read_state(entry: Entry) -> PodState:
    pod = entry.object()
    metadata, status = pod["metadata"], pod.get("status") or {}
    ready = condition_of(pod, "Ready")
    return PodState(
        phase=status.get("phase", ""),
        deleting=entry.deleting,
        ready_since=_seconds(ready.get("lastTransitionTime")) if ready.get("status") == "True" else None,
        created=_seconds(metadata.get("creationTimestamp")),
        cost=_read_cost((metadata.get("annotations") or {}).get(DELETION_COST, "")),
        restarts=max((each.get("restartCount", 0) for each in status.get("containerStatuses") or ()), default=0),
    )


def _seconds(stamped: str | None) -> float:
    return datetime.fromisoformat(stamped).timestamp() if stamped else 0.0


def _read_cost(text: str) -> int:
    """The deletion cost; a text that is no 32-bit integer (or has a plus or leading zeros) counts as none."""
    cost = int(text) if _INTEGER.fullmatch(text) else 0
    return cost if -_LARGEST_COST - 1 <= cost <= _LARGEST_COST else 0
