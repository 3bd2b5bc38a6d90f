"""What a column of a Table is, and words that several kinds' columns share.

`columns_*` say for each kind which columns it has and what stands in them; `tables` finds and uses them. Cells and
names are those of the real API server, since people and scripts read them by their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubemini.refusals import Json
from kubemini.server import ages

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = ages.UNKNOWN

Cells = list[Any]
Row = Callable[[Json], Cells]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Priority 1 is shown with `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    @property
    def definition(self) -> Json:
        """As a Table's head has it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


NAME = Column("Name", format="name")
AGE = Column("Age")


@dataclass(frozen=True, slots=True)
class Printer:
    """How objects of a kind become rows."""

    columns: Sequence[Column]
    row: Row
    conditions: Callable[[Json], list[Json]] | None = None
    """What a row says besides its cells."""
    among: Callable[[Iterable[Json]], Row] | None = None
    """Where a row depends on the other rows of its list: from all objects of the list to the row of one."""


def wide(*names: str) -> list[Column]:
    """Text columns for `-o wide`."""
    return [Column(name, priority=1) for name in names]


def texts(*names: str) -> list[Column]:
    """Text columns."""
    return [Column(name) for name in names]


def numbers(*names: str) -> list[Column]:
    """Columns of whole numbers."""
    return [Column(name, "integer") for name in names]


def dig(body: Any, *steps: str) -> Any:
    """What is at a path of fields; nothing if it ends before."""
    for step in steps:
        if not isinstance(body, dict):
            return None
        body = body.get(step)
    return body


def name_of(body: Json) -> str:
    """An object's name."""
    return dig(body, "metadata", "name") or ""


def age_of(body: Json) -> str:
    """How long ago an object was made."""
    return ages.age(dig(body, "metadata", "creationTimestamp"))


def is_deleting(body: Json) -> bool:
    """Whether an object is about to go."""
    return bool(dig(body, "metadata", "deletionTimestamp"))


def condition(body: Json, sort: str) -> Json | None:
    """A condition in an object's status."""
    found = (each for each in dig(body, "status", "conditions") or () if each.get("type") == sort)
    return next(found, None)


def holds(body: Json, sort: str) -> bool:
    """Whether a condition is True."""
    return (condition(body, sort) or {}).get("status") == "True"


def labels_text(labels: Mapping[str, str] | None) -> str:
    """A map of labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Json | None) -> str:
    """A label selector as `kubectl get -l` takes it; the empty one is the empty text."""
    terms = {(key, f"{key}={value}") for key, value in (dig(selector, "matchLabels") or {}).items()}
    for each in dig(selector, "matchExpressions") or ():
        key, values = each.get("key", ""), ",".join(sorted(each.get("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.add((key, forms.get(each.get("operator", ""), "<error>")))
    return ",".join(text for _, text in sorted(terms))


def containers_of(template: Json | None) -> tuple[str, str]:
    """The names and the images of a pod template's containers."""
    containers = dig(template, "spec", "containers") or ()
    names = ",".join(each.get("name", "") for each in containers)
    return names, ",".join(each.get("image", "") for each in containers)
