"""Reads a workload with failing pods: the owner of its failure record, the controllers below it, and all their pods.

The recovery loop asks by the record's owner. Everything is read from the API server and consistently, lists too: a list
from a stale cache could show a pod again that was already counted and deleted, and it would be counted twice. Long
lists come in pages, so that a DaemonSet of 5,000 pods does not block the event loop. The functions that find the owner
of a record in the cache are here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.reader import ObjectReader
from rescheduler.kube.client import ApiClient
from rescheduler.kube.objects import ObjectClient, list_items
from rescheduler.migration.observation import controller_of
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.objects import Owner, Workload

RecordOwnerKey = tuple[str, str, str]
"""Kind, namespace and name of the owner of a record."""
CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job"})
"""Kinds that create pods."""
_ABOVE = {"ReplicaSet": "Deployment", "Job": "CronJob"}
"""Kinds that create controllers."""
_JOB_NAME = "batch.kubernetes.io/job-name"  # a label of every pod of a Job


@dataclass(frozen=True, slots=True)
class OwnedObjects:
    """The owner of a record, and everything below it."""

    holder: Json
    controllers: tuple[Json, ...]
    pods: tuple[Json, ...]


def asks_for_retries(annotations: Iterable[str]) -> bool:
    """Whether annotations say how often a failed pod is rescheduled."""
    return labels.SCHEDULING_RETRIES in annotations or labels.MISSPELT_RETRIES in annotations


def is_record_kept_above(kind: str, above: str, annotations: Iterable[str]) -> bool:
    """Whether a controller's creator keeps its record: a Deployment always, a CronJob if it asks for retries itself."""
    return _ABOVE.get(kind) == above and (above == "Deployment" or asks_for_retries(annotations))


def workload_of(cache: ClusterCache, namespace: str, owner: Owner) -> Workload | None:
    """Return an owner from the cache, unless its UID is another."""
    row = cache.workload(namespace, owner)
    return row if row is not None and (not owner.uid or row.uid == owner.uid) else None


def is_known_above(cache: ClusterCache, namespace: str, kind: str, above: Owner | None) -> bool:
    """Whether, as far as the cache says, the creator of a controller of this kind keeps its record."""
    if above is None:
        return False
    maker = workload_of(cache, namespace, above)
    return is_record_kept_above(kind, above.kind, maker.annotations if maker is not None else ())


class RecordOwners(ObjectClient):
    """Reads owners of records from one API server."""

    def __init__(self, client: ApiClient) -> None:
        super().__init__(client)
        self._reader = ObjectReader()

    async def look(self, key: RecordOwnerKey) -> OwnedObjects | RecordOwnerKey | None:
        """Return the owner and everything below it, or the key of the real owner, or None if it does not exist."""
        kind, namespace, name = key
        holder = await self.find(kind, namespace, name)
        if holder is None:
            return None
        if (elsewhere := await self._find_real_owner(key, holder)) is not None:
            return elsewhere
        match kind:
            case "Pod":
                return OwnedObjects(holder, (), (holder,)) if controller_of(holder) is None else None
            case "Deployment":
                controllers = await self._owned("ReplicaSet", [holder], self._selector(holder))
                pods = await self._owned("Pod", controllers, self._selector(holder)) if controllers else []
            case "CronJob":
                controllers = await self._owned("Job", [holder], "")
                jobs = ",".join(sorted(job["metadata"]["name"] for job in controllers))
                pods = await self._owned("Pod", controllers, f"{_JOB_NAME} in ({jobs})") if controllers else []
            case _:
                controllers = [holder]
                pods = await self._owned("Pod", controllers, self._selector(holder))
        return OwnedObjects(holder, tuple(controllers), tuple(pods))

    async def _find_real_owner(self, key: RecordOwnerKey, holder: Json) -> RecordOwnerKey | None:
        """Return the owner that keeps this controller's record, if the caller named the controller itself."""
        kind, namespace, _ = key
        above = controller_of(holder)
        if above is None or _ABOVE.get(kind) != above["kind"]:
            return None
        found = await self.find(above["kind"], namespace, above["name"])
        if found is None or found["metadata"]["uid"] != above["uid"]:
            return None
        is_holder = is_record_kept_above(kind, above["kind"], annotations_of(found))
        return (above["kind"], namespace, above["name"]) if is_holder else None

    async def _owned(self, kind: str, owners: list[Json], selector: str) -> list[Json]:
        """List the objects that these owners of one namespace control."""
        uids = {owner["metadata"]["uid"] for owner in owners}
        selection = {"labelSelector": selector} if selector else None

        def pick(page: bytes) -> list[Json]:
            items = list_items(page, kind)
            return [each for each in items if (above := controller_of(each)) is not None and above["uid"] in uids]

        return await self._list_pages(kind, owners[0]["metadata"]["namespace"], selection, pick)

    def _selector(self, workload: Json) -> str:
        """Return the selector of a workload's pods; empty if it is invalid, so that all pods are read."""
        row = self._reader.read(workload["kind"], msgspec.json.encode(workload), "the API server").row
        return str(row.selector) if isinstance(row, Workload) and row.selector is not None else ""
