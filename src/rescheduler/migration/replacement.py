"""The copy that replaces a pod: made from its ReplicaSet's template or, without a controller, from the pod itself.

A copy waits behind a scheduling gate until its room is reserved. Its PodMigration owns it until a controller adopts it,
so that deleting the migration leaves no copy behind. Labels and annotations record its origin.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterable

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.crd import API_VERSION, KIND
from rescheduler.migration.observation import StepContext, is_terminating, labels_of
from rescheduler.migration.steps.common import remove_nominate_gate
from rescheduler.model import labels as marks
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant

_LONGEST_NAME = 63  # a pod's name becomes its host name
_MOVED_BEFORE = re.compile(r"rescheduled-(?P<pod>.+)-(?P<time>[0-9]{10})")
_OUR_NOTES = "rescheduler.io/"
_TOKEN_MOUNT = "kube-api-access-"  # noqa: S105  the start of a volume's name


def replacement_name(pod: str, now: float) -> str:
    """`rescheduled-<pod>-<unix time>`, cut to fit.

    A pod that was moved before keeps the name it had first, with another time. A name that is cut ends in a digest,
    because pods of one workload differ in their last letters and may be moved in the same second.
    """
    first, second = pod, int(now)
    if found := _MOVED_BEFORE.fullmatch(pod):
        first, second = found["pod"], max(second, int(found["time"]) + 1)
    ending = f"-{second}"
    start, room = f"rescheduled-{first}", _LONGEST_NAME - len(ending)
    if len(start) > room:
        ending = f"-{hashlib.sha256(first.encode()).hexdigest()[:6]}{ending}"
        start = start[: _LONGEST_NAME - len(ending)].rstrip("-.")
    return start + ending


def choose_name(context: StepContext) -> str:
    """The name of this attempt's copy; attempts within one second get different names."""
    attempt = context.migration.status.attempts
    return replacement_name(context.migration.spec.pod.name, context.now + max(0, attempt - 1))


def choose_withheld_labels(context: StepContext) -> dict[str, str] | None:
    """Choose the labels to leave out so that the copy is not adopted yet; None if there are none.

    The ReplicaSet adopts every pod that matches its selector. A label of the selector that no Service and no budget
    selects by can be left out: the copy still gets traffic and counts as healthy.
    """
    controller = context.seen.controller
    if controller is None:
        return None
    template = controller["spec"]["template"]["metadata"].get("labels") or {}
    selector = controller["spec"].get("selector") or {}
    keys = set(selector.get("matchLabels") or {}) | {
        each["key"] for each in selector.get("matchExpressions") or () if each["operator"] in ("In", "Exists")
    }
    keys &= set(template)
    if marks.TEMPLATE_HASH in keys:
        return {marks.TEMPLATE_HASH: template[marks.TEMPLATE_HASH]}
    free = keys - _selected_by((*context.seen.services, *context.seen.budgets))
    return {key: template[key] for key in sorted(free)[:1]} or None


def copy_from_template(context: StepContext, withheld: dict[str, str]) -> Json:
    """Make the copy from the ReplicaSet's template, so that admission treats it as any other pod."""
    if context.seen.controller is None:
        raise ValueError("there is no template to make a copy from")
    template = context.seen.controller["spec"]["template"]
    kept = {key: value for key, value in (template["metadata"].get("labels") or {}).items() if key not in withheld}
    notes = {**(template["metadata"].get("annotations") or {}), marks.WITHHELD: json.dumps(withheld)}
    return _copy(context, kept, notes, copy.deepcopy(template["spec"]))


def copy_from_pod(context: StepContext) -> Json:
    """Make the copy of a pod without a controller."""
    if context.original is None:
        raise ValueError("there is no pod to copy")
    labels, notes, spec = strip_pod(context.original)
    # The record of its failures stays with it.
    record = {key: text for key, text in annotations_of(context.original).items() if key == marks.FAILURES}
    return _copy(context, labels, notes | record, spec)


