"""A pod that nobody manages is made again elsewhere, under a name of ours, and then deleted.

First the name goes into the record of the failed pod, then the new pod is made, then the failed one is deleted; each
look does the next of these. Whoever dies in between leaves enough for the next one to go on, and no pod is lost. The
new pod carries on the record, and the marks that tell where it came from.
"""

from __future__ import annotations

from dataclasses import replace

from rescheduler.migration.commands import Json
from rescheduler.migration.copies import own_parts, replacement_name
from rescheduler.migration.observation import has_ended, is_leaving, notes_of, ready_for
from rescheduler.model import marks
from rescheduler.model.instant import format_instant
from rescheduler.recovery.avoidance import avoided_by, avoiding, without
from rescheduler.recovery.case import Case
from rescheduler.recovery.draft import SOON, Draft
from rescheduler.recovery.record import WHOLE, Entry, lasting, written

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
