"""From advice to a JSON patch (RFC 6902) for a new pod: preferences, nodes to avoid, our marks, our gate.

`mutation` asks it. Nothing that is on the pod is lost: members are added one by one, missing parents are made, and an
affinity is merged. A pod that has all of it already gets no patch, because the API server asks again when another
webhook has changed the pod.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import structlog
from msgspec import Raw

from rescheduler.admission.advisor import NO_ADVICE, PlacementAdvisor
from rescheduler.admission.reviews import AdmissionReview, NotAPodError, answer, read_new_pod, read_review
from rescheduler.migration.steps.steering import add_preference
from rescheduler.model import labels
from rescheduler.model import labels as marks
from rescheduler.model.advice import ExpectedMove, NewPod, PlacementAdvice
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus
from rescheduler.model.time import format_instant
from rescheduler.recovery.avoidance import avoid_nodes

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_REFUSALS = 2000
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_LABEL = 63


def patch_for(pod: Json, advice: PlacementAdvice, now: float) -> list[Json]:
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


def _labels(expected: ExpectedMove) -> dict[str, str]:
    """The marks that `migration.eviction` puts on a rebuilt pod; a value that no label may have is cut, or left out."""
    whole = {marks.MIGRATION_ID: expected.migration, marks.MIGRATION_STATUS: "in-progress"}
    cut = {
        marks.MIGRATED_FROM: expected.source[:_LONGEST_LABEL].rstrip("-_."),
        marks.MIGRATION_REASON: expected.strategy[:_LONGEST_LABEL].rstrip("-_."),
    }
    return {key: value for key, value in {**whole, **cut}.items() if _is_label(value)}


def _notes(expected: ExpectedMove, now: float) -> dict[str, str]:
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


def _affinity(spec: Json, advice: PlacementAdvice) -> Iterator[Json]:
    """The affinity with what is missing; it is put as a whole, because each of its levels may be missing or null."""
    before: Json | None = spec.get("affinity")
    wanted = avoid_nodes(before, advice.avoid) if _is_small(before, advice) else (before or {})
    if advice.expected is not None:
        wanted = _preferring(wanted, advice.expected)
    if wanted != (before or {}):
        yield _add("/spec/affinity", wanted)


def _is_small(affinity: Json | None, advice: PlacementAdvice) -> bool:
    """Whether few nodes are to be avoided: each is named in every term, and no object may grow without limit."""
    required = ((affinity or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return max(1, len(required.get("nodeSelectorTerms") or ())) * len(advice.avoid) <= _MOST_REFUSALS


def _preferring(affinity: Json, expected: ExpectedMove) -> Json:
    """With those of the two preferences that are not there yet."""
    source, target = expected.source_host or expected.source, expected.target_host or expected.target
    terms = _preferences(add_preference(None, MigrationStatus(source=source, target=target)))
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


_log = structlog.stdlib.get_logger(__name__)
_LARGEST_POD = 2**18  # bytes
_OUR_FAULT = "kube-rescheduler could not look at this pod; it is created as it is (see the controller's log)"
_MISSPELT = f"annotation {labels.MISSPELT_RETRIES} is read as {labels.SCHEDULING_RETRIES}; please write it so"


class PodMutator:
    """Answers reviews; it changes nothing, so that a dry run gets the same answer."""

    def __init__(
        self, knowledge: PlacementAdvisor, excluded: Callable[[], Collection[str]], now: Callable[[], float]
    ) -> None:
        self._knowledge = knowledge
        self._excluded = excluded
        self._now = now

    def review(self, body: bytes) -> bytes:
        """The answer to a review; ReviewError if it is none."""
        asked = read_review(body)
        try:
            return self._answer(asked)
        except Exception:  # noqa: BLE001  a fault of ours must never keep a pod from being created
            _log.exception("a review could not be answered; the pod is created as it is", review=asked.uid)
            return answer(asked, [], (_OUR_FAULT,))

    def _may_avoid(self, avoid: Collection[str], pod: Raw) -> bool:
        """Whether nodes can be refused on a pod: not where it would go nowhere, which the leader finds out, too.

        Nor on one that is unusually large: whoever makes such pods shall not keep everybody else waiting.
        """
        return len(bytes(pod)) <= _LARGEST_POD and self._knowledge.leaves_any(avoid, pod)

    def _answer(self, asked: AdmissionReview) -> bytes:
        if not asked.concerns_a_new_pod():
            return answer(asked, [])
        raw = asked.request.object
        try:
            newcomer = read_new_pod(raw, asked.namespace)
        except NotAPodError as error:
            _log.info("an object that is no pod is let through", review=asked.uid, why=str(error))
            return answer(asked, [])
        probe = labels.PROBE in newcomer.labels
        if newcomer.namespace in self._excluded() and not probe:
            return answer(asked, [])
        advice = NO_ADVICE if probe else self._knowledge.advise(newcomer)
        if advice.avoid and not self._may_avoid(advice.avoid, raw):
            advice = replace(advice, avoid=NO_ADVICE.avoid)
        if advice == NO_ADVICE and not probe:
            return answer(asked, [], _warnings(newcomer))
        try:
            pod: Json = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _log.info("an object that is no pod is let through", review=asked.uid, why=str(error))
            return answer(asked, [])
        return answer(asked, patch_for(pod, advice, self._now()), _warnings(newcomer))


def _warnings(newcomer: NewPod) -> tuple[str, ...]:
    """What whoever makes the pod should know; a controller that makes it would only log it."""
    notes = newcomer.annotations
    misspelt = labels.MISSPELT_RETRIES in notes and labels.SCHEDULING_RETRIES not in notes
    return (_MISSPELT,) if misspelt and newcomer.owner is None else ()
