"""Reads everything that one migration touches, always from the API server and never from the cache.

The cache may be stale, and the facts that a move depends on (is the copy Ready, does the original still exist) must be
true when it acts. So objects with a known name are read by name. Consistent lists are slower: the server waits up to
0.1 s until its own cache is proven fresh. So the pods of a controller are listed at a resourceVersion at least as new
as the original and its copy. Services, ReplicaSets and disruption budgets change rarely, and the server checks them
again where it matters; for them any version will do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import msgspec

from rescheduler.decode.sections import SectionError, label_selector, qualify_kind
from rescheduler.decode.structs import ApiLabelSelector
from rescheduler.kube.errors import ApiError
from rescheduler.kube.objects import ObjectClient, list_items, path_of
from rescheduler.kube.record_owner import CONTROLLERS
from rescheduler.migration.observation import EVERYTHING, Observation, ObservedPart, controller_of, labels_of
from rescheduler.migration.steps.evict import temporary_budget_name
from rescheduler.migration.steps.placeholder import placeholder_name
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import ObjectReference, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.selector import Selector

_ANY = "0"  # whatever the server has in its cache


class MigrationObserver(ObjectClient):
    """Makes observations for the lifecycle of migrations."""

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart] = EVERYTHING) -> Observation:
        """Read the current state of a migration's objects; only the requested parts of it."""
        namespace, progress, order = migration.namespace, migration.status, migration.spec
        # One may be left over even if none is needed now.
        placeholder = placeholder_name(migration.name) if progress.method is Method.EVICT else ""
        async with _read_together() as reads:
            found = reads.create_task(self.find("Pod", namespace, order.pod.name))
            successor = reads.create_task(self._find_named("Pod", namespace, _name_of_replacement(migration)))
            node = reads.create_task(self._find_named("Node", "", progress.target or order.target))
            known = reads.create_task(self._find_referenced(namespace, progress.controller))
            room = reads.create_task(self._find_named("Pod", namespace, placeholder))
            noted = reads.create_task(self._find_referenced(namespace, progress.workload))
            budgets = reads.create_task(self._list_if(ObservedPart.BUDGETS in parts, "PodDisruptionBudget", namespace))
            services = reads.create_task(self._list_if(ObservedPart.SERVICES in parts, "Service", namespace))
        pod, controller, workload = found.result(), known.result(), noted.result()
        is_original = pod is not None and progress.pod_uid in ("", pod["metadata"]["uid"])
        owner = progress.controller
        if owner is None and pod is not None and is_original:
            owner = owner_of(pod)
            controller = await self._find_referenced(namespace, owner)
        if progress.workload is None and controller is not None:
            workload = await self._find_referenced(namespace, owner_of(controller)) or controller
        # The annotated workload comes from the PodMigration: a rollout may have removed the ReplicaSet that led to it.
        deployment = workload if workload is not None and workload["kind"] == "Deployment" else None
        replacement = successor.result()
        newest = _newest(each for each in (pod, replacement) if each is not None)
        async with _read_together() as reads:
            foreign = owner is not None and owner.kind not in CONTROLLERS
            whose = controller or (_stand_in(owner) if owner is not None and foreign else None)
            siblings = reads.create_task(
                self.owned("Pod", namespace, whose if ObservedPart.SIBLINGS in parts else None, newest)
            )
            above = deployment if ObservedPart.REPLICA_SETS in parts else None
            sets = reads.create_task(self.owned("ReplicaSet", namespace, above))
            protected = (deployment or controller) if ObservedPart.BUDGETS in parts else None
            own = reads.create_task(self._temporary_budget(namespace, protected))
            tags = labels_of(pod) if pod is not None else {}
            selecting = [each for each in budgets.result() if not _is_ours(each) and _selects(each, tags)]
            copies = reads.create_task(self._list_unadopted_copies(migration, selecting))
        marked, namesake = _find_marked(migration, pod, replacement)
        return Observation(
            pod=pod,
            marked=marked,
            namesake=namesake,
            controller=controller,
            foreign=foreign,
            deployment=deployment,
            replica_sets=sets.result(),
            siblings=siblings.result(),
            budgets=tuple(selecting),
            unadopted={
                each["metadata"]["uid"]: sum(_selects(each, labels_of(copy)) for copy in copies.result())
                for each in selecting
            },
            temporary_budget=own.result(),
            services=tuple(services.result()),
            target=node.result(),
            placeholder=room.result(),
            parts=parts,
        )

    async def _temporary_budget(self, namespace: str, workload: Json | None) -> Json | None:
        """Return the temporary budget of this workload, whichever migration created it."""
        if workload is None:
            return None
        budget = await self.find("PodDisruptionBudget", namespace, temporary_budget_name(workload))
        return budget if budget is not None and _is_ours(budget) else None

    async def _list_unadopted_copies(self, migration: PodMigration, budgets: list[Json]) -> list[Json]:
        """Return the copies of other handoffs that are not adopted yet and that a budget could count."""
        if not budgets:
            return []
        listed = await self._list("Pod", migration.namespace, f"{labels.MIGRATION_STATUS}=in-progress")
        return [
            pod
            for pod in listed
            if labels.WITHHELD in annotations_of(pod)
            and controller_of(pod) is None
            and labels_of(pod).get(labels.MIGRATION_ID) != migration.name
        ]

    async def _find_named(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object; None also for an empty name."""
        return await self.find(kind, namespace, name) if name else None

    async def _find_referenced(self, namespace: str, reference: ObjectReference | None) -> Json | None:
        """Return the referenced object, unless its UID is another."""
        if reference is None or reference.kind not in (*CONTROLLERS, "Deployment"):
            return None
        found = await self.find(reference.kind, namespace, reference.name)
        return found if found is not None and found["metadata"]["uid"] == reference.uid else None

    async def owned(self, kind: str, namespace: str, owner: Json | None, newest: str = _ANY) -> tuple[Json, ...]:
        """Return the objects that an object controls, at this resourceVersion or later."""
        if owner is None:
            return ()
        selector = _selector(owner["spec"].get("selector") or {})
        found = await self._list(kind, namespace, str(selector) if selector is not None else "", newest)
        uid = owner["metadata"]["uid"]
        return tuple(each for each in found if (above := controller_of(each)) is not None and above["uid"] == uid)

    async def _list_if(self, wanted: bool, kind: str, namespace: str) -> list[Json]:  # noqa: FBT001  it says it itself
        return await self._list(kind, namespace) if wanted else []

    async def _list(self, kind: str, namespace: str, selector: str = "", newest: str = _ANY) -> list[Json]:
        params = {"resourceVersion": newest, "resourceVersionMatch": "NotOlderThan"}
        if selector:
            params["labelSelector"] = selector
        return list_items(await self._client.get(path_of(kind, namespace), params), kind)


@asynccontextmanager
async def _read_together() -> AsyncGenerator[asyncio.TaskGroup]:
    """Send reads concurrently; if some fail, raise the first failure as a single read would."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* ApiError as failures:
        raise _first(failures) from None


def _first(failures: BaseExceptionGroup[ApiError]) -> ApiError:
    found = failures.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _name_of_replacement(migration: PodMigration) -> str:
    """Return the recorded name of the replacement, which is recorded before it is created."""
    wanted = migration.status.replacement
    return wanted.name if wanted is not None and wanted.name != migration.spec.pod.name else ""


def owner_of(body: Json) -> ObjectReference | None:
    """The controller of an object; a foreign kind with its group."""
    owner = controller_of(body)
    if owner is None:
        return None
    return ObjectReference(qualify_kind(owner["kind"], owner.get("apiVersion", "")), owner["name"], owner["uid"])


def _stand_in(owner: ObjectReference) -> Json:
    """What is known of a controller that is not read: by its UID its pods are found."""
    return {"kind": owner.kind, "metadata": {"name": owner.name, "uid": owner.uid}, "spec": {}}


def _find_marked(
    migration: PodMigration, pod: Json | None, replacement: Json | None
) -> tuple[tuple[Json, ...], Json | None]:
    """Return the pods that have the migration's id, and an unrelated pod that has the name meant for the copy."""
    mine = [
        each
        for each in (pod, replacement)
        if each is not None and labels_of(each).get(labels.MIGRATION_ID) == migration.name
    ]
    recorded = migration.status.replacement
    is_stranger = replacement is not None and replacement not in mine and recorded is not None and not recorded.uid
    return tuple(mine), replacement if is_stranger else None


def _newest(pods: Iterable[Json]) -> str:
    """Return the highest resourceVersion: a list that includes it includes everything before it."""
    return str(max((int(pod["metadata"]["resourceVersion"]) for pod in pods), default=0))


def _is_ours(budget: Json) -> bool:
    return labels_of(budget).get(labels.MANAGED_BY) == labels.MANAGER and labels.MIGRATION_ID in labels_of(budget)


def _selects(budget: Json, tags: dict[str, str]) -> bool:
    written = budget.get("spec", {}).get("selector")
    if written is None:
        return False
    selector = _selector(written)
    return selector is None or selector.matches(tags)


def _selector(written: Json) -> Selector | None:
    """Decode a label selector; None for an invalid one, which may then select anything."""
    try:
        return label_selector(msgspec.convert(written, ApiLabelSelector), "")
    except (SectionError, msgspec.ValidationError):
        return None
