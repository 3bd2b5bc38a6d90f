"""Recordings: what `rescheduler snapshot` writes and `plan -f` reads, with nothing in it that planning doesn't need.

Objects are decoded into the wire structs and written back: whatever those don't name (environment, commands, secrets,
status texts, other tools' annotations such as kubectl's last-applied copy) is thereby left out.
"""

from __future__ import annotations

from typing import BinaryIO

import msgspec
from msgspec import Raw

from rescheduler.cluster import wire
from rescheduler.cluster.dump import KINDS, TAKEN_AT
from rescheduler.cluster.kinds import READ
from rescheduler.cluster.pods import our_annotations
from rescheduler.cluster.sections import SectionError
from rescheduler.model.instant import format_instant

_DECODERS = {kind: msgspec.json.Decoder(struct) for kind, (_, struct) in READ.items()}
_PRESENT = Raw(b"{}")
_VERSIONS = {"metrics.k8s.io": "v1beta1"}
_ONLY_PRESENCE = ("ephemeral", "host_path", "empty_dir", "aws_elastic_block_store", "gce_persistent_disk", "azure_disk")


class Recorder:
    """Writes a List, an object a line, as objects come."""

    def __init__(self, out: BinaryIO, taken_at: float) -> None:
        self._out = out
        self._count = 0
        head = {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {TAKEN_AT: format_instant(taken_at), KINDS: sorted(READ)},
        }
        # The closing brace is written at the end, after the items.
        self._out.write(msgspec.json.encode(head)[:-1] + b',"items":[')

    def add(self, kind: str, raw: bytes | memoryview) -> str | None:
        """Record one object; says what is wrong with one that cannot be understood, and leaves it out."""
        try:
            found = _DECODERS[kind].decode(raw)
            _strip(found)
        except (msgspec.ValidationError, SectionError) as error:
            return f"a {kind} cannot be recorded: {error}"
        group = READ[kind][0]
        version = _VERSIONS.get(group, "v1")
        found.kind, found.api_version = kind, f"{group}/{version}" if group else version
        self._out.write((b",\n" if self._count else b"\n") + msgspec.json.encode(found))
        self._count += 1
        return None

    def close(self) -> int:
        """Finish the list; says how many objects it has."""
        self._out.write(b"\n]}\n")
        return self._count


def _strip(found: wire.Anything) -> None:
    """Leave out of raw sections what only their presence matters of, and annotations that aren't ours."""
    meta = found.metadata
    if meta is not None and meta.annotations is not wire.ABSENT:
        kept = our_annotations(meta.annotations)
        meta.annotations = Raw(msgspec.json.encode(kept)) if kept else wire.ABSENT
    if isinstance(found, wire.Pod) and found.spec is not None:
        for volume in found.spec.volumes or ():
            for section in (*_ONLY_PRESENCE, "rbd", "iscsi"):
                if getattr(volume, section) is not wire.ABSENT:
                    setattr(volume, section, _PRESENT)
    if isinstance(found, wire.PersistentVolume) and found.spec is not None:
        for section in ("local", "host_path"):
            if getattr(found.spec, section) is not wire.ABSENT:
                setattr(found.spec, section, _PRESENT)
