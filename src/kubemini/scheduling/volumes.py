"""Pods that have a node and wait for their volumes to be made there, before they are bound.

A claim whose class says WaitForFirstConsumer is told the node by an annotation; whoever makes volumes (the volume
controller) binds the claim, or takes the annotation off when he cannot. Volumes that exist already and merely wait to
be chosen are not bound here: the planner's rules count no such volume as reachable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kubemini.store import Key
from rescheduler.model.objects import Claim, Pod

_PATIENCE = 600.0  # bindTimeoutSeconds of the VolumeBinding plugin


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pod need not wait any longer: its volumes are there, or `problem` says why they won't be."""

    key: Key
    node: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Wait:
    node: str
    claims: tuple[Key, ...]
    deadline: float


def unmade(pod: Pod, claims: Mapping[Key, Claim]) -> list[Key]:
    """The pod's claims whose volumes are yet to be made."""
    keys = [(pod.namespace, name) for name in dict.fromkeys(pod.shape.claims)]
    return [key for key in keys if not claims[key].volume]


class VolumeWaits:
    """Who waits for which claims."""

    def __init__(self, claims: Mapping[Key, Claim]) -> None:
        self._claims = claims
        self._waits: dict[Key, _Wait] = {}

    def begin(self, key: Key, node: str, claims: list[Key], now: float) -> None:
        """A pod waits for the volumes of these claims."""
        self._waits[key] = _Wait(node, tuple(claims), now + _PATIENCE)

    def give_up(self, key: Key) -> None:
        """A pod waits no longer, because it is gone."""
        self._waits.pop(key, None)

    def ended(self, now: float) -> list[Outcome]:
        """Those whose waiting has come to an end; they are not asked about again."""
        found: list[Outcome] = []
        for key, wait in list(self._waits.items()):
            problem = self._problem(wait, now)
            if problem or all(self._is_bound(claim) for claim in wait.claims):
                del self._waits[key]
                found.append(Outcome(key, wait.node, problem))
        return found

    def next_due(self) -> float:
        """When somebody's patience ends."""
        return min((wait.deadline for wait in self._waits.values()), default=math.inf)

    def _is_bound(self, key: Key) -> bool:
        claim = self._claims.get(key)
        return claim is not None and bool(claim.volume) and claim.bound

    def _problem(self, wait: _Wait, now: float) -> str:
        for key in wait.claims:
            claim = self._claims.get(key)
            if claim is None:
                return f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{"/".join(key)}"'
            if claim.selected_node != wait.node:
                return f'provisioning failed for PVC "{key[1]}"'
        return "context deadline exceeded" if now >= wait.deadline else ""
