"""The embedded API server: HTTP on 127.0.0.1, a bearer token, and the way of each request to its answer.

`cluster` starts and ends it. Which path goes where is here; what is then read, watched or written is in the modules
beside this one, and what it means in `api`. A Refusal, wherever it comes from, becomes the Status that clients expect.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import time

import msgspec
from aiohttp import web

from kubemini.api import Api
from kubemini.kinds import NODE_METRICS, POD_METRICS
from kubemini.refusals import Json, Refusal
from kubemini.reviews import Accounts
from kubemini.server import answers, discovery, negotiation, openapi
from kubemini.server.bodies import LARGEST
from kubemini.server.listing import Listing
from kubemini.server.metering import Metering
from kubemini.server.negotiation import DISCOVERY, METADATA, METADATA_LIST, TABLE
from kubemini.server.options import list_options
from kubemini.server.pages import States
from kubemini.server.parts import Parts
from kubemini.server.paths import Place, nowhere, place_of, wrong_method
from kubemini.server.watching import Watches
from kubemini.server.writing import Writing

_log = logging.getLogger(__name__)

_HEALTH = ("healthz", "livez", "readyz")
_OPEN = (*_HEALTH, "version")
_LONGEST_LINE = 256 * 1024  # selectors of many values make long paths
_SECONDS_TO_END = 1.0
_IN_PATH = "token"


class Server:
    """The HTTP side of one embedded cluster."""

    def __init__(self, api: Api, token: str) -> None:
        self._api = api
        self._token = token.encode()
        self._accounts = Accounts(api, token)
        self._watches = Watches(api)
        self._listing = Listing(api, States(api.store, time.monotonic))
        self._writing = Writing(api, self._listing, self._accounts)
        self._parts = Parts(api, self._accounts)
        self._metering = Metering(api)
        self._runner: web.AppRunner | None = None
        self._address = ""

    @property
    def url(self) -> str:
        """Where it listens; requests need the token as their bearer."""
        return f"http://{self._address}"

    @property
    def private_url(self) -> str:
        """The same with the token in it: kubectl and other Go clients send no bearer token without TLS."""
        return f"{self.url}/{_IN_PATH}/{self._token.decode()}"

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; port 0 is any that is free."""
        listener = socket.create_server(("127.0.0.1", port))
        self._address = f"127.0.0.1:{listener.getsockname()[1]}"
        app = web.Application(client_max_size=LARGEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,  # so that a watch ends with its client
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            shutdown_timeout=_SECONDS_TO_END,
        )
        await runner.setup()
        self._runner = runner
        await web.SockSite(runner, listener).start()

    async def close(self) -> None:
        """End all requests and stop listening."""
        self._watches.end()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refusal as refusal:
            return answers.refusal_answer(request, refusal)
        except (web.HTTPException, ConnectionResetError):
            raise
        except Exception:  # noqa: BLE001  a fault of ours must not end the connection without a word
            path = request.path.replace(self._token.decode(), "…")
            _log.exception("%s %s failed", request.method, path)
            error = Refusal(500, "InternalError", "Internal error occurred: see the log of the embedded cluster")
            return answers.refusal_answer(request, error)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        root, *rest = request.path.strip("/").split("/")
        if root not in _OPEN:
            root, *rest = self._authenticated(request, [root, *rest])
        if root in _HEALTH:
            return answers.text("ok")
        if root == "version" and not rest:
            return answers.answer(request, discovery.VERSION)
        if root in ("api", "apis"):
            document = self._discovery(request, root, rest)
            return await self._serve(request, [root, *rest]) if document is None else document
        if request.method != "GET":
            raise wrong_method()
        if root == "openapi":
            return self._openapi(request, rest)
        if root == "":
            return answers.answer(request, discovery.paths(self._api.kinds))
        return answers.text("404 page not found\n", 404)

    def _authenticated(self, request: web.Request, steps: list[str]) -> list[str]:
        """The steps of a path whose client knows the token, without the token."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = ""
        if steps[0] == _IN_PATH and len(steps) > 1:
            given, steps = steps[1], steps[2:] or [""]
        user = self._accounts.user(given.strip())
        if user is None:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if not self._accounts.may_do_everything(user):
            why = f'forbidden: User "{user["username"]}" cannot {request.method.lower()} path "/{"/".join(steps)}"'
            raise Refusal(403, "Forbidden", why)
        return steps

    def _discovery(self, request: web.Request, root: str, rest: list[str]) -> web.Response | None:
        """The answer to a request for what there is; nothing if it is for one of the things themselves."""
        if len(rest) > (1 if root == "api" else 2):
            return None
        if request.method != "GET":
            raise wrong_method()
        kinds = self._api.kinds
        if not rest:
            accepted = negotiation.accepted(request.headers.get("Accept", ""), DISCOVERY)
            if accepted.shape == DISCOVERY:
                return _cacheable(request, discovery.aggregated(kinds, core=root == "api"), discovery.AGGREGATED)
            core = root == "api"
            return answers.answer(
                request, discovery.core_versions(self._address) if core else discovery.group_list(kinds)
            )
        if root == "apis" and not kinds.of_group(rest[0]):
            return answers.text("404 page not found\n", 404)
        if root == "apis" and len(rest) == 1:
            document = discovery.group(kinds, rest[0])
        else:
            group, version = ("", rest[0]) if root == "api" else rest
            document = discovery.resource_list(kinds, group, version)
        if document is None:
            raise nowhere()
        return answers.answer(request, document)

    def _openapi(self, request: web.Request, rest: list[str]) -> web.Response:
        kinds = self._api.kinds
        if rest == ["v2"]:
            negotiation.accepted(request.headers.get("Accept", ""), yaml=False)
            return answers.answer(request, openapi.old_document(kinds))
        if rest == ["v3"]:
            return answers.answer(request, openapi.index(kinds))
        document = openapi.document_of(kinds, "/".join(rest[1:])) if rest[:1] == ["v3"] else None
        if document is None:
            raise nowhere()
        return _cacheable(request, document, negotiation.JSON)

    async def _serve(self, request: web.Request, steps: list[str]) -> web.StreamResponse:
        place = place_of(self._api.kinds, steps)
        if place is None:
            raise nowhere()
        verb = place.verb(request.method)
        if place.subresource in ("", "status"):
            return await self._whole(request, place, verb)
        part = {
            "scale": self._parts.scale,
            "eviction": self._parts.evict,
            "binding": self._parts.bind,
            "finalize": self._parts.finalize,
            "token": self._parts.token,
        }[place.subresource]
        return await part(request, place)

    async def _whole(self, request: web.Request, place: Place, verb: str) -> web.StreamResponse:
        if place.kind in (NODE_METRICS, POD_METRICS):
            return await self._metering.answer(request, place)
        if verb in ("get", "list"):
            # The old way of watching has it in the path; an object by itself can be watched in that way only.
            if place.watched or (verb == "list" and "watch" in request.query):
                options = list_options(request.query, watch=place.watched)
                if options.watch:
                    return await self._watches.serve(request, place, options)
            if verb == "list":
                return await self._listing.collection(request, place, list_options(request.query))
            return await self._listing.get(request, place)
        # Whoever could not read the answer must not change anything.
        negotiation.accepted(request.headers.get("Accept", ""), TABLE, METADATA, METADATA_LIST)
        write = {
            "create": self._writing.create,
            "put": self._writing.update,
            "update": self._writing.update,
            "patch": self._writing.patch,
            "delete": self._writing.delete,
            "deletecollection": self._writing.delete_collection,
        }[verb]
        return await write(request, place)


def _cacheable(request: web.Request, document: Json, sort: str) -> web.Response:
    """A document that clients keep, with a tag to ask whether it has changed."""
    raw = msgspec.json.encode(document)
    tag = f'"{hashlib.sha256(raw).hexdigest().upper()}"'
    if request.headers.get("If-None-Match") == tag:
        response = web.Response(status=304)
    else:
        response = answers.answer(request, raw)
        response.headers["Content-Type"] = sort
    response.headers["ETag"] = tag
    response.headers["Vary"] = "Accept"
    response.headers["Cache-Control"] = "public"
    return response
