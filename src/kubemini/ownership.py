"""Who owns which fields of an object after a write, and what an apply makes of the object.

`apply` asks for what somebody wants of an object, `api` has every other write noted. Both are pure: an object goes in
with its managedFields, and comes out with new ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubemini.field_sets import Fields, as_tree, in_order, in_words
from kubemini.field_walks import (
    difference,
    empty_of,
    fields_of,
    merged,
    settled,
    with_named,
    without,
)
from kubemini.kinds import Kind
from kubemini.managed_fields import (
    BEFORE_FIRST_APPLY,
    UPDATE,
    Ownership,
    Writer,
    owned_by_clients,
    read,
    written,
)
from kubemini.refusals import Json, Refusal
from kubemini.schema import shape_of
from kubemini.schemas.shapes import Struct


def noted(kind: Kind, before: Json, after: Json, manager: str, subresource: str) -> None:
    """Keep count of a write that is no apply, in the new version's managedFields.

    Nothing happens to objects that nobody ever applied. A writer without a name leaves ownership as it is; so does
    `apply` itself, which has already seen to it. Who sends an empty list of managedFields wants them forgotten.
    """
    given = after["metadata"].get("managedFields")
    if given is None:
        if "managedFields" not in before["metadata"]:
            return
        after["metadata"]["managedFields"] = before["metadata"]["managedFields"]
    elif not any(given):
        del after["metadata"]["managedFields"]
        return
    if not manager:
        return
    shape = shape_of(kind)
    ownership = read(after["metadata"])
    found = difference(shape, before, after)
    writer = Writer(manager, UPDATE, subresource, kind.api_version)
    changed = owned_by_clients(found.added | found.modified)
    _take_from_others(ownership, writer, changed | found.removed)
    mine = (ownership.fields_of(writer) - frozenset(found.removed)) | changed
    ownership.give(writer, mine, kind.api_version)
    after["metadata"]["managedFields"] = written(ownership)


def applied(kind: Kind, before: Json, configuration: Json, writer: Writer, *, force: bool) -> Json:
    """What an object is with all that a manager wants; `before` is used up. Refused where others want otherwise."""
    shape = shape_of(kind)
    ownership = read(before["metadata"])
    before["metadata"].pop("managedFields", None)
    if not ownership.by_writer:
        _own_what_is_there(kind, before, ownership, writer.subresource)
    last = ownership.fields_of(writer)
    named = fields_of(shape, configuration)
    wanted = merged(shape, before, configuration)
    others = frozenset().union(*(fields for other, fields in ownership if other != writer))
    after = _pruned(shape, wanted, last, others | named)
    found = difference(shape, before, after)
    changed = frozenset(found.added | found.modified)
    conflicts = {other: fields & changed for other, fields in ownership if other != writer and fields & changed}
    if conflicts and not force:
        raise _conflict(conflicts)
    _take_from_others(ownership, writer, changed | found.removed)
    ownership.give(writer, owned_by_clients(named), kind.api_version)
    # The API server leaves null where something was emptied. The types of built-in kinds have no use for it.
    body: Json = settled(after, keep_nulls=kind.custom)
    body["metadata"]["managedFields"] = written(ownership)
    return body


def _pruned(shape: Struct, wanted: Json, last: Fields, owned: Fields) -> Json:
    """What is wanted, less what its manager applied last time and nobody applies or owns any more."""
    if not last:
        return wanted
    dropped = with_named(last, shape)
    fewer = without(shape, wanted, as_tree(dropped))
    everything = with_named(fields_of(shape, wanted), shape)
    gone = everything - _all_of(shape, fewer) - with_named(owned, shape)
    fewer = without(shape, wanted, as_tree(gone))
    # What was there by itself, such as a default, was never his to take away.
    gone = (everything - _all_of(shape, fewer)) & dropped
    pruned: Json = without(shape, wanted, as_tree(gone))
    return pruned


def _all_of(shape: Struct, value: object) -> Fields:
    return with_named(fields_of(shape, value), shape) if isinstance(value, dict) else frozenset()


def _own_what_is_there(kind: Kind, before: Json, ownership: Ownership, subresource: str) -> None:
    """Whatever was there before the first apply belongs to a manager of that name."""
    shape = shape_of(kind)
    found = difference(shape, empty_of(shape), reachable(kind, before, subresource))
    fields = owned_by_clients(found.added | found.modified)
    if subresource == "status":
        fields = frozenset(path for path in fields if path[0] == "f:status")
    writer = Writer(BEFORE_FIRST_APPLY, UPDATE, subresource, kind.api_version)
    ownership.give(writer, fields, kind.api_version)


def _take_from_others(ownership: Ownership, writer: Writer, fields: Fields) -> None:
    for other, theirs in ownership:
        if other != writer and theirs & fields:
            ownership.take(other, fields)


def reachable(kind: Kind, body: Json, subresource: str) -> Json:
    """The part of an object that is written in this way: not the status, or nothing else."""
    if subresource == "status":
        return {key: body[key] for key in ("apiVersion", "kind", "metadata", "status") if key in body}
    if "status" in kind.subresources:
        return {key: value for key, value in body.items() if key != "status"}
    return body


def _conflict(conflicts: Mapping[Writer, Fields]) -> Refusal:
    """What others own with another value, and who they are."""
    found = [(str(writer), in_words(path)) for writer, fields in conflicts.items() for path in in_order(fields)]
    found.sort(key=lambda each: each[0])
    if len(found) == 1:
        message = f"Apply failed with 1 conflict: conflict with {found[0][0]}: {found[0][1]}"
    else:
        message = f"Apply failed with {len(found)} conflicts: "
        message += "\n".join(
            f"conflicts with {who}:\n" + "\n".join(f"- {path}" for other, path in found if other == who)
            for who in dict.fromkeys(who for who, _ in found)
        )
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path} for who, path in found
    ]
    return Refusal(409, "Conflict", message, {"causes": causes})
