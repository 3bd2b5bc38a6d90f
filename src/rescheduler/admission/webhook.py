"""The mutating webhook for new pods: decodes reviews, and turns advice into a JSON patch (RFC 6902).

The patch adds preferences, nodes to avoid, labels, annotations and the scheduling gate. Nothing on the pod is lost:
members are added one by one, missing parents are created, and an affinity is merged. A pod that has everything already
gets no patch, since the API server calls again after another webhook has changed the pod.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import Raw, Struct

from rescheduler.admission.advisor import NO_ADVICE, PlacementAdvisor
from rescheduler.admission.server import RequestError
from rescheduler.decode import sections, structs
from rescheduler.decode.sections import SectionError
from rescheduler.decode.structs import ABSENT, present
from rescheduler.migration.steps.evict import add_preference
from rescheduler.model import labels
from rescheduler.model.advice import ExpectedMove, NewPod, PlacementAdvice
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus
from rescheduler.model.objects import NOTHING
from rescheduler.model.time import format_instant
from rescheduler.recovery.avoidance import avoid_nodes

V1 = "admission.k8s.io/v1"
KIND = "AdmissionReview"
T = TypeVar("T")


class NotAPodError(ValueError):
    """An object that is not a valid pod."""


class _Camel(Struct, rename="camel", gc=False):
    """Base: camelCase in JSON."""


class _Resource(_Camel):
    """A GroupVersionKind, or a GroupVersionResource."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None
    resource: str | None = None


class AdmissionRequest(_Camel):
    """The request in a review; each part stays raw until it is needed."""

    uid: Raw = ABSENT
    kind: Raw = ABSENT
    resource: Raw = ABSENT
    sub_resource: Raw = ABSENT
    operation: Raw = ABSENT
    namespace: Raw = ABSENT
    object: Raw = ABSENT


class AdmissionReview(_Camel):
    """An AdmissionReview."""

    api_version: str
    uid: str
    request: AdmissionRequest

    def concerns_a_new_pod(self) -> bool:
        """Whether it is about the creation of a v1 pod."""
        request = self.request
        kind, resource = _read_part(request.kind, _Resource), _read_part(request.resource, _Resource)
        return (
            self.api_version == V1
            and _read_text(request.operation) == "CREATE"
            and not _read_text(request.sub_resource)
            and kind is not None
            and (kind.group or "", kind.version, kind.kind) == ("", "v1", "Pod")
            and (resource is None or (resource.group or "", resource.resource) == ("", "pods"))
            and present(request.object)
        )

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return _read_text(self.request.namespace)


class _Document(_Camel):
    api_version: Raw = ABSENT
    kind: Raw = ABSENT
    request: AdmissionRequest | None = None


class _Meta(_Camel):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: Raw = ABSENT


class _Affinity(_Camel):
    node_affinity: structs.ApiNodeAffinity | None = None


class _Gate(_Camel):
    name: str


class _Spec(_Camel):
    """What a patch may touch: if it is invalid, nothing is patched."""

    node_name: str | None = None
    affinity: _Affinity | None = None
    scheduling_gates: list[_Gate] | None = None


class _Pod(_Camel):
    metadata: _Meta
    spec: _Spec


_documents = msgspec.json.Decoder(_Document)
_pods = msgspec.json.Decoder(_Pod)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_review(body: bytes) -> AdmissionReview:
    """Decode a review."""
    try:
        document = _documents.decode(body)
    except _UNREADABLE as error:
        raise RequestError(400, f"the body is no {KIND}: {error}") from None
    if _read_text(document.kind) != KIND:
        said = _read_text(document.kind) or "nothing"
        raise RequestError(400, f"the body must be an {KIND}; its kind says {said[:80]!r}")
    request = document.request
    if request is None:
        raise RequestError(400, f"the {KIND} has no request")
    uid = _read_text(request.uid)
    if not uid:
        raise RequestError(400, f"the {KIND} has no request.uid, so it cannot be answered")
    return AdmissionReview(_read_text(document.api_version), uid, request)


