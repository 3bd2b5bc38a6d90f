"""Server-side apply: everyone says what he wants of an object, and the API server remembers who owns which field.

The HTTP server calls `apply` for apply patches. What a manager applied before and no longer does is taken out, unless
others own it too; a field that another one owns with another value is a conflict, unless he is overruled by force.
An object that nobody ever applied carries no managedFields here, because they would cost more than the object. On the
first apply all that is there belongs to `unknown` (Kubernetes has `before-first-apply` for it); from then on
`ownership.noted` keeps count of those who write in other ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubemini.api import Api, Target
from kubemini.copies import fresh
from kubemini.field_walks import fields_of
from kubemini.managed_fields import APPLY, Ownership, Writer, owned_by_clients, written
from kubemini.ownership import applied, reachable
from kubemini.refusals import Json, Refusal, bad_request, conflict, not_found
from kubemini.schema import shape_of
from kubemini.schemas.checking import check_applied
from kubemini.views import storage_kind, stored


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
    configuration = reachable(target.kind, body, target.subresource)
    check_applied(target.kind, shape_of(target.kind), configuration)
    target = replace(target, manager="")  # who owns what is seen to here: nothing is left for the API to note
    if target.kind.storage:
        configuration = stored(target.kind, configuration)
        target = replace(target, kind=storage_kind(api.kinds, target.kind))
    writer = Writer(options.manager, APPLY, target.subresource)
    if api.store.get(target.kind, target.key) is None:
        try:
            return await _create(api, target, fresh(configuration), options), True
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise  # else somebody was faster, while a webhook was asked: there is something to apply to now

    def edit(before: Json) -> Json:
        wanted = fresh(configuration)  # parts of it go into the object, and this may be tried again
        return applied(target.kind, before, wanted, writer, force=options.force)

    return await api.edit(target, edit, dry_run=options.dry_run), False


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
