"""Claims and volumes: a claim is bound to a volume that suits it, or to a new one where its class is ours.

A claim of a class with WaitForFirstConsumer waits until the scheduler has written the node of its first pod on it, or
has kept a volume for it. A volume whose claim is gone is released, and deleted if that is its policy and it was made
here. Free volumes and waiting claims are indexed as changes pass by.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from kubemini.api import Api, Target
from kubemini.controllers.volume_matching import (
    PROVISIONER,
    best,
    class_of,
    is_for,
    objection,
    provisioned,
    reference_to,
)
from kubemini.events import EventRecorder
from kubemini.kinds import CLAIM, NODE, STORAGE_CLASS, VOLUME, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Key
from rescheduler.model.marks import SELECTED_NODE
from rescheduler.model.selector import Labels

Group = TypeVar("Group", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)

_COMPLETED = "pv.kubernetes.io/bind-completed"
_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


class VolumeController:
    """Binds claims to volumes. Keys are claims, and volumes with an empty namespace."""

    name = "persistentvolume-controller"
    kinds: tuple[Kind, ...] = (STORAGE_CLASS, VOLUME, CLAIM)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = EventRecorder(api.store, self.name)
        self._free: dict[str, set[str]] = {}
        """Volumes that nobody claims, by storage class."""
        self._kept: dict[Key, set[str]] = {}
        """Volumes that name a claim, by the claim."""
        self._waiting: dict[str, set[Key]] = {}
        """Claims that have no volume yet, by storage class."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """The claim or the volume; those that it was bound to; claims that may get a new volume."""
        key, body = change.entry.key, change.entry.object()
        gone = change.type == "DELETED"
        if change.kind.resource == STORAGE_CLASS.resource:
            return sorted(self._waiting.get(key[1], ()))
        if change.kind.resource == CLAIM.resource:
            bound_to = body["spec"].get("volumeName", "")
            _note(self._waiting, class_of(body["spec"]), key, there=not gone and not bound_to)
            return [key, *(("", name) for name in sorted({bound_to, *self._kept.get(key, ())}) if name)]
        claims, of_class = _claims_named(change), class_of(body["spec"])
        free = not body["spec"].get("claimRef")
        _note(self._free, of_class, key[1], there=free and not gone)
        for claim in claims:
            kept_now = not gone and not free and claim == claims[0]
            _note(self._kept, claim, key[1], there=kept_now)
        return [key, *claims, *(sorted(self._waiting.get(of_class, ())) if free and not gone else ())]

    async def reconcile(self, key: Key) -> float | None:
        """Bind a claim, or say how a volume stands."""
        body = self._api.find(CLAIM if key[0] else VOLUME, key)
        if body is None:
            return None
        if key[0]:
            await self._claim(body)
        else:
            await self._volume(body)
        return None

    async def _claim(self, claim: Json) -> None:
        if "deletionTimestamp" in claim["metadata"]:
            return
        wanted = claim["spec"].get("volumeName")
        if wanted:
            await self._claim_by_name(claim, self._api.find(VOLUME, ("", wanted)))
            return
        storage_class = self._api.find(STORAGE_CLASS, ("", class_of(claim["spec"])))
        delayed = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        node = self._api.find(NODE, ("", selected)) if selected else None
        volume = best(self._candidates(claim, only_kept=delayed and node is None), claim, _place(node))
        if volume is not None:
            await self._bind(claim, volume)
            return
        if delayed and node is None:
            message = "waiting for first consumer to be created before binding"
            self._events.say(claim, "WaitForFirstConsumer", message)
        elif class_of(claim["spec"]):
            await self._provision(claim, storage_class, node)
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self._events.say(claim, "FailedBinding", message)
        await self._set_status(CLAIM, claim, {"phase": "Pending"})

    async def _claim_by_name(self, claim: Json, volume: Json | None) -> None:
        """The claim says which volume it wants, or has."""
        completed = (claim["metadata"].get("annotations") or {}).get(_COMPLETED)
        if volume is not None and is_for(volume, claim):
            await self._bind(claim, volume)
        elif completed:
            if (claim.get("status") or {}).get("phase") != "Lost":
                message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._events.say(claim, "ClaimLost", message, warning=True)
            await self._set_status(CLAIM, claim, {"phase": "Lost"})
        elif volume is not None and not volume["spec"].get("claimRef") and not objection(volume, claim):
            await self._bind(claim, volume)
        else:
            await self._set_status(CLAIM, claim, {"phase": "Pending"})

    def _candidates(self, claim: Json, *, only_kept: bool) -> list[Json]:
        key = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        names = set(self._kept.get(key, ()))
        if not only_kept:
            names |= self._free.get(class_of(claim["spec"]), set())
        found = (self._api.find(VOLUME, ("", name)) for name in sorted(names))
        return [volume for volume in found if volume is not None]

    async def _bind(self, claim: Json, volume: Json) -> None:
        by_us = not volume["spec"].get("claimRef")

        def taken(body: Json) -> Json:
            there = body["spec"].get("claimRef") or {}
            if there.get("uid") != claim["metadata"]["uid"]:
                body["spec"]["claimRef"] = reference_to(claim)
            if by_us:
                body["metadata"].setdefault("annotations", {})[_BY_CONTROLLER] = "yes"
            return body

        def given(body: Json) -> Json:
            marks = body["metadata"].setdefault("annotations", {})
            if not body["spec"].get("volumeName"):
                body["spec"]["volumeName"] = name
                marks[_BY_CONTROLLER] = "yes"
            marks[_COMPLETED] = "yes"
            return body

        name = volume["metadata"]["name"]
        volume = await self._api.edit(Target(VOLUME, name=name), taken)
        await self._set_status(VOLUME, volume, {"phase": "Bound"})
        metadata = claim["metadata"]
        claim = await self._api.edit(Target(CLAIM, metadata["namespace"], metadata["name"]), given)
        spec = volume["spec"]
        told = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": spec["capacity"]}
        await self._set_status(CLAIM, claim, told)

    async def _provision(self, claim: Json, storage_class: Json | None, node: Json | None) -> None:
        if storage_class is None:
            message = f'storageclass.storage.k8s.io "{class_of(claim["spec"])}" not found'
            self._events.say(claim, "ProvisioningFailed", message, warning=True)
            return
        provisioner = storage_class["provisioner"]
        if provisioner != PROVISIONER:
            self._events.say(claim, "ExternalProvisioning", _EXTERNAL.format(provisioner))
            return
        volume = provisioned(claim, storage_class, node)
        try:
            await self._api.create(Target(VOLUME), volume)
        except Refusal as refusal:
            if refusal.reason == "AlreadyExists":
                return
            self._events.say(claim, "ProvisioningFailed", str(refusal), warning=True)
            raise
        name = volume["metadata"]["name"]
        self._events.say(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    async def _volume(self, volume: Json) -> None:
        """Available, kept, bound or released."""
        reference = volume["spec"].get("claimRef") or {}
        if not reference.get("uid"):
            await self._set_status(VOLUME, volume, {"phase": "Available"})
            return
        claim = self._store.get(CLAIM, (reference["namespace"], reference["name"]))
        if claim is not None and claim.uid == reference["uid"]:
            return  # the claim's own turn says Bound
        await self._set_status(VOLUME, volume, {"phase": "Released"})
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        made_by = (volume["metadata"].get("annotations") or {}).get(_PROVISIONED_BY)
        if policy == "Delete" and made_by == PROVISIONER and "deletionTimestamp" not in volume["metadata"]:
            await self._api.delete(Target(VOLUME, name=volume["metadata"]["name"]))

    async def _set_status(self, kind: Kind, body: Json, told: Json) -> None:
        def newer(newest: Json) -> Json:
            kept = newest.get("status") or {}
            return newest | {"status": told if told["phase"] == "Pending" else kept | told}

        metadata = body["metadata"]
        await self._api.edit(Target(kind, metadata.get("namespace", ""), metadata["name"], "status"), newer)


def _claims_named(change: Change) -> list[Key]:
    """The claims that a volume names now or named before."""
    bodies = [change.entry.object(), *([change.before.object()] if change.before else [])]
    references = [body["spec"].get("claimRef") or {} for body in bodies]
    return list(dict.fromkeys((each["namespace"], each["name"]) for each in references if each))


def _note(index: dict[Group, set[Item]], group: Group, item: Item, *, there: bool) -> None:
    if there:
        index.setdefault(group, set()).add(item)
    elif group in index:
        index[group].discard(item)
        if not index[group]:
            del index[group]


def _place(node: Json | None) -> tuple[Labels, str] | None:
    return (node["metadata"].get("labels") or {}, node["metadata"]["name"]) if node else None
