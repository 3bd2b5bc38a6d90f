"""Reads a workload with failing pods whole: who keeps its record, who makes its pods, and all of these pods.

The recovery loop asks by the record's holder. Everything comes straight from the API server and as it is now, lists
too: a list from a server whose cache is behind could show a pod again that was counted, deleted and forgotten, and it
would be counted twice. Long lists come in pages, so that a DaemonSet of 5,000 pods does not stop everything else.
Who keeps a record, as far as the cache knows, is said here too: `runtime.failing` and `admission.holders` ask it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.reader import ObjectReader
from rescheduler.decode.structs import WORKLOADS
from rescheduler.kube.client import ApiClient
from rescheduler.kube.objects import path_of
from rescheduler.migration.observation import annotations_of, controller_of
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.objects import Owner, Workload

RecordOwnerKey = tuple[str, str, str]
"""Kind, namespace and name of who keeps a record."""
CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job"})
"""Who makes pods."""
_ABOVE = {"ReplicaSet": "Deployment", "Job": "CronJob"}
"""Who makes controllers."""
_JOB_NAME = "batch.kubernetes.io/job-name"  # a label of every pod of a Job


@dataclass(frozen=True, slots=True)
class OwnedObjects:
    """A holder and all that is below it."""

    holder: Json
    controllers: tuple[Json, ...]
    pods: tuple[Json, ...]


def asks_for_retries(notes: Iterable[str]) -> bool:
    """Whether annotations say how often a pod that fails is to be rescheduled."""
    return labels.SCHEDULING_RETRIES in notes or labels.MISSPELT_RETRIES in notes


def is_record_kept_above(kind: str, above: str, notes: Iterable[str]) -> bool:
    """Whether a controller's record is kept by who made it: a Deployment always, a CronJob if it asks for it itself."""
    return _ABOVE.get(kind) == above and (above == "Deployment" or asks_for_retries(notes))


def workload_of(cache: ClusterCache, namespace: str, owner: Owner) -> Workload | None:
    """This very workload, if it is known: one of the same name that was there before it says nothing."""
    row: Workload | None = (
        cache.row(owner.kind, (owner.kind, namespace, owner.name)) if owner.kind in WORKLOADS else None
    )
    return row if row is not None and (not owner.uid or row.uid == owner.uid) else None


def is_known_above(cache: ClusterCache, namespace: str, kind: str, above: Owner | None) -> bool:
    """Whether who made a controller of this kind keeps its record, by what the cache knows: it may not know it yet."""
    if above is None:
        return False
    maker = workload_of(cache, namespace, above)
    return is_record_kept_above(kind, above.kind, maker.annotations if maker is not None else ())


class RecordOwners:
    """Reads holders from one API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._reader = ObjectReader()

    async def look(self, key: RecordOwnerKey) -> OwnedObjects | RecordOwnerKey | None:
        """All of it; or who keeps the record instead; or None where nothing is."""
        kind, namespace, name = key
        holder = await self.find(kind, namespace, name)
        if holder is None:
            return None
        if (elsewhere := await self._elsewhere(key, holder)) is not None:
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

    async def find(self, kind: str, namespace: str, name: str) -> Json | None:
        """One object, if it is there."""
        answer = await self._client.find(path_of(kind, namespace, name))
        body: Json | None = msgspec.json.decode(answer) if answer is not None else None
        return body

    async def _elsewhere(self, key: RecordOwnerKey, holder: Json) -> RecordOwnerKey | None:
        """Who above a controller keeps its record; whoever named the controller did not know of him yet."""
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
        """What these objects, which are of one namespace, manage."""
        uids = {owner["metadata"]["uid"] for owner in owners}
        selection = {"labelSelector": selector} if selector else None
        path = path_of(kind, owners[0]["metadata"]["namespace"])
        found: list[Json] = []
        async for page in self._client.list_pages(path, params=selection):
            if page.first:
                found = []
            listed = msgspec.json.decode(page.body)
            about = {
                "apiVersion": listed.get("apiVersion", ""),
                "kind": kind,
            }  # items of a list do not say what they are
            for each in listed["items"]:
                above = controller_of(each)
                if above is not None and above["uid"] in uids:
                    found.append(about | each)
        return found

    def _selector(self, workload: Json) -> str:
        """By which labels its pods are found; empty for a selector that cannot be understood: then all are read."""
        row = self._reader.read(workload["kind"], msgspec.json.encode(workload), "the API server").row
        return str(row.selector) if isinstance(row, Workload) and row.selector is not None else ""
