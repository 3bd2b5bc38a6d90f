"""JSON patches (RFC 6902) in the dialect of the API server.

`patches` calls it. Where the API server is laxer than the RFC, so are we: `replace` of a key that is not there adds
it, `copy` of one that is not there copies null, `test` holds null and nothing for the same, and an index may count
from the end. Whatever fails makes the whole patch fail, and the API server does not say which operation it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubemini.copies import fresh

Json = dict[str, Any]

_NOTHING = object()


class PatchFailed(ValueError):  # noqa: N818  it is an answer to a client
    """An operation that cannot be done on this object."""


def json_patched(operations: list[Json], document: Any) -> Any:
    """What operations make of a document, which is used up."""
    root = {"": document}  # so that the whole document is a place like any other
    for operation in operations:
        act = _OPERATIONS.get(operation.get("op", ""))
        if act is None:
            raise PatchFailed(f"there is no operation {operation.get('op')!r}")
        act(root, operation)
    return root[""]


def _add(root: Json, operation: Json) -> None:
    _insert(root, _path(operation, "path"), fresh(operation.get("value")))


def _remove(root: Json, operation: Json) -> None:
    path = _path(operation, "path")
    if not path:
        raise PatchFailed("the whole document cannot be removed")
    _take(root, path)


def _replace(root: Json, operation: Json) -> None:
    place, key = _place(root, _path(operation, "path"))
    place[_number(place, key) if isinstance(place, list) else key] = fresh(operation.get("value"))


def _move(root: Json, operation: Json) -> None:
    source, path = _path(operation, "from"), _path(operation, "path")
    _insert(root, path, _take(root, source))


def _copy(root: Json, operation: Json) -> None:
    found = _find(root, _path(operation, "from"))
    _insert(root, _path(operation, "path"), None if found is _NOTHING else fresh(found))


def _test(root: Json, operation: Json) -> None:
    found = _find(root, _path(operation, "path"))
    found = None if found is _NOTHING else found
    wanted = operation.get("value")
    if type(found) is not type(wanted) or found != wanted:
        raise PatchFailed(f"{operation.get('path')} is not what it was tested for")


_OPERATIONS: dict[str, Callable[[Json, Json], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _path(operation: Json, key: str) -> list[str]:
    """A pointer as its steps; what stands before the first slash is not looked at."""
    pointer = operation.get(key)
    if not isinstance(pointer, str):
        raise PatchFailed(f"an operation has no {key}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _place(root: Json, path: list[str]) -> tuple[Any, str]:
    """The object or list that holds what a path points at, and the path's last step."""
    place: Any = root
    for step in ("", *path[:-1])[: len(path)]:
        place = _step(place, step)
        if not isinstance(place, dict | list):
            raise PatchFailed(f"there is nothing at {step!r} to go into")
    return place, path[-1] if path else ""


def _step(place: Any, step: str) -> Any:
    if isinstance(place, list):
        return place[_number(place, step)]
    return place.get(step, _NOTHING)


def _find(root: Json, path: list[str]) -> Any:
    place, key = _place(root, path)
    return _step(place, key)


def _insert(root: Json, path: list[str], value: Any) -> None:
    if not path:
        raise PatchFailed("the whole document can only be replaced")
    place, key = _place(root, path)
    if not isinstance(place, list):
        place[key] = value
    elif key == "-":
        place.append(value)
    else:
        number = _whole(key)
        size = len(place) + 1
        if not -size <= number < size:
            raise PatchFailed(f"{key} is outside the list")
        place.insert(number if number >= 0 else number + size, value)


def _take(root: Json, path: list[str]) -> Any:
    place, key = _place(root, path)
    if isinstance(place, list):
        return place.pop(_number(place, key))
    if key not in place:
        raise PatchFailed(f"there is no {key!r} to be removed")
    return place.pop(key)


def _number(place: list[Any], step: str) -> int:
    number = _whole(step)
    if not -len(place) <= number < len(place):
        raise PatchFailed(f"{step} is outside the list")
    return number


def _whole(step: str) -> int:
    if not step.removeprefix("-").isascii() or not step.removeprefix("-").isdigit():
        raise PatchFailed(f"{step!r} is not an index")
    return int(step)
