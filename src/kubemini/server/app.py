"""The embedded API server: HTTP on 127.0.0.1, a bearer token, and the way of each request to its answer.

`cluster` starts and ends it. Which path goes where is here; reading, watching and writing are in the modules beside
this one, and what they mean in `api`. A StatusError becomes the Status that clients expect.
"""

from __future__ import annotations

import logging
import socket

from aiohttp import web

from kubemini.api import Api
from kubemini.errors import StatusError
from kubemini.kinds import NODE_METRICS, POD_METRICS
from kubemini.reviews import Authenticator
from kubemini.server import answers, discovery
from kubemini.server.listing import ReadHandlers
from kubemini.server.requests import LARGEST_BODY, list_options, nowhere, place_of
from kubemini.server.watching import Watches
from kubemini.server.writing import WriteHandlers

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
        self._token = token
        self._accounts = Authenticator(api, token)
        self._watches = Watches(api)
        self._listing = ReadHandlers(api)
        self._writing = writing = WriteHandlers(api, self._listing, self._accounts)
        self._writes = {
            "create": writing.create,
            "put": writing.update,
            "update": writing.update,
            "patch": writing.patch,
            "delete": writing.delete,
            "deletecollection": writing.delete_collection,
        }
        self._subresources = {
            "scale": writing.scale,
            "eviction": writing.evict,
            "binding": writing.bind,
            "token": writing.token,
        }
        self._runner: web.AppRunner | None = None
        self._address = ""

    @property
    def url(self) -> str:
        """Where it listens. Requests need the token as their bearer."""
        return f"http://{self._address}"

    @property
    def private_url(self) -> str:
        """The same with the token in it: kubectl and other Go clients send no bearer token without TLS."""
        return f"{self.url}/{_IN_PATH}/{self._token}"

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; port 0 is any that is free."""
        listener = socket.create_server(("127.0.0.1", port))
        self._address = f"127.0.0.1:{listener.getsockname()[1]}"
        app = web.Application(client_max_size=LARGEST_BODY)
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
        except StatusError as error:
            return answers.answer_error(error)
        except (web.HTTPException, ConnectionResetError):
            raise
        except Exception:  # noqa: BLE001  a fault of ours is answered and logged
            _log.exception("%s %s failed", request.method, request.path.replace(self._token, "…"))
            internal = StatusError(500, "InternalError", "Internal error occurred: see the log of the embedded cluster")
            return answers.answer_error(internal)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        root, *rest = request.path.strip("/").split("/")
        if root not in _OPEN:
            root, *rest = self._authenticate(request, [root, *rest])
        if root in _HEALTH:
            return answers.answer_text("ok")
        if root in ("api", "apis") and len(rest) > (1 if root == "api" else 2):
            return await self._serve(request, [root, *rest])
        document = discovery.document_at(self._api.kinds, "/".join([root, *rest]))
        if document is None:
            raise nowhere()
        return answers.answer(document)

    def _authenticate(self, request: web.Request, steps: list[str]) -> list[str]:
        """The steps of a path, without the token; refused without the right token."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = ""
        if steps[0] == _IN_PATH and len(steps) > 1:
            given, steps = steps[1], steps[2:] or [""]
        user = self._accounts.user(given.strip())
        if user is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        if not self._accounts.may_do_everything(user):
            why = f'forbidden: User "{user["username"]}" cannot {request.method.lower()} path "/{"/".join(steps)}"'
            raise StatusError(403, "Forbidden", why)
        return steps

    async def _serve(self, request: web.Request, steps: list[str]) -> web.StreamResponse:
        place = place_of(self._api.kinds, steps)
        if place is None:
            raise nowhere()
        verb = place.verb(request.method)
        if place.subresource in self._subresources:
            return await self._subresources[place.subresource](request, place)
        if place.kind in (NODE_METRICS, POD_METRICS):
            return await self._listing.measure(request, place)
        if verb == "get":
            return await self._listing.get(request, place)
        if verb == "list":
            options = list_options(request.query)
            read = self._watches.serve if options.watch else self._listing.list
            return await read(request, place, options)
        return await self._writes[verb](request, place)
