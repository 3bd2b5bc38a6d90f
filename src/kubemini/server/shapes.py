"""The shapes in which objects are sent: whole, their metadata alone, or rows of a Table; single, in lists, in events.

`listing` and `watching` write with them. Whole objects are never decoded: the store's bytes go out as they are, and
thirty thousand pods are a matter of joining them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from kubemini import views
from kubemini.kinds import Kind
from kubemini.refusals import Json
from kubemini.server import tables
from kubemini.server.columns import Printer
from kubemini.server.negotiation import METADATA, METADATA_LIST, TABLE, Accepted
from kubemini.store import Entry

CLOSING = b"]}\n"

_encode = msgspec.json.encode


class Shape(Protocol):
    """How the objects of one answer look."""

    def one(self, raw: bytes) -> bytes:
        """An object by itself."""

    def event(self, raw: bytes) -> bytes:
        """An object in a watch event."""

    def opening(self, metadata: Json) -> bytes:
        """A list up to its first item."""

    def item(self, raw: bytes) -> bytes:
        """An object in a list."""


class _Head(msgspec.Struct):
    """Of an object, its metadata undecoded."""

    metadata: msgspec.Raw


class _Versioned(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815  the name in JSON


class _Version(msgspec.Struct):
    metadata: _Versioned


_head = msgspec.json.Decoder(_Head).decode
_version = msgspec.json.Decoder(_Version).decode


@dataclass(frozen=True, slots=True)
class Whole:
    """The objects themselves."""

    kind: Kind

    def one(self, raw: bytes) -> bytes:
        """As it is."""
        return raw

    def event(self, raw: bytes) -> bytes:
        """As it is."""
        return raw

    def opening(self, metadata: Json) -> bytes:
        """A `PodList` or the like."""
        kind = self.kind
        head = {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata}
        return _encode(head)[:-1] + b',"items":['

    def item(self, raw: bytes) -> bytes:
        """Built-in objects do not repeat in a list what they are; custom ones do."""
        if self.kind.custom:
            return raw
        prefix = b'{"apiVersion":"%b","kind":"%b",' % (self.kind.api_version.encode(), self.kind.name.encode())
        if raw.startswith(prefix):
            return b"{" + raw[len(prefix) :]
        body = msgspec.json.decode(raw)
        return _encode({key: value for key, value in body.items() if key not in ("apiVersion", "kind")})


@dataclass(frozen=True, slots=True)
class Metadata:
    """The objects' metadata alone."""

    api_version: str = "meta.k8s.io/v1"

    def one(self, raw: bytes) -> bytes:
        """A PartialObjectMetadata."""
        head = b'{"kind":"%b","apiVersion":"%b","metadata":' % (METADATA.encode(), self.api_version.encode())
        return head + bytes(_head(raw).metadata) + b"}"

    event = one
    item = one

    def opening(self, metadata: Json) -> bytes:
        """A PartialObjectMetadataList."""
        head = {"kind": METADATA_LIST, "apiVersion": self.api_version, "metadata": metadata}
        return _encode(head)[:-1] + b',"items":['


@dataclass(slots=True)
class Table:
    """Rows for people."""

    printer: Printer
    include: str = ""
    api_version: str = "meta.k8s.io/v1"
    _begun: bool = field(default=False, init=False)

    def one(self, raw: bytes) -> bytes:
        """A Table of one row."""
        metadata = {"resourceVersion": _version(raw).metadata.resourceVersion}
        return self.opening(metadata) + self.item(raw) + CLOSING

    def event(self, raw: bytes) -> bytes:
        """A Table of one row; only the first one of a watch names the columns."""
        if not self._begun:
            self._begun = True
            return self.one(raw).rstrip()
        metadata = {"resourceVersion": _version(raw).metadata.resourceVersion}
        head = self._head(metadata) | {"columnDefinitions": None}
        return _encode(head)[:-1] + b',"rows":[' + self.item(raw) + b"]}"

    def opening(self, metadata: Json) -> bytes:
        """The head of a Table."""
        columns = [column.definition for column in self.printer.columns]
        return _encode(self._head(metadata) | {"columnDefinitions": columns})[:-1] + b',"rows":['

    def item(self, raw: bytes) -> bytes:
        """A row."""
        shown = None
        if self.include == "Object":
            shown = msgspec.Raw(raw)
        elif self.include != "None":
            shown = msgspec.Raw(Metadata(self.api_version).one(raw))
        return tables.row_of(self.printer, msgspec.json.decode(raw), shown)

    def _head(self, metadata: Json) -> Json:
        return {"kind": TABLE, "apiVersion": self.api_version, "metadata": metadata}


def shape_of(kind: Kind, accepted: Accepted, include: str = "") -> Shape:
    """The shape that was agreed on."""
    api_version = f"meta.k8s.io/{accepted.version}"
    if accepted.shape == TABLE:
        tables.check_included(include)
        return Table(tables.printer_of(kind), include, api_version)
    if accepted.shape in (METADATA, METADATA_LIST):
        return Metadata(api_version)
    return Whole(kind)


def shape_of_list(shape: Shape, raws: Iterable[bytes]) -> Shape:
    """The shape for the items of one whole list, where a row depends on the others."""
    if not isinstance(shape, Table) or shape.printer.among is None:
        return shape
    row = shape.printer.among(msgspec.json.decode(raw) for raw in raws)
    return Table(Printer(shape.printer.columns, row, shape.printer.conditions), shape.include, shape.api_version)


def raw_of(kind: Kind, entry: Entry) -> bytes:
    """The bytes of a stored object in the form of the kind that was asked for."""
    # A custom object may still be kept as it was when another version was the stored one.
    if kind.storage or (kind.custom and not entry.raw.startswith(b'{"apiVersion":"%b"' % kind.api_version.encode())):
        return _encode(views.shown(kind, entry.object()))
    return entry.raw


def encoded(body: Json) -> bytes:
    """An object as bytes."""
    return _encode(body)


def versioned(raw: bytes, version: int) -> bytes:
    """An object as if it were of another version."""
    body = msgspec.json.decode(raw)
    body["metadata"]["resourceVersion"] = str(version)
    return _encode(body)
