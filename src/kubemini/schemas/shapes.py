"""What a value in an object may be, and how two writers' values of it are brought together.

`built_in` makes shapes of the built-in kinds, `custom` of the schemas in CustomResourceDefinitions. Strategic patches
and server-side apply merge by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts, of one of the sorts that the rules' field tables know, or `number`."""

    sort: str


@dataclass(frozen=True, slots=True)
class Anything:
    """A value that nothing is known about: maps merge key by key, lists as a whole."""


@dataclass(slots=True, eq=False)
class Map:
    """An object whose keys are free. An atomic one belongs to one writer as a whole."""

    of: Shape
    atomic: bool = False


@dataclass(slots=True, eq=False)
class List:
    """A list: of keyed items (`keys`), a set of scalars (`unique`), or one value as a whole.

    Strategic patches have rules of their own: `merge_key` for lists of objects, `merges` for lists of scalars.
    """

    of: Shape
    keys: tuple[str, ...] = ()
    unique: bool = False
    merge_key: str = ""
    merges: bool = False
    key_defaults: dict[str, Any] = field(default_factory=dict)
    """What a key is taken to be where an item does not give it."""

    @property
    def atomic(self) -> bool:
        """Whether it belongs to one writer as a whole."""
        return not self.keys and not self.unique


@dataclass(slots=True, eq=False)
class Field:
    """One named field of an object."""

    shape: Shape
    always: bool = False
    """Whether even an empty object has it: then nobody owns its being there, only what is in it."""
    replaced: bool = False
    """Whether a strategic patch replaces it instead of merging into it."""


@dataclass(slots=True, eq=False)
class Struct:
    """An object with named fields."""

    name: str
    fields: dict[str, Field] = field(default_factory=dict)
    atomic: bool = False
    rest: Shape | None = None
    """What fields without a name here are; None where there may be none."""


Shape = Scalar | Anything | Map | List | Struct

ANYTHING = Anything()


def part_of(shape: Shape, key: str) -> Shape:
    """The shape of what an object has under a key."""
    match shape:
        case Struct():
            found = shape.fields.get(key)
            return found.shape if found else shape.rest or ANYTHING
        case Map():
            return shape.of
        case _:
            return ANYTHING


def is_named(shape: Shape, key: str) -> bool:
    """Whether the key is one that the shape itself names."""
    return isinstance(shape, Struct) and key in shape.fields
