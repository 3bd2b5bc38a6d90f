"""ReplicaSets: as many pods as wanted, made from the template; surplus pods go in kube-controller-manager's order.

Matching orphans are adopted and strangers released first. The handoff of a pod relies on that, and on the order of
deletion: `rank_for_deletion`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from kubemini.api import Api
from kubemini.controllers.controller_refs import ControllerRefManager
from kubemini.controllers.pods import NODE_NAME, PodControl, PodState, PodStates, PodTemplate, seconds_now
from kubemini.controllers.writes import write_status
from kubemini.events import EventRecorder
from kubemini.kinds import POD, REPLICA_SET, Kind
from kubemini.pods import TERMINAL
from kubemini.refusals import Json, Refusal
from kubemini.selectors import workload_selector
from kubemini.store import Change, Entry, Key

_BATCH = 32  # pods created or deleted before the count is taken again: a webhook may take its time over each
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may have to be deleted."""

    entry: Entry
    state: PodState

    @property
    def node(self) -> str:
        return self.entry.fields[NODE_NAME]


def rank_for_deletion(pods: Sequence[Candidate], related: Iterable[Candidate], now: float) -> list[Candidate]:
    """Sort pods, those to be deleted first in front. `related` are all active pods of the same Deployment.

    Pods that do least come first: without a node, Pending, not Ready. Then the lower deletion cost; the one that shares
    its node with more related pods; the one that became Ready later; the one with more restarts; the younger one.
    """
    crowd = Counter(each.node for each in related)

    def compare_ages(one: Candidate, other: Candidate) -> int:
        a, b = one.state, other.state
        if a.ready_since is not None and b.ready_since is not None and a.ready_since != b.ready_since:
            return compare_times(one, other, a.ready_since, b.ready_since)
        if a.restarts != b.restarts:
            return -1 if a.restarts > b.restarts else 1
        if a.created != b.created:
            return compare_times(one, other, a.created, b.created)
        return 0

    def compare_times(one: Candidate, other: Candidate, since: float, others: float) -> int:
        """Younger first, on a logarithmic scale; of about the same age the uid decides. No time counts as youngest."""
        if not since or not others:
            return -1 if not since else 1
        difference = magnitude(since) - magnitude(others)
        return difference or (-1 if one.entry.uid < other.entry.uid else 1)

    def magnitude(since: float) -> int:
        age = now - since
        return int(math.log2(age * 1e9)) if age > 0 else -1

    def key(each: Candidate) -> tuple[bool, int, bool, int, int]:
        state = each.state
        return (bool(each.node), _PHASES.get(state.phase, 0), state.ready, state.cost, -crowd[each.node])

    return sorted(sorted(pods, key=cmp_to_key(compare_ages)), key=key)


class ReplicaSetController:
    """Keeps every ReplicaSet at its number of pods."""

    name = "replicaset-controller"
    kinds: tuple[Kind, ...] = (REPLICA_SET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._refs = ControllerRefManager(api, REPLICA_SET, POD)
        self._states = PodStates()
        self._events = EventRecorder(api.store, self.name)
        self._control = PodControl(api, self._events)

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The ReplicaSet itself; the one that has, had or may adopt a pod whose changed state counts."""
        if change.kind.name == REPLICA_SET.name:
            return self._refs.owner_changed(change)
        self._states.note(change)
        keys = list(self._refs.dependent_changed(change))
        return keys if keys and self._states.is_different(change) else ()

    async def reconcile(self, key: Key) -> float | None:
        """Adopt and release pods, create missing or delete surplus ones, and write the status."""
        entry = self._store.get(REPLICA_SET, key)
        body = entry.object() if entry else {}
        selector = workload_selector(body) if entry else None
        if entry is None or selector is None:
            return None
        pods = await self._refs.claim(body, selector, _is_active)
        failure: Refusal | None = None
        if not entry.deleting:
            try:
                await self._scale(entry, body, pods)
            except Refusal as refusal:
                failure = refusal
        await write_status(self._api, REPLICA_SET, body, self._status(body, pods))
        if failure is not None:
            raise failure
        return self._states.next_available(pods, _min_ready(body), seconds_now())

    async def _scale(self, entry: Entry, body: Json, pods: list[Entry]) -> None:
        """Bring the number of pods to the wanted one. The status still tells of the pods that there were before."""
        template = PodTemplate(body["spec"]["template"], body)
        while (missing := self._count_missing(entry, body)) > 0:
            await self._control.create(body, [template.new_pod() for _ in range(min(missing, _BATCH))])
        if missing < 0:
            candidates = [Candidate(pod, self._states.of(pod)) for pod in pods]
            ranked = rank_for_deletion(candidates, self._related(entry), seconds_now())
            await self._control.delete(body, [each.entry for each in ranked[:-missing]])

    def _count_missing(self, entry: Entry, body: Json) -> int:
        """How many pods are missing now; none if the ReplicaSet has changed since, because it is then queued again."""
        if self._store.get(REPLICA_SET, entry.key) is not entry:
            return 0
        wanted: int = body["spec"].get("replicas", 1)
        return wanted - sum(map(_is_active, self._refs.owned(body)))

    def _related(self, entry: Entry) -> list[Candidate]:
        """The active pods of all ReplicaSets of the same Deployment."""
        owner = entry.controller
        if owner is None:
            return []
        sets = [each for each in self._store.owned(REPLICA_SET, owner.uid) if each.controller == owner]
        pods = [pod for each in sets for pod in self._store.owned(POD, each.uid) if _is_active(pod)]
        return [Candidate(pod, self._states.of(pod)) for pod in pods]

    def _status(self, body: Json, pods: list[Entry]) -> Json:
        now, min_ready = seconds_now(), _min_ready(body)
        labels = (body["spec"]["template"].get("metadata", {}).get("labels") or {}).items()
        states = [self._states.of(pod) for pod in pods]
        counts = {
            "fullyLabeledReplicas": sum(labels <= pod.labels.items() for pod in pods),
            "readyReplicas": sum(state.ready for state in states),
            "availableReplicas": sum(state.available(min_ready, now) for state in states),
        }
        terminating = sum(pod.deleting and not self._states.of(pod).finished for pod in self._refs.owned(body))
        status: Json = {"replicas": len(pods)} | {key: count for key, count in counts.items() if count}
        status |= {"terminatingReplicas": terminating, "observedGeneration": body["metadata"]["generation"]}
        return status


def _min_ready(body: Json) -> int:
    seconds: int = body["spec"].get("minReadySeconds", 0)
    return seconds


def _is_active(pod: Entry) -> bool:
    return not pod.deleting and pod.fields["status.phase"] not in TERMINAL
