"""Evict and steer: the original is evicted, its controller makes another pod, and that one is led to the target.

For pods of which two may not run side by side, and for StatefulSets and Jobs. Where our webhook is asked about new
pods it leads them, and the workload is not touched. Otherwise the ReplicaSet's template carries a preference for the
target and against the source for as long as the new pod takes to appear; its Deployment is paused meanwhile, so that
there is no rollout and no new revision. What comes after the eviction is in `rebuilding` and `reserving`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from rescheduler.migration import commands
from rescheduler.migration.budgets import forbidding
from rescheduler.migration.observation import Scene, is_leaving, notes_of
from rescheduler.migration.preconditions import unfit_target, unready_fellow
from rescheduler.migration.rebuilding import AwaitRebuilt
from rescheduler.migration.steering import by_template, noted, steered
from rescheduler.migration.steps import Do, Done, GiveUp, Outlook, Plain, Wait, is_observed
from rescheduler.model import marks
from rescheduler.model.migration import Migration, Progress
from rescheduler.model.plan import Method


class TakeTurn(Plain):
    """Waits until no other migration of the controller waits for a new pod, and until the budget lets the pod go.

    Two new pods of one controller look alike. While only one is expected, whoever is asked about it (every replica's
    webhook) can tell whose it is. A StatefulSet's pods have their names.
    """

    name = "TakeTurn"

    def look(self, scene: Scene) -> Outlook:
        """Done when it is this migration's turn: whoever began first goes first."""
        if scene.original is None or is_leaving(scene.original):
            return GiveUp("the pod is gone", retry=False)
        for rival in _rivals(scene):
            waits = rival.progress.step == self.name
            if rival.progress.step in _TURN or (waits and _began(rival) < _began(scene.migration)):
                return Wait(f"migration {rival.name} is evicting a pod of the same controller")
        own = (scene.seen.temporary_budget,) if scene.seen.temporary_budget else ()
        spent = forbidding(scene, (*scene.seen.budgets, *own)) or unready_fellow(scene)
        return Wait(spent) if spent else Done()


class Pause(Plain):
    """Pauses the Deployment, so that it leaves its ReplicaSet's template alone."""

    name = "Pause"

    def look(self, scene: Scene) -> Outlook:
        """Done when its controller knows that it is paused, by us or by its owner."""
        deployment = scene.seen.deployment
        if not by_template(scene) or deployment is None:
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
        if not by_template(scene) or controller is None:
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
        if ahead := _ahead(scene):
            return Wait(f"migration {ahead} is evicting a pod of the same controller")
        own = (scene.seen.temporary_budget,) if scene.seen.temporary_budget else ()
        if spent := forbidding(scene, (*scene.seen.budgets, *own)) or unready_fellow(scene):
            return Wait(spent)
        return Do((commands.evict(original, self._grace, "have its controller make it anew"),))


_TURN = frozenset({Pause.name, Prefer.name, Evict.name, AwaitRebuilt.name})
"""The steps in which a migration has its turn."""


def _rivals(scene: Scene) -> Iterator[Migration]:
    """The other migrations that evict pods of the controller, and have no new pod yet."""
    controller = scene.seen.controller
    if controller is None or controller["kind"] == "StatefulSet":
        return
    for rival in scene.seen.rivals:
        if rival.progress.method is Method.EVICT and rival.progress.replacement is None:
            yield rival


def _ahead(scene: Scene) -> str:
    """Who has evicted a pod or goes first, where two have their turn, as after a change of leaders."""
    there = {pod["metadata"]["uid"] for pod in scene.seen.siblings if not is_leaving(pod)}
    for rival in _rivals(scene):
        first = rival.progress.uid not in there or _began(rival) < _began(scene.migration)
        if rival.progress.step == AwaitRebuilt.name or (rival.progress.step == Evict.name and first):
            return rival.name
    return ""


def _began(migration: Migration) -> tuple[float, str]:
    return migration.progress.started or 0.0, migration.name
