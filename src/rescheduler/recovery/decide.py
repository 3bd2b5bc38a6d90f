"""Decides what to do about the failed pods of a workload.

A failed pod with a controller is deleted, after its failure was recorded. A pod without a controller is created again
elsewhere, with a new name, and then deleted: first the new name is recorded, then the new pod is created, then the
failed one is deleted. Each pass does the next of these steps, so that a crash in between loses no pod. The new pod
carries the record, and labels with its origin.
"""

from __future__ import annotations

from dataclasses import replace

from rescheduler.migration.observation import has_finished, is_terminating, ready_seconds
from rescheduler.migration.steps.copy import replacement_name, strip_pod
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.time import format_instant, parse_instant
from rescheduler.recovery.avoidance import allow_nodes, avoid_nodes, avoided_nodes
from rescheduler.recovery.decision import (
    SOON,
    DecisionBuilder,
    RecoveryDecision,
    RecoveryOutcome,
    RecoveryReason,
    WorkloadState,
    describe_success,
    revision_of,
    runs_somewhere,
    seconds_until_proof,
    seconds_until_recovery,
    start_decision,
)
from rescheduler.recovery.failed_pods import FailedPod, failure_kind, find_failed_pods, may_be_own_fault
from rescheduler.recovery.jobs import why_keep
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record, reset_entry
from rescheduler.recovery.settings import RetriesError, find_retries

STRATEGY = "Recovery"


def _continue_replacement(builder: DecisionBuilder, *, is_failed: bool) -> None:
    """Take the next step for a bare pod whose replacement has a name already."""
    state, entry = builder.state, builder.entry(WHOLE)
    copy = state.replacement
    if copy is None:
        if is_failed:
            builder.creation = _build_replacement(state, entry)
            builder.requeue(0.0)
        else:
            builder.requeue(SOON)
    elif annotations_of(copy).get(labels.ORIGINAL_POD) != state.workload["metadata"]["uid"]:
        # Another pod has that name.
        builder.entries[WHOLE] = replace(entry, replacement=replacement_name(entry.replacement, state.now))
        builder.requeue(0.0)
    elif not is_terminating(state.workload):
        _delete_one(builder, copy)


def _delete_one(builder: DecisionBuilder, copy: Json) -> None:
    """Delete one of the two pods: the failed one, unless it has recovered before the new one is ready."""
    state = builder.state
    old, new = ready_seconds(state.workload, state.now), ready_seconds(copy, state.now)
    if state.workload["status"].get("phase") == "Succeeded" or (old or 0.0) >= state.settings.clear_after:
        builder.entries[WHOLE] = reset_entry(builder.entry(WHOLE))
        if new is None and not is_terminating(copy) and not has_finished(copy):
            builder.deletions.append(copy)
    elif is_terminating(copy):
        builder.requeue(SOON)  # it is created again, and until then the failed pod is all there is
    elif old is None or new is not None:
        builder.deletions.append(state.workload)
    else:
        builder.requeue(SOON)


def _build_replacement(state: WorkloadState, entry: RecordEntry) -> Json:
    """Return the pod that replaces a bare pod: the same, kept off all nodes where it failed."""
    original, metadata = state.workload, state.workload["metadata"]
    own_labels, annotations, spec = strip_pod(original)
    own_affinity = allow_nodes(spec.pop("affinity", None), entry.avoids)
    nodes = entry.recent_failures(state.now, state.settings.forget_after)
    if affinity := avoid_nodes(own_affinity, nodes):
        spec["affinity"] = affinity
    avoids = tuple(sorted(set(nodes) - avoided_nodes(own_affinity)))
    record = format_record({WHOLE: RecordEntry(count=entry.count, nodes=nodes, avoids=avoids)})
    created = {
        "name": entry.replacement,
        "namespace": metadata["namespace"],
        "labels": own_labels
        | {
            labels.MIGRATION_ID: entry.replacement,
            labels.MIGRATION_STATUS: "completed",
            labels.MIGRATED_FROM: labels.label_value(str(original["spec"].get("nodeName") or "")),
            labels.MIGRATION_REASON: STRATEGY,
        },
        "annotations": annotations
        | {
            labels.MIGRATION_TIME: format_instant(state.now),
            labels.ORIGINAL_POD: metadata["uid"],
            labels.ORIGINAL_POD_NAME: metadata["name"],
        }
        | ({labels.FAILURES: record} if record else {}),
    }
    if owners := metadata.get("ownerReferences"):
        created["ownerReferences"] = owners  # none of them is its controller, but it is deleted with them
    return {"apiVersion": "v1", "kind": "Pod", "metadata": created, "spec": spec}


