"""Handoff: a copy from the ReplicaSet's template becomes Ready on the target, then the ReplicaSet adopts it.

There is no rollout, no change of replicas and no moment below the desired count. The copy gets the label that was
withheld, the ReplicaSet adopts it, has one pod too many and deletes the one with the lowest deletion cost: the
original, which got it just before. All other pods must be Ready, because a pod that is not would be deleted first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy

from rescheduler.migration import commands
from rescheduler.migration.observation import (
    ObservedPart,
    StepContext,
    budget_shortfall,
    controller_of,
    has_finished,
    is_terminating,
    labels_of,
    ready_seconds,
    target_problem,
)
from rescheduler.migration.steps.common import (
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    is_observed,
    rollout_reason,
    wait_for_end,
    yield_to_rollout,
)
from rescheduler.migration.steps.copy import CreateCopy, build_copy
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of, read_annotation
from rescheduler.model.quantity import amount

CHEAPEST = "-2147483647"
_REPLACED = GiveUp("the pod is gone, and its ReplicaSet has replaced it", retry=False)


class CopyTemplate(CreateCopy):
    """Makes the copy from the ReplicaSet's template."""

    name = CreateCopy.__name__
    needs = frozenset({ObservedPart.SERVICES, ObservedPart.BUDGETS})

    def body(self, context: StepContext, original: Json) -> Json:
        """The template's pod, without the label by which the ReplicaSet would adopt it at once.

        Admission treats it as any other pod.
        """
        if context.seen.controller is None:
            raise ValueError("there is no template to make a copy from")
        template, withheld = context.seen.controller["spec"]["template"], choose_withheld_labels(context) or {}
        kept = {key: value for key, value in (template["metadata"].get("labels") or {}).items() if key not in withheld}
        notes = {**(template["metadata"].get("annotations") or {}), labels.WITHHELD: json.dumps(withheld)}
        return build_copy(context, kept, notes, deepcopy(template["spec"]))

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is there; not begun during a rollout, or if no label can be withheld."""
        if context.copy is None:
            if context.seen.controller is None:
                return GiveUp("its ReplicaSet is gone", retry=False)
            if choose_withheld_labels(context) is None:
                return GiveUp("every label of its selector is one that a Service or budget goes by", other_method=True)
            if changing := rollout_reason(context):
                return Wait(changing)
        return super().look(context)


_CONTAINERS = ("containers", "initContainers")


class CheckCopy(Step):
    """Gives the handoff up if the copy lacks what the original was given after its template.

    What an injector, a VerticalPodAutoscaler or an in-place resize gave the original is in no template, and admission
    does not always give it to a copy, which has no controller yet.
    """

    def look(self, context: StepContext) -> Outlook:
        """Done when nothing is missing. The new pod of an eviction has a controller, so admission recognises it."""
        copy, original = context.copy, context.original
        if copy is None or original is None:
            return Done()  # the next step says so
        if missing := find_missing(copy["spec"], original["spec"]):
            return GiveUp(f"the copy lacks {missing} of the original", other_method=True)
        if not (smaller := find_smaller(copy["spec"], original["spec"])):
            return Done()
        if original["metadata"].get("generation", 1) > 1:  # an eviction would lose it, too
            return GiveUp(f"{smaller} of the original was resized in place, and the copy was not", retry=False)
        return GiveUp(f"{smaller} of the copy has lower requests or limits than the original", other_method=True)


def find_missing(copy: Json, original: Json) -> str:
    """Name a container or the service account that the copy's spec lacks; empty if it has all."""
    for kind in _CONTAINERS:
        if lost := _by_name(original, kind).keys() - _by_name(copy, kind).keys():
            return f"container {min(lost)}"
    account = original.get("serviceAccountName", "default")
    return f"service account {account}" if copy.get("serviceAccountName", "default") != account else ""


def find_smaller(copy: Json, original: Json) -> str:
    """Name a container that may use less in the copy, or has been promised less; empty if there is none."""
    for kind in _CONTAINERS:
        copied = _by_name(copy, kind)
        for name, container in sorted(_by_name(original, kind).items()):
            theirs = copied[name].get("resources") or {}
            for bound, amounts in (container.get("resources") or {}).items():
                given = theirs.get(bound) or {}
                if bound != "claims" and any(
                    amount(resource, given.get(resource, 0)) < amount(resource, wanted)
                    for resource, wanted in amounts.items()
                ):
                    return f"container {name}"
    return ""


def _by_name(spec: Json, kind: str) -> dict[str, Json]:
    return {each["name"]: each for each in spec.get(kind) or ()}


