"""Evict and steer: evict the original and steer the pod that its controller creates to the target.

For pods that may not run side by side, and for StatefulSets and Jobs. A workload without a disruption budget gets a
temporary one. If our webhook is active it steers new pods, and the workload is not touched. Otherwise the ReplicaSet's
template prefers the target until the new pod appears; its Deployment is paused meanwhile, so that there is no rollout
and no new revision. Annotations of both name the migration that changed them and keep what was there before. The order
of undoing matters: first the template, then, once controllers have observed it, the pause.

Unless a template steers it, the new pod is recognised by its name (StatefulSets), by the label that the webhook gave
it, or by being younger than the eviction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import structs

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import (
    SteeringMethod,
    StepContext,
    describe_unready,
    has_finished,
    is_terminating,
    labels_of,
    overlapping_budgets,
    ready_seconds,
    target_problem,
    unready_sibling,
)
from rescheduler.migration.steps.common import (
    POD_GONE,
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    do_all,
    erase_trace,
    eviction_obstacle,
    gates_of,
    is_observed,
    nominate,
    owner_reference,
    record_origin,
    remove_nominate_gate,
    rollout_reason,
    workload_of,
)
from rescheduler.migration.steps.placeholder import release_room
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of, read_annotation
from rescheduler.model.migration import MigrationStatus, ObjectReference, PodMigration
from rescheduler.model.plan import Method

HOSTNAME = "kubernetes.io/hostname"
_REVISION = "deployment.kubernetes.io/revision"


class Protect(Step):
    """Makes a temporary disruption budget where none selects the pod."""

    def __init__(self, budget: Json) -> None:
        self._budget = budget
        """What it allows: `{"minAvailable": 1}` or `{"maxUnavailable": "25%"}`."""

    def look(self, context: StepContext) -> Outlook:
        """Done when exactly one budget selects the pod: two would forbid every eviction."""
        if context.live_original is None:
            return POD_GONE
        if too_many := overlapping_budgets(context):
            return GiveUp(too_many, retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        workload, controller, ours = workload_of(context), context.seen.controller, context.seen.temporary_budget
        if controller is not None and (busy := rollout_reason(context) or unready_sibling(context)):
            return Wait(busy)
        if ours is not None and not _is_own(ours, context):
            return Wait(f"migration {labels_of(ours)[labels.MIGRATION_ID]} is evicting a pod of the same workload")
        if context.seen.budgets or workload is None or controller is None:
            return Done()
        if ours is not None:
            return Done() if is_observed(ours) else Wait("the budget has no status yet", 1.0)
        least = self._budget.get("minAvailable")
        if isinstance(least, int) and controller["spec"].get("replicas", 1) <= least:
            return Done()  # with so few replicas it would forbid the eviction that it should make safe
        migration = context.migration
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {
                "name": temporary_budget_name(workload),
                "namespace": migration.namespace,
                "labels": {labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: migration.name},
                "ownerReferences": [owner_reference(migration)],
            },
            # A pod that is not Ready is not what it protects: one that crashes may go, however few are healthy.
            "spec": {
                **self._budget,
                "selector": controller["spec"]["selector"],
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }
        return Do((commands.create(body, "protect the workload while a pod of it is evicted"),))


class TakeTurn(Step):
    """Waits until no other migration of the controller waits for a new pod, and until the budget allows it.

    Two new pods of one controller look alike. While only one is expected, the webhook of every replica can assign it to
    its migration. Pods of a StatefulSet are recognised by their names.
    """

    def look(self, context: StepContext) -> Outlook:
        """Done when it is this migration's turn: the one that began first goes first."""
        if context.live_original is None:
            return POD_GONE
        for rival in _rivals(context):
            waits = rival.status.step == self.name
            if rival.status.step in _TURN or (waits and _start_order(rival) < _start_order(context.migration)):
                return Wait(f"migration {rival.name} is evicting a pod of the same controller")
        obstacle = eviction_obstacle(context)
        return Wait(obstacle) if obstacle else Done()


