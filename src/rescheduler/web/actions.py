"""What the page may ask for, read strictly: the bodies of `POST /api/actions/…`, and which rights each of them needs.

`actions` decodes by it. Unknown fields are refused with their path, as is what can be no name in Kubernetes, so that
nothing of a body reaches a path, a log or an object that does not belong there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Protocol

import msgspec
import structlog
from aiohttp import http_exceptions, web
from msgspec import Meta, Struct

from rescheduler.kube.reviews import ResourceAttributes, User
from rescheduler.model.json import ObjectKey
from rescheduler.web.auth import Authenticator, RequestChecks, peer
from rescheduler.web.responses import HttpError, json_response

MIGRATIONS = ("podmigrations", "rescheduler.io")
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_SECTION = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)

Name = Annotated[str, Meta(max_length=253, pattern=rf"^{_NAME}\Z")]
OptionalName = Annotated[str, Meta(max_length=253, pattern=rf"^({_NAME})?\Z")]
Line = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z")]


class _ActionBody(Struct, forbid_unknown_fields=True):
    """Base: nothing that we do not know."""


class PauseRequest(_ActionBody):
    """Begin no more moves."""

    reason: Line = ""


class ResumeRequest(_ActionBody):
    """Go on."""


class MigrationRef(_ActionBody):
    """One migration."""

    namespace: Name
    name: Name


class ApproveRequest(_ActionBody):
    """Let these migrations begin."""

    migrations: Annotated[list[MigrationRef], Meta(min_length=1, max_length=1000)]


class MoveRequest(_ActionBody):
    """Move one pod; without a target to wherever it fits best."""

    namespace: Name
    pod: Name
    target: OptionalName = ""
    method: Literal["", "auto", "handoff", "evict", "copy"] = ""


class MaintenanceRequest(_ActionBody):
    """Empty a node and keep it empty, or have done with that."""

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
    """What a body asks for; a Refusal says where it is wrong."""
    kind = ACTIONS[action]
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HttpError(422, _format_problem(str(error), kind)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None


def required_rights(demand: ActionRequest, state: tuple[str, str]) -> list[ResourceAttributes]:
    """The rights that it needs; `state` is the namespace and name of the ConfigMap that says whether we are paused."""
    resource, group = MIGRATIONS
    match demand:
        case PauseRequest() | ResumeRequest():
            return [ResourceAttributes("patch", "configmaps", "", *state)]
        case ApproveRequest():
            namespaces = sorted({each.namespace for each in demand.migrations})
            return [ResourceAttributes("patch", resource, group, namespace) for namespace in namespaces]
        case MoveRequest():
            return [ResourceAttributes("create", resource, group, demand.namespace)]
        case MaintenanceRequest():
            return [ResourceAttributes("patch", "nodes", name=demand.node)]


def page_rights(state: tuple[str, str]) -> dict[str, ResourceAttributes]:
    """By what the page shows, the right that goes with it; in all namespaces, for those who may act in all."""
    resource, group = MIGRATIONS
    return {
        "pause": ResourceAttributes("patch", "configmaps", "", *state),
        "approve": ResourceAttributes("patch", resource, group),
        "migrate": ResourceAttributes("create", resource, group),
        "maintenance": ResourceAttributes("patch", "nodes"),
    }


def _format_problem(message: str, kind: type[ActionRequest]) -> str:
    """msgspec's words with the path in front, as in all our errors."""
    found = _SECTION.match(message)
    what, path = (found[1], found[2] or "") if found else (message, "")
    path = path.lstrip(".")
    if unknown := _UNKNOWN.fullmatch(what):
        inner = MigrationRef if path.startswith("migrations[") else kind
        allowed = ", ".join(inner.__struct_fields__) or "none"
        return f"{_joined(path, ascii(unknown[1][:80])[1:-1])}: unknown field; allowed are: {allowed}"
    if missing := _MISSING.fullmatch(what):
        return f"{_joined(path, missing[1])}: is needed"
    return f"{path or 'the body'}: {what[:1].lower()}{what[1:]}"


