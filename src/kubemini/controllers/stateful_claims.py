"""The claims of StatefulSets: created with the pod, and kept or given up as persistentVolumeClaimRetentionPolicy says.

`stateful_set` calls. A policy is carried out by owner references alone: a claim that the set or the pod owns goes with
its owner, by the garbage collector; one that nobody owns stays. What somebody else manages is not touched.
"""

from __future__ import annotations

from kubemini.api import Api, Target
from kubemini.controllers.children import controller_reference
from kubemini.controllers.stateful_pods import Member, Shape
from kubemini.events import EventRecorder
from kubemini.kinds import CLAIM, POD
from kubemini.refusals import Json, Refusal, conflict
from kubemini.store import Entry

_CONFLICTING = (
    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a managing controller, "
    "the retention policy is ignored for this claim"
)


class StatefulClaims:
    """The claims of one StatefulSet."""

    def __init__(self, api: Api, events: EventRecorder, shape: Shape) -> None:
        self._api = api
        self._events = events
        self._shape = shape
        self._namespace: str = shape.body["metadata"]["namespace"]
        policy = shape.body["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        self._goes_when_scaled = policy.get("whenScaled") == "Delete"
        self._goes_when_deleted = policy.get("whenDeleted") == "Delete"

    async def create(self, member: Member) -> None:
        """Create what is missing; a claim that is on its way out has to be gone first."""
        leaving: list[str] = []
        for body in self._shape.claims(member.ordinal):
            name = body["metadata"]["name"]
            there = self._entry(name)
            if there is None:
                await self._create_one(body, member)
            elif there.deleting:
                leaving.append(name)
        if leaving:
            raise conflict(CLAIM, leaving[0], "it is being deleted")

    def are_stale(self, member: Member) -> bool:
        """Whether a claim still belongs to an earlier pod of this name, and goes with it."""
        return self._goes_when_scaled and any(
            owner["kind"] == POD.name and owner["name"] == member.name
            for name in self._names(member)
            if (there := self._entry(name))
            for owner in _owners(there.object())
        )

    def are_kept_right(self, member: Member) -> bool:
        """Whether the owners of all claims are as the policy wants them."""
        return all(
            self._is_right(there.object(), member) for name in self._names(member) if (there := self._entry(name))
        )

    async def keep_right(self, member: Member) -> None:
        """Make the owners of all claims what the policy wants."""
        for name in self._names(member):
            there = self._entry(name)
            body = there.object() if there else None
            if body is None or self._is_right(body, member):
                continue
            if self._is_managed_by_others(body, member):
                self._events.say(self._shape.body, "ConflictingController", _CONFLICTING.format(name), warning=True)
            await self._api.edit(Target(CLAIM, self._namespace, name), lambda newest: self._owned(newest, member))

    async def _create_one(self, body: Json, member: Member) -> None:
        name, set_name = body["metadata"]["name"], self._shape.name
        try:
            await self._api.create(Target(CLAIM, self._namespace), body)
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                message = f"Create Claim {name} for Pod {member.name} in StatefulSet {set_name} failed error: {refusal}"
                self._events.say(self._shape.body, "FailedCreate", message, warning=True)
            raise
        message = f"Create Claim {name} Pod {member.name} in StatefulSet {set_name} success"
        self._events.say(self._shape.body, "SuccessfulCreate", message)

    def _owned(self, claim: Json, member: Member) -> Json:
        """The claim with the owners that the policy wants; others keep theirs."""
        others = [each for each in _owners(claim) if not self._is_ours(each, member)]
        if not self._is_managed_by_others(claim, member):
            by_set, by_pod = self._wanted(member)
            others += [controller_reference(self._shape.body)] if by_set else []
            others += [self._pod_reference(member)] if by_pod else []
        claim["metadata"].pop("ownerReferences", None)
        if others:
            claim["metadata"]["ownerReferences"] = others
        return claim

    def _wanted(self, member: Member) -> tuple[bool, bool]:
        """Whether the set and whether the pod shall own the claim: the pod only once it is to go."""
        leaves = member.ordinal not in self._shape.ordinals
        by_pod = self._goes_when_scaled and leaves and member.entry is not None
        return self._goes_when_deleted and not (self._goes_when_scaled and leaves), by_pod

    def _is_right(self, claim: Json, member: Member) -> bool:
        owners = [each for each in _owners(claim) if self._is_ours(each, member)]
        uids = {self._set_uid: 0, self._pod_uid(member): 1}
        if any(each["uid"] not in uids for each in owners):
            return True  # left by an earlier set or pod of this name: the garbage collector's business
        if self._is_managed_by_others(claim, member):
            return not owners
        if any(not each.get("controller") for each in owners):
            return False
        return (self._set_uid in _uids(owners), self._pod_uid(member) in _uids(owners)) == self._wanted(member)

    def _is_managed_by_others(self, claim: Json, member: Member) -> bool:
        """Whether another controller has the claim; with nothing to carry out that does not matter."""
        if not self._goes_when_deleted and not self._goes_when_scaled:
            return False
        strangers = [each for each in _owners(claim) if not self._is_ours(each, member)]
        return any(each.get("controller") for each in strangers)

    def _is_ours(self, owner: Json, member: Member) -> bool:
        by_set = (owner["kind"], owner["name"]) == ("StatefulSet", self._shape.name)
        return by_set or (owner["kind"], owner["name"]) == (POD.name, member.name)

    @property
    def _set_uid(self) -> str:
        uid: str = self._shape.body["metadata"]["uid"]
        return uid

    def _pod_uid(self, member: Member) -> str:
        return member.entry.uid if member.entry else ""

    def _pod_reference(self, member: Member) -> Json:
        pod = {"apiVersion": POD.api_version, "kind": POD.name}
        return controller_reference({**pod, "metadata": {"name": member.name, "uid": self._pod_uid(member)}})

    def _names(self, member: Member) -> list[str]:
        return [self._shape.claim_name(each, member.ordinal) for each in self._shape.claim_templates]

    def _entry(self, name: str) -> Entry | None:
        return self._api.store.get(CLAIM, (self._namespace, name))


def _owners(claim: Json) -> list[Json]:
    owners: list[Json] = claim["metadata"].get("ownerReferences", [])
    return owners


def _uids(owners: list[Json]) -> set[str]:
    return {each["uid"] for each in owners}
