"""Clusters in files: reads output of `kubectl get … -o json|yaml` and recordings, and writes recordings.

A recording is what `rescheduler snapshot` writes. A reader passes each object to a SnapshotBuilder. JSON is read as a
stream, so a dump of gigabytes needs little memory; YAML is loaded one document at a time and then takes the same way.
What makes a whole file unusable (truncated, not JSON, an API error) raises DumpError; a problem with one object is a
warning of the builder.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, BinaryIO

import msgspec
import yaml
from msgspec import Raw

from rescheduler.decode import structs
from rescheduler.decode.pods import MEMORY, is_usual, select_annotations
from rescheduler.decode.reader import Bytes, SnapshotBuilder, text_at
from rescheduler.decode.sections import SectionError
from rescheduler.decode.split import JsonError, ListHead, split
from rescheduler.decode.structs import DECODERS, READ, known_kind
from rescheduler.model import labels
from rescheduler.model.time import InstantError, format_instant, parse_instant
from rescheduler.model.yaml import load_all_yaml, resolve_only

TAKEN_AT = "rescheduler.io/taken-at"
KINDS = "rescheduler.io/kinds"

Progress = Callable[[int], None]


class DumpError(Exception):
    """An unusable file; the message has its name and the cure."""


class _Head(structs.ApiStruct):
    api_version: str | None = None
    kind: str | None = None
    message: str | None = None


class _ListMeta(msgspec.Struct):
    taken_at: str | None = msgspec.field(default=None, name=TAKEN_AT)
    kinds: list[str] | None = msgspec.field(default=None, name=KINDS)


_FIRST_FIELDS = re.compile(rb'\s*\{\s*"apiVersion":\s*"([a-z0-9./-]+)",\s*"kind":\s*"((?!Status|\w*List")\w+)"')
_HEAD = msgspec.json.Decoder(_Head)
_LIST_META = msgspec.json.Decoder(_ListMeta | None)


class _PlainLoader(yaml.CSafeLoader):
    """YAML as Kubernetes has it: times and a lone `=` are text, and so is every key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as in PyYAML
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        if all(isinstance(key, str) for key in found):
            return found
        return {key if isinstance(key, str) else json.dumps(key): value for key, value in found.items()}


resolve_only(_PlainLoader, lambda kind: kind not in ("timestamp", "value"))


class DumpReader:
    """Reads files into a SnapshotBuilder, and remembers when they were recorded."""

    def __init__(self, collector: SnapshotBuilder, progress: Progress | None = None) -> None:
        self._collector = collector
        self._progress = progress or (lambda size: None)
        self.taken_at: float | None = None

    def read(self, stream: BinaryIO, name: str) -> None:
        """Read a whole file: JSON or YAML, plain or gzipped."""
        try:
            self._read(_decompress(_CountingStream(stream, self._progress)), name)
        except JsonError as error:
            raise DumpError(f"{name}: not usable as JSON: {error}; record it again") from None
        except yaml.YAMLError as error:
            raise DumpError(f"{name}: not usable as YAML or JSON: {_one_line(error)}") from None
        except (UnicodeDecodeError, zlib.error, EOFError, OSError) as error:
            raise DumpError(f"{name}: cannot be read: {_one_line(error)}") from None
        except RecursionError:
            raise DumpError(f"{name}: nested too deeply to be a Kubernetes object") from None

    def _read(self, stream: io.BufferedReader, name: str) -> None:
        start = stream.peek(3)[:3]
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DumpError(f"{name}: is UTF-16 text; record it as UTF-8 (in PowerShell: `| Out-File -Encoding utf8`)")
        if start == b"\xef\xbb\xbf":
            stream.read(3)
        first = _peek_character(stream)
        if not first:
            raise DumpError(f"{name}: is empty; expected what `kubectl get nodes,pods,… -A -o json` prints")
        if not self._take(split(stream) if first in b"{[" else _yaml_parts(stream), name):
            self._collector.note(f"{name}: has no objects that planning reads")

    def _take(self, parts: Iterable[memoryview | bytes | ListHead], name: str) -> int:
        """Pass objects on by kind, and count those used; items without a kind wait for the end of their list."""
        found = 0
        head = outside = ListHead(start=False)
        waiting: list[bytes] = []
        for part in parts:
            if isinstance(part, ListHead):
                found += self._list_head(part, name)
                if part.start:
                    head = part
                else:
                    found += sum(self._object(raw, part, name) or 0 for raw in waiting)
                    waiting, head = [], outside
                continue
            taken = self._object(part, head, name)
            if taken is None:
                waiting.append(bytes(part))
            else:
                found += taken
        return found

    def _list_head(self, head: ListHead, name: str) -> int:
        """Note the kind of an empty list, and the time of a recording."""
        kind = known_kind(head.api_version, (head.kind or "").removesuffix("List"))
        if kind:
            self._collector.saw(kind)
        if head.metadata:
            try:
                meta = _LIST_META.decode(head.metadata) or _ListMeta()
                if meta.taken_at:
                    self.taken_at = max(self.taken_at or 0.0, parse_instant(meta.taken_at))
            except (msgspec.ValidationError, InstantError) as error:
                raise DumpError(f"{name}: metadata: {error}") from None
            for recorded in meta.kinds or ():
                self._collector.saw(recorded)
        return 1 if kind or head.kind == "List" else 0

    def _object(self, raw: memoryview | bytes, head: ListHead, name: str) -> int | None:
        """Pass one object on; 0 if planning does not read its kind, None if its kind is not known yet."""
        try:
            found = _head_of(raw)
        except msgspec.ValidationError as error:
            self._collector.note(f"{name}: an item that is not an object is ignored: {error}")
            return 0
        api_version, kind = found.api_version or head.api_version, found.kind or (head.kind or "").removesuffix("List")
        if not kind:
            if head.start:
                return None
            self._collector.note(f"{name}: an object without kind is ignored")
            return 0
        if kind == "Status" and found.message:
            raise DumpError(f"{name}: is an error of the API server, not objects: {found.message}")
        if kind.endswith("List") and found.kind:
            inner = list(split(io.BytesIO(raw)))
            # A kind's name may end in List: an AllowList without items is one object, of a kind that planning ignores.
            return self._take(inner, name) if isinstance(inner[-1], ListHead) else 0
        known = known_kind(api_version, kind)
        if known is None:
            return 0
        self._collector.add(known, raw, name)
        return 1


