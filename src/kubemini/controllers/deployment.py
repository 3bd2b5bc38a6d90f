"""Deployments: a ReplicaSet for each template they had, rolled from the old ones to the new one.

Like kube-controller-manager's, one step a turn: what the step changes brings the next turn. `deployment_revision` says
which ReplicaSet is the new one, `deployment_rollout` how large each shall be, `deployment_status` what to tell; here
it is written. A paused Deployment is scaled but not rolled out, and its ReplicaSets' templates are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubemini.api import Api, Target
from kubemini.controllers import deployment_status as status_of
from kubemini.controllers.children import Family, everyone, selector_in
from kubemini.controllers.deployment_revision import (
    REVISION,
    annotated,
    annotations_of,
    forgettable,
    new_replica_set,
    next_revision,
    replicas_noted,
    split,
)
from kubemini.controllers.deployment_rollout import (
    Goal,
    Resize,
    goal_of,
    is_scaling,
    recreate_step,
    rolling_step,
    scaling_step,
    share_of,
)
from kubemini.controllers.pod_state import FINAL_PHASES
from kubemini.events import EventRecorder
from kubemini.kinds import DEPLOYMENT, NAMESPACE, POD, REPLICA_SET, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key


class DeploymentController:
    """Rolls every Deployment to its template."""

    name = "deployment-controller"
    kinds: tuple[Kind, ...] = (DEPLOYMENT, REPLICA_SET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._family = Family(api, DEPLOYMENT, REPLICA_SET)
        self._events = EventRecorder(api.store, self.name)

    def concerned(self, change: Change) -> Iterable[Key]:
        """The Deployment itself, that of a ReplicaSet, and that of a pod that is gone, if it waits for such."""
        if change.kind.name == DEPLOYMENT.name:
            return self._family.parent_changed(change)
        if change.kind.name == REPLICA_SET.name:
            return self._family.child_changed(change)
        return self._waiting_for(change.entry) if change.type == "DELETED" else ()

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step of what a Deployment wants, and tell how it stands."""
        body = self._api.find(DEPLOYMENT, key)
        selector = selector_in(body["spec"]) if body else None
        if body is None or selector is None:
            return None
        claimed = await self._family.claim(body, selector, everyone, everyone)
        turn = _Turn(self._api, self._events, body, [entry.object() for entry in claimed])
        with self._family.telling(key):
            return await turn.take()

    def _waiting_for(self, pod: Entry) -> Iterable[Key]:
        """A Deployment that recreates waits until the last old pod is gone."""
        owner = pod.controller
        if owner is None or owner.kind != REPLICA_SET.name:
            return ()
        replica_set = self._store.get(REPLICA_SET, (pod.key[0], owner.name))
        above = replica_set.controller if replica_set is not None and replica_set.uid == owner.uid else None
        if above is None or above.kind != DEPLOYMENT.name:
            return ()
        deployment = self._store.get(DEPLOYMENT, (pod.key[0], above.name))
        if deployment is None or deployment.uid != above.uid:
            return ()
        return (deployment.key,) if _decode(deployment.raw).spec.strategy.type == "Recreate" else ()


class _Strategy(msgspec.Struct):
    type: str = ""


class _Spec(msgspec.Struct):
    strategy: _Strategy = msgspec.field(default_factory=_Strategy)


class _Deployment(msgspec.Struct):
    spec: _Spec


_decode = msgspec.json.Decoder(_Deployment).decode


