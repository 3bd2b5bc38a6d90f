"""Kubernetes Events of migrations, as data; `kube.events` writes them.

There is one when a move begins, when it is rolled back, when it ends, and later if it was not worth it. Steps are only
in the PodMigration's status. Events are on the pod, its workload, both nodes and the PodMigration.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.model.migration import MigrationStatus, ObjectReference, OutcomeVerdict, Phase, PodMigration
from rescheduler.model.move_history import format_gains, is_bad, is_by_choice
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant


@dataclass(frozen=True, slots=True)
class Subject:
    """An object that an Event is about; a node has no namespace."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An Event of one object. The same reason on the same occasion is written once."""

    regarding: Subject
    related: Subject
    reason: str
    action: str
    note: str
    occasion: str
    warning: bool = False


def events_for(before: PodMigration, after: PodMigration) -> tuple[ObjectEvent, ...]:
    """The Events of a change of a migration; none if only its step changed."""
    if before.status.outcome != after.status.outcome:
        return _describe_outcome(before.status, after)
    event = _describe(before.status, after)
    if event is None:
        return ()
    reason, action, note, warning = event
    pod, migration = _pod(after), Subject("PodMigration", after.namespace, after.name, after.uid)
    occasion = f"{after.uid}/{after.status.attempts}"
    found = [ObjectEvent(pod, migration, reason, action, note, occasion, warning)]
    found += [
        ObjectEvent(each, pod, reason, action, note, occasion, warning) for each in (migration, *_others(reason, after))
    ]
    return tuple(found)


def _describe_outcome(before: MigrationStatus, after: PodMigration) -> tuple[ObjectEvent, ...]:
    """The Events of a move by choice that was not worth it: on migration and workload, because the pod is gone."""
    was, now = before.outcome, after.status.outcome
    if now is None or not is_bad(now.verdict) or not is_by_choice(after):
        return ()
    if was is not None and was.verdict is now.verdict:
        return ()
    back = now.verdict is OutcomeVerdict.CAME_BACK
    reason, did = ("MigrationCameBack", "came back") if back else ("MigrationNotPaid", "did not pay")
    way = f"Moving pod {after.namespace}/{after.spec.pod.name}{_way(after.status)}"
    note = f"{way} {did}{format_gains(after.spec.expected_gain, now.gain)}; its workload rests longer for it"
    migration = Subject("PodMigration", after.namespace, after.name, after.uid)
    subjects = [each for each in (migration, _object(after, after.status.workload)) if each is not None]
    return tuple(ObjectEvent(each, _pod(after), reason, "Assess", note, after.uid, warning=True) for each in subjects)


def _describe(before: MigrationStatus, after: PodMigration) -> tuple[str, str, str, bool] | None:
    """Reason, action, note, and whether it is a warning."""
    was, progress = before.phase, after.status
    way = f"Pod {after.namespace}/{after.spec.pod.name}{_way(progress)}"
    match progress.phase:
        case phase if phase is was:
            return None
        case Phase.IN_PROGRESS if progress.attempts > 1:
            return "MigrationRetried", "Migrate", f"{way}: attempt {progress.attempts}{_why(after)}", False
        case Phase.IN_PROGRESS:
            return "MigrationStarted", "Migrate", f"{way}{_why(after)}", False
        case Phase.COMPLETED:
            replacement = f"; it is {progress.replacement.name} now" if progress.replacement else ""
            said = f"; {progress.message}" if progress.message else ""
            return "MigrationCompleted", "Migrate", f"{way}: done{replacement}{said}", False
        case Phase.FAILED:
            undone = "given up, all is as it was" if progress.attempts else "not possible"
            if progress.method is Method.REMOVE and progress.attempts:
                undone = "given up"
            return "MigrationFailed", "RollBack", f"{way}: {undone}: {progress.message}", True
        case _:
            return "MigrationRolledBack", "RollBack", f"{way}: rolled back: {progress.message}{_again(progress)}", True


def _way(progress: MigrationStatus) -> str:
    source = f" from {progress.source}" if progress.source else ""
    target = f" to {progress.target}" if progress.target else ""
    method = f" by {progress.method}" if progress.method else ""
    return f"{source}{target}{method}"


def _why(migration: PodMigration) -> str:
    order = migration.spec
    return f" ({order.strategy}{f': {order.reason}' if order.reason else ''})"


def _again(progress: MigrationStatus) -> str:
    if progress.method in progress.tried_methods:
        return "; another method is tried"
    return f"; tried again at {format_instant(progress.retry_time)}" if progress.retry_time is not None else ""


def _pod(migration: PodMigration) -> Subject:
    uid = migration.status.pod_uid or migration.spec.pod.uid
    return Subject("Pod", migration.namespace, migration.spec.pod.name, uid)


def _others(reason: str, migration: PodMigration) -> list[Subject]:
    """Other objects that get the Event; nodes only when the move ends."""
    progress = migration.status
    found = [_object(migration, progress.workload)]
    if reason == "MigrationCompleted":
        found.append(_object(migration, progress.replacement))
    if migration.status.over:
        # As kubelets do it: `kubectl describe node` looks for events with the node's name as its UID.
        found += [Subject("Node", "", name, name) if name else None for name in (progress.source, progress.target)]
    return list(dict.fromkeys(each for each in found if each is not None))


def _object(migration: PodMigration, reference: ObjectReference | None) -> Subject | None:
    if reference is None:
        return None
    return Subject(reference.kind, migration.namespace, reference.name, reference.uid)