class Cheapen(Step):
    """Makes the original the pod that its ReplicaSet deletes first."""

    needs = frozenset({ObservedPart.SIBLINGS})

    def look(self, context: StepContext) -> Outlook:
        """Done when the original has the lowest deletion cost; not begun before its workload is stable."""
        if (original := context.live_original) is None:
            return _REPLACED
        if reason := unstable_reason(context):
            return Wait(reason)
        if annotations_of(original).get(labels.DELETION_COST) == CHEAPEST:
            return Done()
        if unfit := target_problem(context):
            return GiveUp(unfit)
        before = annotations_of(original).get(labels.DELETION_COST, "")
        notes = {labels.DELETION_COST: CHEAPEST, labels.COST_BEFORE: before}
        return Do((commands.patch(original, {"metadata": {"annotations": notes}}, "have the original go first"),))


class HandOver(Step):
    """Gives the copy the label that was withheld, and waits until the ReplicaSet has chosen."""

    needs = frozenset({ObservedPart.SIBLINGS, ObservedPart.BUDGETS})

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is adopted and the original goes or stays for good."""
        copy, original, controller = context.copy, context.live_original, context.seen.controller
        if copy is None:
            return GiveUp("the copy is gone")
        if controller is None:
            return GiveUp("its ReplicaSet is gone", retry=False)
        if (owner := controller_of(copy)) is not None and owner["uid"] == controller["metadata"]["uid"]:
            if original is None:
                return Done()
            return self._undecided(context, controller, {original["metadata"]["uid"], copy["metadata"]["uid"]})
        if is_terminating(copy) or has_finished(copy):
            return GiveUp("the copy is gone")
        withheld = read_annotation(copy, labels.WITHHELD)
        if withheld is None:
            name = copy["metadata"]["name"]
            return GiveUp(f"the annotation {labels.WITHHELD} of the copy {name} was changed and is not readable")
        if withheld.items() <= labels_of(copy).items():
            return Wait("the ReplicaSet has not adopted the copy", 1.0)
        if original is None:
            return _REPLACED
        if unfit := target_problem(context):
            return GiveUp(unfit)
        if reason := unstable_reason(context):
            return yield_to_rollout(context) or Wait(reason)
        if ready_seconds(copy, context.now) is None:
            return Wait("the copy is not Ready any more")
        if short := budget_shortfall(context):  # the copy is not counted yet, or another eviction used it up
            return Wait(short, 0.5)
        return Do((commands.patch(copy, {"metadata": {"labels": withheld}}, "hand over to the copy"),))

    def _undecided(self, context: StepContext, controller: Json, both: set[str]) -> Outlook:
        # Decided on one list alone: the original was read at another moment, and may have begun to go since.
        wanted = controller["spec"].get("replicas", 1)
        active = [pod for pod in context.seen.siblings if not is_terminating(pod) and not has_finished(pod)]
        staying = {pod["metadata"]["uid"] for pod in active}
        if is_observed(controller) and both <= staying and len(active) <= wanted:
            # Scaled up meanwhile, or another pod went: then the copy is one of those wanted, and the original stays.
            return GiveUp(
                "its workload was scaled meanwhile: the copy was adopted, and nothing was to be removed", retry=False
            )
        return Wait("the ReplicaSet has not removed the original yet", 1.0)


class AwaitGone(Step):
    """Waits until the original has ended."""

    def look(self, context: StepContext) -> Outlook:
        """Done when it is gone."""
        if context.original is None:
            return Done()
        if is_terminating(context.original):
            return wait_for_end(context.original, context.now)
        return GiveUp("the original stays after all")


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
    free = (keys & set(template)) - _selected_by((*context.seen.services, *context.seen.budgets))
    chosen = [labels.TEMPLATE_HASH] if labels.TEMPLATE_HASH in free else sorted(free)[:1]
    return {key: template[key] for key in chosen} or None


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


def unstable_reason(context: StepContext) -> str:
    """Explain why a handoff must not interfere with the workload now; empty if it is stable."""
    controller = context.seen.controller
    if (changing := rollout_reason(context)) or controller is None:
        return changing
    mine = [pod for pod in context.seen.siblings if not is_terminating(pod) and not has_finished(pod)]
    wanted = controller["spec"].get("replicas", 1)
    if len(mine) != wanted:
        return f"{controller['kind']} {controller['metadata']['name']} has {len(mine)} pods and wants {wanted}"
    if unready := unready_replica(context):
        return unready
    others = (pod for pod in mine if pod["metadata"]["uid"] != context.migration.status.pod_uid)
    cheap = sorted(pod["metadata"]["name"] for pod in others if labels.COST_BEFORE in annotations_of(pod))
    if cheap:
        return f"{cheap[0]} is being handed off, and would be deleted in the original's place"
    return ""


def unready_replica(context: StepContext) -> str:
    """Name another replica that is not Ready: its ReplicaSet would rather delete that one; empty if there is none."""
    original = context.original
    waiting = sorted(
        pod["metadata"]["name"]
        for pod in context.seen.siblings
        if not is_terminating(pod)
        and not has_finished(pod)
        and (original is None or pod["metadata"]["uid"] != original["metadata"]["uid"])
        and ready_seconds(pod, context.now) is None
    )
    return f"{waiting[0]} is not Ready, and would be deleted in the original's place" if waiting else ""
