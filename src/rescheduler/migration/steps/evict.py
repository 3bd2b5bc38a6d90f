"""Evict and steer: evict the original and steer the pod that its controller creates to the target.

For pods that may not run side by side, and for StatefulSets and Jobs. If our webhook is active it steers new pods, and
the workload is not touched. Otherwise the ReplicaSet's template prefers the target until the new pod appears; its
Deployment is paused meanwhile, so that there is no rollout and no new revision. Later steps are in `rebuild`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from msgspec import structs

from rescheduler.migration import commands
from rescheduler.migration.observation import (
    SteeringMethod,
    StepContext,
    blocking_budget,
    is_terminating,
    target_problem,
    unready_sibling,
)
from rescheduler.migration.steps.common import (
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    gates_of,
    is_observed,
    remove_nominate_gate,
)
from rescheduler.migration.steps.placeholder import build_placeholder, find_placeholder, release_room
from rescheduler.migration.steps.rebuild import AwaitRebuilt, find_replacement
from rescheduler.migration.steps.steering import add_preference, read_steering, uses_template
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import MigrationStatus, PodMigration
from rescheduler.model.plan import Method


class TakeTurn(Step):
    """Waits until no other migration of the controller waits for a new pod, and until the budget allows it.

    Two new pods of one controller look alike. While only one is expected, the webhook of every replica can assign it to
    its migration. Pods of a StatefulSet are recognised by their names.
    """

    name = "TakeTurn"

    def look(self, context: StepContext) -> Outlook:
        """Done when it is this migration's turn: the one that began first goes first."""
        if context.original is None or is_terminating(context.original):
            return GiveUp("the pod is gone", retry=False)
        for rival in _rivals(context):
            waits = rival.status.step == self.name
            if rival.status.step in _TURN or (waits and _began(rival) < _began(context.migration)):
                return Wait(f"migration {rival.name} is evicting a pod of the same controller")
        own = (context.seen.temporary_budget,) if context.seen.temporary_budget else ()
        spent = blocking_budget(context, (*context.seen.budgets, *own)) or unready_sibling(context)
        return Wait(spent) if spent else Done()


class PauseDeployment(Step):
    """Pauses the Deployment, so that it leaves its ReplicaSet's template alone."""

    name = "Pause"

    def look(self, context: StepContext) -> Outlook:
        """Done when its controller has observed the pause, ours or its owner's."""
        deployment = context.seen.deployment
        if not uses_template(context) or deployment is None:
            return Done()
        other = annotations_of(deployment).get(labels.PAUSED_BY, context.migration.name)
        if other != context.migration.name:
            return Wait(f"migration {other} has paused the Deployment")
        if deployment["spec"].get("paused"):
            return Done() if is_observed(deployment) else Wait("its controller has not seen the pause yet", 1.0)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        changes = {"metadata": {"annotations": {labels.PAUSED_BY: context.migration.name}}, "spec": {"paused": True}}
        return Do((commands.patch(deployment, changes, "pause it while its ReplicaSet steers"),))


class Prefer(Step):
    """Puts the preference for the target into the ReplicaSet's template."""

    name = "Prefer"

    def look(self, context: StepContext) -> Outlook:
        """Done when the template prefers the target."""
        controller = context.seen.controller
        if not uses_template(context) or controller is None:
            return Done()
        if labels.AFFINITY_BEFORE in annotations_of(controller):
            by = read_steering(controller)["migration"]
            return Done() if by == context.migration.name else Wait(f"migration {by} is steering the ReplicaSet")
        if context.seen.deployment is not None and not context.seen.deployment["spec"].get("paused"):
            return GiveUp("the Deployment was resumed by another client")
        before = controller["spec"]["template"]["spec"].get("affinity")
        wanted = add_preference(before, context.migration.status)
        note = {labels.AFFINITY_BEFORE: json.dumps({"migration": context.migration.name, "affinity": before})}
        changes = {
            "metadata": {"annotations": note, "resourceVersion": controller["metadata"]["resourceVersion"]},
            "spec": {"template": {"spec": {"affinity": wanted}}},
        }
        return Do((commands.patch(controller, changes, f"prefer {context.migration.status.target}"),))


