"""What steps share: their base class, their answers, scheduling gates, and the steps of several methods.

A gate is always removed by the same patch, also by a rollback and by the orphan cleaner. It fails if the pod or its
gates have changed since; the caller then reads the pod again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.crd import API_VERSION, KIND
from rescheduler.migration.observation import (
    ObservedPart,
    StepContext,
    blocking_budget,
    is_terminating,
    labels_of,
    overlapping_budgets,
    unready_sibling,
)
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.objects import RolloutProgress
from rescheduler.model.time import format_instant


def gates_of(pod: Json) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def remove_gate(pod: Json, gate: str, note: str = "") -> list[Command]:
    """Remove this gate and this annotation; no command if the pod has neither."""
    if is_terminating(pod):
        return []
    gates = gates_of(pod)
    changes: list[Json] = []
    if gate in gates:
        at = f"/spec/schedulingGates/{gates.index(gate)}"
        changes += [{"op": "test", "path": f"{at}/name", "value": gate}, {"op": "remove", "path": at}]
    if note in annotations_of(pod):
        changes += commands.remove_annotation(pod, note)
    return [commands.json_patch(pod, changes, "take the gate off")] if changes else []


def remove_nominate_gate(pod: Json) -> list[Command]:
    """The same for the gate that the webhook adds to a replacement."""
    return remove_gate(pod, labels.NOMINATE_GATE, labels.GATED)


STORE_TIMEOUT = 120.0  # seconds after which the moves of a proposal, which are stored in a row, must all be there


@dataclass(frozen=True, slots=True)
class Done:
    """The step has its effect; or the move can do without it, and `said` becomes part of the final message."""

    said: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    """These commands, in this order."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done now; look again when something changes, or after some seconds."""

    reason: str
    seconds: float = 5.0
    patient: bool = False
    """Wait past the timeout too: the move is made, and undoing it would be wrong."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The move cannot go on. It is rolled back; then tried again, by another method, or not at all."""

    reason: str
    retry: bool = True
    other_method: bool = False
    yields: bool = False
    """Only for now, because the workload changes: tried again however often it was tried."""


Outlook = Done | Do | Wait | GiveUp
POD_GONE = GiveUp("the pod is gone", retry=False)
POD_DELETED = GiveUp("the pod was deleted, not evicted: its copy goes, too", retry=False)


def do_all(todo: Iterable[Command]) -> Do | Done:
    """These commands; Done if there are none."""
    found = tuple(todo)
    return Do(found) if found else Done()


class Step(ABC):
    """One step of a method."""

    name: ClassVar[str]
    """Shown and stored as `status.step`: the name of the class, so a class is renamed only with care."""
    needs: ClassVar[frozenset[ObservedPart]] = frozenset()
    """The parts of the cluster that the observation must include; steps of an eviction always get all."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def enter(self, context: StepContext) -> MigrationStatus:
        """The status to store when the step begins, before anything of it is done."""
        return context.migration.status

    @abstractmethod
    def look(self, context: StepContext) -> Outlook:
        """Decide what to do, given the cluster as it is."""


class AwaitMembers(Step):
    """Waits until every migration of the proposal has its room, so that they stand or fall together."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._reserved = reserved
        """The names of this step and of those after it, in any method."""

    def look(self, context: StepContext) -> Outlook:
        """Done when all others are here or further."""
        order, members = context.migration.spec, context.seen.members
        if context.live_original is None:
            return POD_GONE
        if order.members <= 1:
            return Done()
        if lost := next((each for each in members if each.status.phase is Phase.FAILED), None):
            return GiveUp(f"{lost.full_name}, which belongs to it, failed: {lost.status.message}", retry=False)
        there = [m for m in members if m.status.phase is Phase.COMPLETED or m.status.step in self._reserved]
        created = context.migration.metadata.creation_timestamp
        if len(members) < order.members - 1 and created is not None and context.now - created > STORE_TIMEOUT:
            return GiveUp("a move that belongs to it was never stored, or has been deleted", retry=False)
        missing = order.members - 1 - len(there)
        return Wait(f"waiting for {missing} of {order.members} moves that belong together") if missing > 0 else Done()


class CheckBudgets(Step):
    """Waits, before anything is done, until the pod's disruption budget allows the eviction."""

    needs = frozenset({ObservedPart.BUDGETS})

    def __init__(self, spare: int) -> None:
        self._spare = spare
        """The number of additional healthy pods by then: a copy counts for the budget."""

    def look(self, context: StepContext) -> Outlook:
        """Done when no budget forbids it."""
        if context.live_original is None:
            return POD_GONE
        if too_many := overlapping_budgets(context):
            return GiveUp(too_many, retry=False)
        spent = blocking_budget(context, context.seen.budgets, self._spare)
        return Wait(spent) if spent else Done()


