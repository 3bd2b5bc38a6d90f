"""What the workload controllers have to know of a pod, read straight from its stored bytes and once per version.

ReplicaSets and StatefulSets ask whether their pods count, are ready and for how long; with a hundred pods each and
many changes a second, decoding whole pods would be most of their work. `PodStates` keeps the few things that they ask
for by the pod's version, and says of a change whether it makes any difference to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from kubemini import clock
from kubemini.controllers.facts import Facts
from kubemini.store import Change, Entry

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FINAL_PHASES = ("Failed", "Succeeded")
_LARGEST_COST = 2**31 - 1
_INTEGER = re.compile(r"0|[1-9][0-9]*|-[0-9]+")


class PodState(msgspec.Struct, frozen=True, gc=False):
    """The facts, in seconds since the epoch where they are times."""

    phase: str
    deleting: bool
    ready_since: float | None
    """None while it is not Ready; 0 where nobody wrote since when it is."""
    created: float
    cost: int
    restarts: tuple[int, int]
    """Of its containers, and of its sidecars: the most of any one of them."""
    claims: tuple[tuple[str, str], ...]
    """Its volumes that are claims: the name of the volume, the name of the claim."""

    @property
    def finished(self) -> bool:
        """Whether it has ended for good."""
        return self.phase in FINAL_PHASES

    @property
    def ready(self) -> bool:
        """Whether its Ready condition says so."""
        return self.ready_since is not None

    def available_in(self, min_ready: int, now: float) -> float | None:
        """In how many seconds it will have been Ready for long enough: 0 if it is now, None if that can't be said."""
        if self.ready_since is None:
            return None
        if not min_ready:
            return 0.0
        return max(self.ready_since + min_ready - now, 0.0) if self.ready_since else None

    def available(self, min_ready: int, now: float) -> bool:
        """Whether it has been Ready for so many seconds."""
        return self.available_in(min_ready, now) == 0


class PodStates(Facts[PodState]):
    """The states of pods, as far as one controller has looked at them."""

    def __init__(self) -> None:
        super().__init__(_state)

    def is_different(self, change: Change, *, by_phase: bool = True) -> bool:
        """Whether a change of a pod is one that a workload's controller acts on or counts.

        Some don't ask whether it is Pending or Running, only whether it has ended: they leave out the phase.
        """
        entry, before = change.entry, change.before
        if before is None or change.type == "DELETED" or (before.labels, before.owners) != (entry.labels, entry.owners):
            return True
        old, new = self.of(before), self.of(entry)
        if by_phase and old.phase != new.phase:
            return True
        return (old.finished, old.deleting, old.ready_since) != (new.finished, new.deleting, new.ready_since)


class _Condition(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    restart_count: int = 0


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _ClaimSource(msgspec.Struct, rename="camel", gc=False):
    claim_name: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None


class _InitContainer(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    restart_policy: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    volumes: list[_Volume] | None = None
    init_containers: list[_InitContainer] | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Pod).decode


def now() -> float:
    """The time of day, as states count it."""
    return clock.now().timestamp()


def _state(entry: Entry) -> PodState:
    pod = _decode(entry.raw)
    status = pod.status
    ready = next((each for each in status.conditions or () if each.type == "Ready"), None)
    sidecars = {each.name for each in pod.spec.init_containers or () if each.restart_policy == "Always"}
    return PodState(
        phase=status.phase,
        deleting=entry.deleting,
        ready_since=_seconds(ready.last_transition_time) if ready and ready.status == "True" else None,
        created=_seconds(pod.metadata.creation_timestamp),
        cost=_cost(pod.metadata.annotations),
        restarts=(
            max((each.restart_count for each in status.container_statuses or ()), default=0),
            max(
                (each.restart_count for each in status.init_container_statuses or () if each.name in sidecars),
                default=0,
            ),
        ),
        claims=tuple(
            (each.name, each.persistent_volume_claim.claim_name)
            for each in pod.spec.volumes or ()
            if each.persistent_volume_claim is not None
        ),
    )


def _most_restarts(containers: Iterable[_ContainerStatus]) -> int:
    return max((each.restart_count for each in containers), default=0)


def _seconds(stamped: str | None) -> float:
    return datetime.fromisoformat(stamped).timestamp() if stamped else 0.0


def _cost(annotations: dict[str, str] | None) -> int:
    """What is no whole number of 32 bits (or has a plus or zeros before it) counts as not said."""
    text = (annotations or {}).get(DELETION_COST, "")
    if not _INTEGER.fullmatch(text):
        return 0
    cost = int(text)
    return cost if -_LARGEST_COST - 1 <= cost <= _LARGEST_COST else 0