class Evict(Step):
    """Evicts the original when its budget allows it."""

    name = "Evict"

    def __init__(self, grace: int) -> None:
        self._grace = grace

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record the pods that exist already, to recognise the new one; a StatefulSet's is known by name.

        Times would not do: our clock and the server's may differ by more than an eviction takes.
        """
        progress, controller = context.migration.status, context.seen.controller
        if controller is not None and controller["kind"] == "StatefulSet":
            return progress
        return structs.replace(
            progress, bystanders=tuple(sorted(pod["metadata"]["uid"] for pod in context.seen.siblings))
        )

    def look(self, context: StepContext) -> Outlook:
        """Done when the original goes."""
        original = context.original
        if original is None or is_terminating(original):
            return Done()
        refused = context.seen.refused
        if refused is not None and refused.code == 500:
            return GiveUp(refused.message, retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        if ahead := _ahead(context):
            return Wait(f"migration {ahead} is evicting a pod of the same controller")
        own = (context.seen.temporary_budget,) if context.seen.temporary_budget else ()
        if spent := blocking_budget(context, (*context.seen.budgets, *own)) or unready_sibling(context):
            return Wait(spent)
        return Do((commands.evict(original, self._grace, "have its controller recreate it"),))


_TURN = frozenset({PauseDeployment.name, Prefer.name, Evict.name, AwaitRebuilt.name})
"""The steps in which a migration has its turn."""


def _rivals(context: StepContext) -> Iterator[PodMigration]:
    """The other migrations that evict pods of the controller, and have no new pod yet."""
    controller = context.seen.controller
    if controller is None or controller["kind"] == "StatefulSet":
        return
    for rival in context.seen.rivals:
        if rival.status.method is Method.EVICT and rival.status.replacement is None:
            yield rival


def _ahead(context: StepContext) -> str:
    """The migration that goes first if two have their turn, such as after a change of leaders."""
    there = {pod["metadata"]["uid"] for pod in context.seen.siblings if not is_terminating(pod)}
    for rival in _rivals(context):
        first = rival.status.pod_uid not in there or _began(rival) < _began(context.migration)
        if rival.status.step == AwaitRebuilt.name or (rival.status.step == Evict.name and first):
            return rival.name
    return ""


def _began(migration: PodMigration) -> tuple[float, str]:
    return migration.status.start_time or 0.0, migration.name


_PASSING = frozenset({409, 429})


class HoldRoom(Step):
    """Makes the placeholder and nominates it to the target."""

    name = "HoldRoom"

    def look(self, context: StepContext) -> Outlook:
        """Done when the room is held; also if it cannot be, because the move works without it."""
        original, target = context.original, context.migration.status.target
        if context.seen.steered is not SteeringMethod.NOMINATE or not target:
            return Done()
        if original is None or is_terminating(original):
            return GiveUp("the pod is gone", retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        held, refused = find_placeholder(context), context.seen.refused
        if refused is not None and refused.code not in _PASSING:
            return Done(f"no room is held on {target}: {refused.message}")
        if held is None and context.seen.placeholder is not None:
            name = context.seen.placeholder["metadata"]["name"]
            return Done(f"no room is held on {target}: a pod that is not ours is called {name}")
        if held is None:
            return Do((commands.create(build_placeholder(context, original), f"hold room on {target}"),))
        if is_terminating(held):
            return Wait("an earlier placeholder is ending", 1.0)
        return _nominated(held, target)


class NominateRebuilt(Step):
    """Nominates the new pod to the target while it is still behind the webhook's gate."""

    name = "NominateRebuilt"

    def look(self, context: StepContext) -> Outlook:
        """Done when the nomination is in its status, or when there is none to make."""
        pod, target, refused = find_replacement(context), context.migration.status.target, context.seen.refused
        if pod is None or is_terminating(pod) or labels.NOMINATE_GATE not in gates_of(pod):
            return Done()
        if not target or target_problem(context):
            return Done()  # the scheduler finds a better place
        if refused is not None and refused.code not in _PASSING:
            return Done(f"it is not nominated to {target}: {refused.message}")
        return _nominated(pod, target)


class ReleaseRoom(Step):
    """Removes the placeholder."""

    name = "ReleaseRoom"

    def look(self, context: StepContext) -> Outlook:
        """Done when it is being deleted, or must be left to the orphan cleaner."""
        refused, todo = context.seen.refused, release_room(context)
        if todo and refused is not None and refused.code not in _PASSING:
            return Done(f"the placeholder could not be removed: {refused.message}")
        return Do(tuple(todo)) if todo else Done()


class UngateRebuilt(Step):
    """Takes the webhook's gate off: the scheduler may have the new pod now."""

    name = "UngateRebuilt"

    def look(self, context: StepContext) -> Outlook:
        """Done when the gate is off."""
        pod = find_replacement(context)
        todo = remove_nominate_gate(pod) if pod is not None else []
        return Do(tuple(todo)) if todo else Done()


def _nominated(pod: Json, target: str) -> Do | Done:
    if pod.get("status", {}).get("nominatedNodeName") == target:
        return Done()
    changes = {"status": {"nominatedNodeName": target}}
    return Do((commands.patch(pod, changes, f"reserve room on {target}", subresource="status"),))