_NEXT_BATCH = 1.0  # seconds, when more pods fail than one pass decides about


def decide(state: WorkloadState) -> RecoveryDecision:
    """Return what to do now; the same state gives the same decision."""
    if not state.settings.enabled or is_terminating(state.workload) or _is_static(state.workload):
        return RecoveryDecision()
    if _is_switched_off(state):
        return DecisionBuilder(state).build()
    builder = start_decision(state)
    failed_pods = find_failed_pods(builder)
    counted = [each for each in failed_pods if each.uid in builder.entry(each.entry).pending]
    new = [each for each in failed_pods if each.uid not in builder.entry(each.entry).pending]
    if state.workload["kind"] == "Pod" and builder.entry(WHOLE).replacement:
        _continue_replacement(builder, is_failed=bool(failed_pods))
    else:
        for each in counted:
            _remove(builder, each)
    faults = _find_workload_faults(builder, failed_pods)
    for each in new:
        if builder.remaining <= 0:
            builder.defer(each.uid, _NEXT_BATCH)
        elif each.has_no_node:
            _recreate_anywhere(builder, each)
        elif each.failure.at_fault:
            _stop(builder, each, RecoveryReason.AT_FAULT)
        elif failure_kind(each.failure.reason) in faults:
            _report_fault(builder, each)
        elif builder.entry(each.entry).count >= each.retries:
            _stop(builder, each, RecoveryReason.EXHAUSTED)
        else:
            _reschedule(builder, each)
    _clear(builder)
    return builder.build()


def _is_static(workload: Json) -> bool:
    """Whether a kubelet runs the pod from a file: the API server has only a mirror of it."""
    return workload["kind"] == "Pod" and labels.is_static(annotations_of(workload))


def _is_switched_off(state: WorkloadState) -> bool:
    """Whether recovery was switched off, as far as pods show; a template may still ask for it without pods."""
    try:
        owners = (state.workload, *(() if state.workload["kind"] == "Deployment" else state.controllers))
        return bool(state.pods) and not any(find_retries(pod, None, body) for pod in state.pods for body in owners)
    except RetriesError:
        return False


def _find_workload_faults(builder: DecisionBuilder, failed_pods: list[FailedPod]) -> set[str]:
    """Return the kinds of failure that hit so many nodes, while no pod is well, that the workload must be the cause."""
    state = builder.state
    if runs_somewhere(state):
        return set()
    places = [(failure.reason, node) for entry in builder.entries.values() for node, failure in entry.nodes.items()]
    places += [(each.failure.reason, each.node) for each in failed_pods if not each.has_no_node]
    nodes: dict[str, set[str]] = {}
    for reason, node in places:
        if may_be_own_fault(reason):
            nodes.setdefault(failure_kind(reason), set()).add(node)
    return {kind for kind, found in nodes.items() if len(found) >= state.settings.fault_nodes}


