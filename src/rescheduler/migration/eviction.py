"""Evict and steer: the original is evicted, its controller makes another pod, and that one is led to the target.

For pods of which two may not run side by side, and for StatefulSets and Jobs. Where the pod's ReplicaSet has a
template, it carries a preference for the target and against the source for as long as the new pod takes to appear; its
Deployment is paused meanwhile, so that there is no rollout and no new revision. Where no disruption budget selects the
pod, a temporary one protects its workload.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from rescheduler.migration import commands
from rescheduler.migration.budgets import contradicting, forbidding
from rescheduler.migration.commands import Json
from rescheduler.migration.copies import owner_reference
from rescheduler.migration.observation import (
    Scene,
    has_ended,
    is_leaving,
    labels_of,
    notes_of,
    ready_for,
)
from rescheduler.migration.preconditions import unfit_target, unready_fellow
from rescheduler.migration.steering import noted, prefers, restoring, steerable, steered
from rescheduler.migration.steps import Do, Done, GiveUp, Outlook, Plain, Wait, is_observed, rollout, workload_of
from rescheduler.model import marks
from rescheduler.model.instant import format_instant
from rescheduler.model.migration import Progress, Reference


class Protect(Plain):
    """Makes a temporary disruption budget where none selects the pod."""

    name = "Protect"

    def __init__(self, budget: Json) -> None:
        self._budget = budget
        """What it allows: `{"minAvailable": 1}` or `{"maxUnavailable": "25%"}`."""

    def look(self, scene: Scene) -> Outlook:
        """Done when exactly one budget selects the pod: two would forbid every eviction."""
        if scene.original is None or is_leaving(scene.original):
            return GiveUp("the pod is gone", retry=False)
        if too_many := contradicting(scene):
            return GiveUp(too_many, retry=False)
        if unfit := unfit_target(scene):
            return GiveUp(unfit)
        workload, controller, ours = workload_of(scene), scene.seen.controller, scene.seen.temporary_budget
        if controller is not None and (busy := rollout(scene) or unready_fellow(scene)):
            return Wait(busy)
        if ours is not None and not _is_own(ours, scene):
            return Wait(f"migration {labels_of(ours)[marks.MIGRATION_ID]} is evicting a pod of the same workload")
        if scene.seen.budgets or workload is None or controller is None:
            return Done()
        if ours is not None:
            return Done() if is_observed(ours) else Wait("the budget is being reckoned", 1.0)
        if not _spares_one(controller, self._budget):
            return Done()  # with as few replicas it would forbid what it is to make safe
        migration = scene.migration
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {
                "name": temporary_budget_name(workload),
                "namespace": migration.namespace,
                "labels": {marks.MANAGED_BY: marks.OURSELVES, marks.MIGRATION_ID: migration.name},
                "ownerReferences": [owner_reference(migration)],
            },
            "spec": {**self._budget, "selector": controller["spec"]["selector"]},
        }
        return Do((commands.create(body, "protect the workload while a pod of it is evicted"),))


class Pause(Plain):
    """Pauses the Deployment, so that it leaves its ReplicaSet's template alone."""

    name = "Pause"

    def look(self, scene: Scene) -> Outlook:
        """Done when its controller knows that it is paused, by us or by its owner."""
        deployment = scene.seen.deployment
        if not steerable(scene) or deployment is None:
            return Done()
        other = notes_of(deployment).get(marks.PAUSED_BY, scene.migration.name)
        if other != scene.migration.name:
            return Wait(f"migration {other} has paused the Deployment")
        if deployment["spec"].get("paused"):
            return Done() if is_observed(deployment) else Wait("its controller has not seen the pause yet", 1.0)
        if unfit := unfit_target(scene):
            return GiveUp(unfit)
        changes = {"metadata": {"annotations": {marks.PAUSED_BY: scene.migration.name}}, "spec": {"paused": True}}
        return Do((commands.patch(deployment, changes, "pause it while its ReplicaSet steers"),))


