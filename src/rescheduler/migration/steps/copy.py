"""The copy that replaces a pod, and the steps that bring it up on its target: for the methods handoff and copy.

A copy waits behind a scheduling gate until its room is reserved. Its PodMigration owns it until a controller adopts it,
so that deleting the migration leaves no copy behind. Labels and annotations record its origin. The method copy is for
pods without a controller: nothing would recreate them, so the copy runs before the original is evicted.
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from copy import deepcopy

from msgspec import structs

from rescheduler.migration import commands
from rescheduler.migration.observation import (
    ObservedPart,
    StepContext,
    describe_crash,
    describe_unready,
    find_condition,
    has_finished,
    is_terminating,
    labels_of,
    ready_seconds,
    target_problem,
)
from rescheduler.migration.steps.common import (
    POD_DELETED,
    POD_GONE,
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    disown,
    eviction_obstacle,
    gates_of,
    nominate,
    owner_reference,
    record_origin,
    remove_gate,
    wait_for_end,
)
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import MigrationStatus, ObjectReference
from rescheduler.model.plan import Method

_LONGEST_NAME = 63  # a pod's name becomes its host name
_MOVED_BEFORE = re.compile(r"rescheduled-(?P<pod>.+)-(?P<time>[0-9]{10})")
_TOKEN_MOUNT = "kube-api-access-"  # noqa: S105  the start of a volume's name
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")  # binding puts the node's on the pod


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


def strip_pod(original: Json) -> tuple[dict[str, str], dict[str, str], Json]:
    """A pod's own labels, annotations and spec, without ours and without what admission and binding added."""
    spec = deepcopy(original["spec"])
    for key in ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy"):
        spec.pop(key, None)
    tokens = {each["name"] for each in spec.get("volumes", ()) if each["name"].startswith(_TOKEN_MOUNT)}
    spec["volumes"] = [each for each in spec.get("volumes", ()) if each["name"] not in tokens]
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container["volumeMounts"] = [each for each in container.get("volumeMounts", ()) if each["name"] not in tokens]
    kept, notes = dict(labels_of(original)), dict(annotations_of(original))
    for key in (*labels.TRACE_LABELS, *_TOPOLOGY):
        kept.pop(key, None)
    for key in [key for key in notes if key in labels.TRACE_ANNOTATIONS or key.startswith(labels.OWN_PREFIX)]:
        del notes[key]
    return kept, notes, spec


