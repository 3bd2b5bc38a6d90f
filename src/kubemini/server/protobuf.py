"""Reads objects that are sent as protobuf: Go's typed clients send nothing else, and `kubectl create namespace` is one.

They take JSON as an answer, so nothing is written in protobuf here. Only the kinds of `protobuf_tables` are read, those
that kubectl makes by itself; a field that is not known there is never dropped silently. `bodies` calls this.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from kubemini import clock
from kubemini.refusals import Json
from kubemini.server.protobuf_tables import API_VERSIONS, MESSAGES

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\0"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProtobufError(ValueError):
    """Bytes that are no such message."""


class UnknownMessageError(ProtobufError):
    """A message, or a field that holds something, that is not read here."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: str
    form: str
    """Whether it is one, a list `[`, a map `{`, or a part of the outer object `~`."""


def object_from(data: bytes) -> Json:
    """The object in an envelope such as Go clients send."""
    if not data.startswith(_MAGIC):
        raise ProtobufError("it does not begin as Kubernetes' protobuf does")
    envelope = dict(_fields(data[len(_MAGIC) :]))
    about = _message("TypeMeta", _bytes(envelope.get(1, b"")))
    api_version, kind = about.get("apiVersion", ""), about.get("kind", "")
    # Whatever group it is for, these options are the same.
    if kind != "DeleteOptions" and API_VERSIONS.get(kind) != api_version:
        raise UnknownMessageError(f"{api_version} {kind} is not read as protobuf here")
    return {"apiVersion": api_version, "kind": kind} | _message(kind, _bytes(envelope.get(2, b"")))


def _message(name: str, data: bytes) -> Json:
    known = _messages()[name]
    found: Json = {}
    for number, value in _fields(data):
        field = known.get(number)
        if field is None:
            if not _is_zero(value):
                raise UnknownMessageError(f"field {number} of {name} is not read as protobuf here")
        elif field.form == "[":
            found.setdefault(field.name, []).extend(_items(field.kind, value))
        elif field.form == "{":
            entry = dict(_fields(_bytes(value)))
            key = _bytes(entry.get(1, b"")).decode()
            found.setdefault(field.name, {})[key] = _value(field.kind, entry.get(2, b""))
        elif field.form == "~":
            found |= _message(field.kind, _bytes(value))
        elif field.kind != "ignored":
            found[field.name] = _value(field.kind, value)
    return found


def _value(kind: str, value: int | bytes) -> Any:
    match kind:
        case "int":
            return _signed(value)
        case "bool":
            return bool(value)
        case "string":
            return _bytes(value).decode()
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "Quantity":
            return _message(kind, _bytes(value)).get("string", "0")
        case "IntOrString":
            either = _message(kind, _bytes(value))
            return either.get("strVal", "") if either.get("type") else either.get("intVal", 0)
        case "Time" | "MicroTime":
            return _time(_message("Time", _bytes(value)), micro=kind == "MicroTime")
    return _message(kind, _bytes(value))


def _items(kind: str, value: int | bytes) -> list[Any]:
    if kind == "int" and isinstance(value, bytes):  # packed
        return [_signed(each) for each in _varints(value)]
    return [_value(kind, value)]


def _time(parts: Json, *, micro: bool) -> str | None:
    if not parts:
        return None  # the zero time is no time
    moment = _EPOCH + timedelta(seconds=parts.get("seconds", 0), microseconds=parts.get("nanos", 0) // 1000)
    return clock.micro_stamp(moment) if micro else clock.stamp(moment)


def _is_zero(value: int | bytes) -> bool:
    """Whether a field holds nothing: Go writes also the empty ones, and messages of nothing but empty ones."""
    if isinstance(value, int):
        return value == 0
    try:
        return all(_is_zero(inner) for _, inner in _fields(value))
    except ProtobufError:
        return False


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a message's fields."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        number, sort = head >> 3, head & 7
        if sort == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if sort == _BYTES:
            size, at = _varint(data, at)
        elif sort in (_FIXED64, _FIXED32):
            size = 8 if sort == _FIXED64 else 4
        else:
            raise ProtobufError(f"a field of the unknown sort {sort}")
        if number == 0 or at + size > len(data):
            raise ProtobufError("it ends in the middle of a field")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ProtobufError("it ends in the middle of a number")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ProtobufError("a number was expected")
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("bytes were expected")
    return value


@cache
def _messages() -> dict[str, dict[int, _Field]]:
    messages = {}
    for line in " ".join(MESSAGES.split()).split(";"):
        name, _, fields = line.strip().partition(" = ")
        if fields:
            messages[name] = dict(_field(each) for each in fields.split())
    return messages


def _field(description: str) -> tuple[int, _Field]:
    name, _, rest = description.partition("=")
    number, _, kind = rest.partition(":")
    form = kind[:1] if kind[:1] in ("[", "{", "~") else ""
    return int(number), _Field(name, kind.strip("[]{}~") or "string", form)