def _head_of(raw: memoryview | bytes) -> _Head:
    """Return what an object is. kubectl writes that first, so most objects need not be scanned to their end."""
    first = _FIRST_FIELDS.match(raw)
    return _Head(first[1].decode(), first[2].decode()) if first else _HEAD.decode(raw)


class _CountingStream(io.RawIOBase):
    """A stream that reports how much of it was read."""

    def __init__(self, stream: BinaryIO, progress: Progress) -> None:
        self._stream = stream
        self._progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer even if a pipe returns little at a time: `peek` relies on that."""
        filled = 0
        while filled < len(buffer) and (chunk := self._stream.read(len(buffer) - filled)):
            buffer[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
            self._progress(len(chunk))
        return filled


def _decompress(stream: io.RawIOBase) -> io.BufferedReader:
    """Return the stream, decompressed if it is gzipped."""
    buffered: io.BufferedReader = io.BufferedReader(stream, 1 << 20)
    if buffered.peek(2)[:2] != b"\x1f\x8b":
        return buffered
    return io.BufferedReader(gzip.GzipFile(fileobj=buffered), 1 << 20)


def _peek_character(stream: io.BufferedReader) -> bytes:
    """Peek at the first character that is not white space."""
    while ahead := stream.peek(1):
        stripped = ahead.lstrip()
        if stripped:
            return stripped[:1]
        stream.read(len(ahead))
    return b""


def _yaml_parts(stream: BinaryIO) -> Iterator[bytes | ListHead]:
    """Yield the objects of each YAML document as JSON, with the head of each list."""
    for document in _yaml_documents(stream.read()):
        if document is None:
            continue
        if isinstance(document, list):
            document = {"items": document}
        if not isinstance(document, dict):
            raise yaml.YAMLError(f"expected objects, found {type(document).__name__} {str(document)[:40]!r}")
        items = document.get("items")
        if not isinstance(items, list):
            yield msgspec.json.encode(document)
            continue
        meta = msgspec.json.encode(document.get("metadata") or {})
        api_version, kind = _text(document.get("apiVersion")), _text(document.get("kind"))
        yield ListHead(start=True, api_version=api_version, kind=kind, metadata=meta)
        for item in items:
            yield msgspec.json.encode(item)
        yield ListHead(start=False, api_version=api_version, kind=kind)


def _yaml_documents(text: bytes) -> Iterator[Any]:
    try:
        yield from load_all_yaml(text, _PlainLoader)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # What PyYAML's constructors raise for a value that is not what its tag or its look says, such as 0x or !!int a.
        raise yaml.YAMLError(f"a value that is not what it claims to be: {error}") from error


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


_PRESENT = Raw(b"{}")
_KEPT_OF_VOLUMES = ("name", "persistent_volume_claim", "empty_dir")
_UNREADABLE = "left out of the recording: it could not be read"


class SnapshotRecorder(SnapshotBuilder):
    """Writes a recording: a List, one object a line, as objects come in; with only the fields that planning needs.

    It takes the place of a SnapshotBuilder, behind a file reader or a live list. Objects are decoded into the structs
    and written back, which drops everything without a field there (environment, commands, secrets, status texts,
    annotations of other tools such as kubectl's last-applied copy). Which kinds were listed and when is known only at
    the end, so the list's metadata follows its items.
    """

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out = out
        self.counts: Counter[str] = Counter()
        self._out.write(b'{"apiVersion":"v1","kind":"List","items":[')

    def add(self, kind: str, raw: Bytes, source: str) -> None:
        """Record an object, without fields that planning does not read."""
        self._kinds.add(kind)
        try:
            found: Any = DECODERS[kind].decode(raw)
            _strip(found)
        except (msgspec.ValidationError, SectionError) as error:
            self._add_stand_in(kind, raw, f"{source}: {error}")
            return
        found.kind, found.api_version = kind, READ[kind].api_version
        self._write(kind, found)

    def close(self, taken_at: float | None) -> int:
        """Finish the list with its metadata; return the number of objects."""
        taken = {TAKEN_AT: format_instant(taken_at)} if taken_at is not None else {}
        metadata = msgspec.json.encode({**taken, KINDS: sorted(self._kinds & READ.keys())})
        self._out.write(b'\n],"metadata":' + metadata + b"}\n")
        return self.counts.total()

    def _write(self, kind: str, found: object) -> None:
        self._out.write((b",\n" if self.counts else b"\n") + msgspec.json.encode(found))
        self.counts[kind] += 1

    def _add_stand_in(self, kind: str, raw: Bytes, why: str) -> None:
        """Record only the existence of an unreadable object, so that planning stays as careful as without a recording.

        The stand-in is unreadable too: its pod's node is then no target, and a disruption budget allows nothing.
        """
        loose = msgspec.json.decode(raw)
        name = text_at(loose, "metadata", "name")
        if not name:
            self.warnings.append(f"{why}; this {kind} has no name and is ignored")
            return
        namespace = (text_at(loose, "metadata", "namespace") or "default") if READ[kind].namespaced else ""
        spec: object = _UNREADABLE
        if kind == "Pod":
            spec = {"nodeName": text_at(loose, "spec", "nodeName") or None, "containers": _UNREADABLE}
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        self._write(kind, {"apiVersion": READ[kind].api_version, "kind": kind, "metadata": metadata, "spec": spec})
        title = f"{namespace}/{name}" if namespace else name
        self.warnings.append(f"{why}; of {kind} {title} only the name is recorded")


def _strip(found: structs.ApiObject) -> None:
    """Empty raw sections of which only the presence matters, and drop annotations of other tools."""
    meta = found.metadata
    if meta is not None and meta.annotations is not structs.ABSENT:
        kept = select_annotations(meta.annotations)
        meta.annotations = Raw(msgspec.json.encode(kept)) if kept else structs.ABSENT
    if isinstance(found, structs.ApiPod) and found.status is not None:
        if meta is None or labels.DO_NOT_DISRUPT.encode() not in bytes(meta.annotations):
            found.status.start_time = None
        for condition in (each for each in found.status.conditions or () if is_usual(each)):
            condition.reason = condition.last_transition_time = None  # five in each pod, and never read
    if isinstance(found, structs.ApiPod) and found.spec is not None:
        for volume in found.spec.volumes or ():
            if volume.empty_dir is not None and volume.empty_dir.medium != MEMORY:
                volume.empty_dir.medium = None
            for section in (field for field in structs.ApiPodVolume.__struct_fields__ if field not in _KEPT_OF_VOLUMES):
                _keep_presence(volume, section)
    if isinstance(found, structs.ApiPersistentVolume) and found.spec is not None:
        for section in ("local", "host_path"):
            _keep_presence(found.spec, section)


def _keep_presence(holder: structs.ApiStruct, section: str) -> None:
    """Empty a section; null stays null."""
    raw = getattr(holder, section)
    if raw is not structs.ABSENT and bytes(raw) != b"null":
        setattr(holder, section, _PRESENT)
