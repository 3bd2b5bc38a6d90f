"""The auditor: after whatever happened, is the cluster what it was, but for pods that were replaced by their like?

It does not depend on how moves are made. It takes a picture of whole namespaces and of the nodes before, and says what
is different now: lost, left behind, changed, not Ready, not ended. Kill tests and fault tests hold the product to it;
`ready_watch` is its companion for what happens in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rescheduler.migration.observation import controller_of
from rescheduler.migration.steps.handoff import CHEAPEST
from rescheduler.model import labels
from rescheduler.model.json import Json
from tests.support.both_clusters import PATHS, is_ready, name_of
from tests.support.migrations import MIGRATIONS, likeness
from tests.testbed.api import Api
from tests.testbed.processes import StateNotReached, until

AUDITED = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "PodDisruptionBudget", "Service")
OURS = "rescheduler.io/"
NODES = "/api/v1/nodes"
Key = tuple[str, str, str]
Ancestors = Mapping[str, str]
"""By a pod's UID, the UID of the pod that it replaced."""


@dataclass(frozen=True)
class Picture:
    """All that is there at one moment; pods that are leaving are there no more."""

    objects: Mapping[Key, Json]
    pods: Sequence[Json]


@dataclass
class Auditor:
    """Compares some namespaces, and all nodes, with what they were when it was made."""

    api: Api
    namespaces: Sequence[str]
    before: Picture = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.picture()

    def picture(self) -> Picture:
        """What is there now."""
        objects: dict[Key, Json] = {
            (kind, namespace, name_of(each)): _essence(each)
            for namespace in self.namespaces
            for kind in AUDITED
            for each in self.api.get(PATHS[kind].format(namespace))["items"]
            if "deletionTimestamp" not in each["metadata"]
        }
        objects |= {("Node", "", name_of(each)): _essence(each) for each in self.api.get(NODES)["items"]}
        found = [pod for space in self.namespaces for pod in self.api.get(PATHS["Pod"].format(space))["items"]]
        return Picture(objects, [pod for pod in found if "deletionTimestamp" not in pod["metadata"]])

    def problems(self, ancestors: Ancestors | None = None) -> list[str]:
        """Everything that is not as it was; empty when all is well."""
        now = self.picture()
        return [
            *_changes(self.before.objects, now.objects),
            *(complaint for pod in now.pods for complaint in _traces(pod)),
            *_audit_managed(self.before.pods, now.pods),
            *_audit_unmanaged(self.before.pods, now.pods, ancestors or {}),
            *self._open_migrations(),
        ]

    def settles(self, ancestors: Ancestors | None = None, seconds: float = 60.0) -> list[str]:
        """What is still wrong when all that goes on has had the time to end: controllers take some to tidy up."""
        found: list[str] = []

        def is_clean() -> bool:
            found[:] = self.problems(ancestors)
            return not found

        try:
            until("nothing is lost and nothing left", is_clean, seconds=seconds, every=0.5)
        except StateNotReached:
            return found
        return []

    def _open_migrations(self) -> Iterator[str]:
        for namespace in self.namespaces:
            for each in self.api.get(MIGRATIONS.format(namespace))["items"]:
                status = each.get("status") or {}
                if status.get("phase") not in ("Completed", "Failed"):
                    now = {key: status.get(key) for key in ("phase", "step", "method", "attempts", "message")}
                    yield f"PodMigration {namespace}/{name_of(each)} is not over: {now}"


def _essence(body: Json) -> Json:
    """An object less what its controllers write by themselves."""
    metadata = body["metadata"]
    kept: Json = {key: metadata.get(key) or {} for key in ("labels", "annotations", "ownerReferences", "finalizers")}
    return kept | {"uid": metadata["uid"], "spec": body.get("spec")}


def _changes(before: Mapping[Key, Json], now: Mapping[Key, Json]) -> Iterator[str]:
    for key in sorted(before.keys() | now.keys()):
        title = "{} {}/{}".format(*key)
        if key not in now:
            yield f"{title} is lost"
        elif key not in before:
            yield f"{title} is left behind"
        elif now[key] != before[key]:
            parts = ", ".join(
                f"{part} {before[key][part]} → {now[key][part]}"
                for part in before[key]
                if before[key][part] != now[key][part]
            )
            yield f"{title} is changed: {parts}"


