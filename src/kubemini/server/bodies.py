"""Reads the bodies of requests: JSON, YAML or protobuf, one object, of the kind that the path names.

`writing` uses what comes out of here. What is not even that is refused before any rule looks at it. Fields that a kind
does not have are told to those who ask for that (`fieldValidation`), as kubectl does by default.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import yaml
from aiohttp import web

from kubemini import patches
from kubemini.custom import CustomKind, prune
from kubemini.kinds import Kind
from kubemini.refusals import Fault, Json, Refusal, bad_request, invalid
from kubemini.server import protobuf
from kubemini.server.negotiation import JSON, YAML, content_type, unsupported_body
from kubemini.server.protobuf import ProtobufError, UnknownMessageError

LARGEST = 3 * 1024 * 1024
_NO_KIND = Kind("", "", "", "")  # what is wrong with a patch is no fault of an object


async def raw_body(request: web.Request) -> bytes:
    """A body's bytes; refused when there are too many of them."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        why = f"Request entity too large: limit is {LARGEST}"
        raise Refusal(413, "RequestEntityTooLarge", why) from None


async def object_body(request: web.Request, name: str) -> Json:
    """A body that must be an object; `name` is the kind that it should be."""
    raw = await raw_body(request)
    return decoded(raw, content_type(request.headers.get("Content-Type", "")) or JSON, name)


async def optional_body(request: web.Request, name: str) -> Json | None:
    """The same, where there may be none."""
    return await object_body(request, name) if await raw_body(request) else None


def decoded(raw: bytes, encoding: str, name: str) -> Json:
    """An object from JSON or YAML."""
    try:
        body = _parsed(raw, encoding)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unrecognized(name, f"couldn't get version/kind; json parse error: {error}") from None
    except UnknownMessageError as error:
        raise unsupported_body(str(error)) from None
    except ProtobufError as error:
        raise _unrecognized(name, f"protobuf: {error}") from None
    except yaml.YAMLError as error:
        raise _unrecognized(name, f"yaml: {' '.join(str(error).split())}") from None
    if not isinstance(body, dict):
        raise _unrecognized(name, f"couldn't get version/kind; json parse error: {type(body).__name__} is no object")
    return body


def checked(kind: Kind, body: Json) -> Json:
    """An object whose metadata can be looked at, with what it is in front, as the store keeps it."""
    for key, wanted in (("apiVersion", kind.api_version), ("kind", kind.name)):
        if body.get(key) in (None, ""):
            body[key] = wanted
        elif not isinstance(body[key], str):
            raise _unrecognized(kind.name, f"{key} must be a text")
    if body["kind"] != kind.name:
        shown = f'{body["kind"]} in version "{kind.version}"'
        raise bad_request(f"{shown} cannot be handled as a {kind.name}: converting it is not possible")
    if body.get("metadata") is None:
        body["metadata"] = {}
    if not isinstance(body["metadata"], dict):
        raise _unrecognized(kind.name, "metadata must be an object")
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], **body}


def unknown_fields(kind: Kind, body: Json) -> list[str]:
    """The paths of fields that the schema of a custom kind does not have; built-in kinds have no schema here."""
    return prune(kind.schema, copy.deepcopy(body)) if isinstance(kind, CustomKind) else []


def patched_fields(raw: bytes, sort: str) -> Json:
    """What a patch names of an object, without its directives; a JSON patch, whose paths lead anywhere, has none."""
    if sort == patches.JSON_PATCH:
        return {}
    try:
        patch = msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        return {}  # it is refused when it is carried out
    return _without_directives(patch) if isinstance(patch, dict) else {}


def _without_directives(value: Any) -> Any:
    """`$patch`, `$retainKeys`, `$setElementOrder/…` and the like say how to merge; they are no fields."""
    if isinstance(value, dict):
        return {key: _without_directives(each) for key, each in value.items() if not key.startswith("$")}
    return [_without_directives(each) for each in value] if isinstance(value, list) else value


def refuse_unknown(kind: Kind, fields: list[str], patch: bytes | None = None) -> None:
    """Say no to fields that a kind does not have, in an object or in a patch."""
    if not fields:
        return
    listed = ", ".join(f'unknown field "{field}"' for field in fields)
    why = f"strict decoding error: {listed}"
    if patch is not None:
        raise invalid(_NO_KIND, "", [Fault("patch", "Invalid value", why, patch.decode(errors="replace"))])
    raise bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}')


def _parsed(raw: bytes, encoding: str) -> Any:
    if encoding == JSON:
        return msgspec.json.decode(raw)
    if encoding == protobuf.MEDIA_TYPE:
        return protobuf.object_from(raw)
    if encoding in (YAML, "application/apply-patch+yaml"):
        return yaml.load(raw, Loader=_TextLoader)  # noqa: S506  it is a CSafeLoader that makes no dates
    raise unsupported_body()


class _TextLoader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: by way of JSON, so a time stamp is a text."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _unrecognized(name: str, why: str) -> Refusal:
    return bad_request(f"the object provided is unrecognized (must be of type {name}): {why}")
