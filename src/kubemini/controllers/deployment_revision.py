"""The revisions of a Deployment: which of its ReplicaSets is the new one, what it is numbered, what it remembers.

`deployment` asks. The new ReplicaSet is the one whose template equals the Deployment's; its number is one more than
the highest among the others, so that going back to an old template gives the old ReplicaSet a new number, and its
former numbers are kept as its history.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from kubemini.controllers.children import controller_reference
from kubemini.controllers.deployment_rollout import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    Goal,
    first_size,
    share_of,
)
from kubemini.controllers.templates import HASH_LABEL, name_with_hash, same_template, template_hash
from kubemini.refusals import Json

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
_LONGEST_HISTORY = 2000  # characters
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)
_KEEP_ALL = 2**31 - 1


def annotations_of(body: Json) -> dict[str, str]:
    """The annotations of an object."""
    found: dict[str, str] = body["metadata"].get("annotations") or {}
    return found


def by_age(body: Json) -> tuple[str, str]:
    """Sorts from old to new."""
    return (body["metadata"].get("creationTimestamp", ""), body["metadata"]["name"])


def split(deployment: Json, sets: Sequence[Json]) -> tuple[Json | None, list[Json]]:
    """The ReplicaSet of the Deployment's template, the oldest if there are several, and all others."""
    template = deployment["spec"]["template"]
    ordered = sorted(sets, key=by_age)
    new = next((each for each in ordered if same_template(each["spec"]["template"], template)), None)
    return new, [each for each in ordered if each is not new]


def next_revision(olds: Iterable[Json]) -> int:
    """The number for the new ReplicaSet, if it has none that is higher."""
    return 1 + max((_number(annotations_of(each).get(REVISION, "")) or 0 for each in olds), default=0)


def annotated(deployment: Json, replica_set: Json, revision: int) -> dict[str, str]:
    """The annotations that the new ReplicaSet should have: the Deployment's, and its number."""
    mine = annotations_of(replica_set)
    before = mine.get(REVISION, "")
    number = _number(before) if before else 0
    if number is None:
        return dict(mine)  # somebody wrote a revision that is no number: nothing is changed, as Kubernetes has it
    wanted = mine | {key: text for key, text in annotations_of(deployment).items() if key not in _NOT_COPIED}
    if number < revision:
        wanted[REVISION] = str(revision)
        if before:
            wanted |= _remembered(mine.get(HISTORY, ""), before)
    return wanted


def replicas_noted(goal: Goal) -> dict[str, str]:
    """What a ReplicaSet remembers of its Deployment's size."""
    return {DESIRED_REPLICAS: str(goal.replicas), MAX_REPLICAS: str(goal.limit)}


def new_replica_set(deployment: Json, goal: Goal, olds: Sequence[Json]) -> Json:
    """The ReplicaSet for the Deployment's template, to be created."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    hashed = template_hash(spec["template"], deployment.get("status", {}).get("collisionCount"))
    template, selector = copy.deepcopy(spec["template"]), copy.deepcopy(spec["selector"])
    labels: dict[str, str] = template.setdefault("metadata", {}).setdefault("labels", {})
    labels[HASH_LABEL] = hashed
    selector.setdefault("matchLabels", {})[HASH_LABEL] = hashed
    made: Json = {
        "metadata": {
            "name": name_with_hash(metadata["name"], hashed),
            "namespace": metadata["namespace"],
            "labels": dict(labels),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": first_size(goal, [share_of(old) for old in olds]),
            "selector": selector,
            "template": template,
        },
    }
    if spec.get("minReadySeconds"):
        made["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    made["metadata"]["annotations"] = annotated(deployment, made, next_revision(olds)) | replicas_noted(goal)
    return made


def forgettable(deployment: Json, olds: Sequence[Json]) -> list[Json]:
    """The oldest ReplicaSets beyond the revisions that are kept; those that still have pods stay."""
    kept: int = deployment["spec"].get("revisionHistoryLimit", 10)
    alive = [each for each in olds if "deletionTimestamp" not in each["metadata"]]
    if kept == _KEEP_ALL or len(alive) <= kept:
        return []
    ordered = sorted(alive, key=lambda each: (_number(annotations_of(each).get(REVISION, "")) or 0, by_age(each)))
    return [each for each in ordered[: len(alive) - kept] if _is_empty(each)]


def _is_empty(replica_set: Json) -> bool:
    status = replica_set.get("status", {})
    seen = status.get("observedGeneration", 0) >= replica_set["metadata"].get("generation", 0)
    return seen and not status.get("replicas") and not replica_set["spec"].get("replicas", 1)


def _remembered(history: str, revision: str) -> dict[str, str]:
    """The history with one more number; the oldest ones go when it becomes too long."""
    numbers = [*(history.split(",") if history else ()), revision]
    while len(",".join(numbers)) > _LONGEST_HISTORY and len(numbers) > 1:
        del numbers[0]
    return {HISTORY: ",".join(numbers)}


def _number(text: str) -> int | None:
    digits = text.removeprefix("-").removeprefix("+")
    return int(text) if digits.isascii() and digits.isdigit() else None
