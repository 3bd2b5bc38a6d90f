"""What server-side apply does with objects, shape by shape: which fields there are, what differs, merge and removal.

`apply` puts these together. Each is one walk down an object along its kind's shape, in the manner of Kubernetes'
structured-merge-diff: objects and keyed lists field by field, sets member by member, everything atomic as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kubemini.field_sets import Fields, Path, field_step, key_step, value_step
from kubemini.refusals import Json
from kubemini.schemas.shapes import ANYTHING, List, Map, Shape, Struct, is_named, part_of

NOTHING: Final = object()
"""In the place of a value where there is none."""
EMPTIED: Final = object()
"""In the place of an object or a list that lost all that was in it; `settled` takes it out."""


def fields_of(shape: Shape, value: Json) -> Fields:
    """The fields that somebody who applies this object has an opinion about."""
    found: set[Path] = set()
    _collect(shape, value, (), found)
    return frozenset(found)


@dataclass(slots=True)
class Difference:
    """Which fields came, went, or changed their value."""

    added: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)


def difference(shape: Shape, before: Json, after: Json) -> Difference:
    """How one version of an object differs from another."""
    found = Difference()
    _compare(shape, before, after, (), found)
    return found


def merged(shape: Shape, live: Any, wanted: Any) -> Any:
    """What is there, overlaid by what is wanted; null is wanted like any other value."""
    if is_granular_object(shape, wanted) and (live is NOTHING or isinstance(live, dict)):
        below: Json = dict(live) if isinstance(live, dict) else {}
        for key, each in wanted.items():
            below[key] = merged(part_of(shape, key), below.get(key, NOTHING), each)
        return below
    if isinstance(shape, List) and is_granular_list(shape, wanted) and (live is NOTHING or isinstance(live, list)):
        return _merged_list(shape, live if isinstance(live, list) else [], wanted)
    return wanted


def without(shape: Shape, value: Any, gone: Json) -> Any:
    """A value less the fields in a tree of them; what has nothing left in it is EMPTIED."""
    if is_granular_object(shape, value):
        kept: Json = {}
        for key, each in value.items():
            below = gone.get(field_step(key))
            if below is None:
                kept[key] = each
            elif not _is_member(below):
                kept[key] = without(part_of(shape, key), each, below)
        return kept or (EMPTIED if value else value)
    if isinstance(shape, List) and is_granular_list(shape, value):
        items = []
        for item in value:
            below = gone.get(step_to(shape, item))
            if below is None:
                items.append(item)
            elif not _is_member(below):
                items.append(without(shape.of, item, below))
        return items or (EMPTIED if value else value)
    return value


def settled(value: Any, *, keep_nulls: bool) -> Any:
    """A value without what was emptied, or with null in its place."""
    if isinstance(value, dict):
        kept = {key: settled(each, keep_nulls=keep_nulls) for key, each in value.items()}
        return kept if keep_nulls else {key: each for key, each in kept.items() if each is not EMPTIED}
    if isinstance(value, list):
        return [settled(each, keep_nulls=keep_nulls) for each in value if each is not EMPTIED]
    return None if value is EMPTIED and keep_nulls else value


def with_named(fields: Fields, shape: Shape) -> Fields:
    """A set with the named fields that have something of it in them."""
    found = set(fields)
    shapes: dict[Path, Shape] = {(): shape}
    for path in fields:
        above: Path = ()
        for step in path[:-1]:
            here = (*above, step)
            if here not in shapes:
                around = shapes[above]
                if step.startswith("f:"):
                    shapes[here] = part_of(around, step[2:])
                    if is_named(around, step[2:]):
                        found.add(here)
                else:
                    shapes[here] = around.of if isinstance(around, List) else ANYTHING
            above = here
    return frozenset(found)


def empty_of(shape: Shape) -> Any:
    """The object that there is before anybody has written anything into it."""
    if not isinstance(shape, Struct):
        return None
    return {key: empty_of(each.shape) for key, each in shape.fields.items() if each.always}


def step_to(shape: List, item: Any) -> str:
    """The step to an item of a list that is not atomic."""
    if shape.keys and isinstance(item, dict):
        return key_step({key: item.get(key, shape.key_defaults.get(key)) for key in shape.keys})
    return value_step(item)


def is_granular_object(shape: Shape, value: Any) -> bool:
    """Whether a value is an object whose fields are looked at one by one."""
    return isinstance(value, dict) and not (isinstance(shape, Struct | Map) and shape.atomic)


def is_granular_list(shape: Shape, value: Any) -> bool:
    """Whether a value is a list whose items are looked at one by one."""
    return isinstance(value, list) and isinstance(shape, List) and not shape.atomic


def _collect(shape: Shape, value: Any, path: Path, found: set[Path]) -> None:
    if is_granular_object(shape, value):
        for key, each in value.items():
            below = (*path, field_step(key))
            _collect(part_of(shape, key), each, below, found)
            if each is None or each == {} or not is_named(shape, key):
                found.add(below)
    elif is_granular_list(shape, value) and isinstance(shape, List):
        for item in value:
            below = (*path, step_to(shape, item))
            _collect(shape.of, item, below, found)
            found.add(below)
    else:
        found.add(path)


def _compare(shape: Shape, before: Any, after: Any, path: Path, found: Difference) -> None:
    has_parts = _compare_parts(shape, before, after, path, found)
    if before is NOTHING:
        found.added.add(path)
    elif after is NOTHING:
        found.removed.add(path)
    elif not has_parts and not _same(before, after):
        found.modified.add(path)


def _compare_parts(shape: Shape, before: Any, after: Any, path: Path, found: Difference) -> bool:
    """Compare what is in two values; no if there is nothing in them, or they are to be compared as they are."""
    sides = [each for each in (before, after) if isinstance(each, dict | list)]
    if not any(sides) or len(sides) < sum(each not in (NOTHING, EMPTIED, None) for each in (before, after)):
        return False
    if all(is_granular_object(shape, each) for each in sides):
        one, other = before if isinstance(before, dict) else {}, after if isinstance(after, dict) else {}
        for key in {**one, **other}:
            below = (*path, field_step(key))
            _compare(part_of(shape, key), one.get(key, NOTHING), other.get(key, NOTHING), below, found)
        return True
    if isinstance(shape, List) and all(is_granular_list(shape, each) for each in sides):
        items, others = _by_step(shape, before), _by_step(shape, after)
        for step in {**items, **others}:
            _compare(shape.of, items.get(step, NOTHING), others.get(step, NOTHING), (*path, step), found)
        return True
    return False


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _by_step(shape: List, items: Any) -> dict[str, Any]:
    return {step_to(shape, item): item for item in items} if isinstance(items, list) else {}


def _merged_list(shape: List, live: list[Any], wanted: list[Any]) -> list[Any]:
    """Items of both: what both have comes in the order that is wanted, the others stay where they were beside it."""
    there, asked = _by_step(shape, live), _by_step(shape, wanted)
    shared = [step for step in asked if step in there]
    out: list[Any] = []
    done: set[str] = set()
    lefts, rights = [step_to(shape, item) for item in live], list(asked)
    left = right = 0

    def take(step: str) -> None:
        nonlocal right
        right += 1
        done.add(step)
        out.append(merged(shape.of, there.get(step, NOTHING), asked[step]))
        if shared and shared[0] == step:
            shared.pop(0)

    while left < len(lefts) or right < len(rights):
        if left < len(lefts) and right < len(rights):
            if lefts[left] == rights[right]:
                take(rights[right])
                left += 1
                continue
            if lefts[left] in asked and shared and shared[0] != lefts[left]:
                left += 1  # both have it, but it is not its turn
                continue
        if left < len(lefts) and lefts[left] not in asked:
            out.append(live[left])
            left += 1
            continue
        if left < len(lefts) and lefts[left] in done:
            left += 1
        if right < len(rights):
            take(rights[right])
    return out


def _is_member(tree: Json) -> bool:
    return not tree or "." in tree