def workload_of(context: StepContext) -> Json | None:
    """The pod's workload: the Deployment, else the pod's controller."""
    return context.seen.deployment or context.seen.controller


def rollout_reason(context: StepContext) -> str:
    """Describe the rollout or scaling of the workload; empty if there is none."""
    controller, deployment = context.seen.controller, context.seen.deployment
    if controller is None:
        return "its controller is gone"
    for each in (controller, deployment):
        if each is not None and (change := str(_change(each))):
            return f"{each['kind']} {each['metadata']['name']} {change}"
    return ""


def yield_to_rollout(context: StepContext) -> GiveUp | None:
    """End a handoff while its Deployment is rolled out or scaled: new pods may need the room of the copy.

    A replica more than wanted is none of that: the copy of another handoff, just adopted.
    """
    deployment = context.seen.deployment
    if deployment is None or not is_observed(deployment):  # unseen changes may be our own annotation
        return None
    status = deployment.get("status", {})
    replicas = status.get("replicas", 0)
    if status.get("updatedReplicas", 0) == replicas >= deployment["spec"].get("replicas", 1):
        return None
    return GiveUp(rollout_reason(context), yields=True)


def _change(workload: Json) -> RolloutProgress:
    spec, status = workload["spec"], workload.get("status", {})
    strategy = spec.get("updateStrategy") or {}
    return RolloutProgress(
        workload["kind"],
        is_observed(workload),
        wanted=spec.get("replicas", 1),
        replicas=status.get("replicas"),
        updated=status.get("updatedReplicas", 0),
        kept=None if strategy.get("type") == "OnDelete" else (strategy.get("rollingUpdate") or {}).get("partition", 0),
        revised=status.get("currentRevision") != status.get("updateRevision"),
    )


def is_observed(workload: Json) -> bool:
    """Whether its controller has observed the newest generation; a Job's does not report it."""
    if workload["kind"] == "Job":
        return True
    return bool(workload.get("status", {}).get("observedGeneration") == workload["metadata"].get("generation"))


def owner_reference(migration: PodMigration) -> Json:
    """The owner reference of objects that a migration creates."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": migration.name, "uid": migration.uid}


def disown(pod: Json) -> Json:
    """The change of metadata by which no migration owns the pod; empty if none does."""
    owners = pod["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if owner["kind"] != KIND]
    if len(others) == len(owners):
        return {}
    return {"ownerReferences": others, "resourceVersion": pod["metadata"]["resourceVersion"]}


def record_origin(context: StepContext) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations by which a replacement records its origin."""
    migration = context.migration
    kept = {
        labels.MIGRATION_ID: migration.name,
        labels.MIGRATION_STATUS: "in-progress",
        labels.MIGRATED_FROM: labels.label_value(migration.status.source),
        labels.MIGRATION_REASON: migration.spec.strategy,
    }
    notes = {
        labels.MIGRATION_TIME: format_instant(context.now),
        labels.ORIGINAL_POD: migration.status.pod_uid,
        labels.ORIGINAL_POD_NAME: migration.spec.pod.name,
    }
    return kept, notes


def erase_trace(pod: Json) -> Json:
    """The change of metadata that removes the trace of a move; empty if there is none."""
    kept = {key: None for key in labels.TRACE_LABELS if key in labels_of(pod)}
    notes = {key: None for key in labels.TRACE_ANNOTATIONS if key in annotations_of(pod)}
    return ({"labels": kept} if kept else {}) | ({"annotations": notes} if notes else {})


def nominate(pod: Json, target: str) -> Do | Done:
    """Reserve room for a gated pod on the target; Done when the nomination is in its status."""
    if pod.get("status", {}).get("nominatedNodeName") == target:
        return Done()
    body = {"status": {"nominatedNodeName": target}}
    return Do((commands.patch(pod, body, f"reserve room on {target}", subresource="status"),))


def eviction_obstacle(context: StepContext) -> str:
    """Explain why the original must not be evicted now: a budget, also ours, or its StatefulSet; empty if it may."""
    ours = context.seen.temporary_budget
    budgets = context.seen.budgets if ours is None else (*context.seen.budgets, ours)
    return blocking_budget(context, budgets) or unready_sibling(context)


STUCK = "the move is made; the original should have ended"
"""The start of the message of a migration whose original is stuck in Terminating."""
_OVERDUE = 30.0  # seconds past its grace period after which an original is stuck


def wait_for_end(original: Json, now: float) -> Wait:
    """Wait for an original that is terminating. The move is made, so there is no timeout."""
    due = original["metadata"]["deletionTimestamp"]
    held = ", ".join(original["metadata"].get("finalizers") or ())
    by = f", held by its finalizers: {held}" if held else ""
    if now - datetime.fromisoformat(due).timestamp() > _OVERDUE:
        return Wait(f"{STUCK} at {due}{by}", patient=True)
    return Wait(f"the move is made; the original is ending{by}", patient=True)
