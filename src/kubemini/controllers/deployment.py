"""Deployments: one ReplicaSet for each template they had, rolled from the old ones to the new one.

One step per reconciliation: the change that a step makes brings the next. The new ReplicaSet is the one whose template
equals the Deployment's (equality, never the hash). Its revision is one more than the highest among the others, so
going back to an old template gives the old ReplicaSet a new revision. A paused Deployment is scaled but not rolled out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.conditions import condition_of
from kubemini.controllers.controller_refs import ControllerRefManager, controller_reference
from kubemini.controllers.deployment_rollout import (
    Resize,
    first_size,
    goal_of,
    paused_step,
    recreate_step,
    rolling_step,
    share_of,
)
from kubemini.controllers.pods import TEMPLATE_HASH, hash_template, name_with_hash, without_hash
from kubemini.controllers.writes import delete_if_present
from kubemini.events import EventRecorder
from kubemini.kinds import DEPLOYMENT, POD, REPLICA_SET, Kind
from kubemini.pods import TERMINAL
from kubemini.refusals import Json, Refusal
from kubemini.selectors import workload_selector
from kubemini.store import Change, Entry, Key

REVISION = "deployment.kubernetes.io/revision"
_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION})
_COMPLETE = "NewReplicaSetAvailable"
_COUNTS = ("replicas", "readyReplicas", "availableReplicas", "terminatingReplicas")


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
    """One reconciliation of one Deployment. Bodies are replaced by their new versions as they are written."""

    def __init__(self, api: Api, events: EventRecorder, deployment: Json, sets: Sequence[Json]) -> None:
        self._api = api
        self._store = api.store
        self._events = events
        self._deployment = deployment
        self._goal = goal_of(deployment)
        self._paused = bool(deployment["spec"].get("paused"))
        template = without_hash(deployment["spec"]["template"])
        ordered = sorted(sets, key=_age)
        same = [each for each in ordered if without_hash(each["spec"]["template"]) == template]
        self._new: Json | None = same[0] if same else None
        self._olds = [each for each in ordered if each is not self._new]

    async def advance(self) -> None:
        """Do what is next."""
        if "deletionTimestamp" not in self._deployment["metadata"]:
            await self._update_new()
            if self._paused:
                await self._resize(paused_step(self._goal, [share_of(each) for each in self._all()]))
            elif self._goal.rolling:
                await self._roll()
            else:
                await self._recreate()
        status = self._status()
        if status != self._deployment.get("status", {}):
            self._deployment["status"] = status
            await self._write_status()
        if self._paused or self._is_complete(status):
            await self._delete_old_revisions()

    async def _roll(self) -> None:
        new = self._new or await self._create_new()
        await self._resize(rolling_step(self._goal, share_of(new), [share_of(old) for old in self._olds]))

    async def _recreate(self) -> None:
        steps = recreate_step([share_of(old) for old in self._olds])
        await self._resize(steps)
        if steps or self._has_old_pods():
            return
        new = self._new or await self._create_new()
        if share_of(new).replicas != self._goal.replicas:
            await self._resize([Resize(new["metadata"]["name"], self._goal.replicas)])

    def _has_old_pods(self) -> bool:
        pods = [pod for old in self._olds for pod in self._store.owned(POD, old["metadata"]["uid"])]
        return any(pod.fields["status.phase"] not in TERMINAL for pod in pods)

    def _all(self) -> list[Json]:
        return [*self._olds, *([self._new] if self._new else [])]

    async def _update_new(self) -> None:
        """Update the annotations and minReadySeconds of the new ReplicaSet, and the Deployment's revision."""
        if self._new is None:
            return
        annotations = self._annotations(self._new)
        min_ready = self._deployment["spec"].get("minReadySeconds", 0)
        if annotations != _annotations(self._new) or min_ready != self._new["spec"].get("minReadySeconds", 0):
            self._new["metadata"]["annotations"] = annotations
            self._new["spec"]["minReadySeconds"] = min_ready
            self._new = await self._replace(self._new)
        await self._set_revision(annotations[REVISION])

    def _annotations(self, replica_set: Json) -> dict[str, str]:
        """The annotations that the new ReplicaSet should have: the Deployment's, and its revision."""
        mine = _annotations(replica_set)
        copied = {key: text for key, text in _annotations(self._deployment).items() if key not in _NOT_COPIED}
        number = max(_revision(replica_set), 1 + max((_revision(old) for old in self._olds), default=0))
        return mine | copied | {REVISION: str(number)}

    async def _create_new(self) -> Json:
        """Create the ReplicaSet of the Deployment's template."""
        body = self._new_replica_set()
        name, namespace, size = body["metadata"]["name"], body["metadata"]["namespace"], body["spec"]["replicas"]
        try:
            self._new = made = await self._api.create(Target(REPLICA_SET, namespace), body)
        except Refusal as refusal:
            if refusal.reason == "AlreadyExists":  # a ReplicaSet with another template has the name: hash differently
                status = self._deployment.setdefault("status", {})
                status["collisionCount"] = status.get("collisionCount", 0) + 1
                await self._write_status()
            else:
                message = f'Failed to create new replica set "{name}": {refusal}'
                self._events.say(self._deployment, "ReplicaSetCreateError", message, warning=True)
            raise
        if size:
            self._say_scaled(name, 0, size)
        await self._set_revision(_annotations(made)[REVISION])
        return made

    def _new_replica_set(self) -> Json:
        spec, metadata = self._deployment["spec"], self._deployment["metadata"]
        hashed = hash_template(spec["template"], self._deployment.get("status", {}).get("collisionCount"))
        template, selector = copy.deepcopy(spec["template"]), copy.deepcopy(spec["selector"])
        labels: dict[str, str] = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[TEMPLATE_HASH] = hashed
        selector.setdefault("matchLabels", {})[TEMPLATE_HASH] = hashed
        made: Json = {
            "metadata": {
                "name": name_with_hash(metadata["name"], hashed),
                "namespace": metadata["namespace"],
                "labels": dict(labels),
                "ownerReferences": [controller_reference(self._deployment)],
            },
            "spec": {
                "replicas": first_size(self._goal, [share_of(old) for old in self._olds]),
                "selector": selector,
                "template": template,
                "minReadySeconds": spec.get("minReadySeconds", 0),
            },
        }
        made["metadata"]["annotations"] = self._annotations(made)
        return made

    async def _set_revision(self, revision: str) -> None:
        """Write the revision into the Deployment; kube-controller-manager does it along with the status."""
        annotations = _annotations(self._deployment)
        if annotations.get(REVISION) != revision:
            self._deployment["metadata"]["annotations"] = annotations | {REVISION: revision}
            await self._write_status()

    async def _resize(self, steps: Iterable[Resize]) -> None:
        for step in steps:
            body = next(each for each in self._all() if each["metadata"]["name"] == step.name)
            before: int = body["spec"].get("replicas", 1)
            body["spec"]["replicas"] = step.replicas
            written = await self._replace(body)
            if body is self._new:
                self._new = written
            self._olds = [written if each is body else each for each in self._olds]
            self._say_scaled(step.name, before, step.replicas)

    def _say_scaled(self, name: str, before: int, after: int) -> None:
        way = "up" if before < after else "down"
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        self._events.say(self._deployment, "ScalingReplicaSet", message)

    async def _delete_old_revisions(self) -> None:
        """Delete the oldest empty ReplicaSets beyond revisionHistoryLimit."""
        limit: int = self._deployment["spec"].get("revisionHistoryLimit", 10)
        alive = [each for each in self._olds if "deletionTimestamp" not in each["metadata"]]
        by_revision = sorted(alive, key=lambda each: (_revision(each), _age(each)))
        for each in by_revision[: max(len(alive) - limit, 0)]:
            if not each["spec"].get("replicas", 1) and not each.get("status", {}).get("replicas"):
                metadata = each["metadata"]
                target = Target(REPLICA_SET, metadata["namespace"], metadata["name"])
                await delete_if_present(self._api, target, Deletion(uid=metadata["uid"]))

    def _status(self) -> Json:
        before, every = self._deployment.get("status", {}), self._all()
        wanted = sum(each["spec"].get("replicas", 1) for each in every)
        totals = {key: sum(each.get("status", {}).get(key, 0) for each in every) for key in _COUNTS}
        counts = {
            "observedGeneration": self._deployment["metadata"]["generation"],
            **totals,
            "updatedReplicas": self._new.get("status", {}).get("replicas", 0) if self._new else 0,
            "unavailableReplicas": max(wanted - totals["availableReplicas"], 0),
        }
        status: Json = {key: count for key, count in counts.items() if count or key == "terminatingReplicas"}
        conditions = [self._available(status), self._progressing(status)]
        if "collisionCount" in before:
            status["collisionCount"] = before["collisionCount"]
        status["conditions"] = [self._with_times(each) for each in conditions]
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

    def _with_times(self, condition: Json) -> Json:
        """A condition with its times: those that it has had, as far as it says the same."""
        before, now = condition_of(self._deployment, condition["type"]), clock.stamp(clock.now())
        same_status = before.get("status") == condition["status"]
        same = same_status and before.get("reason") == condition["reason"]
        times = {
            "lastTransitionTime": before["lastTransitionTime"] if same_status else now,
            "lastUpdateTime": before["lastUpdateTime"] if same else now,
        }
        return condition | times

    async def _write_status(self) -> None:
        metadata = self._deployment["metadata"]
        target = Target(DEPLOYMENT, metadata["namespace"], metadata["name"], "status")
        self._deployment = await self._api.replace(target, self._deployment)

    async def _replace(self, replica_set: Json) -> Json:
        metadata = replica_set["metadata"]
        return await self._api.replace(Target(REPLICA_SET, metadata["namespace"], metadata["name"]), replica_set)


def _annotations(body: Json) -> dict[str, str]:
    found: dict[str, str] = body["metadata"].get("annotations") or {}
    return found


def _revision(replica_set: Json) -> int:
    text = _annotations(replica_set).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _age(body: Json) -> tuple[str, str]:
    return (body["metadata"].get("creationTimestamp", ""), body["metadata"]["name"])


def _condition(kind: str, status: str, reason: str, message: str) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message}
