"""What a request asks for: the place that its path names, its options, its body, and the form of the answer.

All other modules of the server read requests with the functions here. Bodies are JSON, or the few protobuf messages
that kubectl sends (`protobuf`). Answers are JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web

from kubemini.api import Deletion
from kubemini.kinds import JOB, NAMESPACE, Kind, Kinds
from kubemini.refusals import Fault, Json, Refusal, bad_request, invalid
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
_META = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Place:
    """What a path names: a collection, an object, or a subresource."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

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
    version: int | None = None
    watch: bool = False
    seconds: int = 0
    bookmarks: bool = False
    initial: bool | None = None
    """Whether a watch begins with what is there (`sendInitialEvents`). None leaves it to the version."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How an object is written."""

    dry_run: bool = False
    manager: str = ""
    strict: bool = False
    """Whether fields that a custom kind does not have are refused."""


def place_of(kinds: Kinds, path: list[str]) -> Place | None:
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
    return Place(kind, namespace, name, subresource)


def list_options(query: Query) -> ListOptions:
    """The options of a list or a watch."""
    given = query.get("resourceVersion", "")
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(_integer(query, "limit"), 0),
        token=query.get("continue", ""),
        version=_version(given) if given else None,
        watch=_flag(query, "watch"),
        seconds=max(_integer(query, "timeoutSeconds"), 0),
        bookmarks=_flag(query, "allowWatchBookmarks"),
        initial=_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    match = query.get("resourceVersionMatch", "")
    if options.initial is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        fault = Fault("resourceVersionMatch", "Forbidden", why)
        raise invalid(Kind(_META, "v1", "ListOptions", "listoptions"), "", [fault])
    if match not in ("", "NotOlderThan"):
        raise bad_request(f"resourceVersionMatch {match} is not supported by the embedded cluster")
    return options


def write_options(query: Query) -> WriteOptions:
    """The options of a create, an update or a patch."""
    strict = query.get("fieldValidation") == "Strict"
    dry_run = _is_dry_run([query["dryRun"]] if "dryRun" in query else [])
    return WriteOptions(dry_run, query.get("fieldManager", ""), strict)


def deletion_of(kind: Kind, query: Query, body: Json | None) -> Deletion:
    """How to delete an object: by the body if there is one, else by the query."""
    options = body or {}
    if body is None:
        options = {key: query[key] for key in ("propagationPolicy",) if key in query}
        if "gracePeriodSeconds" in query:
            options["gracePeriodSeconds"] = _integer(query, "gracePeriodSeconds")
        if "dryRun" in query:
            options["dryRun"] = [query["dryRun"]]
    # Jobs are older than the garbage collector: their pods are kept unless the client asks otherwise.
    propagation = options.get("propagationPolicy") or ("Orphan" if kind.resource == JOB.resource else "Background")
    if propagation not in _PROPAGATIONS:
        supported = ", ".join(f'"{each}"' for each in _PROPAGATIONS)
        fault = Fault("propagationPolicy", "Unsupported value", f"supported values: {supported}", propagation)
        raise invalid(Kind(_META, "v1", "DeleteOptions", "deleteoptions"), "", [fault])
    preconditions = options.get("preconditions") or {}
    return Deletion(
        grace=options.get("gracePeriodSeconds"),
        uid=preconditions.get("uid") or "",
        version=preconditions.get("resourceVersion") or "",
        propagation=propagation,
        dry_run=_is_dry_run(options.get("dryRun") or []),
    )


async def raw_body(request: web.Request) -> bytes:
    """The bytes of a body; refused when there are too many of them."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        why = f"Request entity too large: limit is {LARGEST_BODY}"
        raise Refusal(413, "RequestEntityTooLarge", why) from None


async def object_body(request: web.Request, kind: str) -> Json:
    """A body that is one object; `kind` is what it should be, for the message."""
    return decode_object(await raw_body(request), content_type(request), kind)


async def optional_body(request: web.Request, kind: str) -> Json | None:
    """The same, where there may be no body."""
    return await object_body(request, kind) if await raw_body(request) else None


def decode_object(raw: bytes, encoding: str, kind: str) -> Json:
    """An object from JSON or from protobuf."""
    unrecognized = f"the object provided is unrecognized (must be of type {kind})"
    try:
        body = protobuf.decode(raw) if encoding == protobuf.MEDIA_TYPE else msgspec.json.decode(raw)
    except protobuf.UnknownMessageError as error:
        why = "the body of the request was in an unknown format - accepted media types include: application/json"
        raise Refusal(415, "UnsupportedMediaType", f"{why} ({error})") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise bad_request(f"{unrecognized}: couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(body, dict):
        raise bad_request(f"{unrecognized}: couldn't get version/kind; json parse error: it is no object")
    return body


def with_head(kind: Kind, body: Json) -> Json:
    """An object that has a kind and metadata, in the order in which the store keeps them."""
    for key, wanted in (("apiVersion", kind.api_version), ("kind", kind.name)):
        body[key] = body.get(key) or wanted
    if body["kind"] != kind.name:
        raise bad_request(f'{body["kind"]} in version "{kind.version}" cannot be handled as a {kind.name}')
    body["metadata"] = body.get("metadata") or {}
    if not isinstance(body["metadata"], dict):
        raise bad_request(f"the body is not a {kind.name}: its metadata must be an object")
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], **body}


def content_type(request: web.Request) -> str:
    """The bare media type of a request's body."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def wrong_method() -> Refusal:
    """The place exists, but does not allow the method."""
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def nowhere() -> Refusal:
    """There is no such place."""
    return Refusal(404, "NotFound", "the server could not find the requested resource")


def _flag(query: Query, name: str) -> bool:
    """A switch: present, and not `false` or `0`."""
    return name in query and query[name].lower() not in ("false", "0")


def _version(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def _integer(query: Query, name: str) -> int:
    text = query.get(name) or "0"
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _is_dry_run(values: list[str]) -> bool:
    if values not in ([], ["All"]):
        fault = Fault("dryRun", "Unsupported value", 'supported values: "All"', values)
        raise invalid(Kind(_META, "v1", "WriteOptions", "writeoptions"), "", [fault])
    return bool(values)
