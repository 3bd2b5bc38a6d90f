"""Looks at everything that one migration touches, straight from the API server and never from the cache.

A cache may be behind, and what a move rests on (is the copy Ready, does the budget still allow it) must be true at the
moment of acting. The reads go out together, so that a look takes about three round trips.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from rescheduler.cluster.client import ApiClient, Request
from rescheduler.cluster.errors import ApiError
from rescheduler.cluster.paths import path_of
from rescheduler.cluster.sections import SectionError
from rescheduler.migration.commands import Json
from rescheduler.migration.eviction import temporary_budget_name
from rescheduler.migration.observation import Observation, controller_of, labels_of
from rescheduler.model import marks
from rescheduler.model.migration import Migration, Reference
from rescheduler.model.selector import Requirement, Selector, SelectorError, requirement, selector_of

_CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "Job", "DaemonSet"})


class Observer:
    """Looks for migrations."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def look(self, migration: Migration) -> Observation:
        """All that is there now. What the caller knows better (other members, what was refused) is left open."""
        namespace, progress = migration.namespace, migration.progress
        async with _together() as reads:
            found = reads.create_task(self.find("Pod", namespace, migration.order.pod))
            marked = reads.create_task(self._list("Pod", namespace, f"{marks.MIGRATION_ID}={migration.name}"))
            budgets = reads.create_task(self._list("PodDisruptionBudget", namespace))
            services = reads.create_task(self._list("Service", namespace))
            node = reads.create_task(self._node(progress.target or migration.order.target))
            known = reads.create_task(self._referred(namespace, progress.controller))
        pod, controller = found.result(), known.result()
        is_original = pod is not None and progress.uid in ("", pod["metadata"]["uid"])
        if progress.controller is None and pod is not None and is_original:
            controller = await self._referred(namespace, _reference(pod))
        # What carries our note is known from the journal, because a rollout may remove the ReplicaSet that led there.
        above = _reference(controller) if controller is not None else progress.workload
        async with _together() as reads:
            owner = reads.create_task(self._referred(namespace, above))
            owned = reads.create_task(self.owned("Pod", namespace, controller))
            namesake = reads.create_task(self._namesake(migration, marked.result()))
        deployment = owner.result()
        if deployment is not None and deployment["kind"] != "Deployment":
            deployment = None
        workload = deployment or controller
        ours = temporary_budget_name(workload) if workload is not None else ""
        tags = labels_of(pod) if pod is not None else {}
        return Observation(
            pod=pod,
            marked=tuple(marked.result()),
            namesake=namesake.result(),
            controller=controller,
            deployment=deployment,
            replica_sets=await self.owned("ReplicaSet", namespace, deployment),
            siblings=owned.result(),
            budgets=tuple(b for b in budgets.result() if not _is_ours(b) and _selects(b, tags)),
            temporary_budget=next((b for b in budgets.result() if _is_ours(b) and b["metadata"]["name"] == ours), None),
            services=tuple(services.result()),
            target=node.result(),
        )

    async def find(self, kind: str, namespace: str, name: str) -> Json | None:
        """One object, if it is there."""
        try:
            answer = await self._client.send(Request("GET", path_of(kind, namespace, name), answers=frozenset({404})))
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        body: Json = msgspec.json.decode(answer)
        return body

    async def budget(self, namespace: str, name: str) -> Json | None:
        """One disruption budget, if it is there; found by a list, because that is what we have the right to."""
        listed = await self._list("PodDisruptionBudget", namespace)
        return next((each for each in listed if each["metadata"]["name"] == name), None)

    async def _namesake(self, migration: Migration, marked: list[Json]) -> Json | None:
        """Who has the copy's name, where there is none that is marked as the copy."""
        wanted = migration.progress.replacement
        if wanted is None or wanted.uid or any(pod["metadata"]["name"] == wanted.name for pod in marked):
            return None
        return await self.find("Pod", migration.namespace, wanted.name)

    async def _node(self, name: str) -> Json | None:
        return await self.find("Node", "", name) if name else None

    async def _referred(self, namespace: str, reference: Reference | None) -> Json | None:
        """The object that is meant, and no other of its name."""
        if reference is None or reference.kind not in (*_CONTROLLERS, "Deployment"):
            return None
        found = await self.find(reference.kind, namespace, reference.name)
        return found if found is not None and found["metadata"]["uid"] == reference.uid else None

    async def owned(self, kind: str, namespace: str, owner: Json | None) -> tuple[Json, ...]:
        """What an object manages."""
        if owner is None:
            return ()
        selector = _selector(owner["spec"].get("selector") or {})
        found = await self._list(kind, namespace, str(selector) if selector is not None else "")
        uid = owner["metadata"]["uid"]
        return tuple(each for each in found if (above := controller_of(each)) is not None and above["uid"] == uid)

    async def _list(self, kind: str, namespace: str, selector: str = "") -> list[Json]:
        params = {"labelSelector": selector} if selector else {}
        answer: Any = msgspec.json.decode(await self._client.get(path_of(kind, namespace), params))
        api_version = answer.get("apiVersion", "")
        # Items of a list do not say what they are.
        return [{"apiVersion": api_version, "kind": kind, **item} for item in answer.get("items") or ()]


@asynccontextmanager
async def _together() -> AsyncGenerator[asyncio.TaskGroup]:
    """Reads that go out together; if some fail, the first failure is raised as it would be by a read alone."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* ApiError as failures:
        raise _first(failures) from None


def _first(failures: BaseExceptionGroup[ApiError]) -> ApiError:
    found = failures.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _reference(body: Json) -> Reference | None:
    owner = controller_of(body)
    return Reference(owner["kind"], owner["name"], owner["uid"]) if owner is not None else None


def _is_ours(budget: Json) -> bool:
    return labels_of(budget).get(marks.MANAGED_BY) == marks.OURSELVES and marks.MIGRATION_ID in labels_of(budget)


def _selects(budget: Json, tags: dict[str, str]) -> bool:
    written = budget.get("spec", {}).get("selector")
    if written is None:
        return False
    selector = _selector(written)
    return selector is None or selector.matches(tags)


def _selector(written: Json) -> Selector | None:
    """A label selector; None for one that cannot be understood, which may then select anything."""
    try:
        exact = [requirement(key, "In", [value]) for key, value in (written.get("matchLabels") or {}).items()]
        other: list[Requirement] = [
            requirement(each["key"], each["operator"], each.get("values"))
            for each in written.get("matchExpressions") or ()
        ]
    except (SelectorError, SectionError, KeyError):
        return None
    return selector_of([*exact, *other])
