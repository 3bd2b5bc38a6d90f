"""A pod that nobody manages is made again elsewhere, under a name of ours, and then deleted.

First the name goes into the record of the failed pod, then the new pod is made, then the failed one is deleted; each
look does the next of these. Whoever dies in between leaves enough for the next one to go on, and no pod is lost. The
new pod carries on the record, and the marks that tell where it came from.
"""

from __future__ import annotations

from dataclasses import replace

from rescheduler.migration.observation import has_ended, is_leaving, notes_of, ready_for
from rescheduler.migration.replacement import own_parts, replacement_name
from rescheduler.model import labels
from rescheduler.model import labels as marks
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant, parse_instant
from rescheduler.recovery import events
from rescheduler.recovery import model as outcomes
from rescheduler.recovery.avoidance import avoided_by, avoiding, without
from rescheduler.recovery.decision import SOON, Draft, may_show_in, opened, recovers_in, runs_somewhere, success
from rescheduler.recovery.failed_pods import Patient, kind_of, may_be_own_fault, patients, places_of
from rescheduler.recovery.jobs import refusal, replaces_itself
from rescheduler.recovery.model import Case, Decision
from rescheduler.recovery.record import WHOLE, Entry, Failure, lasting, revision_of, written
from rescheduler.recovery.settings import RetriesError, retries_of

STRATEGY = "Recovery"
_LONGEST_LABEL = 63


def named(pod: Json, now: float) -> str:
    """What the pod that takes a pod's place is called."""
    return replacement_name(str(pod["metadata"]["name"]), now)


def carry_on(draft: Draft, *, is_ill: bool) -> None:
    """The next thing to do for a pod whose replacement has a name already."""
    case, entry = draft.case, draft.entry(WHOLE)
    copy = case.replacement
    if copy is None:
        if is_ill:
            draft.creation = replacement(case, entry)
            draft.wait(0.0)
        else:
            draft.wait(SOON)
    elif notes_of(copy).get(marks.ORIGINAL_POD) != case.holder["metadata"]["uid"]:
        # Somebody else has that name.
        draft.entries[WHOLE] = replace(entry, replacement=replacement_name(entry.replacement, case.now))
        draft.wait(0.0)
    elif not is_leaving(case.holder):
        _take_over(draft, copy)


def _take_over(draft: Draft, copy: Json) -> None:
    """Two pods for one: the failed one goes, unless it is well after all and the new one is not yet."""
    case = draft.case
    old, new = ready_for(case.holder, case.now), ready_for(copy, case.now)
    if case.holder["status"].get("phase") == "Succeeded" or (old or 0.0) >= case.settings.clear_after:
        draft.entries[WHOLE] = lasting(draft.entry(WHOLE))
        if new is None and not is_leaving(copy) and not has_ended(copy):
            draft.deletions.append(copy)
    elif is_leaving(copy):
        draft.wait(SOON)  # somebody deletes it: it is made once more, and till then this one is all there is
    elif old is None or new is not None:
        draft.deletions.append(case.holder)
    else:
        draft.wait(SOON)


