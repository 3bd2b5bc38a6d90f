"""What steps share: their base class, their answers, scheduling gates, and the steps of several methods.

A gate is always removed by the same patch, also by a rollback and by the orphan cleaner. It fails if the pod or its
gates have changed since; the caller then reads the pod again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from msgspec import structs

from rescheduler.migration import commands
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.observation import (
    NOTHING_MORE,
    ObservedPart,
    StepContext,
    blocking_budget,
    controller_of,
    describe_unready,
    find_condition,
    has_finished,
    is_terminating,
    labels_of,
    overlapping_budgets,
    ready_seconds,
    target_problem,
)
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase
from rescheduler.model.objects import RolloutProgress


def gates_of(pod: Json) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def remove_gate(pod: Json, gate: str, note: str = "") -> list[Command]:
    """Remove this gate and this annotation; no command if the pod has neither."""
    if is_terminating(pod):
        return []
    metadata, gates = pod["metadata"], gates_of(pod)
    changes: list[Json] = []
    if gate in gates:
        at = f"/spec/schedulingGates/{gates.index(gate)}"
        changes += [{"op": "test", "path": f"{at}/name", "value": gate}, {"op": "remove", "path": at}]
    if note and note in annotations_of(pod):
        at = "/metadata/annotations/" + note.replace("~", "~0").replace("/", "~1")
        changes += [{"op": "test", "path": at, "value": annotations_of(pod)[note]}, {"op": "remove", "path": at}]
    if not changes:
        return []
    body = [{"op": "test", "path": "/metadata/uid", "value": metadata["uid"]}, *changes]
    return [Command(Verb.PATCH, "Pod", metadata["namespace"], metadata["name"], body, why="take the gate off")]


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


Outlook = Done | Do | Wait | GiveUp


class Step(ABC):
    """One step of a method."""

    name: ClassVar[str]
    """Shown and stored as `status.step`."""
    needs: ClassVar[frozenset[ObservedPart]] = NOTHING_MORE
    """The parts of the cluster that the observation must include; steps of an eviction always get all."""

    def enter(self, context: StepContext) -> MigrationStatus:
        """The status to store when the step begins, before anything of it is done."""
        return context.migration.status

    @abstractmethod
    def look(self, context: StepContext) -> Outlook:
        """Decide what to do, given the cluster as it is."""


class CreateCopy(Step):
    """Creates the replacement, behind its gate. Subclasses choose what it is made from."""

    name = "CreateCopy"

    @abstractmethod
    def body(self, context: StepContext) -> Json:
        """The pod to create."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is there."""
        if context.copy is not None:
            return GiveUp("the copy is being deleted by another client") if is_terminating(context.copy) else Done()
        if context.original is None or is_terminating(context.original):
            return GiveUp("the pod is gone", retry=False)
        if (other := context.seen.namesake) is not None:
            if labels_of(other).get(labels.MIGRATION_ID) == context.migration.name:
                return Wait("the copy is being made", 1.0)
            return GiveUp(f"a pod that is not ours is called {other['metadata']['name']}")  # the next try: another name
        if unfit := target_problem(context):
            return GiveUp(unfit)
        refused = context.seen.refused
        if refused is not None and refused.code in (400, 403, 422):
            # Quota, a policy or a webhook does not let a second instance in beside the first.
            return GiveUp(f"a copy is refused: {refused.message}", other_method=True)
        return Do((commands.create(self.body(context), f"make the copy for {context.migration.status.target}"),))


class Nominate(Step):
    """Nominates the copy to its target, which reserves its room there while it is still gated."""

    name = "Nominate"

    def look(self, context: StepContext) -> Outlook:
        """Done when the nomination is in its status."""
        copy, target = context.copy, context.migration.status.target
        if copy is None or is_terminating(copy):
            return GiveUp("the copy is gone")
        if copy.get("status", {}).get("nominatedNodeName") == target or copy["spec"].get("nodeName"):
            return Done()
        body = {"status": {"nominatedNodeName": target}}
        return Do((commands.patch(copy, body, f"reserve room on {target}", subresource="status"),))


class AwaitMembers(Step):
    """Waits until every migration of the proposal has its room, so that they stand or fall together."""

    name = "AwaitMembers"

    def __init__(self, reserved: frozenset[str]) -> None:
        self._reserved = reserved
        """The names of this step and of those after it, in any method."""

    def look(self, context: StepContext) -> Outlook:
        """Done when all others are here or further."""
        order, members = context.migration.spec, context.seen.members
        if context.original is None or is_terminating(context.original):
            return GiveUp("the pod is gone", retry=False)
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


class Ungate(Step):
    """Removes our gate: the scheduler may bind the copy now."""

    name = "Ungate"

    def look(self, context: StepContext) -> Outlook:
        """Done when the gate is off."""
        copy = context.copy
        if copy is None or is_terminating(copy):
            return GiveUp("the copy is gone")
        if labels.GATE not in gates_of(copy):
            return Done()
        if context.original is None or is_terminating(context.original):
            return GiveUp("the pod is gone", retry=False)  # from here on the copy would be the pod
        if unfit := target_problem(context):
            return GiveUp(unfit)
        return Do(tuple(remove_gate(copy, labels.GATE)))