class PauseDeployment(Step):
    """Pauses the Deployment, so that it leaves its ReplicaSet's template alone."""

    name = "Pause"

    def look(self, context: StepContext) -> Outlook:
        """Done when its controller has observed the pause, ours or its owner's."""
        deployment = context.seen.deployment
        if not uses_template(context) or deployment is None:
            return Done()
        other = annotations_of(deployment).get(labels.PAUSED_BY, context.migration.name)
        if other != context.migration.name:
            return Wait(f"migration {other} has paused the Deployment")
        if deployment["spec"].get("paused"):
            return Done() if is_observed(deployment) else Wait("its controller has not seen the pause yet", 1.0)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        changes = {"metadata": {"annotations": {labels.PAUSED_BY: context.migration.name}}, "spec": {"paused": True}}
        return Do((commands.patch(deployment, changes, "pause it while its ReplicaSet steers"),))


class Prefer(Step):
    """Puts the preference for the target into the ReplicaSet's template."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the template prefers the target."""
        controller = context.seen.controller
        if not uses_template(context) or controller is None:
            return Done()
        if labels.AFFINITY_BEFORE in annotations_of(controller):
            if unreadable := find_unreadable(controller):
                return GiveUp(unreadable, retry=False)
            by = read_steering(controller)["migration"]
            return Done() if by == context.migration.name else Wait(f"migration {by} is steering the ReplicaSet")
        if context.seen.deployment is not None and not context.seen.deployment["spec"].get("paused"):
            return GiveUp("the Deployment was resumed by another client")
        before = controller["spec"]["template"]["spec"].get("affinity")
        wanted = add_preference(before, context.migration.status)
        note = {labels.AFFINITY_BEFORE: json.dumps({"migration": context.migration.name, "affinity": before})}
        changes = {
            "metadata": {"annotations": note, "resourceVersion": controller["metadata"]["resourceVersion"]},
            "spec": {"template": {"spec": {"affinity": wanted}}},
        }
        return Do((commands.patch(controller, changes, f"prefer {context.migration.status.target}"),))


class Evict(Step):
    """Evicts the original when its budget allows it."""

    def __init__(self, grace: int) -> None:
        self._grace = grace

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record the pods that exist already, to recognise the new one; a StatefulSet's is known by name.

        Times would not do: our clock and the server's may differ by more than an eviction takes.
        """
        progress, controller = context.migration.status, context.seen.controller
        if controller is not None and controller["kind"] == "StatefulSet":
            return progress
        return structs.replace(
            progress, bystanders=tuple(sorted(pod["metadata"]["uid"] for pod in context.seen.siblings))
        )

    def look(self, context: StepContext) -> Outlook:
        """Done when the original goes."""
        if (original := context.live_original) is None:
            return Done()
        refused = context.seen.refused
        if refused is not None and refused.code == 500:
            return GiveUp(refused.message, retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        if ahead := _ahead(context):
            return Wait(f"migration {ahead} is evicting a pod of the same controller")
        if obstacle := eviction_obstacle(context):
            return Wait(obstacle)
        return Do((commands.evict(original, self._grace, "have its controller recreate it"),))


class AwaitRebuilt(Step):
    """Waits for the pod that the controller makes in the original's place."""

    def __init__(self, restore_after: float) -> None:
        self._restore_after = restore_after

    def look(self, context: StepContext) -> Outlook:
        """Done when it exists; if it does not come in time, steering is undone while the wait goes on."""
        if context.seen.controller is None and not context.seen.foreign:
            return GiveUp("its controller is gone", retry=False)
        if find_rebuilt(context) is not None:
            return Done()
        waiting = "its controller has not made another pod yet"
        if context.in_step >= self._restore_after:
            restored = restore(context)
            if not isinstance(restored, Done):
                return restored
            if todo := [*release_room(context), *remove_budget(context)]:
                return Do(tuple(todo))
            waiting += "; what steered it is taken back"
        if context.original is not None and is_terminating(context.original):
            return Wait(f"the original is ending, and {waiting}", patient=True)
        return Wait(waiting)