class Prefer(Plain):
    """Puts the preference for the target into the ReplicaSet's template."""

    name = "Prefer"

    def look(self, scene: Scene) -> Outlook:
        """Done when the template prefers the target."""
        controller = scene.seen.controller
        if not steerable(scene) or controller is None:
            return Done()
        if marks.AFFINITY_BEFORE in notes_of(controller):
            by = noted(controller)["migration"]
            return Done() if by == scene.migration.name else Wait(f"migration {by} is steering the ReplicaSet")
        if scene.seen.deployment is not None and not scene.seen.deployment["spec"].get("paused"):
            return GiveUp("the Deployment was resumed by somebody else")
        before = controller["spec"]["template"]["spec"].get("affinity")
        wanted = steered(before, scene.migration.progress)
        note = {marks.AFFINITY_BEFORE: json.dumps({"migration": scene.migration.name, "affinity": before})}
        changes = {
            "metadata": {"annotations": note, "resourceVersion": controller["metadata"]["resourceVersion"]},
            "spec": {"template": {"spec": {"affinity": wanted}}},
        }
        return Do((commands.patch(controller, changes, f"prefer {scene.migration.progress.target}"),))


class Evict(Plain):
    """Evicts the original, when its budget allows it."""

    name = "Evict"

    def __init__(self, grace: int) -> None:
        self._grace = grace

    def enter(self, scene: Scene) -> Progress:
        """Record who is there already, so that the new pod can be told from them; a StatefulSet's has its name.

        Times would not do: our clock and the server's may differ by more than an eviction takes.
        """
        progress, controller = scene.migration.progress, scene.seen.controller
        if controller is not None and controller["kind"] == "StatefulSet":
            return progress
        return replace(progress, bystanders=tuple(sorted(pod["metadata"]["uid"] for pod in scene.seen.siblings)))

    def look(self, scene: Scene) -> Outlook:
        """Done when the original goes."""
        original = scene.original
        if original is None or is_leaving(original):
            return Done()
        refused = scene.seen.refused
        if refused is not None and refused.code == 500:
            return GiveUp(refused.message, retry=False)
        if unfit := unfit_target(scene):
            return GiveUp(unfit)
        own = (scene.seen.temporary_budget,) if scene.seen.temporary_budget else ()
        if spent := forbidding(scene, (*scene.seen.budgets, *own)) or unready_fellow(scene):
            return Wait(spent)
        return Do((commands.evict(original, self._grace, "have its controller make it anew"),))


class AwaitRebuilt(Plain):
    """Waits for the pod that the controller makes in the original's place."""

    name = "AwaitRebuilt"

    def __init__(self, restore_after: float) -> None:
        self._restore_after = restore_after

    def look(self, scene: Scene) -> Outlook:
        """Done when it is there; if it does not come in time, what steered it is taken back while we go on waiting."""
        if scene.seen.controller is None:
            return GiveUp("its controller is gone", retry=False)
        if rebuilt(scene) is not None:
            return Done()
        waiting = "its controller has not made another pod yet"
        if scene.in_step >= self._restore_after:
            restored = restoring(scene)
            if not isinstance(restored, Done):
                return restored
            if todo := unprotecting(scene):
                return Do(tuple(todo))
            waiting += "; what steered it is taken back"
        if scene.original is not None and is_leaving(scene.original):
            return Wait(f"the original is ending, and {waiting}", patient=True)
        return Wait(waiting)


class Restore(Plain):
    """Takes the preference out of the template and resumes the Deployment, in this order."""

    name = "Restore"

    def enter(self, scene: Scene) -> Progress:
        """Record which pod was made."""
        pod, progress = rebuilt(scene), scene.migration.progress
        if pod is None:
            return progress
        return replace(progress, replacement=Reference("Pod", pod["metadata"]["name"], pod["metadata"]["uid"]))

    def look(self, scene: Scene) -> Outlook:
        """Done when both are as they were."""
        return restoring(scene)


