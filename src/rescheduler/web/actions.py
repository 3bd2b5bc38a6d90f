"""The page's buttons: `POST /api/actions/…`, decoded strictly, and authorised by the API server.

Unknown fields are refused with their path, as is anything that cannot be a name in Kubernetes, so nothing from a body
gets into a path, a log or an object where it does not belong. `app.actions` carries out the requests.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import structlog
from aiohttp import http_exceptions, web
from msgspec import Meta, Struct, structs

from rescheduler.kube.migrations import add_group_members
from rescheduler.kube.reviews import ResourceAttributes, User
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.web.auth import PageAccess, RequestChecks, peer
from rescheduler.web.responses import HttpError, json_response

MIGRATIONS = ("podmigrations", "rescheduler.io")
LOCAL = User("local")
"""The user of this machine, where that is enough."""
_log = structlog.stdlib.get_logger(__name__)
_LARGEST = 256 * 1024  # bytes: a thousand migrations with long names
_TO_SEND = 10.0  # seconds for a body
_MOST_NAMESPACES = 50  # that are checked one by one
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_SECTION = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)

Name = Annotated[str, Meta(max_length=253, pattern=rf"^{_NAME}\Z")]
OptionalName = Annotated[str, Meta(max_length=253, pattern=rf"^({_NAME})?\Z")]
Line = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z")]


class _ActionBody(Struct, forbid_unknown_fields=True):
    """Base: unknown fields are refused."""


class PauseRequest(_ActionBody):
    """Start no more moves."""

    reason: Line = ""


class ResumeRequest(_ActionBody):
    """End the pause."""


class MigrationRef(_ActionBody):
    """One migration."""

    namespace: Name
    name: Name


class ApproveRequest(_ActionBody):
    """Approve these migrations."""

    migrations: Annotated[list[MigrationRef], Meta(min_length=1, max_length=1000)]


class MoveRequest(_ActionBody):
    """Move one pod; without a target to the node that fits best."""

    namespace: Name
    pod: Name
    target: OptionalName = ""
    method: Literal["", "auto", "handoff", "evict", "copy"] = ""


class MaintenanceRequest(_ActionBody):
    """Begin or end the maintenance of a node."""

    node: Name
    on: bool


ActionRequest = PauseRequest | ResumeRequest | ApproveRequest | MoveRequest | MaintenanceRequest
ACTIONS: dict[str, type[ActionRequest]] = {
    "pause": PauseRequest,
    "resume": ResumeRequest,
    "approve": ApproveRequest,
    "migrate": MoveRequest,
    "maintenance": MaintenanceRequest,
}


def decode_request(action: str, body: bytes) -> ActionRequest:
    """Decode a body; HttpError says where it is wrong."""
    kind = ACTIONS[action]
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HttpError(422, _format_problem(str(error), kind)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None


def page_rights(pause_state: tuple[str, str]) -> dict[str, ResourceAttributes]:
    """List the cluster-wide right behind each kind of button."""
    resource, group = MIGRATIONS
    return {
        "pause": ResourceAttributes("patch", "configmaps", "", *pause_state),
        "approve": ResourceAttributes("patch", resource, group),
        "migrate": ResourceAttributes("create", resource, group),
        "maintenance": ResourceAttributes("patch", "nodes"),
    }


def required_rights(request: ActionRequest, pause_state: tuple[str, str]) -> list[ResourceAttributes]:
    """List the rights that a request needs; `pause_state` is the namespace and name of the ConfigMap with the pause."""
    rights = page_rights(pause_state)
    match request:
        case PauseRequest() | ResumeRequest():
            return [rights["pause"]]
        case ApproveRequest():
            namespaces = sorted({each.namespace for each in request.migrations})
            return [replace(rights["approve"], namespace=namespace) for namespace in namespaces]
        case MoveRequest():
            return [replace(rights["migrate"], namespace=request.namespace)]
        case MaintenanceRequest():
            return [replace(rights["maintenance"], name=request.node)]


def _format_problem(message: str, kind: type[ActionRequest]) -> str:
    """Format msgspec's message with the path in front, as in all our errors."""
    found = _SECTION.match(message)
    what, path = (found[1], found[2] or "") if found else (message, "")
    path = path.lstrip(".")
    prefix = f"{path}." if path else ""
    if unknown := _UNKNOWN.fullmatch(what):
        inner = MigrationRef if path.startswith("migrations[") else kind
        allowed = ", ".join(inner.__struct_fields__) or "none"
        return f"{prefix}{ascii(unknown[1][:80])[1:-1]}: unknown field; allowed are: {allowed}"
    if missing := _MISSING.fullmatch(what):
        return f"{prefix}{missing[1]}: is needed"
    return f"{path or 'the body'}: {what[:1].lower()}{what[1:]}"


ActionHandler = Callable[[str, Any], Awaitable[str]]
"""Carries out a request for a user, who is the first argument; returns a sentence about what happens next, or raises
HttpError with a cure."""


