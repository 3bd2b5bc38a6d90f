"""Room at the target for a pod that its controller makes anew (`steering: nominate`).

A placeholder holds the room before anything is disturbed. When the new pod is there, behind the gate that the webhook
put on it, it is nominated itself, then the placeholder goes, then the gate: in this order the room is never free. All
of it goes by what is on the pods, so a pod that came without a gate is simply left to the scheduler.
"""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.commands import Json
from rescheduler.migration.gates import gates_of, letting_through
from rescheduler.migration.observation import Scene, Steered, is_leaving
from rescheduler.migration.placeholder import own_placeholder, placeholder_for, releasing
from rescheduler.migration.preconditions import unfit_target
from rescheduler.migration.rebuilding import replacement
from rescheduler.migration.steps import Do, Done, GiveUp, Outlook, Plain, Wait
from rescheduler.model import marks

_PASSING = frozenset({409, 429})


class HoldRoom(Plain):
    """Makes the placeholder and nominates it to the target."""

    name = "HoldRoom"

    def look(self, scene: Scene) -> Outlook:
        """Done when the room is held; or when it cannot be, because the move can do without."""
        original, target = scene.original, scene.migration.progress.target
        if scene.seen.steered is not Steered.NOMINATE or not target:
            return Done()
        if original is None or is_leaving(original):
            return GiveUp("the pod is gone", retry=False)
        if unfit := unfit_target(scene):
            return GiveUp(unfit)
        held, refused = own_placeholder(scene), scene.seen.refused
        if refused is not None and refused.code not in _PASSING:
            return Done(f"no room is held on {target}: {refused.message}")
        if held is None and scene.seen.placeholder is not None:
            name = scene.seen.placeholder["metadata"]["name"]
            return Done(f"no room is held on {target}: a pod that is not ours is called {name}")
        if held is None:
            return Do((commands.create(placeholder_for(scene, original), f"hold room on {target}"),))
        if is_leaving(held):
            return Wait("an earlier placeholder is ending", 1.0)
        return _nominated(held, target)


class NominateRebuilt(Plain):
    """Nominates the new pod to the target while it is still behind the webhook's gate."""

    name = "NominateRebuilt"

    def look(self, scene: Scene) -> Outlook:
        """Done when the nomination is in its status, or when there is none to make."""
        pod, target, refused = replacement(scene), scene.migration.progress.target, scene.seen.refused
        if pod is None or is_leaving(pod) or marks.NOMINATE_GATE not in gates_of(pod):
            return Done()
        if not target or unfit_target(scene):
            return Done()  # the scheduler finds a better place
        if refused is not None and refused.code not in _PASSING:
            return Done(f"it is not nominated to {target}: {refused.message}")
        return _nominated(pod, target)


class ReleaseRoom(Plain):
    """Removes the placeholder."""

    name = "ReleaseRoom"

    def look(self, scene: Scene) -> Outlook:
        """Done when it goes, or must be left to the janitor: the new pod waits for nothing else."""
        refused, todo = scene.seen.refused, releasing(scene)
        if todo and refused is not None and refused.code not in _PASSING:
            return Done(f"the placeholder could not be removed: {refused.message}")
        return Do(tuple(todo)) if todo else Done()


class UngateRebuilt(Plain):
    """Takes the webhook's gate off: the scheduler may have the new pod now."""

    name = "UngateRebuilt"

    def look(self, scene: Scene) -> Outlook:
        """Done when the gate is off, whoever took it."""
        pod = replacement(scene)
        todo = letting_through(pod) if pod is not None else []
        return Do(tuple(todo)) if todo else Done()


def _nominated(pod: Json, target: str) -> Do | Done:
    if pod.get("status", {}).get("nominatedNodeName") == target:
        return Done()
    changes = {"status": {"nominatedNodeName": target}}
    return Do((commands.patch(pod, changes, f"reserve room on {target}", subresource="status"),))
