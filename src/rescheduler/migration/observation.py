"""The part of the cluster that one migration touches, read again before each decision.

`kube.observer` reads it. Objects are Kubernetes JSON, because each step needs other fields. The functions below are
questions that several steps ask.
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
    """Objects that only some steps need, so that not every observation includes them."""

    SERVICES = auto()
    BUDGETS = auto()
    """Those that select the original, and the temporary one."""
    REPLICA_SETS = auto()
    SIBLINGS = auto()


EVERYTHING = frozenset(ObservedPart)


class SteeringMethod(StrEnum):
    """How a replacement that a controller creates is steered to its target."""

    TEMPLATE = "template"
    """By a preference in its ReplicaSet's template, for as long as it takes; pods of other kinds are not steered."""
    WEBHOOK = "webhook"
    """By the preference that our webhook adds to it."""
    NOMINATE = "nominate"
    """The same, and our webhook gates it until it is nominated to its target, where room is held for it."""


@dataclass(frozen=True, slots=True)
class FailedCommand:
    """The API server's answer to a command that it refused."""

    code: int | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the cluster. None or empty means absent, if it was read at all (`parts`)."""

    pod: Json | None = None
    """The pod that has the name in the spec now, whatever its UID."""
    marked: tuple[Json, ...] = ()
    """Every pod of the namespace with this migration's id, the original included."""
    namesake: Json | None = None
    """The pod that has the name chosen for the copy; read while there is no copy."""
    controller: Json | None = None
    foreign: bool = False
    """Whether the original's controller is of a kind that is not read. Its pods are still the siblings."""
    deployment: Json | None = None
    replica_sets: tuple[Json, ...] = ()
    """Every ReplicaSet of the Deployment: its controller copies our annotations to them."""
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
    members: tuple[PodMigration, ...] = ()
    """The other migrations of the proposal."""
    rivals: tuple[PodMigration, ...] = ()
    """The other migrations under way of the same controller's pods."""
    steered: SteeringMethod = SteeringMethod.TEMPLATE
    placeholder: Json | None = None
    """The pod that has the name of this migration's placeholder."""
    refused: FailedCommand | None = None
    parts: frozenset[ObservedPart] = EVERYTHING


@dataclass(frozen=True, slots=True)
class StepContext:
    """All that a step decides by."""

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
    def live_original(self) -> Json | None:
        """The original, unless it is gone or being deleted."""
        original = self.original
        return None if original is None or is_terminating(original) else original

    @property
    def was_deleted(self) -> bool:
        """Whether a person or its owner deleted the original: no eviction, preemption or lost node did."""
        original = self.original
        is_ending = original is not None and is_terminating(original)
        return is_ending and find_condition(original or {}, "DisruptionTarget").get("status") != "True"

    @property
    def copy(self) -> Json | None:
        """The replacement that we made, if it is there."""
        for pod in self.seen.marked:
            if labels.ORIGINAL_POD in annotations_of(pod) and pod["metadata"]["uid"] != self.migration.status.pod_uid:
                return pod
        return None

    @property
    def lasting_refusal(self) -> str:
        """Why the last command was refused, if it would be again; conflicts and spent budgets pass."""
        refused = self.seen.refused
        return refused.message if refused is not None and refused.code not in (409, 429) else ""

    @property
    def in_step(self) -> float:
        """Seconds since the current step began."""
        started = self.migration.status.step_time
        return 0.0 if started is None else self.now - started


def labels_of(body: Json) -> dict[str, str]:
    """An object's labels."""
    return body["metadata"].get("labels") or {}


def is_terminating(body: Json) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in body["metadata"]


def has_finished(pod: Json) -> bool:
    """Whether a pod has ended."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def find_condition(body: Json, kind: str) -> Json:
    """One condition of an object; empty if it has none."""
    found: list[Json] = body.get("status", {}).get("conditions") or []
    return next((each for each in found if each.get("type") == kind), {})


def container_statuses(pod: Json) -> list[Json]:
    """The statuses of a pod's containers, init containers and sidecars first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def ready_seconds(pod: Json, now: float) -> float | None:
    """Seconds that a pod has been Ready; None if it is not."""
    found = find_condition(pod, "Ready")
    if found.get("status") != "True" or is_terminating(pod):
        return None
    since = found.get("lastTransitionTime")
    return now - datetime.fromisoformat(since).timestamp() if since else 0.0