def replacement(case: Case, entry: Entry) -> Json:
    """The pod that takes the holder's place: the same, on none of the nodes where it failed."""
    original, metadata = case.holder, case.holder["metadata"]
    labels, notes, spec = own_parts(original)
    wish = without(spec.get("affinity"), entry.avoids)
    nodes = entry.avoided(case.now, case.settings.forget_after)
    affinity = avoiding(wish, nodes)
    if affinity:
        spec["affinity"] = affinity
    else:
        spec.pop("affinity", None)
    avoids = tuple(sorted(set(nodes) - avoided_by(wish)))
    source = str(original["spec"].get("nodeName") or "")
    trace = {
        marks.MIGRATION_ID: entry.replacement,
        marks.MIGRATION_STATUS: "completed",
        marks.MIGRATED_FROM: source[:_LONGEST_LABEL].rstrip("-."),
        marks.MIGRATION_REASON: STRATEGY,
    }
    story = {
        marks.MIGRATION_TIME: format_instant(case.now),
        marks.ORIGINAL_POD: metadata["uid"],
        marks.ORIGINAL_POD_NAME: metadata["name"],
        marks.FAILURES: written({WHOLE: Entry(count=entry.count, nodes=nodes, avoids=avoids)}),
    }
    described = {
        "name": entry.replacement,
        "namespace": metadata["namespace"],
        "labels": labels | trace,
        "annotations": notes | {key: value for key, value in story.items() if value},
    }
    if owners := metadata.get("ownerReferences"):
        described["ownerReferences"] = owners  # none of them manages it, but it goes when they do
    return {"apiVersion": "v1", "kind": "Pod", "metadata": described, "spec": spec}


_NEXT_LOT = 1.0  # seconds; when more pods fail at once than are decided about at once


def decide(case: Case) -> Decision:
    """What to do now; the same case gives the same decision."""
    if not case.settings.enabled or is_leaving(case.holder) or _is_static(case.holder):
        return Decision()
    if _asks_no_more(case):
        return Draft(case).decision()
    draft = opened(case)
    ill = patients(draft)
    counted = [each for each in ill if each.uid in draft.entry(each.name).pending]
    new = [each for each in ill if each.uid not in draft.entry(each.name).pending]
    if case.holder["kind"] == "Pod" and draft.entry(WHOLE).replacement:
        carry_on(draft, is_ill=bool(ill))
    else:
        for each in counted:
            _remove(draft, each)
    faults = _faults(draft, ill)
    for each in new:
        if draft.is_full:
            draft.undecided.add(each.uid)
            draft.wait(_NEXT_LOT)
        elif each.has_no_place:
            _let_it_go_anywhere(draft, each)
        elif each.failing.at_fault:
            _stop(draft, each, events.AT_FAULT)
        elif kind_of(each.failing.reason) in faults:
            _blame(draft, each)
        elif draft.entry(each.name).count >= each.budget:
            _stop(draft, each, events.EXHAUSTED)
        else:
            _reschedule(draft, each)
    _clear(draft)
    return draft.decision()


def _is_static(holder: Json) -> bool:
    """Whether a kubelet runs the pod from a file: what the API server shows of it is a mirror."""
    notes = notes_of(holder)
    return holder["kind"] == "Pod" and (labels.MIRROR in notes or notes.get(labels.STATIC_SOURCE, "api") != "api")


def _asks_no_more(case: Case) -> bool:
    """Whether nobody wants recovery any more, as far as can be told: a template that asks shows only in pods."""
    try:
        return bool(case.pods) and not any(
            retries_of(pod, None, body) for pod in case.pods for body in (case.holder, *_own_controllers(case))
        )
    except RetriesError:
        return False


def _own_controllers(case: Case) -> tuple[Json, ...]:
    return () if case.holder["kind"] == "Deployment" else case.controllers


def _faults(draft: Draft, ill: list[Patient]) -> set[str]:
    """The kinds of failure that befell so many nodes, while no pod is well, that the workload must be the cause."""
    case = draft.case
    if runs_somewhere(case):
        return set()
    places = [(failure.reason, node) for entry in draft.entries.values() for node, failure in entry.nodes.items()]
    places += [(each.failing.reason, each.node) for each in ill if not each.has_no_place]
    nodes: dict[str, set[str]] = {}
    for reason, node in places:
        if may_be_own_fault(reason):
            nodes.setdefault(kind_of(reason), set()).add(node)
    return {kind for kind, found in nodes.items() if len(found) >= case.settings.fault_nodes}


