"""Claims and volumes: a claim is bound at once to the volume that it names, else to a new one, which goes with it."""

from __future__ import annotations

from collections.abc import Iterable

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.writes import delete_if_present, edit_if_present, write_status
from kubemini.errors import Json
from kubemini.kinds import CLAIM, VOLUME, Kind
from kubemini.store import Change, Key


class VolumeController:
    """Binds claims. Keys are claims, and volumes whose claim is gone with an empty namespace."""

    name = "persistentvolume-controller"
    kinds: tuple[Kind, ...] = (CLAIM,)

    def __init__(self, api: Api) -> None:
        self._api = api

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The claim, or the volume that was made for it."""
        return (("", _volume_name(change.entry.uid)) if change.type == "DELETED" else change.entry.key,)

    async def reconcile(self, key: Key) -> float | None:
        """Bind a claim, or delete the volume that was made for it."""
        if not key[0]:
            await delete_if_present(self._api, Target(VOLUME, name=key[1]), Deletion())
        elif (claim := self._api.find(CLAIM, key)) is not None:
            await self._bind(claim)
        return None

    async def _bind(self, claim: Json) -> None:
        spec, metadata = claim["spec"], claim["metadata"]
        name = spec.get("volumeName") or _volume_name(metadata["uid"])
        volume = self._api.find(VOLUME, ("", name))
        if volume is None and not spec.get("volumeName"):
            volume = await self._api.create(Target(VOLUME), _new_volume(claim, name))
        if volume is None:
            return

        def set_volume(body: Json) -> Json:
            body["spec"]["volumeName"] = name
            return body

        target = Target(CLAIM, metadata["namespace"], metadata["name"])
        bound = await edit_if_present(self._api, target, metadata["uid"], set_volume)
        if bound is not None:
            size = volume["spec"]["capacity"]
            await write_status(self._api, VOLUME, volume, {"phase": "Bound"})
            await write_status(self._api, CLAIM, bound, {"phase": "Bound", "capacity": size})


def _volume_name(claim_uid: str) -> str:
    return f"pvc-{claim_uid}"


def _new_volume(claim: Json, name: str) -> Json:
    spec, same = claim["spec"], {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec.get("accessModes") or [],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | same,
            "storageClassName": spec.get("storageClassName") or "",
        },
    }
