"""After the eviction: wait for the pod that the controller makes in the original's place, and mark it.

`evict` has the steps before. Where nothing was led by a template, the new pod is known by its name (StatefulSets), by
the label that the webhook gave it, or by being younger than the eviction.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import (
    StepContext,
    describe_unready,
    has_finished,
    is_terminating,
    labels_of,
    ready_seconds,
)
from rescheduler.migration.replacement import disown_extra_pods
from rescheduler.migration.steps.common import Do, Done, GiveUp, Outlook, Plain, Wait
from rescheduler.migration.steps.placeholder import release_room
from rescheduler.migration.steps.protection import remove_budget
from rescheduler.migration.steps.steering import prefers, read_steering, restore
from rescheduler.model import labels as marks
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference
from rescheduler.model.time import format_instant


class AwaitRebuilt(Plain):
    """Waits for the pod that the controller makes in the original's place."""

    name = "AwaitRebuilt"

    def __init__(self, restore_after: float) -> None:
        self._restore_after = restore_after

    def look(self, scene: StepContext) -> Outlook:
        """Done when it is there; if it does not come in time, what steered it is taken back while we go on waiting."""
        if scene.seen.controller is None:
            return GiveUp("its controller is gone", retry=False)
        if find_rebuilt(scene) is not None:
            return Done()
        waiting = "its controller has not made another pod yet"
        if scene.in_step >= self._restore_after:
            restored = restore(scene)
            if not isinstance(restored, Done):
                return restored
            if todo := [*release_room(scene), *remove_budget(scene)]:
                return Do(tuple(todo))
            waiting += "; what steered it is taken back"
        if scene.original is not None and is_terminating(scene.original):
            return Wait(f"the original is ending, and {waiting}", patient=True)
        return Wait(waiting)


class Restore(Plain):
    """Takes the preference out of the template and resumes the Deployment, in this order."""

    name = "Restore"

    def enter(self, scene: StepContext) -> MigrationStatus:
        """Record which pod was made."""
        pod, progress = find_rebuilt(scene), scene.migration.status
        if pod is None:
            return progress
        return structs.replace(
            progress, replacement=ObjectReference("Pod", pod["metadata"]["name"], pod["metadata"]["uid"])
        )

    def look(self, scene: StepContext) -> Outlook:
        """Done when both are as they were."""
        return restore(scene)


class MarkRebuilt(Plain):
    """Gives the new pod the marks that tell where it came from, if the webhook has not; other pods lose them."""

    name = "MarkRebuilt"

    def look(self, scene: StepContext) -> Outlook:
        """Done when it alone carries them."""
        if todo := disown_extra_pods(scene):
            return Do(tuple(todo))
        todo = _telling(scene, find_replacement(scene))
        return Do(tuple(todo)) if todo else Done()


class AwaitRebuiltReady(Plain):
    """Waits until the new pod is Ready, wherever the scheduler has put it."""

    name = "AwaitRebuiltReady"

    def look(self, scene: StepContext) -> Outlook:
        """Done when it is Ready."""
        pod = find_replacement(scene)
        if pod is None or is_terminating(pod) or has_finished(pod):
            if _keeps_names(scene):
                return Wait("the pod that replaced it is gone, too, and its controller makes it once more")
            return GiveUp("the pod that replaced it is gone, too", retry=False)
        if todo := _telling(scene, pod):
            return Do(tuple(todo))
        return Done() if ready_seconds(pod, scene.now) is not None else Wait(describe_unready(pod))


def find_rebuilt(scene: StepContext) -> Json | None:
    """The pod that the controller made in the original's place."""
    progress, seen = scene.migration.status, scene.seen
    if _keeps_names(scene):
        again = seen.pod is not None and seen.pod["metadata"]["uid"] != progress.pod_uid
        return seen.pod if seen.pod and again and not is_terminating(seen.pod) and not has_finished(seen.pod) else None
    led = seen.controller is not None and read_steering(seen.controller).get("migration") == scene.migration.name
    known = {progress.pod_uid, *progress.bystanders}
    young = [
        pod
        for pod in seen.siblings
        if pod["metadata"]["uid"] not in known
        and not is_terminating(pod)
        and labels_of(pod).get(marks.MIGRATION_ID, scene.migration.name) == scene.migration.name
        and (not led or prefers(pod, progress.target))  # else the preference was taken back before a pod came
    ]
    ours = [pod for pod in young if marks.MIGRATION_ID in labels_of(pod)]  # the webhook knew whose it is
    return max(ours or young, key=lambda pod: (_created(pod), pod["metadata"]["name"]), default=None)


def find_replacement(scene: StepContext) -> Json | None:
    """The new pod, once it is recorded; a StatefulSet may have made it more than once since."""
    if scene.migration.status.replacement and _keeps_names(scene):
        return find_rebuilt(scene)
    known = scene.migration.status.replacement
    pods = (*scene.seen.siblings, *((scene.seen.pod,) if scene.seen.pod else ()))
    return next((pod for pod in pods if known and pod["metadata"]["uid"] == known.uid), None)


def _keeps_names(scene: StepContext) -> bool:
    """Whether the new pod has the name of the original."""
    return scene.seen.controller is not None and bool(scene.seen.controller["kind"] == "StatefulSet")


def _telling(scene: StepContext, pod: Json | None) -> list[Command]:
    """What gives the new pod its marks, unless it has them."""
    migration = scene.migration
    if pod is None or is_terminating(pod) or labels_of(pod).get(marks.MIGRATION_ID) == migration.name:
        return []
    trace = {
        marks.MIGRATION_ID: migration.name,
        marks.MIGRATION_STATUS: "in-progress",
        marks.MIGRATED_FROM: migration.status.source,
        marks.MIGRATION_REASON: migration.spec.strategy,
    }
    story = {
        marks.MIGRATION_TIME: format_instant(scene.now),
        marks.ORIGINAL_POD: migration.status.pod_uid,
        marks.ORIGINAL_POD_NAME: migration.spec.pod.name,
    }
    changes = {"metadata": {"labels": trace, "annotations": story}}
    return [commands.patch(pod, changes, "tell where it came from")]


def _created(pod: Json) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
