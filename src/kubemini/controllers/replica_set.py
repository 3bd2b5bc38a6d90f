"""ReplicaSets: as many pods as wanted, made from the template; surplus pods go in kube-controller-manager's order.

Matching orphans are adopted and strangers released first. The handoff of a pod relies on that, and on the order of
deletion: `rank_for_deletion`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubemini.controllers.pods import NODE_NAME, PodState, WorkloadController, new_pod, seconds_now
from kubemini.controllers.writes import write_status
from kubemini.errors import Json
from kubemini.kinds import POD, REPLICA_SET
from kubemini.pods import TERMINAL
from kubemini.selectors import workload_selector
from kubemini.store import Entry, Key

_BATCH = 32  # pods created or deleted before the count is taken again: a webhook may take its time over each
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class Candidate(NamedTuple):
    """A pod that may have to be deleted."""

    entry: Entry
    state: PodState

    @property
    def node(self) -> str:
        return self.entry.fields[NODE_NAME]


def rank_for_deletion(pods: Sequence[Candidate], related: Iterable[Candidate]) -> list[Candidate]:
    """Sort pods, those to be deleted first in front. `related` are all active pods of the same Deployment.

    Pods that do least come first: without a node, Pending, not Ready. Then the lower deletion cost; the one that shares
    its node with more related pods; the one that became Ready later; the one with more restarts; the younger one.
    """
    crowd = Counter(each.node for each in related)

    def key(each: Candidate) -> tuple[bool, int, bool, int, int, float, int, float]:
        state = each.state
        usefulness = (bool(each.node), _PHASES.get(state.phase, 0), state.ready, state.cost, -crowd[each.node])
        return (*usefulness, -(state.ready_since or 0.0), -state.restarts, -state.created)

    return sorted(pods, key=key)


class ReplicaSetController(WorkloadController):
    """Keeps every ReplicaSet at its number of pods."""

    name = "replicaset-controller"
    kind = REPLICA_SET

    async def reconcile(self, key: Key) -> float | None:
        """Adopt and release pods, create missing or delete surplus ones, and write the status."""
        entry = self._store.get(REPLICA_SET, key)
        body = entry.object() if entry else {}
        selector = workload_selector(body) if entry else None
        if entry is None or selector is None:
            return None
        pods = await self._refs.claim(body, selector, _is_active)
        try:
            if not entry.deleting:
                await self._scale(entry, body, pods)
        finally:
            await write_status(self._api, REPLICA_SET, body, self._status(body, pods))
        return self._states.next_available(pods, _min_ready(body), seconds_now())

    async def _scale(self, entry: Entry, body: Json, pods: list[Entry]) -> None:
        """Scale to the desired number of pods. The status still counts the pods from before."""
        template = body["spec"]["template"]
        while (missing := self._count_missing(entry, body)) > 0:
            await self._control.create(body, [new_pod(template, body) for _ in range(min(missing, _BATCH))])
        if missing < 0:
            ranked = rank_for_deletion(self._candidates(pods), self._related(entry))
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
        sets = self._store.owned(REPLICA_SET, owner.uid) if owner else []
        return self._candidates(pod for each in sets for pod in self._store.owned(POD, each.uid) if _is_active(pod))

    def _candidates(self, pods: Iterable[Entry]) -> list[Candidate]:
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
        status: Json = {"replicas": len(pods)} | {key: count for key, count in counts.items() if count}
        return status | {"observedGeneration": body["metadata"]["generation"]}


def _min_ready(body: Json) -> int:
    seconds: int = body["spec"].get("minReadySeconds", 0)
    return seconds


def _is_active(pod: Entry) -> bool:
    return not pod.deleting and pod.fields["status.phase"] not in TERMINAL