def build_copy(context: StepContext, kept: dict[str, str], notes: dict[str, str], spec: Json) -> Json:
    """The copy with these labels, annotations and spec, behind its gate."""
    migration, replacement = context.migration, context.migration.status.replacement
    if replacement is None:
        raise ValueError("the replacement's name is recorded before it is made")
    spec["schedulingGates"] = [*spec.get("schedulingGates", ()), {"name": labels.GATE}]
    trace, origin = record_origin(context)
    original = context.original or {"metadata": {}}
    # Service meshes attribute a pod without a controller to its workload by this prefix.
    prefix = {key: original["metadata"][key] for key in ("generateName",) if key in original["metadata"]}
    metadata = prefix | {
        "name": replacement.name,
        "namespace": migration.namespace,
        "labels": kept | trace,
        "annotations": notes | origin,
        "ownerReferences": [owner_reference(migration)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class CreateCopy(Step):
    """Creates the replacement, behind its gate. Subclasses choose what it is made from; both are one step."""

    @abstractmethod
    def body(self, context: StepContext, original: Json) -> Json:
        """The pod to create."""

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record what it will be called; attempts within one second get different names."""
        progress = context.migration.status
        if progress.replacement is not None:
            return progress
        name = replacement_name(context.migration.spec.pod.name, context.now + max(0, progress.attempts - 1))
        return structs.replace(progress, replacement=ObjectReference("Pod", name))

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is there."""
        if context.copy is not None:
            return GiveUp("the copy is being deleted by another client") if is_terminating(context.copy) else Done()
        if (original := context.live_original) is None:
            return POD_GONE
        if (other := context.seen.namesake) is not None:
            if labels_of(other).get(labels.MIGRATION_ID) == context.migration.name:
                return Wait("the copy is being made", 1.0)
            return GiveUp(f"a pod that is not ours is called {other['metadata']['name']}")  # the next try: another name
        if unfit := target_problem(context):
            return GiveUp(unfit)
        refused = context.seen.refused
        if refused is not None and refused.code in (400, 403, 422):
            # Quota, a policy or a webhook does not let a second instance in beside the first.
            return GiveUp(f"a copy is refused: {refused.message}", other_method=True)
        why = f"make the copy for {context.migration.status.target}"
        return Do((commands.create(self.body(context, original), why),))


class CopyPod(CreateCopy):
    """Makes the copy from the pod itself."""

    name = CreateCopy.__name__

    def body(self, context: StepContext, original: Json) -> Json:
        """The same pod, elsewhere; the record of its failures stays with it."""
        kept, notes, spec = strip_pod(original)
        record = {key: text for key, text in annotations_of(original).items() if key == labels.FAILURES}
        return build_copy(context, kept, notes | record, spec)


def _is_deleted(context: StepContext) -> bool:
    """Whether the pod must not live on in its copy. A ReplicaSet replaces a deleted pod anyway."""
    return context.migration.status.method is Method.COPY and context.was_deleted


class Nominate(Step):
    """Nominates the copy to its target, which reserves its room there while it is still gated."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the nomination is in its status."""
        copy = context.copy
        if copy is None or is_terminating(copy):
            return GiveUp("the copy is gone")
        return Done() if copy["spec"].get("nodeName") else nominate(copy, context.migration.status.target)


class Ungate(Step):
    """Removes our gate: the scheduler may bind the copy now."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the gate is off."""
        copy = context.copy
        if copy is None or is_terminating(copy):
            return GiveUp("the copy is gone")
        if labels.GATE not in gates_of(copy):
            return Done()
        if context.live_original is None:
            return POD_GONE  # from here on the copy would be the pod
        if unfit := target_problem(context):
            return GiveUp(unfit)
        return Do(tuple(remove_gate(copy, labels.GATE)))


class Land(Step):
    """Waits for the scheduler, and checks that it chose the planned node."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is bound to the target."""
        copy, target = context.copy, context.migration.status.target
        if _is_deleted(context):
            return POD_DELETED
        if copy is None:
            return GiveUp("the copy is gone")
        node = copy["spec"].get("nodeName")
        if node == target:
            return Done()
        if node:
            return GiveUp(f"the scheduler put the copy on {node}, not on {target}")
        said = find_condition(copy, "PodScheduled").get("message", "")
        return Wait(f"the scheduler has not bound the copy yet{': ' + said if said else ''}")


class AwaitReady(Step):
    """Waits until the copy has been Ready for as long as its workload (minReadySeconds) and the operator ask."""

    def __init__(self, min_overlap: float = 0.0) -> None:
        self._min_overlap = min_overlap

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy could take over."""
        copy, controller, target = context.copy, context.seen.controller, context.migration.status.target
        if _is_deleted(context):
            return POD_DELETED
        if copy is None:
            return GiveUp("the copy is gone")
        if has_finished(copy) or is_terminating(copy):
            return GiveUp(f"the copy ended on {target}: {copy.get('status', {}).get('reason') or 'deleted'}")
        ready = ready_seconds(copy, context.now)
        if ready is None:
            if crash := describe_crash(copy):
                return GiveUp(f"the copy does not start on {target}: {crash}")
            return Wait(describe_unready(copy))
        asked = int(controller["spec"].get("minReadySeconds") or 0) if controller is not None else 0
        wanted = max(asked, self._min_overlap)
        # Kubernetes writes whole seconds: one more, so that its controllers have seen the time pass, too.
        left = wanted + 1 - ready if wanted else 0.0
        if left <= 0:
            return Done()
        since = find_condition(copy, "Ready").get("lastTransitionTime", "now")
        name = copy["metadata"]["name"]
        return Wait(f"{name} must be Ready on {target} for {wanted:g} s, and is since {since}", left)


class EvictOriginal(Step):
    """Evicts the original, now that the copy is Ready, and waits until it is gone."""

    needs = frozenset({ObservedPart.BUDGETS})

    def __init__(self, grace: int) -> None:
        self._grace = grace

    def look(self, context: StepContext) -> Outlook:
        """Done when only the copy is there."""
        original, copy = context.original, context.copy
        if original is None:
            return Done()
        if _is_deleted(context):
            return POD_DELETED
        if copy is None or has_finished(copy) or is_terminating(copy):
            return GiveUp("the copy is gone", retry=not is_terminating(original))
        if is_terminating(original):
            return wait_for_end(original, context.now)
        if ready_seconds(copy, context.now) is None:
            return Wait("the copy is not Ready any more")
        refused = context.seen.refused
        if refused is not None and refused.code == 500:
            return GiveUp(refused.message, retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        if spent := eviction_obstacle(context):
            return Wait(spent)
        if changes := disown(copy):  # from the eviction on the copy is the only pod
            owners = (each for each in original["metadata"].get("ownerReferences") or () if not each.get("controller"))
            changes["ownerReferences"] += owners
            return Do((commands.patch(copy, {"metadata": changes}, "it must outlive its migration"),))
        return Do((commands.evict(original, self._grace, "its copy has taken over"),))
