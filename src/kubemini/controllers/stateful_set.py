"""StatefulSets: pods with ordinals, one after the other, each with a name and claims that outlive it.

With OrderedReady a pod is created only when all before it are available, and deleted from the highest ordinal down;
with Parallel all at once. A pod that is deleted or has ended comes back under its name when the old one is gone. A new
template is rolled out from the highest ordinal down, one pod at a time. There is no partition.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.controller_refs import ControllerRefManager
from kubemini.controllers.pods import (
    REVISION_HASH,
    PodState,
    PodStates,
    PodTemplate,
    hash_template,
    name_with_hash,
    run_in_batches,
    seconds_now,
)
from kubemini.controllers.revisions import RevisionHistory
from kubemini.controllers.writes import delete_if_present, write_status
from kubemini.events import EventRecorder
from kubemini.kinds import CLAIM, POD, STATEFUL_SET, Kind
from kubemini.refusals import Json, Refusal, conflict
from kubemini.selectors import workload_selector
from kubemini.store import Change, Entry, Key

_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_ORDINAL = re.compile(r"0|[1-9][0-9]{0,9}")


class StatefulSetController:
    """Keeps every StatefulSet at its pods."""

    name = "statefulset-controller"
    kinds: tuple[Kind, ...] = (STATEFUL_SET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._refs = ControllerRefManager(api, STATEFUL_SET, POD)
        self._states = PodStates()
        self._history = RevisionHistory(api)
        self._events = EventRecorder(api.store, self.name)

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The set itself; the one that has, had or may adopt a pod whose changed state counts."""
        if change.kind.name == STATEFUL_SET.name:
            return self._refs.owner_changed(change)
        self._states.note(change)
        keys = list(self._refs.dependent_changed(change))
        return keys if keys and self._states.is_different(change) else ()

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step towards what a set wants, and write the status."""
        body = self._api.find(STATEFUL_SET, key)
        selector = workload_selector(body) if body else None
        if body is None or selector is None:
            return None
        pods = await self._refs.claim(body, selector, lambda pod: _ordinal(key[1], pod.key[1]) is not None)
        await self._history.update(body, {pod.labels.get(REVISION_HASH, "") for pod in pods})
        update = _Update(self._api, self._events, body, [(pod, self._states.of(pod)) for pod in pods])
        failure: Refusal | None = None
        try:
            await update.advance()
        except Refusal as refusal:
            failure = refusal
        await write_status(self._api, STATEFUL_SET, body, update.status())
        if failure is not None:
            raise failure
        return self._states.next_available(pods, update.min_ready, seconds_now())


@dataclass(frozen=True, eq=False)
class _Member:
    """One ordinal of a set: its pod, or only its name while there is none."""

    ordinal: int
    name: str
    entry: Entry | None = None
    state: PodState | None = None
    available: bool = False

    @property
    def revision(self) -> str:
        return self.entry.labels.get(REVISION_HASH, "") if self.entry else ""

    @property
    def deleting(self) -> bool:
        return self.state is not None and self.state.deleting

    @property
    def running_and_ready(self) -> bool:
        return self.state is not None and self.state.phase == "Running" and self.state.ready

    @property
    def healthy(self) -> bool:
        return self.running_and_ready and self.available and not self.deleting


class _Update:
    """One reconciliation of one set."""

    def __init__(self, api: Api, events: EventRecorder, body: Json, pods: Sequence[tuple[Entry, PodState]]) -> None:
        self._api = api
        self._events = events
        self._body = body
        self._spec: Json = body["spec"]
        self._name: str = body["metadata"]["name"]
        self._namespace: str = body["metadata"]["namespace"]
        self._revision = name_with_hash(self._name, hash_template(self._spec["template"]))
        self._ordered = self._spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
        self.min_ready: int = self._spec.get("minReadySeconds", 0)
        now = seconds_now()
        members: dict[int, _Member] = {}
        for entry, state in pods:
            ordinal = _ordinal(self._name, entry.key[1]) or 0
            available = state.available(self.min_ready, now)
            members[ordinal] = _Member(ordinal, entry.key[1], entry, state, available)
        start: int = (self._spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + self._spec.get("replicas", 1))
        self._replicas = [members.get(each) or _Member(each, f"{self._name}-{each}") for each in wanted]
        self._surplus = [members[each] for each in sorted(members, reverse=True) if each not in wanted]

    async def advance(self) -> None:
        """Create what is missing, delete the surplus, roll out what is new; in order, only the first of these."""
        if "deletionTimestamp" in self._body["metadata"]:
            return
        if not self._ordered:
            await run_in_batches([partial(self._maintain_parallel, each) for each in self._replicas])
            await run_in_batches([partial(self._delete, each) for each in self._surplus if not each.deleting])
        elif not await self._advance_in_order():
            return
        if (self._spec.get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate":
            await self._roll()

    async def _advance_in_order(self) -> bool:
        """Whether all pods are there and healthy, and no surplus is left."""
        for member in self._replicas:
            if not await self._maintain(member) or not member.healthy:
                return False
        for member in self._surplus:
            # A healthy pod does not go while another one is unhealthy, except if it is the unhealthy one itself.
            unhealthy = [each for each in (*self._replicas, *reversed(self._surplus)) if not each.healthy]
            if not member.deleting and (member.healthy or member is unhealthy[0]):
                await self._delete(member)
            return False
        return True

    async def _maintain_parallel(self, member: _Member) -> None:
        await self._maintain(member)

    async def _maintain(self, member: _Member) -> bool:
        """Create a missing pod, delete one that has ended. Whether there is a pod that runs or will run."""
        if member.entry is None:
            await self._create(member)
            return False
        if member.state is not None and member.state.finished:
            if not member.deleting:
                await self._delete(member)
            return False
        if member.state is not None and member.state.phase in ("", "Pending"):
            await self._create_claims(member)  # one may have been deleted while the pod waits for it
        return True

    async def _roll(self) -> None:
        """Delete the pod of an older template with the highest ordinal, if all pods are healthy.

        With Parallel, old pods that are unhealthy anyway go at once.
        """
        old = [
            each
            for each in reversed(self._replicas)
            if each.entry is not None and each.revision != self._revision and not each.deleting
        ]
        all_healthy = all(each.healthy for each in self._replicas)
        for member in old[:1] if all_healthy else [each for each in old if not each.healthy]:
            await self._delete(member)

    async def _create(self, member: _Member) -> None:
        try:
            await self._create_claims(member)
            await self._api.create(Target(POD, self._namespace), self._new_pod(member))
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                self._say("Create", member, refusal)
            raise
        self._say("Create", member)

    def _new_pod(self, member: _Member) -> Json:
        pod = PodTemplate(self._spec["template"], self._body).new_pod()
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["name"] = spec["hostname"] = member.name
        own = {REVISION_HASH: self._revision, _NAME_LABEL: member.name, _INDEX_LABEL: str(member.ordinal)}
        metadata["labels"] = {**metadata.get("labels", {}), **own}
        if service := self._spec.get("serviceName"):
            spec["subdomain"] = service
        claims = {each["metadata"]["name"]: self._claim_name(each, member) for each in self._claim_templates}
        mine = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claims.items()]
        others = [each for each in spec.get("volumes") or () if each["name"] not in claims]
        if mine or others:
            spec["volumes"] = [*mine, *others]
        return pod

    @property
    def _claim_templates(self) -> Sequence[Json]:
        return self._spec.get("volumeClaimTemplates") or ()

    def _claim_name(self, template: Json, member: _Member) -> str:
        return f"{template['metadata']['name']}-{member.name}"

    async def _create_claims(self, member: _Member) -> None:
        """Create the claims that are missing; one that is being deleted has to be gone first."""
        labels = self._spec["selector"].get("matchLabels") or {}
        for template in self._claim_templates:
            name, given = self._claim_name(template, member), template["metadata"]
            there = self._api.store.get(CLAIM, (self._namespace, name))
            if there is not None and there.deleting:
                raise conflict(CLAIM, name, "it is being deleted")
            if there is None:
                metadata = {"name": name, "labels": {**(given.get("labels") or {}), **labels}}
                if given.get("annotations"):
                    metadata["annotations"] = dict(given["annotations"])
                body = {"metadata": metadata, "spec": copy.deepcopy(template["spec"])}
                await self._api.create(Target(CLAIM, self._namespace), body)

    async def _delete(self, member: _Member) -> None:
        uid = member.entry.uid if member.entry else ""
        try:
            await delete_if_present(self._api, Target(POD, self._namespace, member.name), Deletion(uid=uid))
        except Refusal as refusal:
            self._say("Delete", member, refusal)
            raise
        self._say("Delete", member)

    def _say(self, verb: str, member: _Member, refusal: Refusal | None = None) -> None:
        about = f"{verb} Pod {member.name} in StatefulSet {self._name}"
        if refusal is None:
            self._events.say(self._body, f"Successful{verb}", f"{about} successful")
        else:
            self._events.say(self._body, f"Failed{verb}", f"{about} failed error: {refusal}", warning=True)

    def status(self) -> Json:
        """The status, by the pods as they were at the beginning of the reconciliation."""
        pods = [each for each in (*self._replicas, *self._surplus) if each.entry is not None]
        staying = [each for each in pods if not each.deleting]
        current = self._body.get("status", {}).get("currentRevision", self._revision)
        counts = {
            "replicas": len(pods),
            "readyReplicas": sum(each.running_and_ready for each in pods),
            "currentReplicas": sum(each.revision == current for each in staying),
            "updatedReplicas": sum(each.revision == self._revision for each in staying),
        }
        if counts["updatedReplicas"] == counts["readyReplicas"] == counts["replicas"] == len(self._replicas):
            counts["currentReplicas"], current = counts["updatedReplicas"], self._revision
        return {
            "observedGeneration": self._body["metadata"]["generation"],
            **{key: count for key, count in counts.items() if count or key == "replicas"},
            "currentRevision": current,
            "updateRevision": self._revision,
            "collisionCount": 0,
            "availableReplicas": sum(each.running_and_ready and each.available for each in pods),
        }


def _ordinal(set_name: str, pod_name: str) -> int | None:
    """The ordinal in the name of a set's pod; None for other names."""
    prefix, _, ordinal = pod_name.rpartition("-")
    return int(ordinal) if prefix == set_name and _ORDINAL.fullmatch(ordinal) else None