class Land(Step):
    """Waits for the scheduler, and checks that it chose the planned node."""

    name = "Land"

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is bound to the target."""
        copy, target = context.copy, context.migration.status.target
        if copy is None:
            return GiveUp("the copy is gone")
        node = copy["spec"].get("nodeName")
        if node == target:
            return Done()
        if node:
            return GiveUp(f"the scheduler put the copy on {node}, not on {target}")
        said = find_condition(copy, "PodScheduled").get("message", "")
        return Wait(f"the scheduler has not bound the copy yet{': ' + said if said else ''}")


class AwaitReady(Step):
    """Waits until the copy has been Ready for as long as its workload asks (minReadySeconds)."""

    name = "AwaitReady"

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy could take over."""
        copy = context.copy
        if copy is None:
            return GiveUp("the copy is gone")
        if has_finished(copy) or is_terminating(copy):
            status = copy.get("status", {})
            return GiveUp(f"the copy ended on {context.migration.status.target}: {status.get('reason') or 'deleted'}")
        wanted = min_ready_seconds(context)
        ready = ready_seconds(copy, context.now)
        if ready is None:
            return Wait(describe_unready(copy))
        # Kubernetes writes whole seconds: one more, so that its controllers have seen the time pass, too.
        left = wanted + 1 - ready if wanted else 0.0
        if left <= 0:
            return Done()
        since = find_condition(copy, "Ready").get("lastTransitionTime", "now")
        where = f"{copy['metadata']['name']} must be Ready on {context.migration.status.target}"
        return Wait(f"{where} for {wanted} s, and is since {since}", left)


def workload_of(context: StepContext) -> Json | None:
    """The pod's workload: the Deployment, else the pod's controller."""
    return context.seen.deployment or context.seen.controller


def min_ready_seconds(context: StepContext) -> int:
    """How long a pod of this workload must be Ready before it counts as available."""
    controller = context.seen.controller
    return int(controller["spec"].get("minReadySeconds") or 0) if controller is not None else 0


def rollout_reason(context: StepContext) -> str:
    """Describe the rollout or scaling of the workload; empty if there is none."""
    controller, deployment = context.seen.controller, context.seen.deployment
    if controller is None:
        return "its controller is gone"
    for each in (controller, deployment):
        if each is not None and (change := str(_change(each))):
            return f"{each['kind']} {each['metadata']['name']} {change}"
    return ""


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


def unstable_reason(context: StepContext) -> str:
    """Explain why a handoff must not interfere with the workload now; empty if it is stable."""
    controller = context.seen.controller
    if controller is None or (changing := rollout_reason(context)):
        return "its controller is gone" if controller is None else changing
    mine = [pod for pod in context.seen.siblings if not is_terminating(pod) and not has_finished(pod)]
    wanted = controller["spec"].get("replicas", 1)
    if len(mine) != wanted:
        return f"{controller['kind']} {controller['metadata']['name']} has {len(mine)} pods and wants {wanted}"
    waiting = sorted(pod["metadata"]["name"] for pod in mine if ready_seconds(pod, context.now) is None)
    if waiting:
        return f"{waiting[0]} is not Ready, and would be deleted in the original's place"
    others = (pod for pod in mine if pod["metadata"]["uid"] != context.migration.status.pod_uid)
    cheap = sorted(pod["metadata"]["name"] for pod in others if labels.COST_BEFORE in annotations_of(pod))
    if cheap:
        return f"{cheap[0]} is being handed off, and would be deleted in the original's place"
    return ""


def wait_for_end(original: Json) -> Wait:
    """Wait for an original that is terminating. The move is made, so there is no timeout."""
    held = ", ".join(original["metadata"].get("finalizers") or ())
    by = f", held by its finalizers: {held}" if held else ""
    return Wait(f"the move is made; the original is ending{by}", patient=True)


def is_adopted(pod: Json, controller: Json | None) -> bool:
    """Whether this controller manages the pod."""
    owner = controller_of(pod)
    return owner is not None and controller is not None and owner["uid"] == controller["metadata"]["uid"]


def record_replacement(context: StepContext, name: str) -> MigrationStatus:
    """The status with the replacement's name, unless it has one."""
    progress = context.migration.status
    return progress if progress.replacement else structs.replace(progress, replacement=ObjectReference("Pod", name))


class CheckBudgets(Step):
    """Waits, before anything is done, until the pod's disruption budget allows the eviction."""

    name = "CheckBudgets"
    needs = frozenset({ObservedPart.BUDGETS})

    def __init__(self, spare: int) -> None:
        self._spare = spare
        """The number of additional healthy pods by then: a copy counts for the budget."""

    def look(self, context: StepContext) -> Outlook:
        """Done when no budget forbids it."""
        if context.original is None or is_terminating(context.original):
            return GiveUp("the pod is gone", retry=False)
        if too_many := overlapping_budgets(context):
            return GiveUp(too_many, retry=False)
        spent = blocking_budget(context, context.seen.budgets, self._spare)
        return Wait(spent) if spent else Done()