def _stop(draft: Draft, patient: Patient, why: str) -> None:
    """Nothing more is done; people are told so once."""
    entry = draft.entry(patient.name)
    end = patient.failing.reason if patient.failing.at_fault else why  # the first is not refuted by a pod that runs
    if end in entry.ends:
        return
    revision = revision_of(patient.pod, draft.case)
    draft.entries[patient.name] = replace(entry.ending(entry.ends | {end}), revision=revision)
    title, said = _title(patient), patient.failing.said
    if why == events.EXHAUSTED:
        note = f"{title} {said}; it stays where it is: rescheduled {entry.count} of {patient.budget} times"
        draft.outcomes.append(outcomes.EXHAUSTED)
    else:
        where = ", ".join(sorted({*entry.nodes, patient.node}))
        note = (
            f"{title} {said}; that is the workload's own fault and no node's (failed on {where}): correct the workload"
        )
        if outcomes.AT_FAULT not in draft.outcomes:
            draft.outcomes.append(outcomes.AT_FAULT)
    holder = draft.case.holder["metadata"]["uid"]
    draft.tell(patient.pod, why, note, f"{holder}/{patient.name}/{revision}/{patient.uid}/{patient.budget}")


def _reschedule(draft: Draft, patient: Patient) -> None:
    """Count it, record where it failed, and have it deleted."""
    case, entry = draft.case, draft.entry(patient.name)
    if not _may_go(draft, patient):
        return
    in_place = case.holder["kind"] == "DaemonSet"
    if not in_place and (early := _came_back(case, entry, patient)) > 0:
        draft.undecided.add(patient.uid)
        draft.wait(early)
        return
    nodes = entry.avoided(case.now, case.settings.forget_after)
    nodes[patient.node] = Failure(case.now, patient.failing.reason)
    places = places_of(case, patient.pod)
    what = f"{_title(patient)} on node {patient.node} {patient.failing.said}"
    if not in_place and not places and not patient.is_gone:
        # It would only be gone. When a node turns up that could take it, it has its turn.
        draft.tell(patient.pod, events.NO_NODE_LEFT, f"{what}; no node could take it", f"{patient.uid}/none")
        draft.undecided.add(patient.uid)
        draft.wait(SOON)
        return
    if not in_place and places and places <= nodes.keys():
        if _was_everywhere_before(draft, patient, places):
            _blame(draft, patient)
            return
        _say_no_node(draft, patient, f"{what}; it has failed on every node that could take it: all are tried again")
        entry, nodes = entry.ending(entry.ends | {events.NO_NODE_LEFT}), {}
    draft.entries[patient.name] = replace(
        entry.ending(entry.ends - {events.EXHAUSTED}),
        count=entry.count + 1,
        nodes=nodes,
        pending=(*entry.pending, patient.uid),
        revision=revision_of(patient.pod, case),
    )
    done = "it is restarted there" if in_place else "it is made again elsewhere" if nodes else "it is made again"
    note = f"{what}; {done} ({entry.count + 1} of {patient.budget})"
    reason, outcome = (events.RESTARTED, outcomes.RESTARTED) if in_place else (events.RESCHEDULED, outcomes.RESCHEDULED)
    draft.tell(patient.pod, reason, note, patient.uid)
    draft.outcomes.append(outcome)
    draft.room -= 1
    _remove(draft, patient)


def _came_back(case: Case, entry: Entry, patient: Patient) -> float:
    """For how many seconds more a pod waits that was made after its node was recorded, and came there all the same."""
    known = entry.nodes.get(patient.node)
    made = patient.pod["metadata"].get("creationTimestamp")
    if known is None or not made or parse_instant(made) < known.at:  # both in whole seconds
        return 0.0
    return max(0.0, parse_instant(made) + case.settings.same_node_delay - case.now)


def _blame(draft: Draft, patient: Patient) -> None:
    """Say that it is the workload's own fault, unless a pod is about to show that it is not."""
    left = may_show_in(draft.case)
    if left is None:
        _stop(draft, patient, events.AT_FAULT)
    else:
        draft.undecided.add(patient.uid)
        draft.wait(left)


