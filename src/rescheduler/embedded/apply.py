"""Server-side apply: everyone says what he wants of an object, and the API server remembers who owns which field.

The HTTP server calls `apply` for apply patches. What a manager applied before and no longer does is taken out, unless
others own it too; a field that another one owns with another value is a conflict, unless he is overruled by force.
An object that nobody ever applied carries no managedFields here, because they would cost more than the object. On the
first apply all that is there belongs to `before-first-apply`, as in Kubernetes for objects without managedFields;
from then on `noted` keeps count of those who write in other ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rescheduler.embedded.api import Api, Target
from rescheduler.embedded.field_sets import Fields, as_tree, in_order, in_words
from rescheduler.embedded.field_walks import (
    difference,
    empty_of,
    fields_of,
    merged,
    settled,
    with_named,
    without,
)
from rescheduler.embedded.kinds import Kind
from rescheduler.embedded.managed_fields import (
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    Ownership,
    Writer,
    owned_by_clients,
    read,
    written,
)
from rescheduler.embedded.refusals import Json, Refusal, bad_request, conflict, not_found
from rescheduler.embedded.schema import shape_of
from rescheduler.embedded.schemas.checking import check_applied
from rescheduler.embedded.schemas.shapes import Struct
from rescheduler.embedded.views import storage_kind, stored


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How somebody applies."""

    manager: str
    force: bool = False
    dry_run: bool = False


async def apply(api: Api, target: Target, body: Json, options: ApplyOptions) -> tuple[Json, bool]:
    """The object as it is with all that is wanted, and whether it was made for that.

    Where the target's kind shows what another kind stores, the object comes back as it is stored.
    """
    _check_head(target, body)
    configuration = _reachable(target, body)
    check_applied(target.kind, shape_of(target.kind), configuration)
    if target.kind.storage:
        configuration = stored(target.kind, configuration)
        target = replace(target, kind=storage_kind(api.kinds, target.kind))
    writer = Writer(options.manager, APPLY, target.subresource)
    if api.store.get(target.kind, target.key) is None:
        return await _create(api, target, configuration, options), True

    def edit(before: Json) -> Json:
        return _applied(target, before, configuration, writer, force=options.force)

    return await api.edit(target, edit, dry_run=options.dry_run), False


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


async def _create(api: Api, target: Target, configuration: Json, options: ApplyOptions) -> Json:
    uid = configuration["metadata"].pop("uid", None)
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(target.kind, target.name, why)
    if target.subresource:
        raise not_found(target.kind, target.name)
    configuration["metadata"].pop("resourceVersion", None)
    ownership = Ownership()
    fields = owned_by_clients(fields_of(shape_of(target.kind), configuration))
    ownership.give(Writer(options.manager, APPLY), fields, target.kind.api_version)
    configuration["metadata"]["managedFields"] = written(ownership)
    return await api.create(target, configuration, dry_run=options.dry_run)


def _applied(target: Target, before: Json, configuration: Json, writer: Writer, *, force: bool) -> Json:
    kind, shape = target.kind, shape_of(target.kind)
    ownership = read(before["metadata"])
    before["metadata"].pop("managedFields", None)
    if not ownership.by_writer:
        _own_what_is_there(target, shape, before, ownership)
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


def _own_what_is_there(target: Target, shape: Struct, before: Json, ownership: Ownership) -> None:
    """Whatever was there before the first apply belongs to a manager of that name."""
    found = difference(shape, empty_of(shape), _reachable(target, before))
    fields = owned_by_clients(found.added | found.modified)
    if target.subresource == "status":
        fields = frozenset(path for path in fields if path[0] == "f:status")
    writer = Writer(BEFORE_FIRST_APPLY, UPDATE, target.subresource, target.kind.api_version)
    ownership.give(writer, fields, target.kind.api_version)


def _take_from_others(ownership: Ownership, writer: Writer, fields: Fields) -> None:
    for other, theirs in ownership:
        if other != writer and theirs & fields:
            ownership.take(other, fields)


def _reachable(target: Target, body: Json) -> Json:
    """The part of an object that is written in this way: not the status, or nothing else."""
    if target.subresource == "status":
        return {key: body[key] for key in ("apiVersion", "kind", "metadata", "status") if key in body}
    if "status" in target.kind.subresources:
        return {key: value for key, value in body.items() if key != "status"}
    return body


def _check_head(target: Target, body: Json) -> None:
    kind = target.kind
    if (body.get("apiVersion"), body.get("kind")) != (kind.api_version, kind.name):
        raise bad_request(f"invalid object type: {body.get('apiVersion', '/')}, Kind={body.get('kind', '')}")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    name = metadata.get("name")
    if not name:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if metadata.setdefault("namespace", target.namespace) not in (target.namespace, None):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if not target.namespace:
        metadata.pop("namespace", None)


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
