"""PATCH requests: JSON patches, merge patches, strategic merge patches, and server-side apply.

The HTTP server calls `apply_patch` inside an edit of the newest version. Apply is simplified: it creates what does not
exist, and merges into what does, lists with keys item by item. There are no field managers, so it never conflicts and
removes nothing.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import msgspec

from kubemini.api import Api, Target
from kubemini.errors import Json, StatusError, bad_request
from kubemini.kinds import Kind

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_MERGE_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "schedulingGates", "webhooks"), "name"),
    "conditions": "type",
    "ownerReferences": "uid",
    "topologySpreadConstraints": "topologyKey",
    "volumeMounts": "mountPath",
}
"""Lists whose items strategic patches merge, and the key that tells items apart. Other lists are replaced."""


class PatchFailed(ValueError):  # noqa: N818  the answer to a client
    """A JSON patch that does not fit the object."""


def apply_patch(kind: Kind, content_type: str, raw: bytes, before: Json) -> Json:
    """The patched object; `before` is used up."""
    accepted = [JSON_PATCH, MERGE, *([] if kind.custom else [STRATEGIC])]
    if content_type not in accepted:
        message = "the body of the request was in an unknown format - accepted media types include: "
        raise StatusError(415, "UnsupportedMediaType", message + ", ".join([*accepted, APPLY]))
    try:
        patch = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        raise bad_request("invalid JSON patch") from None
    if content_type == JSON_PATCH:
        try:
            return apply_json_patch(patch, before)
        except PatchFailed as error:
            why = f"the server rejected our request due to an error in our request: {error}"
            raise StatusError(422, "Invalid", why) from None
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: it must be an object")
    merge = apply_merge_patch if content_type == MERGE else apply_strategic_patch
    return merge(patch, before)


async def apply_server_side(api: Api, target: Target, body: Json, *, dry_run: bool = False) -> tuple[Json, bool]:
    """The object with all that is applied, and whether it was created."""
    if api.store.get(target.kind, target.key) is None and not target.subresource:
        return await api.create(target, body, dry_run=dry_run), True
    return await api.edit(target, lambda before: apply_strategic_patch(body, before), dry_run=dry_run), False


def apply_json_patch(patch: Any, document: Json) -> Json:
    """What a JSON patch (RFC 6902) makes of a document, which is used up; PatchFailed if it does not fit."""
    try:
        after = jsonpatch.apply_patch(document, patch or [], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, AttributeError) as error:
        raise PatchFailed(str(error)) from error
    if not isinstance(after, dict):
        raise PatchFailed("the result is not an object")
    return after


def apply_merge_patch(patch: Json, target: Any) -> Json:
    """What a merge patch (RFC 7386) makes of an object: objects merge, null deletes, the rest replaces."""
    after: Json = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = apply_merge_patch(value, after.get(key))
        else:
            after[key] = value
    return after


def apply_strategic_patch(patch: Json, target: Json) -> Json:
    """What a strategic merge patch makes of an object: a merge patch that merges lists with keys item by item.

    Directives that are not read here, such as `$setElementOrder`, are passed over: items keep their places.
    """
    try:
        return _merge(patch, target)
    except (AttributeError, KeyError, TypeError) as error:
        raise bad_request(f"error decoding patch: {type(error).__name__}: {error}") from None


def _merge(patch: Json, target: Any) -> Json:
    after: Json = target if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        after = {key: value for key, value in after.items() if key in patch["$retainKeys"]}
    if patch.get("$patch") == "replace":
        after = {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = _merge(value, after.get(key))
        elif isinstance(value, list):
            after[key] = _merged_list(key, after.get(key) or [], value)
        else:
            after[key] = value
    return after


def _merged_list(field: str, items: list[Any], patch: list[Any]) -> list[Any]:
    if field == "finalizers":
        return list(dict.fromkeys([*items, *patch]))
    kept = [each for each in patch if not (isinstance(each, dict) and "$patch" in each)]
    key = _MERGE_KEYS.get(field, "")
    if field == "ports":  # of a container, or of a Service
        key = "containerPort" if any("containerPort" in each for each in [*items, *kept]) else "port"
    if not key or {"$patch": "replace"} in patch:
        return [_merge(each, {}) if isinstance(each, dict) else each for each in kept]
    after = {item[key]: item for item in items}
    for each in patch:
        if "$patch" in each:
            after.pop(each[key], None)
        else:
            after[each[key]] = _merge(each, after.get(each[key]))
    return list(after.values())
