"""What the lifecycle sees of the cluster: the objects that one migration touches, read anew before each decision.

`runtime` gathers it; objects are Kubernetes' own JSON, because what matters of them differs by step. The functions
below are the few questions that several steps ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto

from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import PodMigration


class ObservedPart(Enum):
    """What not every look includes, because only some steps go by it."""

    SERVICES = auto()
    BUDGETS = auto()
    """Those that select the original, and the temporary one."""
    REPLICA_SETS = auto()
    SIBLINGS = auto()


EVERYTHING = frozenset(ObservedPart)
NOTHING_MORE: frozenset[ObservedPart] = frozenset()


class SteeringMethod(StrEnum):
    """How a pod that its controller makes anew is led to its target."""

    TEMPLATE = "template"
    """By a preference in its ReplicaSet's template, for as long as it takes; other controllers' pods are not led."""
    WEBHOOK = "webhook"
    """By the preference that our webhook gives it."""
    NOMINATE = "nominate"
    """The same, and our webhook holds it back until it is nominated to its target, where room is held for it."""


@dataclass(frozen=True, slots=True)
class FailedCommand:
    """How the API server answered a command that it did not carry out."""

    code: int | None
    reason: str
    message: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the cluster. What is None or empty is not there, if it was looked for at all (`parts`)."""

    pod: Json | None = None
    """The pod of the order's name, whoever that is now."""
    marked: tuple[Json, ...] = ()
    """Every pod of the namespace that carries this migration's id, the original included."""
    namesake: Json | None = None
    """Whoever has the name that the copy shall have, looked for while there is no copy."""
    controller: Json | None = None
    deployment: Json | None = None
    replica_sets: tuple[Json, ...] = ()
    """Every ReplicaSet of the Deployment: its controller copies our notes to them."""
    siblings: tuple[Json, ...] = ()
    """Every pod that the controller owns, the original included."""
    budgets: tuple[Json, ...] = ()
    """The disruption budgets that select the original, ours aside."""
    unadopted: Mapping[str, int] = field(default_factory=dict)
    """For each of these budgets, by UID, how many copies of other moves it takes for healthy pods.

    A copy that its ReplicaSet has not adopted yet is one pod too many, and the budget seems to allow one disruption
    more than there is: as soon as the copy is adopted, its original goes.
    """
    temporary_budget: Json | None = None
    services: tuple[Json, ...] = ()
    target: Json | None = None
    misfit: str = ""
    """Why the pod would not fit on its target as things are now."""
    members: tuple[PodMigration, ...] = ()
    """The other migrations of the proposal."""
    rivals: tuple[PodMigration, ...] = ()
    """The other migrations under way of the same controller's pods."""
    steered: SteeringMethod = SteeringMethod.TEMPLATE
    placeholder: Json | None = None
    """Whoever has the name that this migration's placeholder has."""
    refused: FailedCommand | None = None
    parts: frozenset[ObservedPart] = EVERYTHING


@dataclass(frozen=True, slots=True)
class StepContext:
    """All that a step may look at."""

    migration: PodMigration
    seen: Observation
    now: float

    @property
    def original(self) -> Json | None:
        """The pod that is to move, if it is still there."""
        pod = self.seen.pod
        uid = self.migration.status.pod_uid or self.migration.spec.pod.uid
        return pod if pod is not None and (not uid or pod["metadata"]["uid"] == uid) else None

    @property
    def copy(self) -> Json | None:
        """The replacement that we made, if it is there."""
        for pod in self.seen.marked:
            if labels.ORIGINAL_POD in annotations_of(pod) and pod["metadata"]["uid"] != self.migration.status.pod_uid:
                return pod
        return None

    @property
    def in_step(self) -> float:
        """For how many seconds the current step has been going on."""
        started = self.migration.status.step_time
        return 0.0 if started is None else self.now - started


def labels_of(body: Json) -> dict[str, str]:
    """An object's labels."""
    return body["metadata"].get("labels") or {}


def is_terminating(body: Json) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in body["metadata"]


def has_finished(pod: Json) -> bool:
    """Whether it will not run any more."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def find_condition(body: Json, kind: str) -> Json:
    """One condition of an object; empty if it has none."""
    found: list[Json] = body.get("status", {}).get("conditions") or []
    return next((each for each in found if each.get("type") == kind), {})


def ready_seconds(pod: Json, now: float) -> float | None:
    """For how many seconds a pod has been Ready; None if it is not."""
    found = find_condition(pod, "Ready")
    if found.get("status") != "True" or is_terminating(pod):
        return None
    since = found.get("lastTransitionTime")
    return now - datetime.fromisoformat(since).timestamp() if since else 0.0


def describe_unready(pod: Json) -> str:
    """That a pod is not Ready yet: which, where, and what it says of that."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    if not node:
        return _joined(f"{name} has no node yet", find_condition(pod, "PodScheduled").get("message", ""))
    status = pod.get("status", {})
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    waiting = next((each for each in containers if "waiting" in (each.get("state") or {})), None)
    if waiting is None:
        return _joined(f"{name} is not Ready on {node} yet", find_condition(pod, "Ready").get("message", ""))
    why = waiting["state"]["waiting"]
    return _joined(f"{name} is not Ready on {node} yet", waiting["name"], why.get("reason", ""), why.get("message", ""))