def describe_unready(pod: Json) -> str:
    """Describe a pod that is not Ready yet: which, where and why."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    if not node:
        return _join(f"{name} has no node yet", find_condition(pod, "PodScheduled").get("message", ""))
    waiting = next((each for each in container_statuses(pod) if "waiting" in (each.get("state") or {})), None)
    if waiting is None:
        return _join(f"{name} is not Ready on {node} yet", find_condition(pod, "Ready").get("message", ""))
    why = waiting["state"]["waiting"]
    return _join(f"{name} is not Ready on {node} yet", waiting["name"], why.get("reason", ""), why.get("message", ""))


_CANNOT_START = frozenset(
    {
        "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
        "ImagePullBackOff", "InvalidImageName", "RunContainerError",
    }
)  # fmt: skip


def describe_crash(pod: Json) -> str:
    """Name a container that cannot start, or that has failed, and why; empty if there is none."""
    for each in container_statuses(pod):
        state = each.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in _CANNOT_START:
            return _join(each["name"], waiting["reason"], waiting.get("message", ""))
        ended = state.get("terminated") or (each.get("lastState") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"{each['name']}: {ended.get('reason') or 'Error'}, exit code {ended['exitCode']}"
    return ""


def _join(*said: str) -> str:
    return ": ".join(filter(None, said))


def controller_of(body: Json) -> Json | None:
    """The owner reference of an object's controller."""
    owners: list[Json] = body["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})


def target_problem(context: StepContext) -> str:
    """Explain why the target node cannot take a pod now; empty if it can. Whether the pod fits is not checked."""
    name, node = context.migration.status.target, context.seen.target
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


def _is_failing(context: StepContext) -> bool:
    """Whether the original is not Ready because a container of it crashes or cannot start."""
    original = context.original
    if original is None or ready_seconds(original, context.now) is not None:
        return False
    states = [each.get("state") or {} for each in container_statuses(original)]
    waits = {state["waiting"].get("reason", "") for state in states if state.get("waiting")} - _STARTING
    return bool(waits) or any((state.get("terminated") or {}).get("exitCode") for state in states)


def unready_sibling(context: StepContext) -> str:
    """Name the pod of the StatefulSet that this one must wait for: they go one at a time; empty if there is none.

    A pod that crashes may always go: it serves no requests, and the others may wait for it.
    """
    controller = context.seen.controller
    if controller is None or controller["kind"] != "StatefulSet" or _is_failing(context):
        return ""
    title, wanted = f"StatefulSet {controller['metadata']['name']}", controller["spec"].get("replicas", 1)
    if len(context.seen.siblings) < wanted:
        return f"{title} has {len(context.seen.siblings)} pods and wants {wanted}"
    original = context.migration.status.pod_uid
    others = (pod for pod in context.seen.siblings if pod["metadata"]["uid"] != original)
    waiting = sorted(pod["metadata"]["name"] for pod in others if ready_seconds(pod, context.now) is None)
    return f"{title}: {waiting[0]} is not Ready, and its pods go one at a time" if waiting else ""


def overlapping_budgets(context: StepContext) -> str:
    """Name the budgets if several select the pod: Kubernetes then never evicts it."""
    if len(context.seen.budgets) <= 1:
        return ""
    names = ", ".join(sorted(each["metadata"]["name"] for each in context.seen.budgets))
    return f"budgets {names} all select it, so Kubernetes evicts it never"


def blocking_budget(context: StepContext, budgets: Iterable[Json], spare: int = 0) -> str:
    """Name the budget that forbids an eviction of the original now; empty if none does."""
    original = context.original
    if original is None or has_finished(original):
        return ""
    healthy = ready_seconds(original, context.now) is not None
    for budget in budgets:
        others = context.seen.unadopted.get(budget["metadata"]["uid"], 0)
        if not (_allows(budget, spare, others) or (not healthy and _allows_unhealthy(budget))):
            return f"budget {budget['metadata']['name']} allows no disruption now"
    return ""


def budget_shortfall(context: StepContext) -> str:
    """Name the budget that would have too few healthy pods without the original; empty if none would.

    The copy counts: with no other disruption it makes up for the original. A budget that its controller cannot
    compute (SyncFailed) is ignored.
    """
    for budget in context.seen.budgets:
        status = budget.get("status", {})
        computed = find_condition(budget, "DisruptionAllowed").get("reason") != "SyncFailed"
        spare = status.get("currentHealthy", 0) - status.get("desiredHealthy", 0)
        # An eviction lowers disruptionsAllowed at once; currentHealthy follows a moment later.
        if computed and min(spare, status.get("disruptionsAllowed", spare)) < 1:
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