class ActionRoutes:
    """The routes of the buttons, and of the user who is signed in."""

    def __init__(
        self,
        checks: RequestChecks,
        access: PageAccess,
        handlers: Mapping[str, ActionHandler],
        pause_state: tuple[str, str],
        migrations: MigrationCache,
    ) -> None:
        self._checks = checks
        self._access = access
        self._handlers = handlers
        self._pause_state = pause_state
        self._migrations = migrations

    def install(self, app: web.Application) -> None:
        """Add the routes to an application."""
        app.router.add_get("/api/whoami", self._whoami)
        app.router.add_post("/api/actions/{name}", self._act)

    async def _whoami(self, request: web.Request) -> web.Response:
        user = await self._user(request)
        asked = page_rights(self._pause_state)
        if user is None:
            may = dict.fromkeys(asked, False)
        elif user is LOCAL:
            may = dict.fromkeys(asked, True)
        else:
            may = {name: await self._access.was_authorized(user, question) for name, question in asked.items()}
        known = user or User("")
        return await json_response(request, {"name": known.name, "groups": known.groups, "may": may})

    async def _act(self, request: web.Request) -> web.Response:
        action = request.match_info["name"]
        if action not in ACTIONS:
            raise HttpError(404, f"there is no such action; there are {', '.join(ACTIONS)}")
        self._checks.check_sent_by_page(request, action)
        user = await self._user(request)
        if user is None:
            why = "sign in with a Kubernetes token first (Authorization: Bearer …)"
            raise HttpError(401, why, **{"WWW-Authenticate": "Bearer"})
        wanted = decode_request(action, await _body(request))
        if isinstance(wanted, ApproveRequest):
            wanted = with_group_members(wanted, self._migrations)
        if user is not LOCAL:
            await self._check(user, wanted)
        try:
            done = await self._handlers[action](user.name, wanted)
        except HttpError as refusal:
            _log.info("page action refused", action=action, by=user.name, status=refusal.status, why=refusal.message)
            raise
        _log.info("page action done", action=action, by=user.name, peer=peer(request), **_log_fields(wanted))
        return await json_response(request, {"done": done})

    async def _user(self, request: web.Request) -> User | None:
        """Find the user; None without a token where one is needed. A token counts even where none is needed."""
        given = request.headers.getall("Authorization", [])
        if not given:
            return LOCAL if self._checks.needs_no_token(request) else None
        scheme, _, token = given[0].partition(" ")
        token = token.strip()
        # A token that is not ASCII is never valid, and may not even be text that the API server could be sent.
        if len(given) > 1 or scheme.lower() != "bearer" or not token or not token.isascii():
            why = "Authorization must be given once, as: Bearer and a Kubernetes token"
            raise HttpError(401, why, **{"WWW-Authenticate": "Bearer"})
        return await self._access.authenticate(token, peer(request))

    async def _check(self, user: User, wanted: ActionRequest) -> None:
        """Refuse what the API server does not allow this user."""
        questions = required_rights(wanted, self._pause_state)
        everywhere = replace(questions[0], namespace="")  # saves asking for each namespace
        if len(questions) > 1 and await self._access.authorize(user, everywhere):
            return
        if len(questions) > _MOST_NAMESPACES:
            raise HttpError(
                422, f"migrations: of more than {_MOST_NAMESPACES} namespaces; approve them in several parts"
            )
        denied = [each for each in questions if not await self._access.authorize(user, each)]
        if denied:
            why = f"{user.name} may not {'; '.join(map(str, denied))}: ask for an RBAC role that allows it"
            _log.info("page action not allowed", by=user.name, why=why)
            raise HttpError(403, why)


def with_group_members(request: ApproveRequest, migrations: MigrationCache) -> ApproveRequest:
    """Add the migrations of the same proposals: these are approved together."""
    keys = [(each.namespace, each.name) for each in request.migrations]
    chosen = [found for key in keys if (found := migrations.get(key)) is not None]
    members = ((each.namespace, each.name) for each in add_group_members(chosen, migrations.active()))
    return ApproveRequest([MigrationRef(*key) for key in dict.fromkeys([*keys, *members])])


async def _body(request: web.Request) -> bytes:
    too_large = HttpError(413, f"the body is larger than the limit of {_LARGEST} bytes")
    if (request.content_length or 0) > _LARGEST:
        raise too_large
    try:
        async with asyncio.timeout(_TO_SEND):
            return await request.clone(client_max_size=_LARGEST).read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None
    except TimeoutError:
        raise HttpError(408, f"the body did not arrive within {_TO_SEND:g} s") from None
    except (ConnectionError, web.RequestPayloadError, http_exceptions.HttpProcessingError):
        raise HttpError(400, "the body did not arrive completely") from None


def _log_fields(request: ActionRequest) -> Mapping[str, object]:
    match request:
        case ApproveRequest():
            first = request.migrations[0]
            return {"migrations": len(request.migrations), "first": f"{first.namespace}/{first.name}"}
        case MoveRequest():
            return {"pod": f"{request.namespace}/{request.pod}", "target": request.target, "method": request.method}
    return structs.asdict(request)
