"""StatefulSets: pods with ordinals, one after the other, each with a name and claims that outlive it.

With OrderedReady a pod is created only when all before it are available, and deleted from the highest ordinal down;
with Parallel all at once. A pod that is deleted or has ended comes back under its name when the old one is gone. A new
template is rolled out from the highest ordinal down, one pod at a time. There is no partition.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from kubemini.api import Api, Target
from kubemini.controllers.pods import (
    REVISION_HASH,
    PodControl,
    PodState,
    WorkloadController,
    hash_template,
    new_pod,
    seconds_now,
)
from kubemini.controllers.revisions import update_history
from kubemini.controllers.writes import write_status
from kubemini.errors import Json
from kubemini.kinds import CLAIM, STATEFUL_SET
from kubemini.selectors import workload_selector
from kubemini.store import Entry, Key

_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController(WorkloadController):
    """Keeps every StatefulSet at its pods."""

    name = "statefulset-controller"
    kind = STATEFUL_SET

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step towards the spec of a set, and write the status."""
        body = self._api.find(STATEFUL_SET, key)
        selector = workload_selector(body) if body else None
        if body is None or selector is None:
            return None
        pods = await self._refs.claim(body, selector, lambda pod: _ordinal(key[1], pod.key[1]) is not None)
        update = _Update(self._api, self._control, body, [(pod, self._states.of(pod)) for pod in pods])
        try:
            if "deletionTimestamp" not in body["metadata"]:
                await update_history(self._api, body)
                await update.advance()
        finally:
            await write_status(self._api, STATEFUL_SET, body, update.status())
        return self._states.next_available(pods, update.min_ready, seconds_now())


@dataclass(frozen=True, eq=False)
class _Member:
    """A pod of a set."""

    entry: Entry
    state: PodState
    available: bool
    updated: bool

    @property
    def healthy(self) -> bool:
        return self.available and self.state.phase == "Running" and not self.state.deleting


class _Update:
    """One reconciliation of one set."""

    def __init__(self, api: Api, control: PodControl, body: Json, pods: Sequence[tuple[Entry, PodState]]) -> None:
        self._api = api
        self._control = control
        self._body = body
        self._spec: Json = body["spec"]
        self._name: str = body["metadata"]["name"]
        self._namespace: str = body["metadata"]["namespace"]
        self._revision = f"{self._name}-{hash_template(self._spec['template'])}"
        self.min_ready: int = self._spec.get("minReadySeconds", 0)
        now = seconds_now()
        self._members: dict[int, _Member] = {}
        for entry, state in pods:
            ordinal = _ordinal(self._name, entry.key[1]) or 0
            updated = entry.labels.get(REVISION_HASH) == self._revision
            self._members[ordinal] = _Member(entry, state, state.available(self.min_ready, now), updated)
        self._wanted = range(self._spec.get("replicas", 1))

    async def advance(self) -> None:
        """Create what is missing, delete the surplus, roll out what is new; in order, only the first of these."""
        in_order = self._spec.get("podManagementPolicy") != "Parallel"
        for ordinal in self._wanted:
            member = self._members.get(ordinal)
            if member is None:
                await self._create(ordinal)
            elif member.state.finished:
                await self._delete(member)
            if in_order and (member is None or not member.healthy):
                return
        for ordinal in sorted(self._members.keys() - set(self._wanted), reverse=True):
            await self._delete(self._members[ordinal])
            if in_order:
                return
        if (self._spec.get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate":
            await self._roll()

    async def _roll(self) -> None:
        """Delete the pod of an older template with the highest ordinal, if all pods are healthy.

        With Parallel, old pods that are unhealthy anyway go at once.
        """
        members = [self._members.get(ordinal) for ordinal in reversed(self._wanted)]
        old = [each for each in members if each is not None and not each.updated]
        all_healthy = all(each is not None and each.healthy for each in members)
        for member in old[:1] if all_healthy else [each for each in old if not each.healthy]:
            await self._delete(member)

    async def _create(self, ordinal: int) -> None:
        pod = new_pod(self._spec["template"], self._body)
        metadata, spec, name = pod["metadata"], pod["spec"], f"{self._name}-{ordinal}"
        metadata["name"] = spec["hostname"] = name
        own = {REVISION_HASH: self._revision, _NAME_LABEL: name, _INDEX_LABEL: str(ordinal)}
        metadata["labels"] = {**metadata.get("labels", {}), **own}
        if service := self._spec.get("serviceName"):
            spec["subdomain"] = service
        for template in self._spec.get("volumeClaimTemplates") or ():
            volume, claim = template["metadata"]["name"], f"{template['metadata']['name']}-{name}"
            others = [each for each in spec.get("volumes") or () if each["name"] != volume]
            spec["volumes"] = [*others, {"name": volume, "persistentVolumeClaim": {"claimName": claim}}]
            await self._create_claim(claim, template)
        await self._control.create(self._body, [pod])

    async def _create_claim(self, name: str, template: Json) -> None:
        """Create a claim, if it is missing."""
        if self._api.find(CLAIM, (self._namespace, name)) is None:
            own = template["metadata"].get("labels") or {}
            labels = {**own, **(self._spec["selector"].get("matchLabels") or {})}
            body = {"metadata": {"name": name, "labels": labels}, "spec": copy.deepcopy(template["spec"])}
            await self._api.create(Target(CLAIM, self._namespace), body)

    async def _delete(self, member: _Member) -> None:
        if not member.state.deleting:
            await self._control.delete(self._body, [member.entry])

    def status(self) -> Json:
        """The status, by the pods as they were at the beginning of the reconciliation."""
        pods = self._members.values()
        current = self._body.get("status", {}).get("currentRevision", self._revision)
        staying = [each for each in pods if not each.state.deleting]
        counts = {
            "replicas": len(pods),
            "readyReplicas": sum(each.state.ready for each in pods),
            "currentReplicas": sum(each.entry.labels.get(REVISION_HASH) == current for each in staying),
            "updatedReplicas": sum(each.updated for each in staying),
        }
        if counts["updatedReplicas"] == counts["readyReplicas"] == counts["replicas"] == len(self._wanted):
            counts["currentReplicas"], current = counts["updatedReplicas"], self._revision
        return {
            "observedGeneration": self._body["metadata"]["generation"],
            **{key: count for key, count in counts.items() if count or key == "replicas"},
            "currentRevision": current,
            "updateRevision": self._revision,
            "availableReplicas": sum(each.available for each in pods),
        }


def _ordinal(set_name: str, pod_name: str) -> int | None:
    """The ordinal in the name of a set's pod; None for other names."""
    prefix, _, ordinal = pod_name.rpartition("-")
    return int(ordinal) if prefix == set_name and ordinal.isdecimal() else None
