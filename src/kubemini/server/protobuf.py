"""Reads the two objects that kubectl sends as protobuf: the Eviction of `drain`, and the review of `auth can-i`.

kubectl's typed clients send protobuf and do not fall back to JSON when a server refuses it. All other commands that
work here send JSON. Answers are JSON, which every client accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubemini.errors import Json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\0"
_VARINT, _BYTES = 0, 2
_OBJECTS = ("Eviction", "SelfSubjectAccessReview")

# The numbers are those of k8s.io/api and k8s.io/apimachinery. They never change. Fields that are not here are skipped.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "TypeMeta": {1: ("apiVersion", "text"), 2: ("kind", "text")},
    "ObjectMeta": {1: ("name", "text"), 3: ("namespace", "text")},
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        4: ("propagationPolicy", "text"),
        5: ("dryRun", "texts"),
    },
    "Preconditions": {1: ("uid", "text"), 2: ("resourceVersion", "text")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta")},  # the answer is always yes
}


class UnknownMessageError(ValueError):
    """A message that is not read here."""


def decode(data: bytes) -> Json:
    """The object in an envelope such as Go clients send."""
    if not data.startswith(_MAGIC):
        raise UnknownMessageError("it does not begin as Kubernetes' protobuf does")
    try:
        envelope = dict(_fields(data[len(_MAGIC) :]))
        about = _message("TypeMeta", envelope.get(1, b""))
        kind = about.get("kind", "")
        if kind not in _OBJECTS:
            raise UnknownMessageError(f"{kind} is not read as protobuf here; kubectl apply sends JSON")
        return about | _message(kind, envelope.get(2, b""))
    except (IndexError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise UnknownMessageError("it is cut off, or has a field of a form that is not read here") from error


def _message(name: str, data: Any) -> Json:
    found: Json = {}
    for number, value in _fields(data):
        if number not in _MESSAGES[name]:
            continue
        field, form = _MESSAGES[name][number]
        match form:
            case "int":
                found[field] = value
            case "text":
                found[field] = value.decode()
            case "texts":
                found.setdefault(field, []).append(value.decode())
            case _:
                found[field] = _message(form, value)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and values of the fields of a message: an int, or bytes."""
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
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
