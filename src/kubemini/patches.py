"""PATCH requests: JSON patches, merge patches, strategic merge patches, and server-side apply.

The HTTP server calls `apply_patch` inside an edit of the newest version. Apply is simplified: it creates what does not
exist, and merges into what does, lists with keys item by item. There are no field managers, so it never conflicts and
removes nothing.
"""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointerException

from kubemini.api import Api, Target
from kubemini.kinds import Kind
from kubemini.refusals import Json, Refusal, bad_request, not_found

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_MERGE_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "volumes", "env"), "name"),
    **dict.fromkeys(
        ("imagePullSecrets", "schedulingGates", "resourceClaims", "secrets", "webhooks", "drivers"), "name"
    ),
    **dict.fromkeys(("conditions", "addresses"), "type"),
    **dict.fromkeys(("hostAliases", "podIPs", "hostIPs"), "ip"),
    "ownerReferences": "uid",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
}
"""Lists whose items strategic patches merge, and the key that tells items apart. Other lists are replaced."""


class PatchFailed(ValueError):  # noqa: N818  the answer to a client
    """A JSON patch that does not fit the object."""


def apply_patch(kind: Kind, content_type: str, raw: bytes, before: Json) -> Json:
    """The object that a patch asks for; `before` is left as it was."""
    sort = content_type.partition(";")[0].strip().lower()
    accepted = [JSON_PATCH, MERGE, *([] if kind.custom else [STRATEGIC])]
    if sort not in accepted:
        raise unsupported([*accepted, APPLY])
    try:
        patch = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        raise bad_request("invalid JSON patch") from None
    if sort == JSON_PATCH:
        try:
            after = apply_json_patch(patch, copy.deepcopy(before))
        except PatchFailed as error:
            why = f"the server rejected our request due to an error in our request: {error}"
            raise Refusal(422, "Invalid", why) from None
    elif not isinstance(patch, dict):
        raise bad_request("error decoding patch: it must be an object")
    else:
        merge = apply_merge_patch if sort == MERGE else apply_strategic_patch
        after = merge(patch, copy.deepcopy(before))
    return _checked(after, before)


def unsupported(accepted: list[str]) -> Refusal:
    """The answer to a patch of a sort that a kind does not take."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    return Refusal(415, "UnsupportedMediaType", message + ", ".join(accepted))


async def apply_server_side(api: Api, target: Target, body: Json, *, dry_run: bool = False) -> tuple[Json, bool]:
    """The object with all that is applied, and whether it was created."""
    kind = target.kind
    if (body.get("apiVersion"), body.get("kind")) != (kind.api_version, kind.name):
        raise bad_request(f"invalid object type: {body.get('apiVersion', '/')}, Kind={body.get('kind', '')}")
    if api.store.get(kind, target.key) is None:
        if target.subresource:
            raise not_found(kind, target.name)
        try:
            return await api.create(target, copy.deepcopy(body), dry_run=dry_run), True
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise

    def edit(before: Json) -> Json:
        return _checked(apply_strategic_patch(copy.deepcopy(body), copy.deepcopy(before)), before)

    return await api.edit(target, edit, dry_run=dry_run), False


def apply_json_patch(patch: Any, document: Json) -> Json:
    """What a JSON patch (RFC 6902) makes of a document, which is used up; PatchFailed if it does not fit."""
    try:
        after = jsonpatch.apply_patch(document, patch or [], in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, AttributeError) as error:
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


def apply_strategic_patch(patch: Json, target: Any) -> Json:
    """What a strategic merge patch makes of an object: a merge patch that merges lists with keys item by item.

    The order of `$setElementOrder` is not heeded: items keep their places, and new ones come last.
    """
    after: Json = target if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        after = {key: value for key, value in after.items() if key in patch["$retainKeys"]}
    match patch.get("$patch"):
        case "replace":
            after = {}
        case "delete":
            return {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            after[field] = [each for each in after.get(field, ()) if each not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = apply_strategic_patch(value, after.get(key))
            if value.get("$patch") == "delete":
                del after[key]
        elif isinstance(value, list):
            after[key] = _merged_list(key, after.get(key) or [], value)
        else:
            after[key] = value
    return after


def _merged_list(field: str, items: list[Any], patch: list[Any]) -> list[Any]:
    if field == "finalizers":
        return list(dict.fromkeys([*items, *patch]))
    key = _merge_key(field, [*items, *patch])
    if not key or any(each == {"$patch": "replace"} for each in patch):
        return [_plain(each) for each in patch if not (isinstance(each, dict) and "$patch" in each)]
    after = list(items)
    for each in patch:
        if key not in each:
            raise Refusal(500, "", f"map: {each} does not contain declared merge key: {key}")
        at = next((number for number, item in enumerate(after) if item.get(key) == each[key]), None)
        if each.get("$patch") == "delete":
            after = [item for item in after if item.get(key) != each[key]]
        elif at is None:
            after.append(_plain(each))
        else:
            after[at] = apply_strategic_patch(each, after[at])
    return after


def _merge_key(field: str, items: list[Any]) -> str:
    """The key that tells the items of a list apart; empty, if the list is replaced as a whole."""
    if not all(isinstance(each, dict) for each in items):
        return ""
    if field == "ports":  # of a container, or of a Service
        return "containerPort" if any("containerPort" in each for each in items) else "port"
    return _MERGE_KEYS.get(field, "")


def _plain(value: Any) -> Any:
    """A new value without the directives and nulls of a patch."""
    return apply_strategic_patch(value, {}) if isinstance(value, dict) else value


def _checked(after: Json, before: Json) -> Json:
    """The result of a patch, which must still be the same object."""
    for key in ("apiVersion", "kind"):
        if after.setdefault(key, before.get(key)) != before.get(key):
            raise bad_request(f"the {key} of an object cannot be patched")
    metadata = after.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        name = before["metadata"].get("name")
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    namespace = before["metadata"].get("namespace")
    if namespace is not None and metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return after
