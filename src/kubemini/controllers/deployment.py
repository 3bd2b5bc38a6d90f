"""Deployments: one ReplicaSet for each template they had, rolled from the old ones to the new one.

One step per reconciliation: the change that a step makes brings the next. The new ReplicaSet is the one whose template
equals the Deployment's (equality, never the hash). Its revision is one more than the highest among the others, so
going back to an old template gives the old ReplicaSet a new revision. A paused Deployment is scaled but not rolled out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubemini.api import Api, Deletion, Target
from kubemini.conditions import condition_of, set_condition
from kubemini.controllers.controller_refs import ControllerRefManager, controller_reference
from kubemini.controllers.pods import TEMPLATE_HASH, hash_template, scale_value, without_hash
from kubemini.controllers.writes import delete_if_present, edit_if_present
from kubemini.errors import Json
from kubemini.events import EventRecorder
from kubemini.kinds import DEPLOYMENT, POD, REPLICA_SET, Kind
from kubemini.pods import TERMINAL
from kubemini.selectors import workload_selector
from kubemini.store import Change, Entry, Key

REVISION = "deployment.kubernetes.io/revision"
_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION})
_COMPLETE = "NewReplicaSetAvailable"


class Goal(NamedTuple):
    """The target numbers of a Deployment."""

    replicas: int
    limit: int
    """How many pods there may be at a time."""
    min_available: int
    """How many pods must stay available."""


class Size(NamedTuple):
    """How many pods a ReplicaSet shall have, and how many are available."""

    replicas: int
    available: int


def goal_of(deployment: Json) -> Goal:
    """The numbers of a Deployment. maxSurge is rounded up, maxUnavailable down; never both to nothing."""
    replicas: int = deployment["spec"].get("replicas", 1)
    if _is_recreated(deployment):
        return Goal(replicas, replicas, replicas)
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = scale_value(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scale_value(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    return Goal(replicas, replicas + surge, max(replicas - (unavailable or int(not surge)), 0))


def rolling_step(goal: Goal, new: Size, olds: Sequence[Size]) -> tuple[int, list[int]]:
    """The next sizes of the new and of the old ReplicaSets, which come from old to new; the same ones mean to wait.

    New pods come first, then old ones go as far as the goal allows, unhealthy ones before healthy ones.
    """
    sizes = [old.replicas for old in olds]
    room = max(goal.limit - sum(sizes) - new.replicas, 0)
    size = min(new.replicas + room, goal.replicas)
    if size != new.replicas or any(old.available > old.replicas for old in olds):  # the last step is not done yet
        return size, sizes
    # New pods that are not available yet must not make room for deleting old ones.
    allowed = sum(sizes) + new.available - goal.min_available
    for index, old in enumerate(olds):
        fewer = max(min(allowed, old.replicas - old.available), 0)
        sizes[index] -= fewer
        allowed -= fewer
    spare = sum(old.available for old in olds) + new.available - goal.min_available
    for index in range(len(sizes)):
        fewer = max(min(sizes[index], spare), 0)
        sizes[index] -= fewer
        spare -= fewer
    return size, sizes


class DeploymentController:
    """Rolls every Deployment to its template."""

    name = "deployment-controller"
    kinds: tuple[Kind, ...] = (DEPLOYMENT, REPLICA_SET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._refs = ControllerRefManager(api, DEPLOYMENT, REPLICA_SET)
        self._events = EventRecorder(api.store, self.name)

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The Deployment itself, that of a ReplicaSet, and that of a deleted pod (Recreate waits for the last one)."""
        if change.kind.name == DEPLOYMENT.name:
            return self._refs.owner_changed(change)
        if change.kind.name == REPLICA_SET.name:
            return self._refs.dependent_changed(change)
        return self._deployment_of(change.entry) if change.type == "DELETED" else ()

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step of a rollout, and write the status."""
        body = self._api.find(DEPLOYMENT, key)
        selector = workload_selector(body) if body else None
        if body is None or selector is None:
            return None
        claimed = await self._refs.claim(body, selector)
        await _Rollout(self._api, self._events, body, [entry.object() for entry in claimed]).advance()
        return None

    def _deployment_of(self, pod: Entry) -> Iterable[Key]:
        owner = pod.controller
        if owner is None or owner.kind != REPLICA_SET.name:
            return ()
        replica_set = self._store.get(REPLICA_SET, (pod.key[0], owner.name))
        above = replica_set.controller if replica_set is not None else None
        return ((pod.key[0], above.name),) if above is not None and above.kind == DEPLOYMENT.name else ()


class _Rollout:
    """One reconciliation of one Deployment. Bodies of ReplicaSets are updated as they are written."""

    def __init__(self, api: Api, events: EventRecorder, deployment: Json, sets: Sequence[Json]) -> None:
        self._api = api
        self._events = events
        self._deployment = deployment
        self._goal = goal_of(deployment)
        self._paused = bool(deployment["spec"].get("paused"))
        template = without_hash(deployment["spec"]["template"])
        self._sets = sorted(sets, key=_age)
        same = [each for each in self._sets if without_hash(each["spec"]["template"]) == template]
        self._new: Json | None = same[0] if same else None
        self._olds = [each for each in self._sets if each is not self._new]

    async def advance(self) -> None:
        """Do what is next."""
        if "deletionTimestamp" not in self._deployment["metadata"]:
            await self._update_new()
            if self._paused:
                await self._scale_paused()
            elif _is_recreated(self._deployment):
                await self._recreate()
            else:
                await self._roll()
        status = self._status()
        await self._write(status)
        if self._paused or self._is_complete(status):
            await self._delete_old_revisions()

    async def _roll(self) -> None:
        new = _size(self._new) if self._new else Size(0, 0)
        size, sizes = rolling_step(self._goal, new, [_size(old) for old in self._olds])
        await self._resize_new(size)
        for old, replicas in zip(self._olds, sizes, strict=True):
            await self._resize(old, replicas)

    async def _recreate(self) -> None:
        if any(_size(old).replicas for old in self._olds):
            for old in self._olds:
                await self._resize(old, 0)
        elif not self._has_old_pods():
            await self._resize_new(self._goal.replicas)

    async def _scale_paused(self) -> None:
        """Scale the only active ReplicaSet, or the newest one if none is. In the middle of a rollout sizes stay."""
        active = [each for each in self._sets if _size(each).replicas] or self._sets[-1:]
        if len(active) == 1:
            await self._resize(active[0], self._goal.replicas)

    def _has_old_pods(self) -> bool:
        pods = [pod for old in self._olds for pod in self._api.store.owned(POD, old["metadata"]["uid"])]
        return any(pod.fields["status.phase"] not in TERMINAL for pod in pods)

    async def _update_new(self) -> None:
        """Update the annotations and minReadySeconds of the new ReplicaSet."""
        if self._new is None:
            return
        annotations = self._new_annotations()
        min_ready = self._deployment["spec"].get("minReadySeconds", 0)
        if annotations != _annotations(self._new) or min_ready != self._new["spec"].get("minReadySeconds", 0):
            self._new["metadata"]["annotations"] = annotations
            self._new["spec"]["minReadySeconds"] = min_ready
            await self._replace(self._new)

    def _new_annotations(self) -> dict[str, str]:
        """The annotations that the new ReplicaSet should have: the Deployment's, and its revision."""
        mine = _annotations(self._new) if self._new else {}
        copied = {key: text for key, text in _annotations(self._deployment).items() if key not in _NOT_COPIED}
        number = max(_revision(mine), 1 + max((_revision(_annotations(old)) for old in self._olds), default=0))
        return mine | copied | {REVISION: str(number)}

    async def _create_new(self, replicas: int) -> None:
        """Create the ReplicaSet of the Deployment's template.

        Its hash is also of its revision: after a handoff that was cut off, an older one may have the template's name
        and another template.
        """
        spec, metadata = self._deployment["spec"], self._deployment["metadata"]
        annotations = self._new_annotations()
        hashed = hash_template(spec["template"], annotations[REVISION])
        template, selector = copy.deepcopy(spec["template"]), copy.deepcopy(spec["selector"])
        labels: dict[str, str] = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[TEMPLATE_HASH] = selector.setdefault("matchLabels", {})[TEMPLATE_HASH] = hashed
        body: Json = {
            "metadata": {
                "name": f"{metadata['name']}-{hashed}",
                "labels": dict(labels),
                "annotations": annotations,
                "ownerReferences": [controller_reference(self._deployment)],
            },
            "spec": {
                "replicas": replicas,
                "selector": selector,
                "template": template,
                "minReadySeconds": spec.get("minReadySeconds", 0),
            },
        }
        self._new = await self._api.create(Target(REPLICA_SET, metadata["namespace"]), body)
        self._sets.append(self._new)
        if replicas:
            self._say_scaled(self._new, 0, replicas)

    async def _resize_new(self, replicas: int) -> None:
        if self._new is None:
            await self._create_new(replicas)
        else:
            await self._resize(self._new, replicas)

    async def _resize(self, replica_set: Json, replicas: int) -> None:
        before = _size(replica_set).replicas
        if before != replicas:
            replica_set["spec"]["replicas"] = replicas
            await self._replace(replica_set)
            self._say_scaled(replica_set, before, replicas)

    def _say_scaled(self, replica_set: Json, before: int, after: int) -> None:
        way = "up" if before < after else "down"
        message = f"Scaled {way} replica set {replica_set['metadata']['name']} from {before} to {after}"
        self._events.record(self._deployment, "ScalingReplicaSet", message)

    async def _delete_old_revisions(self) -> None:
        """Delete the oldest empty ReplicaSets beyond revisionHistoryLimit."""
        limit: int = self._deployment["spec"].get("revisionHistoryLimit", 10)
        by_revision = sorted(self._olds, key=lambda each: _revision(_annotations(each)))
        for each in by_revision[: max(len(self._olds) - limit, 0)]:
            if not _size(each).replicas and not each.get("status", {}).get("replicas"):
                metadata = each["metadata"]
                target = Target(REPLICA_SET, metadata["namespace"], metadata["name"])
                await delete_if_present(self._api, target, Deletion(uid=metadata["uid"]))

    def _status(self) -> Json:
        statuses = [each.get("status", {}) for each in self._sets]
        counts = {
            key: sum(status.get(key, 0) for status in statuses)
            for key in ("replicas", "readyReplicas", "availableReplicas")
        }
        counts["updatedReplicas"] = self._new.get("status", {}).get("replicas", 0) if self._new else 0
        wanted = sum(_size(each).replicas for each in self._sets)
        counts["unavailableReplicas"] = max(wanted - counts["availableReplicas"], 0)
        status: Json = {key: count for key, count in counts.items() if count}
        status["observedGeneration"] = self._deployment["metadata"]["generation"]
        before = self._deployment.get("status", {}).get("conditions", ())
        status["conditions"] = [dict(each) for each in before]
        set_condition(status, self._available(status))
        set_condition(status, self._progressing(status))
        return status

    def _is_complete(self, status: Json) -> bool:
        """Whether all replicas are new and available, and no old ones are left."""
        counts = (status.get(key, 0) for key in ("updatedReplicas", "replicas", "availableReplicas"))
        return all(count == self._goal.replicas for count in counts)

    def _available(self, status: Json) -> Json:
        if status.get("availableReplicas", 0) >= self._goal.min_available:
            return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        message = "Deployment does not have minimum availability."
        return _condition("Available", "False", "MinimumReplicasUnavailable", message)

    def _progressing(self, status: Json) -> Json:
        """How the rollout gets on. One that was complete stays so when its pods become unavailable later."""
        if self._paused:
            return _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
        was_complete = condition_of(self._deployment, "Progressing").get("reason") == _COMPLETE
        only_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
        about = f'ReplicaSet "{self._new["metadata"]["name"]}"' if self._new else "Deployment"
        if self._is_complete(status) or (was_complete and only_new):
            return _condition("Progressing", "True", _COMPLETE, f"{about} has successfully progressed.")
        return _condition("Progressing", "True", "ReplicaSetUpdated", f"{about} is progressing.")

    async def _write(self, status: Json) -> None:
        """Write the status, and with it the revision: it is no new generation."""
        metadata, before = self._deployment["metadata"], self._deployment.get("status", {})
        revision = _annotations(self._new if self._new else self._deployment).get(REVISION, "")
        if status == before and revision == _annotations(self._deployment).get(REVISION, ""):
            return

        def update(newest: Json) -> Json:
            if revision:
                newest["metadata"].setdefault("annotations", {})[REVISION] = revision
            return newest | {"status": status}

        target = Target(DEPLOYMENT, metadata["namespace"], metadata["name"], "status")
        await edit_if_present(self._api, target, metadata["uid"], update)

    async def _replace(self, replica_set: Json) -> None:
        metadata = replica_set["metadata"]
        target = Target(REPLICA_SET, metadata["namespace"], metadata["name"])
        replica_set |= await self._api.replace(target, replica_set)


def _is_recreated(deployment: Json) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _size(replica_set: Json) -> Size:
    return Size(replica_set["spec"].get("replicas", 1), replica_set.get("status", {}).get("availableReplicas", 0))


def _annotations(body: Json) -> dict[str, str]:
    found: dict[str, str] = body["metadata"].get("annotations") or {}
    return found


def _revision(annotations: dict[str, str]) -> int:
    text = annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _age(body: Json) -> tuple[str, str]:
    return (body["metadata"]["creationTimestamp"], body["metadata"]["name"])


def _condition(kind: str, status: str, reason: str, message: str) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message}
