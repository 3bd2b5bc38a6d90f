"""ReplicaSets: as many pods as are wanted, from their template; the surplus goes in the order of `surplus`.

Like kube-controller-manager's: matching orphans are adopted and strangers released first, then pods are created in
batches that double (so that a quota that is spent is asked once, not a hundred times) or deleted, and the status
tells of the pods that there were before. A webhook may take its time over each pod, so what is missing is counted
again before every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.controllers.batches import LARGEST, together
from kubemini.controllers.children import Family, everyone
from kubemini.controllers.kinship import matcher
from kubemini.controllers.pod_state import FINAL_PHASES, PodStates, now
from kubemini.controllers.surplus import Candidate, first_to_go
from kubemini.controllers.templates import PodMould, name_prefix
from kubemini.events import EventRecorder
from kubemini.kinds import NAMESPACE, POD, REPLICA_SET, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key
from rescheduler.model.selector import Labels

_BURST = 500  # pods created or deleted before others have their turn, as in kube-controller-manager


@dataclass(frozen=True)
class _Sight:
    """A ReplicaSet and its pods, at one moment."""

    entry: Entry
    body: Json
    matches: Callable[[Labels], bool]
    pods: list[Candidate]
    """Those that count as replicas."""
    terminating: int
    at: float

    @property
    def wanted(self) -> int:
        replicas: int = self.body["spec"].get("replicas", 1)
        return replicas

    @property
    def min_ready(self) -> int:
        seconds: int = self.body["spec"].get("minReadySeconds", 0)
        return seconds


class ReplicaSetController:
    """Keeps every ReplicaSet at its number of pods."""

    name = "replicaset-controller"
    kinds: tuple[Kind, ...] = (REPLICA_SET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._family = Family(api, REPLICA_SET, POD)
        self._states = PodStates()
        self._events = EventRecorder(api.store, self.name)

    def concerned(self, change: Change) -> Iterable[Key]:
        """The ReplicaSet itself; the one that has, had or may adopt a pod whose changed state counts."""
        if change.kind.name == REPLICA_SET.name:
            return self._family.parent_changed(change)
        self._states.note(change)
        keys = list(self._family.child_changed(change))
        return keys if keys and self._states.is_different(change, by_phase=False) else ()

    async def reconcile(self, key: Key) -> float | None:
        """Adopt and release, create or delete what is missing or too much, and tell how it stands."""
        entry = self._store.get(REPLICA_SET, key)
        body = entry.object() if entry else {}
        selector = self._family.selector(body) if entry else None
        if entry is None or selector is None:
            return None
        matches = matcher(selector)
        terminating = sum(_is_terminating(pod) and matches(pod.labels) for pod in self._family.of(body))
        claimed = await self._family.claim(body, selector, everyone, _is_active)
        pods = [Candidate(pod, self._states.of(pod)) for pod in claimed]
        sight = _Sight(entry, body, matches, pods, terminating, now())
        failure: Refusal | None = None
        try:
            await self._manage(sight)
        except Refusal as refusal:
            failure = refusal
        await self._tell(sight, failure)
        if failure is not None:
            raise failure
        return self._next_check(sight)

    async def _manage(self, sight: _Sight) -> None:
        """Bring the number of pods to what is wanted, unless the whole set is to go."""
        if sight.entry.deleting:
            return
        if sight.wanted > len(sight.pods):
            await self._create(sight)
        elif sight.wanted < len(sight.pods):
            await self._delete(sight)

    async def _create(self, sight: _Sight) -> None:
        mould = PodMould(sight.body["spec"]["template"], sight.body)
        left, size = _BURST, 1
        while (count := min(size, left, self._missing(sight))) > 0:
            await together(self._create_one(sight.body, mould.pod()) for _ in range(count))
            left, size = left - count, min(size * 2, LARGEST)

    async def _create_one(self, owner: Json, pod: Json) -> None:
        namespace = owner["metadata"]["namespace"]
        pod["metadata"]["generateName"] = name_prefix(owner["metadata"]["name"])
        try:
            made = await self._api.create(Target(POD, namespace), pod)
        except Refusal as refusal:
            if self._namespace_ends(namespace):
                return
            self._events.say(owner, "FailedCreate", f"Error creating: {refusal}", warning=True)
            raise
        self._events.say(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _delete(self, sight: _Sight) -> None:
        pods = first_to_go(sight.pods, self._related(sight), sight.at)[:_BURST]
        while doomed := pods[: max(0, min(-self._missing(sight), LARGEST))]:
            del pods[: len(doomed)]
            await together(self._delete_one(sight.body, each.entry) for each in doomed)

    async def _delete_one(self, owner: Json, pod: Entry) -> None:
        try:
            await self._api.delete(Target(POD, *pod.key), Deletion(uid=pod.uid))
        except Refusal as refusal:
            fresh = self._store.get(POD, pod.key)
            if fresh is None or fresh.uid != pod.uid:
                return
            self._events.say(owner, "FailedDelete", f"Error deleting: {refusal}", warning=True)
            raise
        self._events.say(owner, "SuccessfulDelete", f"Deleted pod: {pod.key[1]}")

    def _missing(self, sight: _Sight) -> int:
        """How many pods are missing now; none if the ReplicaSet has changed since, because that has its own turn."""
        if self._store.get(REPLICA_SET, sight.entry.key) is not sight.entry:
            return 0
        pods = self._family.of(sight.body)
        return sight.wanted - sum(_is_active(pod) and sight.matches(pod.labels) for pod in pods)

    def _related(self, sight: _Sight) -> list[Candidate]:
        """The active pods of all ReplicaSets of the same Deployment."""
        owner = sight.entry.controller
        if owner is None:
            return []
        sets = [entry for entry in self._store.owned(REPLICA_SET, owner.uid) if entry.controller == owner]
        pods = [pod for entry in sets for pod in self._store.owned(POD, entry.uid) if _is_active(pod)]
        return [Candidate(pod, self._states.of(pod)) for pod in pods]

    async def _tell(self, sight: _Sight, failure: Refusal | None) -> None:
        """Write the status, if it says anything new."""
        body = sight.body
        status = self._status(sight, failure)
        observed = body.get("status", {}).get("observedGeneration", 0)
        generation = body["metadata"].get("generation", 0)
        if status == body.get("status") and observed == generation:
            return
        if generation:
            status["observedGeneration"] = generation

        def told(newest: Json) -> Json:
            if newest["metadata"]["uid"] == sight.entry.uid:
                newest["status"] = status
            return newest

        namespace, name = sight.entry.key
        try:
            with self._family.telling(sight.entry.key):
                await self._api.edit(Target(REPLICA_SET, namespace, name, "status"), told)
        except Refusal as refusal:
            if refusal.code != 404:
                raise

    def _status(self, sight: _Sight, failure: Refusal | None) -> Json:
        before, min_ready = sight.body.get("status", {}), sight.min_ready
        wanted = sight.body["spec"]["template"].get("metadata", {}).get("labels", {}).items()
        ready = [pod.state for pod in sight.pods if pod.state.ready_since is not None]
        counts = {
            "fullyLabeledReplicas": sum(wanted <= pod.entry.labels.items() for pod in sight.pods),
            "readyReplicas": len(ready),
            "availableReplicas": sum(each.available(min_ready, sight.at) for each in ready)
            if min_ready
            else len(ready),
        }
        status: Json = {"replicas": len(sight.pods)} | {key: count for key, count in counts.items() if count}
        status["terminatingReplicas"] = sight.terminating
        if "observedGeneration" in before:
            status["observedGeneration"] = before["observedGeneration"]
        if conditions := _conditions(before.get("conditions", []), failure, sight.wanted - len(sight.pods)):
            status["conditions"] = conditions
        return status

    def _next_check(self, sight: _Sight) -> float | None:
        """When the next of the pods that are Ready will have been so for long enough."""
        min_ready = sight.min_ready
        waits = [pod.state.available_in(min_ready, sight.at) for pod in sight.pods] if min_ready else ()
        return min((wait for wait in waits if wait), default=None)

    def _namespace_ends(self, namespace: str) -> bool:
        entry = self._store.get(NAMESPACE, ("", namespace))
        return entry is None or entry.deleting


def _is_active(pod: Entry) -> bool:
    """Whether a pod counts as one of the replicas that are wanted."""
    return not pod.deleting and pod.fields["status.phase"] not in FINAL_PHASES


def _is_terminating(pod: Entry) -> bool:
    """Whether a pod is on its way out and may still be doing something."""
    return pod.deleting and pod.fields["status.phase"] not in FINAL_PHASES


def _conditions(before: Sequence[Json], failure: Refusal | None, missing: int) -> list[Json]:
    """The conditions with ReplicaFailure as it is now; one that still holds keeps its time and its message."""
    failing = [each for each in before if each["type"] == "ReplicaFailure"]
    others = [each for each in before if each["type"] != "ReplicaFailure"]
    if failure is None:
        return others
    if failing:
        return list(before)
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": clock.stamp(clock.now()),
        "reason": "FailedCreate" if missing > 0 else "FailedDelete",
        "message": str(failure),
    }
    return [*others, condition]
