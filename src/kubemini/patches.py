"""What a PATCH request makes of an object: merge patches (RFC 7386), JSON patches and strategic merge patches.

The HTTP server calls `patched` inside an edit of the newest version, so a patch always applies to what is there.
Server-side apply is a matter of its own (`apply`). What comes out is checked as if a client had sent it, but a field
of a wrong type is here a fault of the patch (422), as it is in Kubernetes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubemini.copies import fresh
from kubemini.json_patch import PatchFailed, json_patched
from kubemini.kinds import Kind
from kubemini.refusals import Json, Refusal, bad_request
from kubemini.schema import shape_of, wrong_type
from kubemini.strategic import strategic_patched

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_TYPE_NAMES = {dict: "object", list: "array", str: "string", int: "number", float: "number", bool: "bool"}


def patched(kind: Kind, content_type: str, body: bytes, before: Json) -> Json:
    """The object that a patch asks for; `before` is left as it was."""
    form = content_type.partition(";")[0].strip().lower()
    accepted = [JSON_PATCH, MERGE, *([] if kind.custom else [STRATEGIC])]
    if form not in accepted:
        raise unsupported([*accepted, APPLY])
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise bad_request("invalid JSON patch") from None
    original = fresh(before)
    if form == JSON_PATCH:
        after = _json_patched(patch, original)
    elif form == MERGE:
        after = merge_patched(_object(patch, "error decoding patch: "), original)
    else:
        after = strategic_patched(shape_of(kind), {} if patch is None else _object(patch), original)
        # The object's kind is no field of it that a patch could reach.
        after.update({key: before[key] for key in ("apiVersion", "kind") if key in before})
    return _checked(kind, after, before)


def merge_patched(patch: Json, target: Any) -> Json:
    """RFC 7386: objects merge, null deletes, the rest replaces. Nothing is changed, but the result shares parts."""
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge_patched(value, merged.get(key))
        else:
            merged[key] = _without_nulls(value)
    return merged


def _without_nulls(value: Any) -> Any:
    """A list that takes another's place: in its objects null means nothing too."""
    if isinstance(value, list):
        return [merge_patched(each, {}) if isinstance(each, dict) else _without_nulls(each) for each in value]
    return value


def unsupported(accepted: list[str]) -> Refusal:
    """The body is in a form that this kind does not take."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return Refusal(415, "UnsupportedMediaType", message)


def _json_patched(patch: Any, before: Json) -> Json:
    operations = [] if patch is None else patch
    if not isinstance(operations, list):
        raise bad_request(f"error decoding patch: json: cannot unmarshal {_named(patch)} into a list of operations")
    for each in operations:
        if not isinstance(each, dict):
            raise bad_request(f"error decoding patch: json: cannot unmarshal {_named(each)} into an operation")
    try:
        after = json_patched(operations, before)
    except PatchFailed:
        after = None
    if not isinstance(after, dict):
        raise Refusal(422, "Invalid", "the server rejected our request due to an error in our request")
    return after


def _checked(kind: Kind, after: Json, before: Json) -> Json:
    """An object of the same kind that the kind's decoder accepts."""
    for key in ("apiVersion", "kind"):
        if after.setdefault(key, before.get(key)) != before.get(key):
            raise _fault(f'no kind "{after.get("kind")}" is registered for version "{after.get("apiVersion")}"')
    if wrong := wrong_type(kind, after):
        raise _fault(f"json: {wrong}")
    name = before["metadata"].get("name")
    metadata = after.get("metadata") or {}
    if not metadata.get("name"):
        why = "name must be provided"
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: {why}")
    namespace = before["metadata"].get("namespace")
    if namespace is not None and (metadata.get("namespace") or namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if namespace is not None:
        metadata["namespace"] = namespace
    return after


def _fault(why: str) -> Refusal:
    cause = {"reason": "FieldValueInvalid", "message": f"Invalid value: {why}", "field": "patch"}
    return Refusal(422, "Invalid", f' "" is invalid: patch: Invalid value: {why}', {"causes": [cause]})


def _object(patch: Any, before: str = "") -> Json:
    if not isinstance(patch, dict):
        raise bad_request(f"{before}json: cannot unmarshal {_named(patch)} into an object")
    return patch


def _named(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "null")