class MarkRebuilt(Plain):
    """Gives the new pod the marks that tell where it came from."""

    name = "MarkRebuilt"

    def look(self, scene: Scene) -> Outlook:
        """Done when it carries them."""
        pod, migration = replacement(scene), scene.migration
        if pod is None or is_leaving(pod) or labels_of(pod).get(marks.MIGRATION_ID) == migration.name:
            return Done()
        trace = {
            marks.MIGRATION_ID: migration.name,
            marks.MIGRATION_STATUS: "in-progress",
            marks.MIGRATED_FROM: migration.progress.source,
            marks.MIGRATION_REASON: migration.order.strategy,
        }
        story = {
            marks.MIGRATION_TIME: format_instant(scene.now),
            marks.ORIGINAL_POD: migration.progress.uid,
            marks.ORIGINAL_POD_NAME: migration.order.pod,
        }
        changes = {"metadata": {"labels": trace, "annotations": story}}
        return Do((commands.patch(pod, changes, "tell where it came from"),))


class AwaitRebuiltReady(Plain):
    """Waits until the new pod is Ready, wherever the scheduler has put it."""

    name = "AwaitRebuiltReady"

    def look(self, scene: Scene) -> Outlook:
        """Done when it is Ready."""
        pod = replacement(scene)
        if pod is None or is_leaving(pod) or has_ended(pod):
            return GiveUp("the pod that replaced it is gone, too", retry=False)
        return Done() if ready_for(pod, scene.now) is not None else Wait("the new pod is not Ready yet")


class Unprotect(Plain):
    """Removes the temporary budget."""

    name = "Unprotect"

    def look(self, scene: Scene) -> Outlook:
        """Done when it is gone."""
        todo = unprotecting(scene)
        return Do(tuple(todo)) if todo else Done()


def temporary_budget_name(workload: Json) -> str:
    """`<deployment>-rescheduler-pdb`, cut to fit."""
    ending = "-rescheduler-pdb"
    return str(workload["metadata"]["name"])[: 253 - len(ending)].rstrip("-.") + ending


def unprotecting(scene: Scene) -> list[commands.Command]:
    """What removes this migration's temporary budget."""
    ours = scene.seen.temporary_budget
    if ours is None or is_leaving(ours) or not _is_own(ours, scene):
        return []
    return [commands.delete(ours, "it was temporary")]


def _is_own(budget: Json, scene: Scene) -> bool:
    return labels_of(budget).get(marks.MIGRATION_ID) == scene.migration.name


def rebuilt(scene: Scene) -> Json | None:
    """The pod that the controller made in the original's place."""
    progress, seen = scene.migration.progress, scene.seen
    if seen.controller is not None and seen.controller["kind"] == "StatefulSet":
        again = seen.pod is not None and seen.pod["metadata"]["uid"] != progress.uid
        return seen.pod if again else None  # under the same name
    led = seen.controller is not None and noted(seen.controller).get("migration") == scene.migration.name
    known = {progress.uid, *progress.bystanders}
    young = [
        pod
        for pod in seen.siblings
        if pod["metadata"]["uid"] not in known
        and not is_leaving(pod)
        and labels_of(pod).get(marks.MIGRATION_ID, scene.migration.name) == scene.migration.name
        and (not led or prefers(pod, progress.target))  # else the preference was taken back before a pod came
    ]
    return max(young, key=lambda pod: (_created(pod), pod["metadata"]["name"]), default=None)


def replacement(scene: Scene) -> Json | None:
    """The new pod, once it is recorded."""
    known = scene.migration.progress.replacement
    pods = (*scene.seen.siblings, *((scene.seen.pod,) if scene.seen.pod else ()))
    return next((pod for pod in pods if known and pod["metadata"]["uid"] == known.uid), None)


def _spares_one(controller: Json, budget: Json) -> bool:
    """Whether a budget leaves room for one eviction, given how many pods there shall be."""
    wanted = controller["spec"].get("replicas", 1)
    least = budget.get("minAvailable")
    return not isinstance(least, int) or wanted > least


def _created(pod: Json) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