def _stop(builder: DecisionBuilder, failed: FailedPod, why: RecoveryReason) -> None:
    """Stop retrying, and record one Event about it."""
    entry = builder.entry(failed.entry)
    end = failed.failure.reason if failed.failure.at_fault else why  # a pod that runs does not refute the first
    if end in entry.ends:
        return
    revision = revision_of(failed.pod, builder.state)
    builder.entries[failed.entry] = replace(entry.with_ends(entry.ends | {end}), revision=revision)
    what = f"{failed.title} {failed.failure.message}"
    if why == RecoveryReason.EXHAUSTED:
        note = f"{what}; it stays where it is: rescheduled {entry.count} of {failed.retries} times"
        builder.outcomes.append(RecoveryOutcome.EXHAUSTED)
    else:
        where = ", ".join(sorted({*entry.nodes, failed.node}))
        note = f"{what}; the workload causes this, not a node (failed on {where}): correct the workload"
        if RecoveryOutcome.AT_FAULT not in builder.outcomes:
            builder.outcomes.append(RecoveryOutcome.AT_FAULT)
    workload = builder.state.workload["metadata"]["uid"]
    builder.record_event(failed.pod, why, note, f"{workload}/{failed.entry}/{revision}/{failed.uid}/{failed.retries}")


def _reschedule(builder: DecisionBuilder, failed: FailedPod) -> None:
    """Count the retry, record the node, and delete the pod."""
    state, entry = builder.state, builder.entry(failed.entry)
    if not _may_go(builder, failed):
        return
    in_place = state.workload["kind"] == "DaemonSet"
    if not in_place and (early := _wait_for_return(state, entry, failed)) > 0:
        builder.defer(failed.uid, early)
        return
    nodes = entry.recent_failures(state.now, state.settings.forget_after)
    nodes[failed.node] = NodeFailure(state.now, failed.failure.reason)
    places = state.feasible_nodes[failed.uid]
    what = f"{failed.title} on node {failed.node} {failed.failure.message}"
    if not in_place and not places and not failed.is_gone:
        # It would only be gone. It is recovered when a node turns up that could take it.
        note = f"{what}; no node could take it"
        builder.record_event(failed.pod, RecoveryReason.NO_NODE_LEFT, note, f"{failed.uid}/none")
        builder.defer(failed.uid, SOON)
        return
    if not in_place and places and places <= nodes.keys():
        if _failed_everywhere_before(builder, failed, places):
            _report_fault(builder, failed)
            return
        _report_no_node(builder, failed, f"{what}; it has failed on every node that could take it: all are tried again")
        entry, nodes = entry.with_ends(entry.ends | {RecoveryReason.NO_NODE_LEFT}), {}
    builder.entries[failed.entry] = replace(
        entry.with_ends(entry.ends - {RecoveryReason.EXHAUSTED}),
        count=entry.count + 1,
        nodes=nodes,
        pending=(*entry.pending, failed.uid),
        revision=revision_of(failed.pod, state),
    )
    done = "it is restarted there" if in_place else "it is recreated elsewhere" if nodes else "it is recreated"
    note = f"{what}; {done} ({entry.count + 1} of {failed.retries})"
    reason = RecoveryReason.RESTARTED if in_place else RecoveryReason.RESCHEDULED
    builder.record_event(failed.pod, reason, note, failed.uid)
    builder.outcomes.append(RecoveryOutcome.RESTARTED if in_place else RecoveryOutcome.RESCHEDULED)
    builder.remaining -= 1
    _remove(builder, failed)


def _wait_for_return(state: WorkloadState, entry: RecordEntry, failed: FailedPod) -> float:
    """Return how long to wait for a pod that came to a node although the node was recorded before it was created."""
    known = entry.nodes.get(failed.node)
    made = failed.pod["metadata"].get("creationTimestamp")
    if known is None or not made or parse_instant(made) < known.at:  # both in whole seconds
        return 0.0
    return max(0.0, parse_instant(made) + state.settings.same_node_delay - state.now)


def _report_fault(builder: DecisionBuilder, failed: FailedPod) -> None:
    """Report a fault of the workload, unless a pod may soon prove that it can run."""
    left = seconds_until_proof(builder.state)
    if left is None:
        _stop(builder, failed, RecoveryReason.AT_FAULT)
    else:
        builder.defer(failed.uid, left)


