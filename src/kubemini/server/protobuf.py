"""Reads the few objects that kubectl sends as protobuf.

kubectl's typed clients send protobuf and do not fall back to JSON when a server refuses it. This concerns `drain`
(Eviction), `auth can-i` (SelfSubjectAccessReview), and `create` of namespaces, service accounts and their tokens,
and ConfigMaps. All other commands send JSON. Answers are JSON, which every client accepts.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from kubemini.refusals import Json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\0"
_VARINT, _BYTES = 0, 2
_MAP = "map of "
_LIST = "list of "
_OBJECTS = (
    "ConfigMap",
    "DeleteOptions",
    "Eviction",
    "Namespace",
    "SelfSubjectAccessReview",
    "ServiceAccount",
    "TokenRequest",
)
_IGNORED = "ignored"
"""What no client sets, though Go writes it: empty statuses and times."""

# The numbers are those of k8s.io/api and k8s.io/apimachinery. They never change.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "TypeMeta": {1: ("apiVersion", "text"), 2: ("kind", "text")},
    "ObjectMeta": {
        1: ("name", "text"),
        2: ("generateName", "text"),
        3: ("namespace", "text"),
        4: ("selfLink", _IGNORED),
        5: ("uid", "text"),
        6: ("resourceVersion", "text"),
        7: ("generation", _IGNORED),
        8: ("creationTimestamp", _IGNORED),
        11: ("labels", _MAP + "text"),
        12: ("annotations", _MAP + "text"),
        17: ("managedFields", _IGNORED),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("spec", _IGNORED), 3: ("status", _IGNORED)},
    "ServiceAccount": {1: ("metadata", "ObjectMeta")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", _MAP + "text"),
        3: ("binaryData", _MAP + "base64"),
        4: ("immutable", "bool"),
    },
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        4: ("propagationPolicy", "text"),
        5: ("dryRun", _LIST + "text"),
    },
    "Preconditions": {1: ("uid", "text"), 2: ("resourceVersion", "text")},
    "SelfSubjectAccessReview": {
        1: ("metadata", "ObjectMeta"),
        2: ("spec", "SelfSubjectAccessReviewSpec"),
        3: ("status", _IGNORED),
    },
    "SelfSubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
    },
    "ResourceAttributes": {
        1: ("namespace", "text"),
        2: ("verb", "text"),
        3: ("group", "text"),
        4: ("version", "text"),
        5: ("resource", "text"),
        6: ("subresource", "text"),
        7: ("name", "text"),
    },
    "NonResourceAttributes": {1: ("path", "text"), 2: ("verb", "text")},
    "TokenRequest": {1: ("metadata", "ObjectMeta"), 2: ("spec", "TokenRequestSpec"), 3: ("status", _IGNORED)},
    "TokenRequestSpec": {1: ("audiences", _LIST + "text"), 4: ("expirationSeconds", "int")},
}


class UnknownMessageError(ValueError):
    """A message, or a field of one, that is not read here."""


def decode(data: bytes) -> Json:
    """The object in an envelope such as Go clients send."""
    if not data.startswith(_MAGIC):
        raise UnknownMessageError("it does not begin as Kubernetes' protobuf does")
    envelope = dict(_fields(data[len(_MAGIC) :]))
    about = _message("TypeMeta", _bytes(envelope.get(1, b"")))
    kind = about.get("kind", "")
    if kind not in _OBJECTS:
        raise UnknownMessageError(f"{kind} is not read as protobuf here; kubectl apply sends JSON")
    return about | _message(kind, _bytes(envelope.get(2, b"")))


def _message(name: str, data: bytes) -> Json:
    found: Json = {}
    for number, value in _fields(data):
        if number not in _MESSAGES[name]:
            raise UnknownMessageError(f"field {number} of {name} is not read as protobuf here")
        field, form = _MESSAGES[name][number]
        if form.startswith(_LIST):
            found.setdefault(field, []).append(_value(form.removeprefix(_LIST), value))
        elif form.startswith(_MAP):
            pair = dict(_fields(_bytes(value)))
            key = _bytes(pair.get(1, b"")).decode()
            found.setdefault(field, {})[key] = _value(form.removeprefix(_MAP), pair.get(2, b""))
        elif form != _IGNORED:
            found[field] = _value(form, value)
    return found


def _value(form: str, value: int | bytes) -> Any:
    match form:
        case "int":
            return value
        case "bool":
            return bool(value)
        case "text":
            return _bytes(value).decode()
        case "base64":
            return base64.b64encode(_bytes(value)).decode()
    return _message(form, _bytes(value))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of the fields of a message."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        number, wire_type = head >> 3, head & 7
        value, at = _varint(data, at)
        if wire_type == _VARINT:
            yield number, value
        elif wire_type == _BYTES and at + value <= len(data):
            yield number, data[at : at + value]
            at += value
        else:
            raise UnknownMessageError("it is cut off, or has a field of a form that is not read here")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise UnknownMessageError("it ends in the middle of a number")


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise UnknownMessageError("bytes were expected")
    return value
