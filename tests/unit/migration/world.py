"""A cluster of a few objects: commands change it, and its controller, our webhook and a scheduler react at once.

It is client, observer and writer for the executor. It can die right after any of its writes, to the PodMigration or to
the cluster; the next executor finds what was there at that moment.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, cast

from kubemini.patches import apply_json_patch
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import (
    FailedCommand,
    Observation,
    ObservedPart,
    SteeringMethod,
    StepContext,
    is_terminating,
    labels_of,
)
from rescheduler.migration.settings import MigrationSettings
from rescheduler.migration.steps.placeholder import placeholder_name
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant
from rescheduler.runtime.executor import MigrationExecutor
from rescheduler.runtime.starting.gate import StartDecision
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.migration.scenes import NOW, deployment, node, pod, replica_set, stateful_set

Key = tuple[str, str]


class Killed(BaseException):
    """As by SIGKILL."""


@dataclass
class World:
    """Two pods of a workload, one of which is to be evicted from node one to node two."""

    steered: SteeringMethod
    kind: str = "ReplicaSet"
    webhook: bool = True
    quota: bool = False
    """Whether no further pod is let in, but for the controller's own."""
    kept: PodMigration = field(
        default_factory=lambda: pod_migration(
            "shop", "m", migration_spec("web-a", target="two", method=Method.EVICT), uid="m-uid"
        )
    )
    now: float = NOW
    writes: int = 0
    dies_after: int = 0
    """So many writes; 0 for never."""
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        controller = replica_set() if self.kind == "ReplicaSet" else stateful_set()
        found = [pod(), pod("web-b"), controller, *([deployment()] if self.kind == "ReplicaSet" else [])]
        self.objects: dict[Key, Json] = {(each["kind"], each["metadata"]["name"]): each for each in found}
        for name in ("web-a", "web-b"):
            self.objects["Pod", name]["metadata"]["ownerReferences"][0]["kind"] = self.kind
        self._made = 0

    async def work(self, settings: MigrationSettings, looks: int = 60) -> MigrationStatus:
        """Work on the migration until it is over."""
        executor = MigrationExecutor(
            cast("MigrationClient", self),
            cast("MigrationObserver", self),
            cast("CommandSender", self),
            lambda: Lifecycle(settings),
            _admit,
        )
        for _ in range(looks):
            wait = await executor.execute(("shop", "m"), lambda: self.now, lambda _: ())
            if self.kept.status.over and wait is None:
                return self.kept.status
            self.now += max(wait or 0.0, 0.1)
        raise AssertionError(f"not over: {self.kept.status}")

    async def read(self, _namespace: str, _name: str) -> PodMigration | None:
        return self.kept

    async def update_status(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        self.kept = replace(migration, status=progress)
        self._wrote(f"store {progress.step or progress.phase}")
        return self.kept

    async def carry_out(self, command: Command) -> FailedCommand | None:
        refused = self._done(command)
        self._wrote(f"{command.verb} {command.kind} {command.name}: {command.why}")
        return refused

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation:
        self._schedule()
        progress = migration.status
        found = copy.deepcopy(self.objects)
        original = found.get(("Pod", "web-a"))
        known = progress.replacement.name if progress.replacement is not None else ""
        both = (original, found.get(("Pod", known)) if known != "web-a" else None)
        ours = tuple(each for each in both if each and labels_of(each).get(labels.MIGRATION_ID) == "m")
        return Observation(
            pod=original,
            marked=ours,
            controller=found[self.kind, "web-1"],
            deployment=found.get(("Deployment", "web")),
            replica_sets=(found["ReplicaSet", "web-1"],) if self.kind == "ReplicaSet" else (),
            siblings=tuple(each for key, each in found.items() if key[0] == "Pod" and _is_owned(each)),
            temporary_budget=found.get(("PodDisruptionBudget", "web-rescheduler-pdb"))
            or found.get(("PodDisruptionBudget", "web-1-rescheduler-pdb")),
            target=node(),
            placeholder=found.get(("Pod", placeholder_name("m"))),
            steered=self.steered,
            parts=parts,
        )

    def _wrote(self, what: str) -> None:
        self.writes += 1
        self.history.append(what)
        if self.writes == self.dies_after:
            raise Killed(what)

    def _done(self, command: Command) -> FailedCommand | None:
        key = (command.kind, command.name)
        if command.verb is Verb.CREATE:
            return self._created(key, command.body)
        if key not in self.objects:
            return None if command.verb is not Verb.PATCH else FailedCommand(404, "NotFound", "it is gone")
        if command.verb is Verb.PATCH:
            body = copy.deepcopy(self.objects[key])
            self.objects[key] = (
                apply_json_patch(command.body, body) if isinstance(command.body, list) else _merged(body, command.body)
            )
        else:
            del self.objects[key]
            if command.verb is Verb.EVICT:
                self._rebuild()
        return None

    def _created(self, key: Key, body: Any) -> FailedCommand | None:
        if key[0] == "Pod" and self.quota:
            return FailedCommand(403, "Forbidden", "exceeded quota")
        made = copy.deepcopy(body)
        made["metadata"] |= {"uid": f"{key[1]}-uid", "resourceVersion": "8", "generation": 1}
        if key[0] == "PodDisruptionBudget":
            made["status"] = {"observedGeneration": 1, "disruptionsAllowed": 1}
        self.objects.setdefault(key, made)
        return None

    def _rebuild(self) -> None:
        """The controller makes another pod, and the API server asks the webhook about it."""
        self._made += 1
        name = "web-a" if self.kind == "StatefulSet" else f"web-new-{self._made}"
        made = pod(name, node="", ready=False, creationTimestamp=format_instant(self.now))
        made["metadata"] |= {"uid": f"new-{self._made}-uid"}
        made["metadata"]["ownerReferences"][0]["kind"] = self.kind
        made["status"] = {"phase": "Pending"}
        affinity = self.objects[self.kind, "web-1"]["spec"]["template"]["spec"].get("affinity")
        made["spec"] |= {"affinity": affinity} if affinity else {}
        step = self.kept.status.step
        if self.webhook and self.steered is not SteeringMethod.TEMPLATE and step in ("Evict", "AwaitRebuilt"):
            made["metadata"]["labels"] |= {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress"}
            made["metadata"]["annotations"] = {labels.ORIGINAL_POD: "web-a-uid"}
            if self.steered is SteeringMethod.NOMINATE:
                made["spec"]["schedulingGates"] = [{"name": labels.NOMINATE_GATE}]
                made["metadata"]["annotations"][labels.GATED] = "m"
        self.objects["Pod", name] = made

    def _schedule(self) -> None:
        """Pods that nothing holds back run: where they are nominated to, else wherever."""
        for body in self.objects.values():
            if body["kind"] != "Pod" or body["spec"].get("nodeName") or body["spec"].get("schedulingGates"):
                continue
            where = body.get("status", {}).get("nominatedNodeName", "three")
            body["spec"]["nodeName"] = where
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_instant(self.now)}
            body["status"] = {"phase": "Running", "conditions": [ready]}


async def _admit(scene: StepContext) -> StartDecision:
    original = scene.original
    if original is None or is_terminating(original):
        return StartDecision(None, "the pod is gone", never=True)
    owner = original["metadata"]["ownerReferences"][0]
    begun = replace(
        scene.migration.status,
        method=Method.EVICT,
        pod_uid="web-a-uid",
        source="one",
        target="two",
        controller=ObjectReference(owner["kind"], owner["name"], owner["uid"]),
    )
    return StartDecision(begun)


def _merged(body: Any, changes: Any) -> Any:
    """A merge patch, applied (RFC 7386)."""
    if not isinstance(changes, dict):
        return changes
    merged = dict(body) if isinstance(body, dict) else {}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _is_owned(body: Json) -> bool:
    return any(each.get("controller") for each in body["metadata"].get("ownerReferences") or ())


def remains(world: World) -> list[str]:
    """What is left of the move that should not be; the trace on its replacement may stay."""
    left = [f"{kind} {name}" for kind, name in world.objects if kind == "PodDisruptionBudget"]
    for (kind, name), body in world.objects.items():
        pod_labels, notes = labels_of(body), body["metadata"].get("annotations") or {}
        if labels.PLACEHOLDER in pod_labels or body["spec"].get("schedulingGates"):
            left.append(f"{kind} {name}")
        if pod_labels.get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS:
            left.append(f"{kind} {name} still says {pod_labels[labels.MIGRATION_STATUS]}")
        if kind != "Pod" and (notes or body["spec"].get("paused")):
            left.append(f"{kind} {name}: {notes}")
        if any(key.startswith(labels.OWN_PREFIX) for key in notes):
            left.append(f"{kind} {name}: {notes}")
    template = world.objects[world.kind, "web-1"]["spec"]["template"]["spec"]
    return left + (["the template is steered"] if "affinity" in template else [])
