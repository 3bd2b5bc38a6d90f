"""Pods as the controllers see them: their state, their node, how they are made from a template, created and deleted.

A workload of a thousand pods is reconciled whenever one of them changes. Decoding the other 999 would be most of the
work, so what controllers need is read from the stored bytes once per version (`PodStates`).
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from kubemini import clock
from kubemini.api import SUFFIX_LETTERS, Api, Deletion, Target
from kubemini.conditions import condition_of
from kubemini.controllers.controller_refs import ControllerRefManager, controller_reference
from kubemini.controllers.writes import delete_if_present
from kubemini.errors import Json, StatusError
from kubemini.events import EventRecorder
from kubemini.kinds import NAMESPACE, POD, Kind
from kubemini.pods import TERMINAL
from kubemini.store import Change, Entry, Key, Store

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
NODE_NAME = "spec.nodeName"
TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"
_INTEGER = re.compile(r"-?[0-9]+")

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


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

    def available_in(self, min_ready: int, now: float) -> float | None:
        """In how many seconds it will be available: 0 if it is, None if that is unknown."""
        if self.ready_since is None:
            return None
        return max(self.ready_since + min_ready - now, 0.0) if min_ready else 0.0

    def available(self, min_ready: int, now: float) -> bool:
        """Whether it has been Ready for minReadySeconds."""
        return self.available_in(min_ready, now) == 0


class PodStates:
    """The states of pods, as far as one controller has looked at them; each is read once per version."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, PodState]] = {}

    def of(self, entry: Entry) -> PodState:
        """The state of this version of a pod."""
        known = self._known.get(entry.uid)
        if known is None or known[0] != entry.version:
            known = self._known[entry.uid] = (entry.version, _read_state(entry))
        return known[1]

    def is_different(self, change: Change) -> bool:
        """Whether a change of a pod matters to controllers. A pod that is gone is forgotten."""
        entry, before = change.entry, change.before
        if change.type == "DELETED":
            self._known.pop(entry.uid, None)
        if before is None or change.type == "DELETED" or (before.labels, before.owners) != (entry.labels, entry.owners):
            return True
        old, new = self.of(before), self.of(entry)
        return (old.phase, old.deleting, old.ready_since) != (new.phase, new.deleting, new.ready_since)

    def next_available(self, pods: Sequence[Entry], min_ready: int, now: float) -> float | None:
        """In how many seconds the next of these pods becomes available."""
        waits = [self.of(pod).available_in(min_ready, now) for pod in pods] if min_ready else ()
        return min((wait for wait in waits if wait), default=None)


class WorkloadController:
    """What the controllers of ReplicaSets, StatefulSets and DaemonSets have in common."""

    name: ClassVar[str]
    kind: ClassVar[Kind]

    def __init__(self, api: Api) -> None:
        self.kinds: tuple[Kind, ...] = (self.kind, POD)
        self._api = api
        self._store = api.store
        self._refs = ControllerRefManager(api, self.kind, POD)
        self._states = PodStates()
        self._control = PodControl(api, self.name)

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The workload itself; the one that has, had or may adopt a pod whose changed state counts."""
        if change.kind.name == self.kind.name:
            return self._refs.owner_changed(change)
        keys, different = list(self._refs.dependent_changed(change)), self._states.is_different(change)
        return keys if different else ()


def pods_on(store: Store, node: str) -> list[Entry]:
    """The pods that are bound to a node, in the order of their keys."""
    return [entry for entry in store.entries(POD) if entry.fields[NODE_NAME] == node]


def new_pod(template: Json, owner: Json) -> Json:
    """A pod of its owner, to be created; the caller may change it."""
    given = template.get("metadata") or {}
    metadata: Json = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
    metadata["generateName"] = f"{owner['metadata']['name']}-"
    metadata["ownerReferences"] = [controller_reference(owner)]
    made: Json = _decode(_encode({"metadata": metadata, "spec": template.get("spec") or {}}))  # the fastest copy
    return made


class PodControl:
    """Creates and deletes pods for one controller, with an Event for each. The first error is raised."""

    def __init__(self, api: Api, component: str) -> None:
        self._api = api
        self._events = EventRecorder(api.store, component)

    async def create(self, owner: Json, pods: Sequence[Json]) -> None:
        """Create pods for an owner. In a namespace that is being deleted this does nothing."""
        namespace = self._api.store.get(NAMESPACE, ("", owner["metadata"]["namespace"]))
        if namespace is not None and not namespace.deleting:
            await _all_done([self._create(owner, pod) for pod in pods])

    async def delete(self, owner: Json, pods: Sequence[Entry]) -> None:
        """Delete pods of an owner, if they are still there."""
        await _all_done([self._delete(owner, pod) for pod in pods])

    async def _create(self, owner: Json, pod: Json) -> None:
        try:
            made = await self._api.create(Target(POD, owner["metadata"]["namespace"]), pod)
        except StatusError as error:
            self._events.record(owner, "FailedCreate", f"Error creating: {error}", warning=True)
            raise
        self._events.record(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _delete(self, owner: Json, pod: Entry) -> None:
        await delete_if_present(self._api, Target(POD, *pod.key), Deletion(uid=pod.uid))
        self._events.record(owner, "SuccessfulDelete", f"Deleted pod: {pod.key[1]}")


async def _all_done(jobs: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for all, because a webhook may take its time over each; then raise the first failure."""
    for result in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def hash_template(template: Json, revision: str = "") -> str:
    """The hash of a pod template (and a revision) in Kubernetes' form; the label with the hash does not count."""
    digest = hashlib.blake2s(_encode(without_hash(template)), digest_size=4, key=revision.encode()).digest()
    number = int.from_bytes(digest, "little")
    return "".join(SUFFIX_LETTERS[ord(digit) % len(SUFFIX_LETTERS)] for digit in str(number))


def without_hash(template: Json) -> Json:
    """A pod template without the label that names its hash; equal templates make equal pods."""
    metadata = template.get("metadata") or {}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def scale_value(value: int | str, total: int, *, up: bool) -> int:
    """A number, or a percentage of the total; any other text is a ValueError."""
    if isinstance(value, int):
        return value
    exact = int(value.removesuffix("%")) * total
    return -(-exact // 100) if up else exact // 100


def seconds_now() -> float:
    """The time of day in seconds since the epoch."""
    return clock.now().timestamp()


def _read_state(entry: Entry) -> PodState:
    pod = entry.object()
    metadata, status = pod["metadata"], pod.get("status") or {}
    ready, cost = condition_of(pod, "Ready"), (metadata.get("annotations") or {}).get(DELETION_COST, "")
    return PodState(
        phase=status.get("phase", ""),
        deleting=entry.deleting,
        ready_since=_seconds(ready.get("lastTransitionTime")) if ready.get("status") == "True" else None,
        created=_seconds(metadata.get("creationTimestamp")),
        cost=int(cost) if _INTEGER.fullmatch(cost) else 0,
        restarts=max((each.get("restartCount", 0) for each in status.get("containerStatuses") or ()), default=0),
    )


def _seconds(stamped: str | None) -> float:
    return datetime.fromisoformat(stamped).timestamp() if stamped else 0.0
