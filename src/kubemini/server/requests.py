"""Parses requests: the target of the path, the options, the body, and the format of the response.

All other modules of the server read requests with the functions here. Bodies are JSON, or the few protobuf messages
that kubectl sends (`protobuf`). Answers are JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web

from kubemini.api import Deletion, Target
from kubemini.errors import FieldError, Json, StatusError, bad_request, invalid
from kubemini.kinds import JOB, NAMESPACE, Kind, Kinds
from kubemini.server import protobuf

Query = Mapping[str, str]

LARGEST_BODY = 3 * 1024 * 1024

_SUBRESOURCE_METHODS = {
    "status": ("GET", "PUT", "PATCH"),
    "scale": ("GET", "PUT", "PATCH"),
    "eviction": ("POST",),
    "binding": ("POST",),
    "token": ("POST",),
}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PROPAGATIONS = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class RequestTarget(Target):
    """What a path names: a collection, an object, or a subresource."""

    def verb(self, method: str) -> str:
        """What an HTTP method does here; refused where it does nothing."""
        if self.subresource:
            verb = method.lower() if method in _SUBRESOURCE_METHODS.get(self.subresource, ()) else ""
        else:
            verb = (_OBJECT_VERBS if self.name else _COLLECTION_VERBS).get(method, "")
            all_namespaces = self.kind.namespaced and not self.namespace
            if verb not in self.kind.verbs or (all_namespaces and verb != "list"):
                verb = ""
        if not verb:
            raise wrong_method()
        return verb


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects of a collection are wanted, at which version, and whether to watch them."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: int = 0
    watch: bool = False
    seconds: int = 0
    bookmarks: bool = False
    initial: bool | None = None
    """Whether a watch begins with what is there (`sendInitialEvents`). None leaves it to the version."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How an object is written."""

    dry_run: bool = False
    strict: bool = False
    """Whether fields that a custom kind does not have are refused."""


def place_of(kinds: Kinds, path: list[str]) -> RequestTarget | None:
    """What the steps of a path under /api or /apis name; None if the API has no such place.

    Kinds are looked up each time: CustomResourceDefinitions add and remove them while the server runs.
    """
    root, *steps = path
    group = "" if root == "api" or not steps else steps.pop(0)
    if len(steps) < 2 or not all(steps):
        return None
    version, *rest = steps
    namespace = ""
    is_namespace_status = group == "" and len(rest) == 3 and rest[2] in NAMESPACE.subresources
    if rest[0] == NAMESPACE.plural and len(rest) > 2 and not is_namespace_status:
        namespace, rest = rest[1], rest[2:]
    kind = kinds.at(group, version, rest[0])
    if kind is None or len(rest) > 3:
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    wrong_scope = bool(namespace) != kind.namespaced and bool(namespace or name)
    if wrong_scope or (subresource and subresource not in kind.subresources):
        return None
    return RequestTarget(kind, namespace, name, subresource)


def list_options(query: Query) -> ListOptions:
    """The options of a list or a watch."""
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=_integer(query, "limit"),
        token=query.get("continue", ""),
        version=_integer(query, "resourceVersion"),
        watch=_flag(query, "watch"),
        seconds=_integer(query, "timeoutSeconds"),
        bookmarks=_flag(query, "allowWatchBookmarks"),
        initial=_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    match = query.get("resourceVersionMatch", "")
    if match not in ("", "NotOlderThan") or (options.initial is not None and not match):
        raise _wrong_option("resourceVersionMatch", match)
    return options


def write_options(query: Query) -> WriteOptions:
    """The options of a create, an update or a patch."""
    strict = query.get("fieldValidation") == "Strict"
    return WriteOptions(_is_dry_run(query.get("dryRun")), strict)


def deletion_of(kind: Kind, query: Query, options: Json) -> Deletion:
    """How to delete an object: by the DeleteOptions in the body, else by the query."""
    # Jobs are older than the garbage collector: their pods are kept unless the client asks otherwise.
    usual = "Orphan" if kind.resource == JOB.resource else "Background"
    propagation = options.get("propagationPolicy") or query.get("propagationPolicy") or usual
    if propagation not in _PROPAGATIONS:
        raise _wrong_option("propagationPolicy", propagation)
    grace = options.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = _integer(query, "gracePeriodSeconds")
    preconditions = options.get("preconditions") or {}
    if not isinstance(preconditions, dict) or not isinstance(grace or 0, int):
        raise _wrong_option("preconditions, gracePeriodSeconds", options)
    return Deletion(
        grace=grace,
        uid=preconditions.get("uid") or "",
        version=preconditions.get("resourceVersion") or "",
        propagation=propagation,
        dry_run=_is_dry_run(options.get("dryRun")) or _is_dry_run(query.get("dryRun")),
    )


async def raw_body(request: web.Request) -> bytes:
    """The bytes of a body; refused when there are too many of them."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        why = f"Request entity too large: limit is {LARGEST_BODY}"
        raise StatusError(413, "RequestEntityTooLarge", why) from None


async def object_body(request: web.Request, kind: str) -> Json:
    """A body that is one object; `kind` is what it should be, for the message."""
    return decode_object(await raw_body(request), content_type(request), kind)


async def deletion_body(request: web.Request) -> Json:
    """The DeleteOptions in a body, or none where there is no body."""
    return await object_body(request, "DeleteOptions") if await raw_body(request) else {}


def decode_object(raw: bytes, encoding: str, kind: str) -> Json:
    """An object from JSON or from protobuf."""
    unrecognized = f"the object provided is unrecognized (must be of type {kind})"
    try:
        body = protobuf.decode(raw) if encoding == protobuf.MEDIA_TYPE else msgspec.json.decode(raw)
    except protobuf.UnknownMessageError as error:
        why = "the body of the request was in an unknown format - accepted media types include: application/json"
        raise StatusError(415, "UnsupportedMediaType", f"{why} ({error})") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise bad_request(f"{unrecognized}: couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(body, dict):
        raise bad_request(f"{unrecognized}: couldn't get version/kind; json parse error: it is no object")
    return body


def content_type(request: web.Request) -> str:
    """The bare media type of a request's body."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def wrong_method() -> StatusError:
    """The place exists, but does not allow the method."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def nowhere() -> StatusError:
    """There is no such place."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def _flag(query: Query, name: str) -> bool:
    """A switch: present, and not `false` or `0`."""
    return name in query and query[name].lower() not in ("false", "0")


def _integer(query: Query, name: str) -> int:
    text = query.get(name) or "0"
    if not text.isascii() or not text.isdigit():
        raise bad_request(f"{name}: {text!r} is not a number")
    return int(text)


def _is_dry_run(value: object) -> bool:
    if value not in (None, [], "All", ["All"]):
        raise _wrong_option("dryRun", value)
    return bool(value)


def _wrong_option(name: str, value: object) -> StatusError:
    options = Kind("meta.k8s.io", "v1", "Options", "options")
    return invalid(options, "", [FieldError(name, f"{value!r} is not supported here")])
