"""What is left of migrations that are gone or over, decided for each marked object alone.

Rolling back (`leftovers`) needs the migration; where a person deleted it in the middle, or a controller wrote late, all
there is are the marks. The janitor finds marked objects, reads them anew and asks here. `dead` are the names of the
migrations that nobody carries on; marks of any other name are left alone, and so is everything without marks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rescheduler.migration import commands
from rescheduler.migration.commands import Command, Json
from rescheduler.migration.gates import letting_through
from rescheduler.migration.marking import COPIED, restored_cost, restored_marks, staying, unnoting
from rescheduler.migration.observation import controller_of, has_ended, is_leaving, labels_of, notes_of
from rescheduler.migration.placeholder import is_placeholder
from rescheduler.migration.steering import noted, restored_template, resuming
from rescheduler.migration.steps import Do, Done, Wait
from rescheduler.model import marks

_OF_ORIGINALS = (marks.COST_BEFORE, marks.MARKS_BEFORE)
_OF_PODS = (marks.WITHHELD, *_OF_ORIGINALS)
Texts = Mapping[str, str]


def names_on_pod(labels: Texts, notes: Texts) -> frozenset[str]:
    """Whose marks of a running move a pod carries; "" where there is a mark, but no name any more.

    What a finished move leaves on its replacement is a trace for people, and no mark of a running one.
    """
    name = labels.get(marks.MIGRATION_ID, "")
    is_marked = bool(name) and labels.get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS
    names = {name} if is_marked or any(key in notes for key in _OF_PODS) else set()
    if labels.get(marks.MANAGED_BY) == marks.OURSELVES and marks.PLACEHOLDER in labels:
        names.add(labels[marks.PLACEHOLDER])
    if marks.GATED in notes:
        names.add(notes[marks.GATED])
    return frozenset(names)


def names_on_workload(notes: Texts) -> frozenset[str]:
    """Whose marks a Deployment, ReplicaSet, StatefulSet or Job carries."""
    names = {notes[key] for key in COPIED if key in notes}
    if marks.AFFINITY_BEFORE in notes:
        names.add(noted({"metadata": {"annotations": notes}})["migration"])
    return frozenset(names)


def name_on_budget(labels: Texts) -> str:
    """Which migration a temporary budget was made for; empty for all others."""
    return labels.get(marks.MIGRATION_ID, "") if labels.get(marks.MANAGED_BY) == marks.OURSELVES else ""


def names_on(body: Json) -> frozenset[str]:
    """Whose marks an object carries."""
    match body["kind"]:
        case "Pod":
            return names_on_pod(labels_of(body), notes_of(body))
        case "PodDisruptionBudget":
            name = name_on_budget(labels_of(body))
            return frozenset({name}) if name else frozenset()
        case _:
            return names_on_workload(notes_of(body))


def is_copy(pod: Json) -> bool:
    """Whether a pod was made by or for a move; one that is moved once more has noted what it was before."""
    notes = notes_of(pod)
    return marks.ORIGINAL_POD in notes and not any(key in notes for key in _OF_ORIGINALS)


def of_pod(pod: Json, original: Json | None, status: str) -> list[Command]:
    """What puts a pod right whose migration is dead: a copy goes or stays for good, an original gets its own back."""
    if is_leaving(pod):
        return []
    if is_placeholder(pod):
        return [commands.delete(pod, "the room is not held any more")]
    if held_back := letting_through(pod):
        return held_back  # first of all: it waits for nobody any more
    if is_copy(pod):
        if controller_of(pod) is None and _is_surplus(pod, original):
            # If somebody has adopted it since we looked, it is a pod of theirs, and must not go.
            return [commands.delete(pod, "its migration is gone", as_seen=True)]
        return staying(pod, status)
    is_marked = labels_of(pod).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS
    if is_marked or marks.MARKS_BEFORE in notes_of(pod):
        return [*restored_cost(pod), *restored_marks(pod)]
    return restored_cost(pod)


def of_budget(budget: Json) -> list[Command]:
    """What removes a temporary budget whose migration is dead."""
    return [] if is_leaving(budget) else [commands.delete(budget, "it was temporary")]


def of_workload(workload: Json, sets: Collection[Json], dead: Collection[str]) -> Do | Wait | Done:
    """What puts a workload right; `sets` are the ReplicaSets of a Deployment, or the ReplicaSet itself.

    First the templates, then the pause, then the notes: on the Deployment before its ReplicaSets, because its
    controller copies what it finds there to them, and never takes it back.
    """
    if steered := [each for each in sets if noted(each).get("migration") in dead]:
        return Do(tuple(restored_template(each) for each in steered))
    if workload["kind"] == "Deployment":
        if notes_of(workload).get(marks.PAUSED_BY) in dead:
            return resuming(workload, sets)
        if todo := unnoting(workload, dead):
            return Do(tuple(todo))
    others = sets if workload["kind"] == "Deployment" else (workload,)
    copied = [command for each in others for command in unnoting(each, dead, COPIED)]
    return Do(tuple(copied)) if copied else Done()


def _is_surplus(copy: Json, original: Json | None) -> bool:
    """Whether an unadopted copy can go without a pod being lost."""
    if not copy["spec"].get("nodeName") or has_ended(copy) or marks.WITHHELD in notes_of(copy):
        return True  # it never ran, does not any more, or its ReplicaSet has as many as it wants without it
    return original is not None and not is_leaving(original)