def _joined(*said: str) -> str:
    return ": ".join(filter(None, said))


def controller_of(body: Json) -> Json | None:
    """The owner reference of whoever manages an object."""
    owners: list[Json] = body["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})


def target_problem(scene: StepContext) -> str:
    """Why the target cannot take a pod now; where it fits otherwise is the scheduler's to say."""
    name, node = scene.migration.status.target, scene.seen.target
    if not name:
        return ""
    if node is None:
        return f"node {name} is gone"
    if is_terminating(node):
        return f"node {name} is being deleted"
    if labels_of(node).get(labels.MAINTENANCE) == "true":
        return f"node {name} is under maintenance"
    if node["spec"].get("unschedulable"):
        return f"node {name} is cordoned"
    if find_condition(node, "Ready").get("status", "True") != "True":
        return f"node {name} is not Ready"
    return ""


def _ails(scene: StepContext) -> bool:
    """Whether the original is not Ready because a container of it crashes or cannot start."""
    original = scene.original
    if original is None or ready_seconds(original, scene.now) is not None:
        return False
    status = original.get("status", {})
    found = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    states = [each.get("state") or {} for each in found]
    waits = {state["waiting"].get("reason", "") for state in states if state.get("waiting")} - _STARTING
    return bool(waits) or any((state.get("terminated") or {}).get("exitCode") for state in states)


def unready_sibling(scene: StepContext) -> str:
    """Which other pod of the StatefulSet keeps this one from going: they go one at a time.

    One that crashes may always go: it serves nobody, and the others may wait for it.
    """
    controller = scene.seen.controller
    if controller is None or controller["kind"] != "StatefulSet" or _ails(scene):
        return ""
    title, wanted = f"StatefulSet {controller['metadata']['name']}", controller["spec"].get("replicas", 1)
    if len(scene.seen.siblings) < wanted:
        return f"{title} has {len(scene.seen.siblings)} pods and wants {wanted}"
    original = scene.migration.status.pod_uid
    others = (pod for pod in scene.seen.siblings if pod["metadata"]["uid"] != original)
    waiting = sorted(pod["metadata"]["name"] for pod in others if ready_seconds(pod, scene.now) is None)
    return f"{title}: {waiting[0]} is not Ready, and its pods go one at a time" if waiting else ""


def overlapping_budgets(scene: StepContext) -> str:
    """That several budgets select the pod: Kubernetes then evicts it never, whatever they allow."""
    if len(scene.seen.budgets) <= 1:
        return ""
    names = ", ".join(sorted(each["metadata"]["name"] for each in scene.seen.budgets))
    return f"budgets {names} all select it, so Kubernetes evicts it never"


def blocking_budget(scene: StepContext, budgets: Iterable[Json], spare: int = 0) -> str:
    """Which budget does not let the original go now; empty when none does."""
    original = scene.original
    if original is None or has_finished(original):
        return ""
    healthy = ready_seconds(original, scene.now) is not None
    for budget in budgets:
        others = scene.seen.unadopted.get(budget["metadata"]["uid"], 0)
        if not (_allows(budget, spare, others) or (not healthy and _allows_unhealthy(budget))):
            return f"budget {budget['metadata']['name']} allows no disruption now"
    return ""


def budget_shortfall(scene: StepContext) -> str:
    """Which budget would have too few healthy pods without the original; empty when none would.

    The copy has its share in it: where nobody else is disturbed, it makes up for the original. A budget that its
    controller cannot reckon counts nobody, and says nothing.
    """
    for budget in scene.seen.budgets:
        status = budget.get("status", {})
        reckoned = find_condition(budget, "DisruptionAllowed").get("reason") != "SyncFailed"
        spare = status.get("currentHealthy", 0) - status.get("desiredHealthy", 0)
        # An eviction takes from what is allowed at once; the healthy are counted anew a moment later.
        if reckoned and min(spare, status.get("disruptionsAllowed", spare)) < 1:
            return f"budget {budget['metadata']['name']} would have too few healthy pods without the original"
    return ""


def _allows(budget: Json, spare: int, others: int) -> bool:
    status = budget.get("status", {})
    if status.get("disruptionsAllowed", 0) - others >= 1:
        return True
    return bool(spare and status.get("currentHealthy", 0) - others + spare > status.get("desiredHealthy", 0))


def _allows_unhealthy(budget: Json) -> bool:
    """A pod that is not Ready counts for nothing, so it may go while enough others are healthy, or always."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    return bool(0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0))
