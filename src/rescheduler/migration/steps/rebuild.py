"""After the eviction: wait for the pod that the controller creates in the original's place, and label it.

`evict` has the steps before. Unless a template steers it, the new pod is recognised by its name (StatefulSets), by the
label that the webhook gave it, or by being younger than the eviction.
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
from rescheduler.migration.steps.common import Do, Done, GiveUp, Outlook, Step, Wait
from rescheduler.migration.steps.placeholder import release_room
from rescheduler.migration.steps.protection import remove_budget
from rescheduler.migration.steps.steering import prefers, read_steering, restore
from rescheduler.model import labels as marks
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference
from rescheduler.model.time import format_instant


class AwaitRebuilt(Step):
    """Waits for the pod that the controller makes in the original's place."""

    name = "AwaitRebuilt"

    def __init__(self, restore_after: float) -> None:
        self._restore_after = restore_after

    def look(self, context: StepContext) -> Outlook:
        """Done when it exists; if it does not come in time, steering is undone while the wait goes on."""
        if context.seen.controller is None:
            return GiveUp("its controller is gone", retry=False)
        if find_rebuilt(context) is not None:
            return Done()
        waiting = "its controller has not made another pod yet"
        if context.in_step >= self._restore_after:
            restored = restore(context)
            if not isinstance(restored, Done):
                return restored
            if todo := [*release_room(context), *remove_budget(context)]:
                return Do(tuple(todo))
            waiting += "; what steered it is taken back"
        if context.original is not None and is_terminating(context.original):
            return Wait(f"the original is ending, and {waiting}", patient=True)
        return Wait(waiting)


class Restore(Step):
    """Takes the preference out of the template and resumes the Deployment, in this order."""

    name = "Restore"

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record which pod was made."""
        pod, progress = find_rebuilt(context), context.migration.status
        if pod is None:
            return progress
        return structs.replace(
            progress, replacement=ObjectReference("Pod", pod["metadata"]["name"], pod["metadata"]["uid"])
        )

    def look(self, context: StepContext) -> Outlook:
        """Done when both are as they were."""
        return restore(context)


class MarkRebuilt(Step):
    """Labels the new pod with its origin, if the webhook has not; removes these labels from other pods."""

    name = "MarkRebuilt"

    def look(self, context: StepContext) -> Outlook:
        """Done when only the new pod has them."""
        if todo := disown_extra_pods(context):
            return Do(tuple(todo))
        todo = _label_origin(context, find_replacement(context))
        return Do(tuple(todo)) if todo else Done()


class AwaitRebuiltReady(Step):
    """Waits until the new pod is Ready, wherever the scheduler has put it."""

    name = "AwaitRebuiltReady"

    def look(self, context: StepContext) -> Outlook:
        """Done when it is Ready."""
        pod = find_replacement(context)
        if pod is None or is_terminating(pod) or has_finished(pod):
            if _keeps_names(context):
                return Wait("the pod that replaced it is gone, too, and its controller makes it once more")
            return GiveUp("the pod that replaced it is gone, too", retry=False)
        if todo := _label_origin(context, pod):
            return Do(tuple(todo))
        return Done() if ready_seconds(pod, context.now) is not None else Wait(describe_unready(pod))


def find_rebuilt(context: StepContext) -> Json | None:
    """The pod that the controller made in the original's place."""
    progress, seen = context.migration.status, context.seen
    if _keeps_names(context):
        again = seen.pod is not None and seen.pod["metadata"]["uid"] != progress.pod_uid
        return seen.pod if seen.pod and again and not is_terminating(seen.pod) and not has_finished(seen.pod) else None
    led = seen.controller is not None and read_steering(seen.controller).get("migration") == context.migration.name
    known = {progress.pod_uid, *progress.bystanders}
    young = [
        pod
        for pod in seen.siblings
        if pod["metadata"]["uid"] not in known
        and not is_terminating(pod)
        and labels_of(pod).get(marks.MIGRATION_ID, context.migration.name) == context.migration.name
        and (not led or prefers(pod, progress.target))  # else the preference was taken back before a pod came
    ]
    ours = [pod for pod in young if marks.MIGRATION_ID in labels_of(pod)]  # labelled by the webhook
    return max(ours or young, key=lambda pod: (_created(pod), pod["metadata"]["name"]), default=None)


def find_replacement(context: StepContext) -> Json | None:
    """The new pod, once it is recorded; a StatefulSet may have created it more than once since."""
    if context.migration.status.replacement and _keeps_names(context):
        return find_rebuilt(context)
    known = context.migration.status.replacement
    pods = (*context.seen.siblings, *((context.seen.pod,) if context.seen.pod else ()))
    return next((pod for pod in pods if known and pod["metadata"]["uid"] == known.uid), None)


def _keeps_names(context: StepContext) -> bool:
    """Whether the new pod has the name of the original."""
    return context.seen.controller is not None and bool(context.seen.controller["kind"] == "StatefulSet")


def _label_origin(context: StepContext, pod: Json | None) -> list[Command]:
    """Label the new pod, unless it is labelled."""
    migration = context.migration
    if pod is None or is_terminating(pod) or labels_of(pod).get(marks.MIGRATION_ID) == migration.name:
        return []
    trace = {
        marks.MIGRATION_ID: migration.name,
        marks.MIGRATION_STATUS: "in-progress",
        marks.MIGRATED_FROM: migration.status.source,
        marks.MIGRATION_REASON: migration.spec.strategy,
    }
    origin = {
        marks.MIGRATION_TIME: format_instant(context.now),
        marks.ORIGINAL_POD: migration.status.pod_uid,
        marks.ORIGINAL_POD_NAME: migration.spec.pod.name,
    }
    changes = {"metadata": {"labels": trace, "annotations": origin}}
    return [commands.patch(pod, changes, "label it with its origin")]


def _created(pod: Json) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