def _traces(pod: Json) -> Iterator[str]:
    """What a move leaves on a pod while it is under way, and must not afterwards."""
    title, metadata = f"Pod {pod['metadata']['namespace']}/{name_of(pod)}", pod["metadata"]
    own, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if own.get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS:
        yield f"{title} still says that it is {own[labels.MIGRATION_STATUS]}"
    yield from (f"{title} has {key} left" for key in notes if key.startswith(OURS))
    if notes.get(labels.DELETION_COST) == CHEAPEST:
        yield f"{title} is still the first to be deleted"
    if any(gate["name"] == labels.GATE for gate in pod["spec"].get("schedulingGates", ())):
        yield f"{title} is still gated"
    if any(owner["kind"] == "PodMigration" for owner in metadata.get("ownerReferences") or ()):
        yield f"{title} still belongs to its migration"
    if not is_ready(pod):
        yield f"{title} is not Ready: {pod.get('status', {}).get('phase')}"


def _audit_managed(before: Sequence[Json], now: Sequence[Json]) -> Iterator[str]:
    """Each controller has as many pods as it had, and all alike."""
    then, since = _by_controller(before), _by_controller(now)
    for owner in sorted(then.keys() | since.keys()):
        had, has = then.get(owner, []), since.get(owner, [])
        if len(had) != len(has):
            yield f"{owner[0]} has {len(has)} pods, and had {len(had)}: {sorted(map(name_of, has))}"
        forms = [_likeness(pod) for pod in had]
        yield from (
            f"Pod {name_of(pod)} is not like the others of {owner[0]}" for pod in has if not _is_one_of(pod, forms)
        )


def _audit_unmanaged(before: Sequence[Json], now: Sequence[Json], ancestors: Ancestors) -> Iterator[str]:
    """Each pod without a controller is there, or exactly one that replaced it."""
    originals = {pod["metadata"]["uid"]: pod for pod in before if controller_of(pod) is None}
    living: dict[str, list[Json]] = {uid: [] for uid in originals}
    for pod in now:
        if controller_of(pod) is not None:
            continue
        first = _first_of(pod, originals.keys(), ancestors)
        if first is None:
            yield f"Pod {pod['metadata']['namespace']}/{name_of(pod)} is left behind"
        else:
            living[first].append(pod)
    for uid, pods in living.items():
        original = originals[uid]
        if len(pods) != 1:
            names = sorted(map(name_of, pods))
            yield f"Pod {original['metadata']['namespace']}/{name_of(original)} lives on as {names or 'no pod'}"
        yield from (f"Pod {name_of(pod)} is not what it was" for pod in pods if _likeness(pod) != _likeness(original))


def _first_of(pod: Json, known: Iterable[str], ancestors: Ancestors) -> str | None:
    """Which of the known pods this one descends from."""
    uid, known = str(pod["metadata"]["uid"]), set(known)
    noted = (pod["metadata"].get("annotations") or {}).get(labels.ORIGINAL_POD, "")
    line = [uid, noted, *_line(ancestors, noted)]
    return next((each for each in line if each in known), None)


def _line(ancestors: Ancestors, uid: str) -> Iterator[str]:
    seen: set[str] = set()
    while uid in ancestors and uid not in seen:
        seen.add(uid)
        uid = ancestors[uid]
        yield uid


def _by_controller(pods: Iterable[Json]) -> dict[tuple[str, str], list[Json]]:
    found: dict[tuple[str, str], list[Json]] = {}
    for pod in pods:
        if (owner := controller_of(pod)) is not None:
            title = f"{owner['kind']} {pod['metadata']['namespace']}/{owner['name']}"
            found.setdefault((title, owner["uid"]), []).append(pod)
    return found


def _is_one_of(pod: Json, forms: list[Any]) -> bool:
    return not forms or _likeness(pod) in forms


def _likeness(pod: Json) -> Any:
    return likeness(_essence(pod))