def _joined(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


_log = structlog.stdlib.get_logger(__name__)
LOCAL = User("local")
"""Whoever is on this machine, where that is enough."""
_LARGEST = 256 * 1024  # bytes: a thousand migrations with long names
_TO_SEND = 10.0  # seconds for a body
_MOST_NAMESPACES = 50  # that are asked about one by one


class ActionHandlers(Protocol):
    """Does it, and says in a sentence what happens next; a Refusal says why not. `by` is who wants it."""

    @property
    def state(self) -> tuple[str, str]:
        """Namespace and name of the ConfigMap that says whether rescheduling is paused."""

    def together(self, keys: Sequence[ObjectKey]) -> list[ObjectKey]:
        """These migrations and those that stand or fall with them."""

    async def pause(self, by: str, reason: str) -> str: ...

    async def resume(self, by: str) -> str: ...

    async def approve(self, by: str, migrations: Sequence[ObjectKey]) -> str: ...

    async def migrate(self, by: str, demand: MoveRequest) -> str: ...

    async def maintain(self, by: str, node: str, *, on: bool) -> str: ...


class ActionRoutes:
    """The routes."""

    def __init__(self, access: RequestChecks, identity: Authenticator, deeds: ActionHandlers) -> None:
        self._access, self._identity, self._deeds = access, identity, deeds

    def install(self, app: web.Application) -> None:
        """Serve them."""
        app.router.add_get("/api/whoami", self._whoami)
        app.router.add_post("/api/actions/{name}", self._act)

    async def _whoami(self, request: web.Request) -> web.Response:
        person = await self._person(request)
        asked = page_rights(self._deeds.state)
        if person is None:
            may = dict.fromkeys(asked, False)
        elif person is LOCAL:
            may = dict.fromkeys(asked, True)
        else:
            may = {name: await self._identity.was_authorized(person, question) for name, question in asked.items()}
        known = person or User("")
        return await json_response(request, {"name": known.name, "groups": known.groups, "may": may})

    async def _act(self, request: web.Request) -> web.Response:
        action = request.match_info["name"]
        if action not in ACTIONS:
            raise HttpError(404, f"there is no such action; there are {', '.join(ACTIONS)}")
        self._access.check_sent_by_page(request, action)
        person = await self._person(request)
        if person is None:
            why = "sign in with a Kubernetes token first (Authorization: Bearer …)"
            raise HttpError(401, why, **{"WWW-Authenticate": "Bearer"})
        demand = self._whole(decode_request(action, await _body(request)))
        if person is not LOCAL:
            await self._check(person, demand)
        try:
            done = await self._do(person.name, demand)
        except HttpError as refusal:
            _log.info("not done on the page", action=action, by=person.name, status=refusal.status, why=refusal.message)
            raise
        _log.info("done on the page", action=action, by=person.name, peer=peer(request), **_log_fields(demand))
        return await json_response(request, {"done": done})

    async def _person(self, request: web.Request) -> User | None:
        """Who it is; None where nobody says who he is. A token counts also where none is needed."""
        given = request.headers.getall("Authorization", [])
        if not given:
            return LOCAL if self._access.needs_no_token(request) else None
        scheme, _, token = given[0].partition(" ")
        token = token.strip()
        # What is not ASCII is nobody's token, and may not even be text that the API server could be asked about.
        if len(given) > 1 or scheme.lower() != "bearer" or not token or not token.isascii():
            why = "Authorization must be given once, as: Bearer and a Kubernetes token"
            raise HttpError(401, why, **{"WWW-Authenticate": "Bearer"})
        return await self._identity.authenticate(token, peer(request))

    def _whole(self, demand: ActionRequest) -> ActionRequest:
        """With all that belongs to it: moves of one proposal are approved together."""
        if not isinstance(demand, ApproveRequest):
            return demand
        keys = self._deeds.together([(each.namespace, each.name) for each in demand.migrations])
        return ApproveRequest([MigrationRef(*key) for key in keys])

    async def _check(self, person: User, demand: ActionRequest) -> None:
        """Refuse what the API server does not let this person do."""
        questions = required_rights(demand, self._deeds.state)
        if len(questions) > 1:  # who may do it everywhere need not be asked about one namespace after the other
            whole = ResourceAttributes(questions[0].verb, questions[0].resource, questions[0].group)
            if await self._identity.authorize(person, whole):
                return
        if len(questions) > _MOST_NAMESPACES:
            raise HttpError(
                422, f"migrations: of more than {_MOST_NAMESPACES} namespaces; approve them in several parts"
            )
        denied = [each for each in questions if not await self._identity.authorize(person, each)]
        if denied:
            why = f"{person.name} may not {'; '.join(map(str, denied))}: ask for an RBAC role that allows it"
            _log.info("not allowed on the page", by=person.name, why=why)
            raise HttpError(403, why)

    async def _do(self, by: str, demand: ActionRequest) -> str:
        deeds = self._deeds
        match demand:
            case PauseRequest():
                return await deeds.pause(by, demand.reason)
            case ResumeRequest():
                return await deeds.resume(by)
            case ApproveRequest():
                return await deeds.approve(by, [(each.namespace, each.name) for each in demand.migrations])
            case MoveRequest():
                return await deeds.migrate(by, demand)
            case MaintenanceRequest():
                return await deeds.maintain(by, demand.node, on=demand.on)


async def _body(request: web.Request) -> bytes:
    if (request.content_length or 0) > _LARGEST:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_TO_SEND):
            async for part in request.content.iter_any():
                size += len(part)
                if size > _LARGEST:
                    raise _too_large()
                parts.append(part)
    except TimeoutError:
        raise HttpError(408, f"the body did not arrive within {_TO_SEND:g} s") from None
    except (ConnectionError, web.RequestPayloadError, http_exceptions.HttpProcessingError):
        raise HttpError(400, "the body does not arrive whole") from None
    return b"".join(parts)


def _too_large() -> HttpError:
    return HttpError(413, f"the body is larger than the {_LARGEST} bytes that are taken here")


def _log_fields(demand: ActionRequest) -> Mapping[str, object]:
    """What it is about, for the log."""
    match demand:
        case ApproveRequest():
            return {
                "migrations": len(demand.migrations),
                "first": f"{demand.migrations[0].namespace}/{demand.migrations[0].name}",
            }
        case MoveRequest():
            return {"pod": f"{demand.namespace}/{demand.pod}", "target": demand.target, "method": demand.method}
        case MaintenanceRequest():
            return {"node": demand.node, "on": demand.on}
        case PauseRequest():
            return {"reason": demand.reason}
    return {}