def read_new_pod(raw: Raw, namespace: str = "") -> NewPod:
    """Decode what identifies a pod and its owner; NotAPodError if that fails."""
    try:
        pod = _pods.decode(raw)
        owner = sections.owner(pod.metadata.owner_references, "metadata.ownerReferences")
    except (*_UNREADABLE, SectionError) as error:
        raise NotAPodError(str(error)) from None
    meta = pod.metadata
    return NewPod(
        namespace=namespace or meta.namespace or "default",
        name=meta.name or "",
        generate_name=meta.generate_name or "",
        uid=meta.uid or "",
        labels=meta.labels or NOTHING,
        annotations=meta.annotations or NOTHING,
        owner=owner,
    )


def answer(review: AdmissionReview, patch: list[dict[str, Any]], warnings: tuple[str, ...] = ()) -> bytes:
    """Encode the answer to a review: always allowed."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    if warnings:
        response["warnings"] = list(warnings)
    version = review.api_version if review.api_version.startswith("admission.k8s.io/") else V1
    return msgspec.json.encode({"apiVersion": version, "kind": KIND, "response": response})


def _read_part(raw: Raw, form: type[T]) -> T | None:
    """Decode a part of a review; None if it is missing or invalid."""
    if not present(raw):
        return None
    try:
        return msgspec.json.decode(raw, type=form)
    except _UNREADABLE:
        return None


def _read_text(raw: Raw) -> str:
    return _read_part(raw, str) or ""


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_REFUSALS = 2000
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def patch_for(pod: Json, advice: PlacementAdvice, now: float) -> list[Json]:
    """List the operations that apply the advice to a pod; none if there is nothing to do."""
    metadata, spec = pod["metadata"], pod["spec"]
    probe = (metadata.get("labels") or {}).get(labels.PROBE)
    if probe is not None:
        return list(_add_members(metadata, "/metadata", "annotations", {labels.ANSWER: probe}))
    added, notes = dict[str, str](), dict[str, str]()
    operations: list[Json] = []
    expected, placed = advice.expected, bool(spec.get("nodeName"))
    if expected is not None:
        added = _make_labels(expected)
        notes = _make_notes(expected, now)
        if labels.MIGRATION_TIME in (metadata.get("annotations") or {}):
            del notes[labels.MIGRATION_TIME]
        if expected.gate and not placed:
            notes[labels.GATED] = expected.migration
            operations += _add_gate(spec)
    if not placed:
        operations += _add_affinity(spec, advice)
    return [
        *_add_members(metadata, "/metadata", "labels", added),
        *_add_members(metadata, "/metadata", "annotations", notes),
        *operations,
    ]


def _make_labels(expected: ExpectedMove) -> dict[str, str]:
    """The labels of a rebuilt pod; a value that is too long is cut, an invalid one is left out."""
    whole = {labels.MIGRATION_ID: expected.migration, labels.MIGRATION_STATUS: "in-progress"}
    cut = {
        labels.MIGRATED_FROM: labels.label_value(expected.source),
        labels.MIGRATION_REASON: labels.label_value(expected.strategy),
    }
    return {key: value for key, value in {**whole, **cut}.items() if _is_label(value)}


def _make_notes(expected: ExpectedMove, now: float) -> dict[str, str]:
    return {
        labels.MIGRATION_TIME: format_instant(now),
        labels.ORIGINAL_POD: expected.original_uid,
        labels.ORIGINAL_POD_NAME: expected.original_name,
    }


def _is_label(value: str) -> bool:
    return len(value) <= labels.LONGEST_VALUE and _LABEL.fullmatch(value) is not None


def _add_gate(spec: Json) -> Iterator[Json]:
    gates = spec.get("schedulingGates")
    gate = {"name": labels.NOMINATE_GATE}
    if not gates:
        yield _add("/spec/schedulingGates", [gate])
    elif gate not in gates:
        yield _add("/spec/schedulingGates/-", gate)


def _add_affinity(spec: Json, advice: PlacementAdvice) -> Iterator[Json]:
    """Set the affinity with what is missing; as a whole, because each of its levels may be missing or null."""
    before: Json | None = spec.get("affinity")
    wanted = avoid_nodes(before, advice.avoid) if _is_small(before, advice) else (before or {})
    if advice.expected is not None:
        wanted = _add_preferences(wanted, advice.expected)
    if wanted != (before or {}):
        yield _add("/spec/affinity", wanted)


def _is_small(affinity: Json | None, advice: PlacementAdvice) -> bool:
    """Whether few enough nodes are avoided: each is named in every term, and objects must not grow without limit."""
    required = ((affinity or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return max(1, len(required.get("nodeSelectorTerms") or ())) * len(advice.avoid) <= _MOST_REFUSALS


def _add_preferences(affinity: Json, expected: ExpectedMove) -> Json:
    """Add the preferences that are missing."""
    source, target = expected.source_host or expected.source, expected.target_host or expected.target
    terms = _find_preferences(add_preference(None, MigrationStatus(source=source, target=target)))
    known = _find_preferences(affinity)
    new = [term for term in terms if term not in known and term["preference"]["matchExpressions"][0]["values"] != [""]]
    if not new:
        return affinity
    nodes = affinity.get("nodeAffinity") or {}
    return {**affinity, "nodeAffinity": {**nodes, _PREFERRED: [*known, *new]}}


def _find_preferences(affinity: Json) -> list[Json]:
    found: list[Json] = (affinity.get("nodeAffinity") or {}).get(_PREFERRED) or []
    return found


def _add_members(parent: Json, path: str, name: str, wanted: Mapping[str, str]) -> Iterator[Json]:
    """Add members to a section of an object; a missing or null section is created."""
    section = parent.get(name)
    missing = {key: value for key, value in wanted.items() if (section or {}).get(key) != value}
    if not missing:
        return
    if section is None:
        yield _add(f"{path}/{name}", missing)
        return
    for key, value in missing.items():
        yield _add(f"{path}/{name}/{_escape(key)}", value)


def _escape(key: str) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


_log = structlog.stdlib.get_logger(__name__)
_LARGEST_POD = 2**18  # bytes
_OUR_FAULT = "kube-rescheduler could not check this pod; it is created unchanged (see the controller's log)"
_MISSPELT = f"annotation {labels.MISSPELT_RETRIES} is read as {labels.SCHEDULING_RETRIES}; please use that name"


class PodMutator:
    """Answers reviews. It changes no state, so a dry run gets the same answer."""

    def __init__(
        self, advisor: PlacementAdvisor, excluded: Callable[[], Collection[str]], now: Callable[[], float]
    ) -> None:
        self._advisor = advisor
        self._excluded = excluded
        self._now = now

    def review(self, body: bytes) -> bytes:
        """Answer a review."""
        asked = read_review(body)
        try:
            return self._answer(asked)
        except Exception:  # noqa: BLE001 - an internal error must never keep a pod from being created
            _log.exception("review failed: internal error", review=asked.uid)
            return answer(asked, [], (_OUR_FAULT,))

    def _may_avoid(self, avoid: Collection[str], pod: Raw) -> bool:
        """Whether a pod can avoid these nodes: not if it had no other node, which the leader finds out, too.

        Nor if the pod is unusually large, so that such pods do not make others wait.
        """
        return len(bytes(pod)) <= _LARGEST_POD and self._advisor.leaves_any(avoid, pod)

    def _answer(self, asked: AdmissionReview) -> bytes:
        if not asked.concerns_a_new_pod():
            return answer(asked, [])
        raw = asked.request.object
        try:
            new_pod = read_new_pod(raw, asked.namespace)
        except NotAPodError as error:
            _log.info("object is not a pod, admitted unchanged", review=asked.uid, why=str(error))
            return answer(asked, [])
        probe = labels.PROBE in new_pod.labels
        if new_pod.namespace in self._excluded() and not probe:
            return answer(asked, [])
        advice = NO_ADVICE if probe else self._advisor.advise(new_pod)
        if advice.avoid and not self._may_avoid(advice.avoid, raw):
            advice = replace(advice, avoid=NO_ADVICE.avoid)
        if advice == NO_ADVICE and not probe:
            return answer(asked, [], _warnings(new_pod))
        try:
            pod: Json = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _log.info("object is not a pod, admitted unchanged", review=asked.uid, why=str(error))
            return answer(asked, [])
        return answer(asked, patch_for(pod, advice, self._now()), _warnings(new_pod))


def _warnings(new_pod: NewPod) -> tuple[str, ...]:
    """Warnings for a person who creates a pod; a controller would only log them."""
    notes = new_pod.annotations
    misspelt = labels.MISSPELT_RETRIES in notes and labels.SCHEDULING_RETRIES not in notes
    return (_MISSPELT,) if misspelt and new_pod.owner is None else ()
