"""One look at one StatefulSet: which pod is created, deleted or replaced next, and what the status tells.

Like kube-controller-manager's: with OrderedReady a pod is created only when all before it are available, and deleted
from the highest ordinal down; with Parallel all at once. A pod that is deleted or has ended comes back under its name
when the old one is gone. A new template is rolled out from the highest ordinal down to the partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.batches import in_growing_batches
from kubemini.controllers.deployment_rollout import scaled
from kubemini.controllers.pod_state import now
from kubemini.controllers.revisions import Revisions, name_of, template_in
from kubemini.controllers.stateful_claims import StatefulClaims
from kubemini.controllers.stateful_pods import Member, Shape
from kubemini.events import EventRecorder
from kubemini.kinds import POD, STATEFUL_SET
from kubemini.refusals import Json, Refusal

Step = Callable[[Member], Awaitable[bool]]
"""What is done with one member; the answer is whether the next one may follow when they go in order."""


class StatefulTurn:
    """What is done for one set in one go."""

    def __init__(
        self, api: Api, events: EventRecorder, body: Json, revisions: Revisions, members: Sequence[Member]
    ) -> None:
        self._api = api
        self._events = events
        self._body = body
        self._revisions = revisions
        self._shape = shape = Shape(body)
        self._claims = StatefulClaims(api, events, shape)
        self._spec: Json = body["spec"]
        self._min_ready: int = self._spec.get("minReadySeconds", 0)
        self._ordered = self._spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
        self._now = now()
        by_ordinal = {each.ordinal: each for each in members}
        self._replicas = [by_ordinal.get(each) or Member(each, f"{shape.name}-{each}") for each in shape.ordinals]
        leaving = [each for each in members if each.ordinal >= 0 and each.ordinal not in shape.ordinals]
        self._condemned = sorted(leaving, key=lambda each: each.ordinal, reverse=True)
        self._given_up = 0
        """How many pods were deleted for the update just now."""

    async def take(self) -> None:
        """Create what is missing, delete what is too much, roll out what is new; in order, the first of them only."""
        if "deletionTimestamp" in self._body["metadata"]:
            return
        for members, step in (
            (self._replicas, self._tend),
            (self._condemned, self._keep_claims),
            (self._condemned, self._dismiss),
        ):
            if not await self._each(members, step):
                return
        strategy = self._spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") == "RollingUpdate":
            await self._roll(strategy.get("rollingUpdate") or {})

    async def tell(self) -> Json:
        """Write the status, if it says anything new; the answer is the status."""
        status = self._status()
        if status == self._body.get("status", {}):
            return status
        metadata = self._body["metadata"]

        def told(newest: Json) -> Json:
            if newest["metadata"]["uid"] == metadata["uid"]:
                newest["status"] = status
            return newest

        try:
            await self._api.edit(Target(STATEFUL_SET, metadata["namespace"], metadata["name"], "status"), told)
        except Refusal as refusal:
            if refusal.code != 404:
                raise
        return status

    def next_check(self) -> float | None:
        """When the next of the pods that are Ready will have been so for long enough."""
        states = [each.state for each in (*self._replicas, *self._condemned) if each.state]
        waits = [state.available_in(self._min_ready, self._now) for state in states]
        return min((wait for wait in waits if wait), default=None)

    async def _each(self, members: Sequence[Member], step: Step) -> bool:
        """Take a step with each: in order until one has to be waited for, or with all at once. Whether none had."""
        if self._ordered:
            for member in members:
                if not await step(member):
                    return False
            return True

        async def one(member: Member) -> None:
            await step(member)

        await in_growing_batches([partial(one, member) for member in members])
        return True

    async def _tend(self, member: Member) -> bool:
        """Have a pod be there, be itself, and be available before the next one is looked at."""
        if member.finished:
            if not member.deleting:
                await self._delete(member)
            return False
        if member.entry is None:
            if not self._claims.are_stale(member):
                await self._create(member)
            return False
        if member.pending:
            await self._claims.create(member)
            await self._claims.keep_right(member)
        if self._ordered and not (member.running_and_ready and self._is_available(member)):
            return False
        if not (self._shape.is_itself(member) and self._claims.are_kept_right(member)):
            await self._put_right(member)
        return True

    async def _keep_claims(self, member: Member) -> bool:
        await self._claims.keep_right(member)
        return True

    async def _dismiss(self, member: Member) -> bool:
        """Delete a pod beyond the last; in order, no healthy one while another is not, but for the one that is not."""
        healthy = member.running_and_ready and self._is_available(member)
        if member.deleting or (self._ordered and not healthy and member is not self._first_unavailable()):
            return False
        await self._delete(member)
        return False

    async def _roll(self, rolling: Json) -> None:
        """Delete pods of older revisions, from the highest ordinal down, as many as may be unavailable.

        With Parallel those that are unavailable anyway go first, and at once.
        """
        allowed = max(scaled(rolling.get("maxUnavailable", 1), len(self._replicas), up=False), 1)
        budget = max(allowed - sum(not self._is_available(each) for each in self._replicas), 0)
        update = name_of(self._revisions.update)
        old = [
            each
            for each in reversed(self._replicas[rolling.get("partition", 0) :])
            if each.entry is not None and each.revision != update and not each.deleting
        ]
        broken = [] if self._ordered else [each for each in old if not self._is_available(each)]
        for member in (*broken, *[each for each in old if each not in broken][:budget]):
            await self._delete(member)
            self._given_up += 1

    async def _create(self, member: Member) -> None:
        revision = self._revision_for(member)
        pod = self._shape.new_pod(member.ordinal, template_in(revision), name_of(revision))
        try:
            await self._claims.create(member)
            await self._api.create(Target(POD, self._body["metadata"]["namespace"]), pod)
        except Refusal as refusal:
            if (refusal.reason, refusal.details.get("kind")) != ("AlreadyExists", POD.plural):
                self._say("Create", member, refusal)
            raise
        await self._claims.keep_right(member)
        self._say("Create", member)

    def _revision_for(self, member: Member) -> Json:
        """Pods below the partition are made from the current revision, all others from the new one."""
        rolling = (self._spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        kept = member.ordinal < self._shape.ordinals.start + rolling.get("partition", 0)
        return self._revisions.current if kept else self._revisions.update

    async def _put_right(self, member: Member) -> None:
        def marked(pod: Json) -> Json:
            self._shape.mark(pod, member.ordinal)
            return pod

        try:
            await self._claims.create(member)
            await self._claims.keep_right(member)
            await self._api.edit(Target(POD, self._body["metadata"]["namespace"], member.name), marked)
        except Refusal as refusal:
            self._say("Update", member, refusal)
            raise
        self._say("Update", member)

    async def _delete(self, member: Member) -> None:
        """Delete a pod; if it has gone by itself, that is as good."""
        uid = member.entry.uid if member.entry else ""
        target = Target(POD, self._body["metadata"]["namespace"], member.name)
        try:
            await self._api.delete(target, Deletion(uid=uid))
        except Refusal as refusal:
            there = self._api.store.get(POD, target.key)
            if there is not None and there.uid == uid:
                self._say("Delete", member, refusal)
                raise
        self._say("Delete", member)

    def _say(self, verb: str, member: Member, refusal: Refusal | None = None) -> None:
        about = f"{verb} Pod {member.name} in StatefulSet {self._shape.name}"
        if refusal is None:
            self._events.say(self._body, f"Successful{verb}", f"{about} successful")
        else:
            self._events.say(self._body, f"Failed{verb}", f"{about} failed error: {refusal}", warning=True)

    def _is_available(self, member: Member) -> bool:
        return member.available(self._min_ready, self._now) and not member.deleting

    def _first_unavailable(self) -> Member | None:
        by_ordinal = (*self._replicas, *reversed(self._condemned))
        return next((each for each in by_ordinal if not self._is_available(each)), None)

    def _status(self) -> Json:
        """The numbers, by the pods as they were when the turn began."""
        pods = [each for each in (*self._replicas, *self._condemned) if each.entry is not None]
        current, update = name_of(self._revisions.current), name_of(self._revisions.update)
        ready = [each for each in pods if each.running_and_ready]
        staying = [each for each in pods if not each.deleting]
        counts = {
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "currentReplicas": max(sum(each.revision == current for each in staying) - self._given_up, 0),
            "updatedReplicas": sum(each.revision == update for each in staying),
        }
        if counts["updatedReplicas"] == counts["readyReplicas"] == counts["replicas"] == len(self._replicas):
            counts["currentReplicas"], current = counts["updatedReplicas"], update
        status: Json = {
            "observedGeneration": self._body["metadata"].get("generation", 0),
            **{key: count for key, count in counts.items() if count or key == "replicas"},
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": self._revisions.collisions,
            "availableReplicas": sum(each.available(self._min_ready, self._now) for each in ready),
        }
        if conditions := self._body.get("status", {}).get("conditions"):
            status["conditions"] = conditions
        return status
