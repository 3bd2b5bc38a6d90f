"""Decodes AdmissionReviews and the pods in them, and encodes the answer. Unreadable bodies raise RequestError."""

from __future__ import annotations

import base64
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from rescheduler.decode import sections, structs
from rescheduler.decode.sections import SectionError
from rescheduler.decode.structs import ABSENT, present
from rescheduler.model.advice import NewPod
from rescheduler.model.objects import NOTHING


class RequestError(Exception):
    """A request that cannot be answered: the HTTP status it gets, why, and further headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


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
        kind, resource = _read(request.kind, _Resource), _read(request.resource, _Resource)
        return (
            self.api_version == V1
            and _text(request.operation) == "CREATE"
            and not _text(request.sub_resource)
            and kind is not None
            and (kind.group or "", kind.version, kind.kind) == ("", "v1", "Pod")
            and (resource is None or (resource.group or "", resource.resource) == ("", "pods"))
            and present(request.object)
        )

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return _text(self.request.namespace)


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
    if _text(document.kind) != KIND:
        said = _text(document.kind) or "nothing"
        raise RequestError(400, f"the body must be an {KIND}; its kind says {said[:80]!r}")
    request = document.request
    if request is None:
        raise RequestError(400, f"the {KIND} has no request")
    uid = _text(request.uid)
    if not uid:
        raise RequestError(400, f"the {KIND} has no request.uid, so it cannot be answered")
    return AdmissionReview(_text(document.api_version), uid, request)


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


def _read(raw: Raw, form: type[T]) -> T | None:
    """Decode a part of a review; None if it is missing or invalid."""
    if not present(raw):
        return None
    try:
        return msgspec.json.decode(raw, type=form)
    except _UNREADABLE:
        return None


def _text(raw: Raw) -> str:
    return _read(raw, str) or ""
