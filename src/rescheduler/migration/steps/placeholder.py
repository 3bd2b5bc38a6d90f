"""The placeholder: a gated pod that holds room at the target from before an eviction until the new pod is there.

It has the requests of the pod, is nominated to the target, and keeps its gate, so it never runs. The scheduler keeps
room for it against pods of the same or lower priority. Its owner is its PodMigration, and no selector of other objects
matches its labels.
"""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import SteeringMethod, StepContext, is_terminating, labels_of, target_problem
from rescheduler.migration.steps.common import (
    POD_GONE,
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    do_all,
    nominate,
    owner_reference,
)
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.quantity import Amounts, amount, sum_requests

_ENDING = "-room"
_KEPT = ("schedulerName", "priorityClassName", "tolerations", "serviceAccountName")
"""Copied from the pod: only the pod's own scheduler keeps room for it, by its priority."""
_HARMLESS = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class HoldRoom(Step):
    """Makes the placeholder and nominates it to the target."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the room is held; also if it cannot be, because the move works without it."""
        original, target = context.live_original, context.migration.status.target
        if context.seen.steered is not SteeringMethod.NOMINATE or not target:
            return Done()
        if original is None:
            return POD_GONE
        if unfit := target_problem(context):
            return GiveUp(unfit)
        held = find_placeholder(context)
        if refusal := context.lasting_refusal:
            return Done(f"no room is held on {target}: {refusal}")
        if held is None and context.seen.placeholder is not None:
            name = context.seen.placeholder["metadata"]["name"]
            return Done(f"no room is held on {target}: a pod that is not ours is called {name}")
        if held is None:
            return Do((commands.create(build_placeholder(context, original), f"hold room on {target}"),))
        if is_terminating(held):
            return Wait("an earlier placeholder is ending", 1.0)
        return nominate(held, target)


class ReleaseRoom(Step):
    """Removes the placeholder."""

    def look(self, context: StepContext) -> Outlook:
        """Done when it is being deleted, or must be left to the orphan cleaner."""
        todo, refusal = release_room(context), context.lasting_refusal
        return Done(f"the placeholder could not be removed: {refusal}") if todo and refusal else do_all(todo)


def placeholder_name(migration: str) -> str:
    """The name of a migration's placeholder: always the same, so that there is at most one."""
    return migration[: 253 - len(_ENDING)].rstrip("-.") + _ENDING


def build_placeholder(context: StepContext, pod: Json) -> Json:
    """Build the placeholder of a pod. It never runs, but policies must admit it."""
    migration, spec = context.migration, pod["spec"]
    asked = _asked_by(spec)
    container = {
        "name": "room",
        "image": spec["containers"][0]["image"],
        "resources": {"requests": asked, "limits": asked},
        "securityContext": dict(_HARMLESS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": placeholder_name(migration.name),
            "namespace": migration.namespace,
            "labels": {labels.PLACEHOLDER: migration.name, labels.MANAGED_BY: labels.MANAGER},
            "ownerReferences": [owner_reference(migration)],
        },
        "spec": {
            **{key: spec[key] for key in _KEPT if key in spec},
            "containers": [container],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "schedulingGates": [{"name": labels.GATE}],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
        },
    }


def is_placeholder(pod: Json) -> bool:
    """Whether a pod is a placeholder."""
    return labels.PLACEHOLDER in labels_of(pod) and labels_of(pod).get(labels.MANAGED_BY) == labels.MANAGER


def find_placeholder(context: StepContext) -> Json | None:
    """This migration's placeholder, if it exists; another pod of its name does not count."""
    found = context.seen.placeholder
    if found is None or not is_placeholder(found):
        return None
    return found if labels_of(found)[labels.PLACEHOLDER] == context.migration.name else None


def release_room(context: StepContext) -> list[Command]:
    """Delete the placeholder, so that its room is free again."""
    found = find_placeholder(context)
    return [] if found is None or is_terminating(found) else [commands.delete(found, "the room is not held any more")]


def _asked_by(spec: Json) -> dict[str, str]:
    """What a pod requests, so that the scheduler keeps as much room for the placeholder."""
    starting = ((_requests(each), each.get("restartPolicy") == "Always") for each in spec.get("initContainers") or ())
    overhead = {name: amount(name, text) for name, text in (spec.get("overhead") or {}).items()}
    total = sum_requests(map(_requests, spec["containers"]), starting, _requests(spec), overhead)
    return {name: f"{number}m" if name == "cpu" else str(number) for name, number in sorted(total.items()) if number}


def _requests(asking: Json) -> Amounts:
    asked = (asking.get("resources") or {}).get("requests") or {}
    return {name: amount(name, text) for name, text in asked.items()}