def _failed_everywhere_before(builder: DecisionBuilder, failed: FailedPod, places: frozenset[str]) -> bool:
    """Whether it fails for the second time on all of several nodes: they may be fewer than `fault_nodes`."""
    ends, reason = builder.entry(failed.entry).ends, failed.failure.reason
    again = len(places) > 1 and RecoveryReason.NO_NODE_LEFT in ends
    kinds = {failure_kind(each.reason) for each in builder.entry(failed.entry).nodes.values()} | {failure_kind(reason)}
    return again and may_be_own_fault(reason) and len(kinds) == 1 and not runs_somewhere(builder.state)


def _recreate_anywhere(builder: DecisionBuilder, failed: FailedPod) -> None:
    """Recreate a pending pod without nodes to avoid; this is no retry."""
    if not _may_go(builder, failed):
        return
    entry = builder.entry(failed.entry)
    _report_no_node(builder, failed, f"{failed.title} {failed.failure.message}: all nodes are tried again")
    builder.entries[failed.entry] = replace(entry, nodes={}, pending=(*entry.pending, failed.uid))
    builder.remaining -= 1
    _remove(builder, failed)


def _report_no_node(builder: DecisionBuilder, failed: FailedPod, note: str) -> None:
    builder.record_event(failed.pod, RecoveryReason.NO_NODE_LEFT, note, failed.uid)
    builder.outcomes.append(RecoveryOutcome.NO_NODE_LEFT)


def _remove(builder: DecisionBuilder, failed: FailedPod) -> None:
    """Delete a pod that was counted; a bare pod's replacement gets its name first."""
    controller = failed.controller
    if controller is None:
        name = replacement_name(str(failed.pod["metadata"]["name"]), builder.state.now)
        builder.entries[failed.entry] = replace(builder.entry(failed.entry), replacement=name)
        builder.requeue(0.0)
    elif failed.is_gone or (controller["kind"] == "Job" and has_finished(failed.pod)):
        return  # a Job replaces such a pod by itself: it is kept, for its log
    elif _may_go(builder, failed):
        builder.delete(failed.pod, controller)


def _may_go(builder: DecisionBuilder, failed: FailedPod) -> bool:
    """Whether the pod's Job, if it has one, replaces the pod after its deletion; if not, record an Event."""
    job = failed.controller
    if job is None or job["kind"] != "Job" or has_finished(failed.pod):
        return True
    why = why_keep(job, failed.pod, builder.failures_of(job))
    if why:
        note = f"{failed.title} {failed.failure.message}; it is left alone: {why}"
        builder.record_event(failed.pod, RecoveryReason.REFUSED, note, f"{failed.uid}/{why}")
    return not why


def _clear(builder: DecisionBuilder) -> None:
    """Remove the entries of pods that have been well for long enough."""
    state = builder.state
    going = {pod["metadata"]["uid"] for pod in builder.deletions}
    for name, entry in sorted(builder.entries.items()):
        kept = reset_entry(entry)
        left = seconds_until_recovery(state, builder.live.get(name, []), entry) if entry != kept else None
        if left is None or not going.isdisjoint(entry.pending):
            continue
        if left > 0:
            builder.requeue(left)
            continue
        builder.entries[name] = kept
        if entry.count or entry.told:
            whose = (
                f"pod {name}" if state.workload["kind"] == "StatefulSet" else f"on node {name}" if name else "all pods"
            )
            why = describe_success(state, entry) or f"{whose}: well again for {state.settings.clear_after:.0f} s"
            note = f"{why}, after {entry.count} {'retry' if entry.count == 1 else 'retries'}"
            last = max((failure.at for failure in entry.nodes.values()), default=0)
            occasion = f"{state.workload['metadata']['uid']}/{name}/{entry.count}/{last:.0f}"
            builder.record_event(None, RecoveryReason.RECOVERED, note, occasion)
            builder.outcomes.append(RecoveryOutcome.RECOVERED)
