"""What must be so at the moment of acting, asked again right before each step that disturbs something.

A plan is seconds or minutes old when it is carried out. Each question answers with the reason why not, or with nothing.
"""

from __future__ import annotations

from rescheduler.migration.observation import Scene, condition, is_leaving, labels_of, ready_for
from rescheduler.model import marks

_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})


def unfit_target(scene: Scene) -> str:
    """Why the target cannot take a pod now; where it fits otherwise is the scheduler's to say."""
    name, node = scene.migration.progress.target, scene.seen.target
    if not name:
        return ""
    if node is None:
        return f"node {name} is gone"
    if is_leaving(node):
        return f"node {name} is being deleted"
    if labels_of(node).get(marks.MAINTENANCE) == "true":
        return f"node {name} is under maintenance"
    if node["spec"].get("unschedulable"):
        return f"node {name} is cordoned"
    if condition(node, "Ready").get("status", "True") != "True":
        return f"node {name} is not Ready"
    return ""


def _ails(scene: Scene) -> bool:
    """Whether the original is not Ready because a container of it crashes or cannot start."""
    original = scene.original
    if original is None or ready_for(original, scene.now) is not None:
        return False
    status = original.get("status", {})
    found = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    states = [each.get("state") or {} for each in found]
    waits = {state["waiting"].get("reason", "") for state in states if state.get("waiting")} - _STARTING
    return bool(waits) or any((state.get("terminated") or {}).get("exitCode") for state in states)


def unready_fellow(scene: Scene) -> str:
    """Which other pod of the StatefulSet keeps this one from going: they go one at a time.

    One that crashes may always go: it serves nobody, and the others may wait for it.
    """
    controller = scene.seen.controller
    if controller is None or controller["kind"] != "StatefulSet" or _ails(scene):
        return ""
    title, wanted = f"StatefulSet {controller['metadata']['name']}", controller["spec"].get("replicas", 1)
    if len(scene.seen.siblings) < wanted:
        return f"{title} has {len(scene.seen.siblings)} pods and wants {wanted}"
    original = scene.migration.progress.uid
    others = (pod for pod in scene.seen.siblings if pod["metadata"]["uid"] != original)
    waiting = sorted(pod["metadata"]["name"] for pod in others if ready_for(pod, scene.now) is None)
    return f"{title}: {waiting[0]} is not Ready, and its pods go one at a time" if waiting else ""