def _was_everywhere_before(draft: Draft, patient: Patient, places: frozenset[str]) -> bool:
    """Whether it fails on each of several nodes for the second time: there may be fewer than `fault_nodes`."""
    ends, reason = draft.entry(patient.name).ends, patient.failing.reason
    again = len(places) > 1 and events.NO_NODE_LEFT in ends
    kinds = {kind_of(each.reason) for each in draft.entry(patient.name).nodes.values()} | {kind_of(reason)}
    return again and may_be_own_fault(reason) and len(kinds) == 1 and not runs_somewhere(draft.case)


def _let_it_go_anywhere(draft: Draft, patient: Patient) -> None:
    """A pod that waits in vain is made again without nodes to avoid; that is no retry."""
    if not _may_go(draft, patient):
        return
    entry = draft.entry(patient.name)
    _say_no_node(draft, patient, f"{_title(patient)} {patient.failing.said}: all nodes are tried again")
    draft.entries[patient.name] = replace(entry, nodes={}, pending=(*entry.pending, patient.uid))
    draft.room -= 1
    _remove(draft, patient)


def _say_no_node(draft: Draft, patient: Patient, note: str) -> None:
    draft.tell(patient.pod, events.NO_NODE_LEFT, note, patient.uid)
    draft.outcomes.append(outcomes.NO_NODE_LEFT)


def _remove(draft: Draft, patient: Patient) -> None:
    """What follows when a pod is counted: a bare pod's replacement gets its name first."""
    if patient.controller is None:
        entry = draft.entry(patient.name)
        draft.entries[patient.name] = replace(entry, replacement=named(patient.pod, draft.case.now))
        draft.wait(0.0)
    else:
        _delete(draft, patient)


def _delete(draft: Draft, patient: Patient) -> None:
    if not patient.is_gone and not replaces_itself(patient.controller, patient.pod) and _may_go(draft, patient):
        draft.delete(patient.pod, patient.controller)


def _may_go(draft: Draft, patient: Patient) -> bool:
    """Whether the pod's Job, if it has one, goes on after its deletion; if not, that is told."""
    job = patient.controller
    if job is None or job["kind"] != "Job" or has_ended(patient.pod):
        return True
    why = refusal(job, patient.pod, draft.failures_of(job))
    if why:
        note = f"{_title(patient)} {patient.failing.said}; it is left alone: {why}"
        draft.tell(patient.pod, events.REFUSED, note, f"{patient.uid}/{why}")
    return not why


def _clear(draft: Draft) -> None:
    """Take out the entries of pods that have been well for long enough."""
    case = draft.case
    going = {pod["metadata"]["uid"] for pod in draft.deletions}
    for name, entry in sorted(draft.entries.items()):
        kept = lasting(entry)
        left = recovers_in(case, draft.live.get(name, []), entry) if entry != kept else None
        if left is None or not going.isdisjoint(entry.pending):
            continue
        if left > 0:
            draft.wait(left)
            continue
        draft.entries[name] = kept
        if entry.count or entry.told:
            whose = f"pod {name}" if case.holder["kind"] == "StatefulSet" else f"on node {name}" if name else "all pods"
            why = success(case, entry) or f"{whose}: well again for {case.settings.clear_after:.0f} s"
            note = f"{why}, after {entry.count} {'retry' if entry.count == 1 else 'retries'}"
            last = max((failure.at for failure in entry.nodes.values()), default=0)
            occasion = f"{case.holder['metadata']['uid']}/{name}/{entry.count}/{last:.0f}"
            draft.tell(None, events.RECOVERED, note, occasion)
            draft.outcomes.append(outcomes.RECOVERED)


def _title(patient: Patient) -> str:
    return f"pod {patient.pod['metadata'].get('namespace', '')}/{patient.pod['metadata']['name']}"
