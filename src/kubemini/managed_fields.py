"""The managedFields of an object: which writer owns which fields, and since when.

`apply` changes them when somebody applies, and `noted` when somebody writes in another way. An entry is told apart by
its manager, the operation and the subresource; other ways of writing than apply also by the version of the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kubemini import clock
from kubemini.field_sets import Fields, Path, as_tree, from_tree
from kubemini.refusals import Json

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "unknown"  # `before-first-apply` is a name that kubectl takes for its own
_ANCIENT = "ancient-changes"
_MOST_UPDATERS = 10

_METADATA = "f:metadata"
_NOBODYS = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        (_METADATA,),
        *(
            (_METADATA, f"f:{name}")
            for name in (
                "name",
                "namespace",
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "managedFields",
                "selfLink",
            )
        ),
    }
)
"""What belongs to the server."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Whoever may own fields."""

    manager: str
    operation: str
    subresource: str = ""
    api_version: str = ""
    """Of an update; whoever applies is the same in every version."""

    def __str__(self) -> str:
        words = f'"{self.manager}"'
        if self.subresource:
            words += f' with subresource "{self.subresource}"'
        return words + (f" using {self.api_version}" if self.operation == UPDATE else "")


@dataclass(frozen=True, slots=True)
class Owned:
    """What one writer owns."""

    fields: Fields
    time: str
    api_version: str


@dataclass(slots=True)
class Ownership:
    """All writers of an object."""

    by_writer: dict[Writer, Owned] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Writer, Fields]]:
        return iter([(writer, owned.fields) for writer, owned in self.by_writer.items()])

    def fields_of(self, writer: Writer) -> Fields:
        """What a writer owns now."""
        owned = self.by_writer.get(writer)
        return owned.fields if owned else frozenset()

    def of_all(self) -> Fields:
        """What anybody owns."""
        return frozenset().union(*(owned.fields for owned in self.by_writer.values()))

    def give(self, writer: Writer, fields: Fields, api_version: str) -> None:
        """Have a writer own these fields and no others; the time changes only if that is news."""
        before = self.by_writer.get(writer)
        if not fields:
            self.by_writer.pop(writer, None)
        elif before is None or before.fields != fields or before.api_version != api_version:
            self.by_writer[writer] = Owned(fields, clock.stamp(clock.now()), api_version)

    def take(self, writer: Writer, fields: Iterable[Path]) -> None:
        """Have a writer no longer own some fields. When it last wrote does not change by that."""
        owned = self.by_writer[writer]
        left = owned.fields - frozenset(fields)
        if left:
            self.by_writer[writer] = replace(owned, fields=left)
        else:
            del self.by_writer[writer]


def owned_by_clients(fields: Iterable[Path]) -> Fields:
    """A set without what belongs to the server."""
    return frozenset(fields) - _NOBODYS


def read(metadata: Json) -> Ownership:
    """The managedFields of an object."""
    ownership = Ownership()
    for entry in metadata.get("managedFields") or ():
        operation, version = entry.get("operation", UPDATE), entry.get("apiVersion", "")
        writer = Writer(
            entry.get("manager", ""),
            operation,
            entry.get("subresource", ""),
            version if operation == UPDATE else "",
        )
        fields = from_tree(entry.get("fieldsV1") or {})
        ownership.by_writer[writer] = Owned(fields, entry.get("time", ""), version)
    return ownership


def written(ownership: Ownership) -> list[Json]:
    """The managedFields that say so: appliers first, the older before the newer."""
    _forget_old_updaters(ownership)
    entries = sorted(
        ownership.by_writer.items(),
        key=lambda each: (
            each[0].operation,
            each[1].time,
            each[0].manager,
            each[1].api_version,
            each[0].subresource,
        ),
    )
    return [_entry(writer, owned) for writer, owned in entries]


def _entry(writer: Writer, owned: Owned) -> Json:
    entry = {
        "manager": writer.manager,
        "operation": writer.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": as_tree(owned.fields),
    }
    return entry | ({"subresource": writer.subresource} if writer.subresource else {})


def _forget_old_updaters(ownership: Ownership) -> None:
    """So that an object does not grow with everyone who ever touched it, the oldest updates become one."""
    updaters = sorted(
        (writer for writer in ownership.by_writer if writer.operation == UPDATE),
        key=lambda writer: ownership.by_writer[writer].time,
    )
    oldest = updaters[: max(len(updaters) - _MOST_UPDATERS + 1, 0)]
    if len(updaters) <= _MOST_UPDATERS:
        return
    together = [ownership.by_writer.pop(writer) for writer in oldest]
    fields = frozenset().union(*(owned.fields for owned in together))
    newest = together[-1]
    ancient = Writer(_ANCIENT, UPDATE, "", newest.api_version)
    ownership.by_writer[ancient] = Owned(fields, newest.time, newest.api_version)
