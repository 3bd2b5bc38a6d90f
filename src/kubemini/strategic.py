"""Strategic merge patches: a merge that knows by which key the items of a list are told apart.

`patches` calls it with the shape of a built-in kind. A patch may give directives besides values: `$patch` (replace,
delete), `$retainKeys`, `$deleteFromPrimitiveList/…` and `$setElementOrder/…`, which kubectl puts in. The order of a
merged list is that of the API server: what the patch names, in the patch's order, moves as little as it can past
what only the object has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kubemini.refusals import Json, Refusal, bad_request
from kubemini.schemas.shapes import List, Shape, Struct, part_of

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def strategic_patched(shape: Shape, patch: Json, original: Json) -> Json:
    """What a patch makes of an object; both are used up."""
    return _merged(original, patch, shape)


def _merged(original: Json, patch: Json, shape: Shape) -> Json:
    if _PATCH in patch:
        return _directed(patch)
    _retain(original, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _reorder(original, patch, key, shape)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(original, key.removeprefix(_DELETE_FROM), value)
        elif value is None:
            original.pop(key, None)
        elif key in original:
            original[key] = _merged_value(original[key], value, shape, key)
        elif not _is_directive(value):
            original[key] = _settled(value)
    return original


def _merged_value(original: Any, patch: Any, shape: Shape, key: str) -> Any:
    part = part_of(shape, key)
    if isinstance(original, dict) and isinstance(patch, dict):
        replaced = isinstance(shape, Struct) and key in shape.fields and shape.fields[key].replaced
        return patch if replaced else _merged(original, patch, part)
    if isinstance(original, list) and isinstance(patch, list):
        return _merged_list(original, patch, part)
    return _settled(patch)


def _merged_list(original: list[Any], patch: list[Any], part: Shape) -> list[Any]:
    if not isinstance(part, List) or not (part.merges or part.merge_key):
        return patch
    if not original and not patch:
        return original
    if not _are_objects([*original, *patch]):
        both = list(dict.fromkeys([*original, *patch]))
        return _in_order(both, patch, original, lambda item: item)
    identity = _identity_by(part.merge_key)
    original, patch = _without_directives(original, patch, part.merge_key)
    items = list(original)
    for each in patch:
        wanted = identity(each)
        at = next((number for number, item in enumerate(items) if identity(item) == wanted), None)
        if at is None:
            items.append(each)
        else:
            items[at] = _merged(items[at], each, part.of)
    return _in_order(items, patch, original, identity)


def _without_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """What is left of both lists when items that are directives have been heeded."""
    plain = [each for each in patch if _PATCH not in each]
    replaces = False
    for each in patch:
        match each.get(_PATCH):
            case None:
                pass
            case "delete":
                gone = _identity_by(key)(each)
                original = [item for item in original if _identity_by(key)(item) != gone]
            case "replace":
                replaces = True
            case "merge":
                raise _failed("merging lists cannot yet be specified in the patch")
            case other:
                raise _failed(f"unknown patch type: {other} in map: {each}")
    return ([], plain) if replaces else (original, plain)


def _in_order(
    items: list[Any], patch: Sequence[Any], original: Sequence[Any], identity: Callable[[Any], Any]
) -> list[Any]:
    """Merged items: those of the patch in its order, the others in theirs, woven together as they were."""
    in_patch = _places(patch, identity)
    in_original = _places(original, identity)
    named = sorted((item for item in items if identity(item) in in_patch), key=lambda item: in_patch[identity(item)])
    others = [item for item in items if identity(item) not in in_patch]
    others.sort(key=lambda item: in_original.get(identity(item), len(in_original)))
    woven: list[Any] = []
    for item in named:
        place = in_original.get(identity(item))
        while others and place is not None and in_original.get(identity(others[0]), len(in_original)) < place:
            woven.append(others.pop(0))
        woven.append(item)
    return woven + others


def _places(items: Sequence[Any], identity: Callable[[Any], Any]) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for number, item in enumerate(items):
        places.setdefault(identity(item), number)
    return places


def _reorder(original: Json, patch: Json, directive: str, shape: Shape) -> None:
    """`$setElementOrder/containers`: the list is merged, and its items come in the order that the patch wants."""
    key = directive.removeprefix(_ORDER)
    part = part_of(shape, key)
    order, before, wanted = patch.pop(directive), original.get(key, []), patch.get(key, [])
    if not isinstance(part, List) or not (part.merges or part.merge_key):
        raise _failed(f"{directive}: {key} is not merged item by item, so its items have no order to be set")
    if not all(isinstance(each, list) for each in (order, before, wanted)):
        raise _failed(f"{directive} and what it orders must be lists")
    identity: Callable[[Any], Any] = _identity_by(part.merge_key) if part.merge_key else lambda item: item
    if not _follows(wanted, order, identity):
        raise _failed(f"The order in patch list:\n{wanted}\n doesn't match $setElementOrder list:\n{order}\n")
    if key not in patch and key not in original:
        return
    if not before and not wanted:
        raise _failed("no elements in any of the given slices")
    if key not in original:
        merged = [each for each in wanted if not _is_directive(each)]
    else:
        merged = _merged_list(before, wanted, part) if key in patch else before
    original[key] = _in_order(merged, order, before, identity)
    patch.pop(key, None)


def _follows(wanted: list[Any], order: list[Any], identity: Callable[[Any], Any]) -> bool:
    """Whether the items of a patch come in the order that it sets; those that are deleted need no place in it."""
    places = deque(identity(each) for each in order) if wanted else deque()
    for each in wanted if order else ():
        if isinstance(each, dict) and each.get(_PATCH) == "delete":
            continue
        if not places:
            return False
        found = _is_directive(each)
        while places and not found:
            found = places.popleft() == identity(each)
        if not found:
            return False
    return True


def _retain(original: Json, patch: Json) -> None:
    """`$retainKeys`: what is not named there goes."""
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    named = [key for key, value in patch.items() if value is not None and not key.startswith((_DELETE_FROM, _ORDER))]
    if not isinstance(kept, list) or not set(named) <= set(kept):
        raise bad_request("invalid patch format of retainKeys")
    for key in set(original) - set(kept):
        del original[key]


def _delete_from(original: Json, key: str, gone: Any) -> None:
    if not isinstance(gone, list):
        raise bad_request("invalid patch format of primitive list")
    if isinstance(original.get(key), list):
        original[key] = [each for each in original[key] if each not in gone]


def _directed(patch: Json) -> Json:
    match patch.pop(_PATCH):
        case "replace":
            return patch
        case "delete":
            return {}
        case other:
            raise _failed(f"unknown patch type: {other} in map: {patch}")


def _settled(value: Any) -> Any:
    """A value for a key that was not there: nothing is left to be done in it, so directives and nulls go."""
    if isinstance(value, list):
        return [_settled(each) for each in value if not _is_directive(each)]
    if not isinstance(value, dict):
        return value
    return {
        key: _settled(each)
        for key, each in value.items()
        if each is not None
        and not _is_directive(each)
        and key != _RETAIN
        and not key.startswith((_DELETE_FROM, _ORDER))
    }


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _identity_by(key: str) -> Callable[[Any], Any]:
    def identity(item: Any) -> Any:
        if not isinstance(item, dict) or key not in item:
            raise _failed(f"map: {item} does not contain declared merge key: {key}")
        return item[key]

    return identity


def _are_objects(items: list[Any]) -> bool:
    kinds = {type(each) for each in items}
    if len(kinds) > 1 or list in kinds:
        raise _failed(f"list element types are not identical: {items}")
    return kinds == {dict}


def _failed(why: str) -> Refusal:
    """The API server holds a patch that it cannot make sense of for an error of its own."""
    return Refusal(500, "", why)