class Restore(Step):
    """Takes the preference out of the template and resumes the Deployment, in this order."""

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record which pod was made."""
        pod, progress = find_rebuilt(context), context.migration.status
        if pod is None:
            return progress
        return structs.replace(
            progress, replacement=ObjectReference("Pod", pod["metadata"]["name"], pod["metadata"]["uid"])
        )

    def look(self, context: StepContext) -> Outlook:
        """Done when both are as they were."""
        return restore(context)


class NominateRebuilt(Step):
    """Nominates the new pod to the target while it is still behind the webhook's gate."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the nomination is in its status, or when there is none to make."""
        pod, target = find_replacement(context), context.migration.status.target
        if pod is None or is_terminating(pod) or labels.NOMINATE_GATE not in gates_of(pod):
            return Done()
        if not target or target_problem(context):
            return Done()  # the scheduler finds a better place
        if refusal := context.lasting_refusal:
            return Done(f"it is not nominated to {target}: {refusal}")
        return nominate(pod, target)


class UngateRebuilt(Step):
    """Takes the webhook's gate off: the scheduler may have the new pod now."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the gate is off."""
        pod = find_replacement(context)
        return do_all(remove_nominate_gate(pod)) if pod is not None else Done()


class MarkRebuilt(Step):
    """Labels the new pod with its origin, if the webhook has not; removes these labels from other pods."""

    def look(self, context: StepContext) -> Outlook:
        """Done when only the new pod has them."""
        return do_all(disown_extra_pods(context) or _label_origin(context, find_replacement(context)))


class AwaitRebuiltReady(Step):
    """Waits until the new pod is Ready, wherever the scheduler has put it."""

    def look(self, context: StepContext) -> Outlook:
        """Done when it is Ready."""
        pod = find_replacement(context)
        if pod is None or is_terminating(pod) or has_finished(pod):
            if _keeps_names(context):
                return Wait("the pod that replaced it is gone, too, and its controller makes it once more")
            return GiveUp("the pod that replaced it is gone, too", retry=False)
        if todo := _label_origin(context, pod):
            return Do(tuple(todo))
        return Done() if ready_seconds(pod, context.now) is not None else Wait(describe_unready(pod))


class Unprotect(Step):
    """Removes the temporary budget."""

    def look(self, context: StepContext) -> Outlook:
        """Done when it is gone."""
        return do_all(remove_budget(context))


_TURN = frozenset({PauseDeployment.name, Prefer.name, Evict.name, AwaitRebuilt.name})
"""The steps in which a migration has its turn."""


def _rivals(context: StepContext) -> Iterator[PodMigration]:
    """The other migrations that evict pods of the controller, and have no new pod yet."""
    if _keeps_names(context):
        return
    for rival in context.seen.rivals:
        if rival.status.method is Method.EVICT and rival.status.replacement is None:
            yield rival


def _ahead(context: StepContext) -> str:
    """The migration that goes first if two have their turn, such as after a change of leaders."""
    there = {pod["metadata"]["uid"] for pod in context.seen.siblings if not is_terminating(pod)}
    for rival in _rivals(context):
        first = rival.status.pod_uid not in there or _start_order(rival) < _start_order(context.migration)
        if rival.status.step == AwaitRebuilt.name or (rival.status.step == Evict.name and first):
            return rival.name
    return ""


def _start_order(migration: PodMigration) -> tuple[float, str]:
    return migration.status.start_time or 0.0, migration.name


