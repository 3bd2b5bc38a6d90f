"""Recordings: what `rescheduler snapshot` writes and `plan -f` reads, with only the fields that planning needs.

A SnapshotRecorder takes the place of a SnapshotBuilder, behind a file reader or a live list. Objects are decoded into
the structs and written back, which drops everything without a field there (environment, commands, secrets, status
texts, annotations of other tools such as kubectl's last-applied copy). Which kinds were listed and when is known only
at the end, so the list's metadata follows its items.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw

from rescheduler.decode import structs
from rescheduler.decode.dump import KINDS, TAKEN_AT
from rescheduler.decode.pods import is_usual, select_annotations
from rescheduler.decode.reader import SnapshotBuilder
from rescheduler.decode.sections import SectionError
from rescheduler.decode.structs import CLUSTER_SCOPED, READ
from rescheduler.model import labels
from rescheduler.model.time import format_instant

_DECODERS = {kind: msgspec.json.Decoder(struct) for kind, (_, struct) in READ.items()}
_PRESENT = Raw(b"{}")
_VERSIONS = {"metrics.k8s.io": "v1beta1", "autoscaling": "v2"}
_KEPT_OF_VOLUMES = ("name", "persistent_volume_claim")
_UNREADABLE = "left out of the recording: it could not be read"


class SnapshotRecorder(SnapshotBuilder):
    """Writes a List, one object a line, as objects come in."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out = out
        self._kinds: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.warnings: list[str] = []
        self._out.write(b'{"apiVersion":"v1","kind":"List","items":[')

    def saw(self, kind: str) -> None:
        """Note that a kind was listed, even if it has no objects."""
        self._kinds.add(kind)

    def note(self, warning: str) -> None:
        """Add a warning about the whole input."""
        self.warnings.append(warning)

    def add(self, kind: str, raw: bytes | memoryview, source: str) -> None:
        """Record an object, without fields that planning does not read."""
        self._kinds.add(kind)
        try:
            found: Any = _DECODERS[kind].decode(raw)
            _strip(found)
        except (msgspec.ValidationError, SectionError) as error:
            self._add_stand_in(kind, raw, f"{source}: {error}")
            return
        found.kind, found.api_version = kind, _api_version(kind)
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

    def _add_stand_in(self, kind: str, raw: bytes | memoryview, why: str) -> None:
        """Record only the existence of an unreadable object, so that planning stays as careful as without a recording.

        The stand-in is unreadable too: its pod's node is then no target, and a disruption budget allows nothing.
        """
        loose = msgspec.json.decode(raw)
        name = _text(loose, "metadata", "name")
        if not name:
            self.warnings.append(f"{why}; this {kind} has no name and is ignored")
            return
        namespace = "" if kind in CLUSTER_SCOPED else _text(loose, "metadata", "namespace") or "default"
        spec: object = _UNREADABLE
        if kind == "Pod":
            spec = {"nodeName": _text(loose, "spec", "nodeName") or None, "containers": _UNREADABLE}
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        self._write(kind, {"apiVersion": _api_version(kind), "kind": kind, "metadata": metadata, "spec": spec})
        title = f"{namespace}/{name}" if namespace else name
        self.warnings.append(f"{why}; of {kind} {title} only the name is recorded")


def _api_version(kind: str) -> str:
    group = READ[kind][0]
    version = _VERSIONS.get(group, "v1")
    return f"{group}/{version}" if group else version


def _text(loose: object, *path: str) -> str:
    """Return the text at a path, or an empty one."""
    for key in path:
        loose = loose.get(key) if isinstance(loose, dict) else None
    return loose if isinstance(loose, str) else ""


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
