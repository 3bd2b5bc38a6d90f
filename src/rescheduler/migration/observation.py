"""What the lifecycle sees of the cluster: the objects that one migration touches, read anew before each decision.

`runtime` gathers it; objects are Kubernetes' own JSON, because what matters of them differs by step. The functions
below are the few questions that several steps ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto

from rescheduler.migration.commands import Json
from rescheduler.model import marks
from rescheduler.model.migration import Migration


class Part(Enum):
    """What not every look includes, because only some steps go by it."""

    SERVICES = auto()
    BUDGETS = auto()
    """Those that select the original, and the temporary one."""
    REPLICA_SETS = auto()
    SIBLINGS = auto()


EVERYTHING = frozenset(Part)
NOTHING_MORE: frozenset[Part] = frozenset()


class Steered(StrEnum):
    """How a pod that its controller makes anew is led to its target."""

    TEMPLATE = "template"
    """By a preference in its ReplicaSet's template, for as long as it takes; other controllers' pods are not led."""
    WEBHOOK = "webhook"
    """By the preference that our webhook gives it."""
    NOMINATE = "nominate"
    """The same, and our webhook holds it back until it is nominated to its target, where room is held for it."""


@dataclass(frozen=True, slots=True)
class Refused:
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
    members: tuple[Migration, ...] = ()
    """The other migrations of the proposal."""
    rivals: tuple[Migration, ...] = ()
    """The other migrations under way of the same controller's pods."""
    steered: Steered = Steered.TEMPLATE
    placeholder: Json | None = None
    """Whoever has the name that this migration's placeholder has."""
    refused: Refused | None = None
    parts: frozenset[Part] = EVERYTHING


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a step may look at."""

    migration: Migration
    seen: Observation
    now: float

    @property
    def original(self) -> Json | None:
        """The pod that is to move, if it is still there."""
        pod = self.seen.pod
        uid = self.migration.progress.uid or self.migration.order.uid
        return pod if pod is not None and (not uid or pod["metadata"]["uid"] == uid) else None

    @property
    def copy(self) -> Json | None:
        """The replacement that we made, if it is there."""
        for pod in self.seen.marked:
            if marks.ORIGINAL_POD in notes_of(pod) and pod["metadata"]["uid"] != self.migration.progress.uid:
                return pod
        return None

    @property
    def in_step(self) -> float:
        """For how many seconds the current step has been going on."""
        started = self.migration.progress.step_started
        return 0.0 if started is None else self.now - started


def labels_of(body: Json) -> dict[str, str]:
    """An object's labels."""
    return body["metadata"].get("labels") or {}


def notes_of(body: Json) -> dict[str, str]:
    """An object's annotations."""
    return body["metadata"].get("annotations") or {}


def is_leaving(body: Json) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in body["metadata"]


def has_ended(pod: Json) -> bool:
    """Whether it will not run any more."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def condition(body: Json, kind: str) -> Json:
    """One condition of an object; empty if it has none."""
    found: list[Json] = body.get("status", {}).get("conditions") or []
    return next((each for each in found if each.get("type") == kind), {})


def ready_for(pod: Json, now: float) -> float | None:
    """For how many seconds a pod has been Ready; None if it is not."""
    found = condition(pod, "Ready")
    if found.get("status") != "True" or is_leaving(pod):
        return None
    since = found.get("lastTransitionTime")
    return now - datetime.fromisoformat(since).timestamp() if since else 0.0


def unready(pod: Json) -> str:
    """That a pod is not Ready yet: which, where, and what it says of that."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    if not node:
        return _joined(f"{name} has no node yet", condition(pod, "PodScheduled").get("message", ""))
    status = pod.get("status", {})
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    waiting = next((each for each in containers if "waiting" in (each.get("state") or {})), None)
    if waiting is None:
        return _joined(f"{name} is not Ready on {node} yet", condition(pod, "Ready").get("message", ""))
    why = waiting["state"]["waiting"]
    return _joined(f"{name} is not Ready on {node} yet", waiting["name"], why.get("reason", ""), why.get("message", ""))


def _joined(*said: str) -> str:
    return ": ".join(filter(None, said))


def controller_of(body: Json) -> Json | None:
    """The owner reference of whoever manages an object."""
    owners: list[Json] = body["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)