class _Turn:
    """One look at one Deployment. Bodies are replaced by their new versions as they are written."""

    def __init__(self, api: Api, events: EventRecorder, deployment: Json, sets: Sequence[Json]) -> None:
        self._api = api
        self._store = api.store
        self._events = events
        self._deployment = deployment
        self._goal: Goal = goal_of(deployment)
        self._new, self._olds = split(deployment, sets)

    async def take(self) -> float | None:
        """Do what is next; the answer is in how many seconds to look again."""
        if "deletionTimestamp" in self._deployment["metadata"]:
            await self._sync_new()
            await self._tell(self._counted())
            return None
        await self._note_pause()
        await self._sync_new()
        shares = [share_of(each) for each in self._every()]
        if self._goal.paused or is_scaling(self._goal, shares):
            await self._scale()
            return None
        await (self._roll() if self._goal.rolling else self._recreate())
        status = status_of.rolled_out(self._deployment, self._goal, self._new, self._olds)
        await self._tell(status)
        if status_of.is_complete(self._deployment, self._goal, status):
            await self._clean_up()
        return status_of.next_check(self._deployment, self._goal, status)

    async def _scale(self) -> None:
        new = share_of(self._new) if self._new else None
        await self._resize(scaling_step(self._goal, new, [share_of(old) for old in self._olds]))
        if self._goal.paused:
            await self._clean_up()
        await self._tell(self._counted())

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

    def _every(self) -> list[Json]:
        return [*self._olds, *([self._new] if self._new else [])]

    def _counted(self) -> Json:
        return status_of.counted(self._deployment, self._goal, self._new, self._olds)

    def _has_old_pods(self) -> bool:
        """Whether an old ReplicaSet has pods, by its own account or by theirs."""
        if any(old.get("status", {}).get("replicas") for old in self._olds):
            return True
        pods = [pod for old in self._olds for pod in self._store.owned(POD, old["metadata"]["uid"])]
        return any(pod.fields["status.phase"] not in FINAL_PHASES for pod in pods)

    async def _note_pause(self) -> None:
        """Say that it is paused or goes on, so that the time of a pause does not count against the deadline."""
        current = status_of.condition_in(self._deployment.get("status", {}), "Progressing")
        reason = current["reason"] if current else ""
        if reason == status_of.TIMED_OUT or self._goal.paused == (reason == status_of.PAUSED):
            return
        if self._goal.paused:
            condition = status_of.progressing("Unknown", status_of.PAUSED, "Deployment is paused")
        else:
            condition = status_of.progressing("Unknown", status_of.RESUMED, "Deployment is resumed")
        if self._note(condition):
            await self._write_status()

    def _note(self, condition: Json) -> bool:
        """Enter what is to be said of the rollout; whether anything is, because without a deadline nothing is."""
        if status_of.deadline_of(self._deployment) is None:
            return False
        status_of.set_condition(self._deployment.setdefault("status", {}), condition)
        return True

    async def _sync_new(self) -> None:
        """Bring the annotations of the new ReplicaSet, and the Deployment's revision, up to date."""
        if self._new is None:
            return
        wanted = annotated(self._deployment, self._new, next_revision(self._olds))
        min_ready = self._deployment["spec"].get("minReadySeconds", 0)
        if wanted != annotations_of(self._new) or min_ready != self._new["spec"].get("minReadySeconds", 0):
            self._new["metadata"]["annotations"] = wanted
            self._new["spec"].pop("minReadySeconds", None)
            self._new["spec"] |= {"minReadySeconds": min_ready} if min_ready else {}
            self._new = await self._replace(self._new)
        message = f'Found new replica set "{self._new["metadata"]["name"]}"'
        seen_before = status_of.condition_in(self._deployment.get("status", {}), "Progressing") is not None
        noted = not seen_before and self._note(status_of.progressing("True", status_of.FOUND, message))
        await self._number(wanted.get(REVISION, ""), written=noted)

    async def _create_new(self) -> Json:
        """The ReplicaSet of the Deployment's template, made now."""
        body = new_replica_set(self._deployment, self._goal, self._olds)
        name, namespace, size = body["metadata"]["name"], body["metadata"]["namespace"], body["spec"]["replicas"]
        revision = body["metadata"]["annotations"][REVISION]
        try:
            self._new = made = await self._api.create(Target(REPLICA_SET, namespace), body)
        except Refusal as refusal:
            await self._not_created(refusal, name)
            raise
        if size:
            self._say_scaled(name, 0, size)
        noted = self._note(status_of.progressing("True", status_of.CREATED, f'Created new replica set "{name}"'))
        await self._number(revision, written=noted)
        return made

    async def _not_created(self, refusal: Refusal, name: str) -> None:
        """Another ReplicaSet has the name: try another hash next time. Anything else is told."""
        if refusal.reason == "AlreadyExists":
            status = self._deployment.setdefault("status", {})
            status["collisionCount"] = status.get("collisionCount", 0) + 1
            await self._write_status()
            return
        ending = self._store.get(NAMESPACE, ("", self._deployment["metadata"]["namespace"]))
        if ending is None or ending.deleting:
            return
        message = f'Failed to create new replica set "{name}": {refusal}'
        if self._note(status_of.progressing("False", status_of.NOT_CREATED, message)):
            await self._write_status()
        self._events.say(self._deployment, status_of.NOT_CREATED, message, warning=True)

    async def _number(self, revision: str, *, written: bool) -> None:
        """Enter the revision into the Deployment, together with a status that is to be written anyway or not."""
        annotations = annotations_of(self._deployment)
        if annotations.get(REVISION, "") != revision:
            self._deployment["metadata"]["annotations"] = annotations | {REVISION: revision}
            written = True
        if written:
            await self._write_status()

    async def _resize(self, steps: Iterable[Resize]) -> None:
        for step in steps:
            body = next(each for each in self._every() if each["metadata"]["name"] == step.name)
            before: int = body["spec"].get("replicas", 1)
            noted = replicas_noted(self._goal)
            up_to_date = noted.items() <= annotations_of(body).items()
            if before == step.replicas and (up_to_date or not step.noted):
                continue
            body["spec"]["replicas"] = step.replicas
            body["metadata"]["annotations"] = annotations_of(body) | noted
            self._keep(await self._replace(body))
            if before != step.replicas:
                self._say_scaled(step.name, before, step.replicas)

    async def _clean_up(self) -> None:
        for each in forgettable(self._deployment, self._olds):
            metadata = each["metadata"]
            try:
                await self._api.delete(Target(REPLICA_SET, metadata["namespace"], metadata["name"]))
            except Refusal as refusal:
                if refusal.code != 404:
                    raise

    async def _tell(self, status: Json) -> None:
        if status != self._deployment.get("status", {}):
            self._deployment["status"] = status
            await self._write_status()

    async def _write_status(self) -> None:
        """Write the status with the revision, which kube-controller-manager writes along with it."""
        metadata = self._deployment["metadata"]
        target = Target(DEPLOYMENT, metadata["namespace"], metadata["name"], "status")
        self._deployment = await self._api.replace(target, self._deployment)

    async def _replace(self, replica_set: Json) -> Json:
        metadata = replica_set["metadata"]
        return await self._api.replace(Target(REPLICA_SET, metadata["namespace"], metadata["name"]), replica_set)

    def _keep(self, written: Json) -> None:
        """The new version of one of the ReplicaSets takes the place of the old one."""
        uid = written["metadata"]["uid"]
        if self._new is not None and self._new["metadata"]["uid"] == uid:
            self._new = written
        self._olds = [written if each["metadata"]["uid"] == uid else each for each in self._olds]

    def _say_scaled(self, name: str, before: int, after: int) -> None:
        way = "up" if before < after else "down"
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        self._events.say(self._deployment, "ScalingReplicaSet", message)
