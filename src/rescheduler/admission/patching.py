"""From advice to a JSON patch (RFC 6902) for a new pod: preferences, nodes to avoid, our marks, our gate.

`mutation` asks it. Nothing that is on the pod is lost: members are added one by one, missing parents are made, and an
affinity is merged. A pod that has all of it already gets no patch, because the API server asks again when another
webhook has changed the pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rescheduler.migration.commands import Json
from rescheduler.migration.steering import steered
from rescheduler.model import marks
from rescheduler.model.advice import Advice, Expected
from rescheduler.model.instant import format_instant
from rescheduler.model.migration import Progress
from rescheduler.recovery.avoidance import avoiding

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_REFUSALS = 2000
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_LABEL = 63


def patch_for(pod: Json, advice: Advice, now: float) -> list[Json]:
    """The operations that make a pod what the advice wants; none if there is nothing to do."""
    metadata, spec = pod["metadata"], pod["spec"]
    probe = (metadata.get("labels") or {}).get(marks.PROBE)
    if probe is not None:
        return list(_members(metadata, "/metadata", "annotations", {marks.ANSWER: probe}))
    labels, notes = dict[str, str](), dict[str, str]()
    operations: list[Json] = []
    expected, placed = advice.expected, bool(spec.get("nodeName"))
    if expected is not None:
        labels = _labels(expected)
        notes = _notes(expected, now)
        if marks.MIGRATION_TIME in (metadata.get("annotations") or {}):
            del notes[marks.MIGRATION_TIME]
        if expected.gate and not placed:
            notes[marks.GATED] = expected.migration
            operations += _gated(spec)
    if not placed:
        operations += _affinity(spec, advice)
    return [
        *_members(metadata, "/metadata", "labels", labels),
        *_members(metadata, "/metadata", "annotations", notes),
        *operations,
    ]


def _labels(expected: Expected) -> dict[str, str]:
    """The marks that `migration.eviction` puts on a rebuilt pod; a value that no label may have is cut, or left out."""
    whole = {marks.MIGRATION_ID: expected.migration, marks.MIGRATION_STATUS: "in-progress"}
    cut = {
        marks.MIGRATED_FROM: expected.source[:_LONGEST_LABEL].rstrip("-_."),
        marks.MIGRATION_REASON: expected.strategy[:_LONGEST_LABEL].rstrip("-_."),
    }
    return {key: value for key, value in {**whole, **cut}.items() if _is_label(value)}


def _notes(expected: Expected, now: float) -> dict[str, str]:
    return {
        marks.MIGRATION_TIME: format_instant(now),
        marks.ORIGINAL_POD: expected.original_uid,
        marks.ORIGINAL_POD_NAME: expected.original_name,
    }


def _is_label(value: str) -> bool:
    return len(value) <= _LONGEST_LABEL and _LABEL.fullmatch(value) is not None


def _gated(spec: Json) -> Iterator[Json]:
    gates = spec.get("schedulingGates")
    gate = {"name": marks.NOMINATE_GATE}
    if not gates:
        yield _add("/spec/schedulingGates", [gate])
    elif gate not in gates:
        yield _add("/spec/schedulingGates/-", gate)


def _affinity(spec: Json, advice: Advice) -> Iterator[Json]:
    """The affinity with what is missing; it is put as a whole, because each of its levels may be missing or null."""
    before: Json | None = spec.get("affinity")
    wanted = avoiding(before, advice.avoid) if _is_small(before, advice) else (before or {})
    if advice.expected is not None:
        wanted = _preferring(wanted, advice.expected)
    if wanted != (before or {}):
        yield _add("/spec/affinity", wanted)


def _is_small(affinity: Json | None, advice: Advice) -> bool:
    """Whether few nodes are to be avoided: each is named in every term, and no object may grow without limit."""
    required = ((affinity or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return max(1, len(required.get("nodeSelectorTerms") or ())) * len(advice.avoid) <= _MOST_REFUSALS


def _preferring(affinity: Json, expected: Expected) -> Json:
    """With those of the two preferences that are not there yet."""
    source, target = expected.source_host or expected.source, expected.target_host or expected.target
    terms = _preferences(steered(None, Progress(source=source, target=target)))
    known = _preferences(affinity)
    new = [term for term in terms if term not in known and term["preference"]["matchExpressions"][0]["values"] != [""]]
    if not new:
        return affinity
    nodes = affinity.get("nodeAffinity") or {}
    return {**affinity, "nodeAffinity": {**nodes, _PREFERRED: [*known, *new]}}


def _preferences(affinity: Json) -> list[Json]:
    found: list[Json] = (affinity.get("nodeAffinity") or {}).get(_PREFERRED) or []
    return found


def _members(parent: Json, path: str, name: str, wanted: Mapping[str, str]) -> Iterator[Json]:
    """What gives an object's section these members; a section that is missing, or null, is made."""
    section = parent.get(name)
    missing = {key: value for key, value in wanted.items() if (section or {}).get(key) != value}
    if not missing:
        return
    if section is None:
        yield _add(f"{path}/{name}", missing)
        return
    for key, value in missing.items():
        yield _add(f"{path}/{name}/{_escaped(key)}", value)


def _escaped(key: str) -> str:
    """A key as a step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}