def strip_pod(original: Json) -> tuple[dict[str, str], dict[str, str], Json]:
    """A pod's own labels, annotations and spec, without ours and without what admission and binding added."""
    spec = copy.deepcopy(original["spec"])
    for key in ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy"):
        spec.pop(key, None)
    tokens = {each["name"] for each in spec.get("volumes", ()) if each["name"].startswith(_TOKEN_MOUNT)}
    spec["volumes"] = [each for each in spec.get("volumes", ()) if each["name"] not in tokens]
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container["volumeMounts"] = [each for each in container.get("volumeMounts", ()) if each["name"] not in tokens]
    ours = {marks.MIGRATION_ID, marks.MIGRATION_STATUS, marks.MIGRATION_REASON, marks.MIGRATED_FROM}
    topology = {"topology.kubernetes.io/zone", "topology.kubernetes.io/region"}  # binding puts the node's on the pod
    kept = {key: value for key, value in labels_of(original).items() if key not in ours | topology}
    trace = {marks.MIGRATION_TIME, marks.ORIGINAL_POD, marks.ORIGINAL_POD_NAME}
    notes = {k: v for k, v in annotations_of(original).items() if k not in trace and not k.startswith(_OUR_NOTES)}
    return kept, notes, spec


def owner_reference(migration: PodMigration) -> Json:
    """The owner reference of objects that a migration creates."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": migration.name, "uid": migration.uid}


def _copy(context: StepContext, kept: dict[str, str], notes: dict[str, str], spec: Json) -> Json:
    migration, progress = context.migration, context.migration.status
    if progress.replacement is None:
        raise ValueError("the replacement's name is recorded before it is made")
    spec["schedulingGates"] = [*spec.get("schedulingGates", ()), {"name": marks.GATE}]
    trace = {
        marks.MIGRATION_ID: migration.name,
        marks.MIGRATION_STATUS: "in-progress",
        marks.MIGRATED_FROM: progress.source,
        marks.MIGRATION_REASON: migration.spec.strategy,
    }
    story = {
        marks.MIGRATION_TIME: format_instant(context.now),
        marks.ORIGINAL_POD: progress.pod_uid,
        marks.ORIGINAL_POD_NAME: migration.spec.pod.name,
    }
    metadata = {
        "name": progress.replacement.name,
        "namespace": migration.namespace,
        "labels": kept | trace,
        "annotations": notes | story,
        "ownerReferences": [owner_reference(migration)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _selected_by(selecting: Iterable[Json]) -> set[str]:
    """The label keys by which Services and budgets select."""
    keys: set[str] = set()
    for each in selecting:
        selector = each.get("spec", {}).get("selector") or {}
        if each.get("kind") == "Service":
            keys |= set(selector)
        else:
            keys |= set(selector.get("matchLabels") or {})
            keys |= {expression["key"] for expression in selector.get("matchExpressions") or ()}
    return keys


_TRACE_LABELS = (marks.MIGRATION_ID, marks.MIGRATION_STATUS, marks.MIGRATED_FROM, marks.MIGRATION_REASON)
_TRACE_NOTES = (marks.MIGRATION_TIME, marks.ORIGINAL_POD, marks.ORIGINAL_POD_NAME)


def disown_extra_pods(context: StepContext) -> list[Command]:
    """Take our labels off pods that were created beside the replacement, such as by scaling up at the same moment.

    The webhook labels and gates every new pod of the controller until its cache has the replacement.
    """
    progress, name = context.migration.status, context.migration.name
    if progress.method is not Method.EVICT:
        return []
    known = {progress.pod_uid, progress.replacement.uid if progress.replacement is not None else ""}
    known |= {context.copy["metadata"]["uid"]} if context.copy is not None else set()
    others = (pod for pod in context.seen.siblings if pod["metadata"]["uid"] not in known and not is_terminating(pod))
    return [command for pod in others if _is_marked(pod, name) for command in disown_pod(pod)]


def _is_marked(pod: Json, name: str) -> bool:
    """Whether a pod is labelled as part of this migration while it runs; labels of a finished one are only a trace."""
    labels = labels_of(pod)
    is_running = labels.get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS
    return (is_running and labels.get(marks.MIGRATION_ID) == name) or annotations_of(pod).get(marks.GATED) == name


def disown_pod(pod: Json) -> list[Command]:
    """Take everything of ours off a pod that had nothing of ours before."""
    labels = dict.fromkeys(key for key in _TRACE_LABELS if key in labels_of(pod))
    notes = dict.fromkeys(key for key in _TRACE_NOTES if key in annotations_of(pod))
    todo = remove_nominate_gate(pod)
    if labels or notes:
        changes = {"metadata": {"labels": labels, "annotations": notes}}
        todo.append(commands.patch(pod, changes, "it is not the pod that was expected"))
    return todo
