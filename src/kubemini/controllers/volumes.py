"""Claims and volumes: a claim is bound at once, to the volume that names it or that it names, else to a new one.

New volumes are made for storage classes whose provisioner is ours. A claim of a class with WaitForFirstConsumer waits
until the scheduler has written the node of its first pod on it. A volume that was made here goes with its claim.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.writes import delete_if_present, edit_if_present, write_status
from kubemini.events import EventRecorder
from kubemini.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from kubemini.refusals import Json
from kubemini.store import Change, Key
from rescheduler.model.marks import SELECTED_NODE

PROVISIONER = "embedded.rescheduler.io"
"""The provisioner of storage classes whose volumes this cluster makes; also the name of their driver."""

_BOUND = "pv.kubernetes.io/bind-completed"


class VolumeController:
    """Binds claims to volumes. Keys are claims, and volumes with an empty namespace."""

    name = "persistentvolume-controller"
    kinds: tuple[Kind, ...] = (STORAGE_CLASS, VOLUME, CLAIM)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = EventRecorder(api.store, self.name)
        self._waiting: set[Key] = set()
        """Claims that have no volume yet."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The claim with its volume, or the volume with its claim; waiting claims when there is something new."""
        key, spec = change.entry.key, change.entry.object().get("spec") or {}
        if change.kind.resource == CLAIM.resource:
            volume = spec.get("volumeName", "")
            if volume or change.type == "DELETED":
                self._waiting.discard(key)
            else:
                self._waiting.add(key)
            return [key, *([("", volume)] if volume else [])]
        claim = spec.get("claimRef") or {}
        own = [key] if change.kind.resource == VOLUME.resource else []
        return [*own, *([(claim["namespace"], claim["name"])] if claim else sorted(self._waiting))]

    async def reconcile(self, key: Key) -> float | None:
        """Bind a claim, or release a volume whose claim is gone."""
        body = self._api.find(CLAIM if key[0] else VOLUME, key)
        if body is not None and "deletionTimestamp" not in body["metadata"]:
            await (self._bind_claim(body) if key[0] else self._release(body))
        return None

    async def _bind_claim(self, claim: Json) -> None:
        spec, metadata = claim["spec"], claim["metadata"]
        storage_class = self._api.find(STORAGE_CLASS, ("", spec.get("storageClassName") or "")) or {}
        selected = metadata.get("annotations", {}).get(SELECTED_NODE, "")
        volumes = (entry.object() for entry in self._store.entries(VOLUME) if not entry.deleting)
        volume = next((each for each in volumes if _is_reserved_for(each, claim)), None)
        if volume is not None:
            await self._bind(claim, volume)
            return
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not selected:
            message = "waiting for first consumer to be created before binding"
            self._events.say(claim, "WaitForFirstConsumer", message)
        elif storage_class.get("provisioner") == PROVISIONER and not spec.get("volumeName"):
            await self._api.create(Target(VOLUME), _new_volume(claim, storage_class))
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self._events.say(claim, "FailedBinding", message)
        await write_status(self._api, CLAIM, claim, {"phase": "Pending"})

    async def _bind(self, claim: Json, volume: Json) -> None:
        def set_claim(body: Json) -> Json:
            body["spec"]["claimRef"] = _reference(claim)
            return body

        def set_volume(body: Json) -> Json:
            body["spec"]["volumeName"] = name
            body["metadata"].setdefault("annotations", {})[_BOUND] = "yes"
            return body

        metadata, name, spec = claim["metadata"], volume["metadata"]["name"], volume["spec"]
        if (spec.get("claimRef") or {}).get("uid") != metadata["uid"]:
            await edit_if_present(self._api, Target(VOLUME, name=name), volume["metadata"]["uid"], set_claim)
        target = Target(CLAIM, metadata["namespace"], metadata["name"])
        bound = await edit_if_present(self._api, target, metadata["uid"], set_volume)
        if bound is not None:
            status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": spec["capacity"]}
            await write_status(self._api, CLAIM, bound, status)

    async def _release(self, volume: Json) -> None:
        """Write the phase of a volume, and delete it if it was made here for a claim that is gone."""
        reference, metadata = volume["spec"].get("claimRef") or {}, volume["metadata"]
        claim = self._store.get(CLAIM, (reference["namespace"], reference["name"])) if reference else None
        if not reference.get("uid"):
            phase = "Available"
        else:
            phase = "Bound" if claim is not None and claim.uid == reference["uid"] else "Released"
        await write_status(self._api, VOLUME, volume, {"phase": phase})
        made_here = (volume["spec"].get("csi") or {}).get("driver") == PROVISIONER
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        if phase == "Released" and made_here and policy == "Delete":
            await delete_if_present(self._api, Target(VOLUME, name=metadata["name"]), Deletion(uid=metadata["uid"]))


def _is_reserved_for(volume: Json, claim: Json) -> bool:
    """Whether a volume names a claim, or is free and named by it."""
    reference, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference:
        return bool(claim["spec"].get("volumeName") == volume["metadata"]["name"])
    named = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
    return named and reference.get("uid") in (None, "", metadata["uid"])


def _new_volume(claim: Json, storage_class: Json) -> Json:
    spec, name = claim["spec"], f"pvc-{claim['metadata']['uid']}"
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec.get("accessModes") or [],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": _reference(claim),
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
        },
    }


def _reference(claim: Json) -> Json:
    """How a volume names its claim."""
    same = {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | same