def find_rebuilt(context: StepContext) -> Json | None:
    """The pod that the controller made in the original's place."""
    progress, seen = context.migration.status, context.seen
    if _keeps_names(context):
        new = seen.pod is not None and seen.pod["metadata"]["uid"] != progress.pod_uid
        return seen.pod if seen.pod and new and not is_terminating(seen.pod) and not has_finished(seen.pod) else None
    led = seen.controller is not None and read_steering(seen.controller).get("migration") == context.migration.name
    known = {progress.pod_uid, *progress.bystanders}
    young = [
        pod
        for pod in seen.siblings
        if pod["metadata"]["uid"] not in known
        and not is_terminating(pod)
        and labels_of(pod).get(labels.MIGRATION_ID, context.migration.name) == context.migration.name
        and (not led or prefers(pod, progress.target))  # else the preference was taken back before a pod came
    ]
    ours = [pod for pod in young if labels.MIGRATION_ID in labels_of(pod)]  # labelled by the webhook
    return max(ours or young, key=lambda pod: (_read_creation(pod), pod["metadata"]["name"]), default=None)


def find_replacement(context: StepContext) -> Json | None:
    """The new pod, once it is recorded; a StatefulSet may have created it more than once since."""
    if context.migration.status.replacement and _keeps_names(context):
        return find_rebuilt(context)
    known = context.migration.status.replacement
    pods = (*context.seen.siblings, *((context.seen.pod,) if context.seen.pod else ()))
    return next((pod for pod in pods if known and pod["metadata"]["uid"] == known.uid), None)


def _keeps_names(context: StepContext) -> bool:
    """Whether the new pod has the name of the original."""
    return context.seen.controller is not None and bool(context.seen.controller["kind"] == "StatefulSet")


def _label_origin(context: StepContext, pod: Json | None) -> list[Command]:
    """Label the new pod, unless it is labelled."""
    if pod is None or is_terminating(pod) or labels_of(pod).get(labels.MIGRATION_ID) == context.migration.name:
        return []
    trace, origin = record_origin(context)
    changes = {"metadata": {"labels": trace, "annotations": origin}}
    return [commands.patch(pod, changes, "label it with its origin")]


def _read_creation(pod: Json) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


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
    return [command for pod in others if _is_marked(pod, name) for command in _disown_pod(pod)]


def _is_marked(pod: Json, name: str) -> bool:
    """Whether a pod is labelled as part of this migration while it runs; labels of a finished one are only a trace."""
    kept = labels_of(pod)
    is_running = kept.get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS
    return (is_running and kept.get(labels.MIGRATION_ID) == name) or annotations_of(pod).get(labels.GATED) == name


def _disown_pod(pod: Json) -> list[Command]:
    """Take everything of ours off a pod that had nothing of ours before."""
    todo = remove_nominate_gate(pod)
    if trace := erase_trace(pod):
        todo.append(commands.patch(pod, {"metadata": trace}, "it is not the pod that was expected"))
    return todo


def add_preference(affinity: Json | None, progress: MigrationStatus) -> Json:
    """An affinity with a preference for the target and one against the source; weights cannot be negative."""
    terms = [
        {"weight": 100, "preference": _hostname("In", progress.target)},
        {"weight": 50, "preference": _hostname("NotIn", progress.source)},
    ]
    affinity = affinity or {}
    nodes = affinity.get("nodeAffinity") or {}
    preferred = [*(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()), *terms]
    return {**affinity, "nodeAffinity": {**nodes, "preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def restore(context: StepContext) -> Do | Wait | Done:
    """Restore the template and the Deployment, if this migration changed them."""
    controller, deployment, name = context.seen.controller, context.seen.deployment, context.migration.name
    if controller is not None and read_steering(controller).get("migration") == name:
        return Do((restore_template(controller),))
    if deployment is not None and annotations_of(deployment).get(labels.PAUSED_BY) == name:
        return resume(deployment, (controller,) if controller is not None else ())
    return Done(find_unreadable(controller) if controller is not None else "")


def restore_template(controller: Json) -> Command:
    """Restore the affinity of a ReplicaSet's template from its annotation."""
    return _replace_affinity(controller, read_steering(controller)["affinity"])


def _replace_affinity(controller: Json, affinity: Json | None) -> Command:
    at, is_there = "/spec/template/spec/affinity", "affinity" in controller["spec"]["template"]["spec"]
    changes = commands.remove_annotation(controller, labels.AFFINITY_BEFORE)
    if affinity is not None:
        changes += [{"op": "replace" if is_there else "add", "path": at, "value": affinity}]
    elif is_there:
        changes += [{"op": "remove", "path": at}]
    return commands.json_patch(controller, changes, "take the preference out again")


def resume(deployment: Json, controllers: Iterable[Json]) -> Do | Wait:
    """Resume a Deployment that we paused.

    If it were resumed before its controller observed the restored template, no ReplicaSet would match and it would roll
    out. The ReplicaSet's controller uses the same informer, so its observed generation holds for both.

    Where the annotation is not readable any more, the Deployment's own template has the affinity.
    """
    revision = annotations_of(deployment).get(_REVISION)
    if lost := [
        each for each in controllers if find_unreadable(each) and annotations_of(each).get(_REVISION) == revision
    ]:
        affinity = deployment["spec"]["template"]["spec"].get("affinity")
        return Do(tuple(_replace_affinity(each, affinity) for each in lost))
    if not all(is_observed(each) for each in controllers):
        return Wait("its controller has not seen the restored template yet", 1.0)
    changes = {"metadata": {"annotations": {labels.PAUSED_BY: None}}, "spec": {"paused": None}}
    return Do((commands.patch(deployment, changes, "resume it"),))


def read_steering(controller: Json) -> Json:
    """The migration that steers the template, and the affinity before; empty if there is none, or it is unreadable."""
    found = read_annotation(controller, labels.AFFINITY_BEFORE) or {}
    is_whole = isinstance(found.get("migration"), str) and isinstance(found.get("affinity", ""), dict | None)
    return found if is_whole else {}


def find_unreadable(controller: Json) -> str:
    """Explain that another client has made the annotation of a steered template unreadable; empty if it has not."""
    if labels.AFFINITY_BEFORE not in annotations_of(controller) or read_steering(controller):
        return ""
    where = f"{controller['kind']} {controller['metadata']['name']}"
    return (
        f"the annotation {labels.AFFINITY_BEFORE} of {where} was changed and is not readable: "
        "check the affinity of its template, then remove the annotation"
    )


def uses_template(context: StepContext) -> bool:
    """Whether the new pod is steered by its ReplicaSet's template.

    A migration that began this way, before the webhook was active, also ends this way.
    """
    controller, deployment, name = context.seen.controller, context.seen.deployment, context.migration.name
    if controller is None or controller["kind"] != "ReplicaSet" or not context.migration.status.target:
        return False
    has_begun = read_steering(controller).get("migration") == name
    has_paused = deployment is not None and annotations_of(deployment).get(labels.PAUSED_BY) == name
    return context.seen.steered is SteeringMethod.TEMPLATE or has_begun or has_paused


def _hostname(operator: str, node: str) -> Json:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": operator, "values": [node]}]}


def prefers(pod: Json, target: str) -> bool:
    """Whether a pod was created while its template preferred this target."""
    nodes = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    wanted = _hostname("In", target)
    return any(t["preference"] == wanted for t in nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ())


def temporary_budget_name(workload: Json) -> str:
    """`<deployment>-rescheduler-pdb`, cut to fit."""
    ending = "-rescheduler-pdb"
    return str(workload["metadata"]["name"])[: 253 - len(ending)].rstrip("-.") + ending


def remove_budget(context: StepContext) -> list[Command]:
    """Remove this migration's temporary budget."""
    ours = context.seen.temporary_budget
    if ours is None or is_terminating(ours) or not _is_own(ours, context):
        return []
    return [commands.delete(ours, "it was temporary")]


def _is_own(budget: Json, context: StepContext) -> bool:
    return labels_of(budget).get(labels.MIGRATION_ID) == context.migration.name
