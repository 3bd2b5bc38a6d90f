"""Routes of the page: its files (`PageFiles`), and the API that it reads (`Api`).

Files of `web/page` are read once, when the server is made. Only this table is served, so no path leads out of it. Each
file has an ETag, so a browser that has it already gets 304.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from aiohttp import web

from rescheduler.model.json import Json
from rescheduler.model.objects import Node
from rescheduler.web import views
from rescheduler.web.plans import TimedPlan
from rescheduler.web.push import Broadcaster, EventHub
from rescheduler.web.responses import HttpError, JsonBody, accepts_gzip, encode_json, json_response
from rescheduler.web.state import PageState

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_LONGEST_SEARCH = 512  # characters: more than the longest namespace and name
_AT_ONCE = 4  # searches; each goes over all pods


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file, ready to be sent."""

    body: bytes
    compressed: bytes
    """Empty where compression would not make it smaller."""
    kind: str
    tag: str


class PageFiles:
    """The files of the page, by name."""

    def __init__(self) -> None:
        self._files = read_files()

    async def index(self, request: web.Request) -> web.Response:
        """Serve the page itself."""
        return self._respond(request, "index.html")

    async def file(self, request: web.Request) -> web.Response:
        """Serve a file of the page."""
        return self._respond(request, request.match_info["path"])

    def _respond(self, request: web.Request, path: str) -> web.Response:
        """Make the response with a file, or 304 if the browser's copy is current."""
        found = self._files.get(path)
        if found is None:
            raise HttpError(404, "the page has no such file: reload it from /")
        headers = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if _has_it(request, found.tag):
            return web.Response(status=304, headers=headers)
        body = found.body
        if found.compressed and accepts_gzip(request):
            body = found.compressed
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, content_type=found.kind, charset="utf-8", headers=headers)


def _has_it(request: web.Request, tag: str) -> bool:
    """Compare tags weakly: compressed and plain mean the same."""
    tags = [each.strip() for each in request.headers.get("If-None-Match", "").split(",")]
    return "*" in tags or tag.removeprefix("W/") in (each.removeprefix("W/") for each in tags)


@lru_cache(maxsize=1)
def read_files() -> Mapping[str, PageFile]:
    """Read and compress the page's files, once per process; leftovers of editors are no part of the page."""
    found = {}
    for each in resources.files("rescheduler.web").joinpath("page").iterdir():
        kind = _TYPES.get(each.name.rpartition(".")[2])
        if kind is not None and not each.name.startswith("."):
            body = each.read_bytes()
            packed = gzip.compress(body, 9, mtime=0)
            tag = f'W/"{hashlib.sha256(body).hexdigest()[:24]}"'
            found[each.name] = PageFile(body, packed if len(packed) < len(body) else b"", kind, tag)
    return found


class Api:
    """The API that the page reads."""

    def __init__(self, state: PageState) -> None:
        self._state = state
        self._files = PageFiles()
        self._hub = EventHub()
        self._broadcaster = Broadcaster(state, self._hub)
        self._columns: tuple[tuple[int, int], JsonBody] | None = None
        self._plan: tuple[TimedPlan | None, views.PlanDocument] = (None, views.NO_PLAN)
        self._configuration: tuple[int, JsonBody] | None = None
        self._searches = 0
        self._one_outcome = asyncio.Lock()  # computed once at a time, however many requests come

    @property
    def readers(self) -> int:
        """The number of open event streams."""
        return self._hub.readers

    def install(self, app: web.Application) -> None:
        """Add the routes to an application."""
        get = app.router.add_get
        get("/", self._files.index)
        get("/page/{path:.+}", self._files.file)
        get("/api/overview", self._show(views.overview))
        get("/api/nodes", self._nodes)
        get("/api/nodes/{name}", self._node)
        get("/api/spread", self._show(views.spread))
        get("/api/plan", self._get_plan)
        get("/api/migrations", self._show(views.migrations))
        get("/api/pods/{namespace}/{name}", self._pod)
        get("/api/search", self._search)
        get("/api/config", self._config)
        get("/api/captions", self._show(lambda state: views.captions()))
        get("/api/outcomes", self._outcomes)
        get("/api/live", self._live)
        app.cleanup_ctx.append(self._run_loops)
        app.on_shutdown.append(self._end)

    async def _run_loops(self, app: web.Application) -> AsyncGenerator[None]:
        running = [asyncio.create_task(each.run()) for each in (self._broadcaster, self._state.measuring)]
        yield
        for each in running:
            each.cancel()
        await asyncio.wait(running)

    async def _end(self, app: web.Application) -> None:
        """End streams before the server waits for open requests: they never end by themselves."""
        self._hub.end()

    def _show(self, view: Callable[[PageState], Json]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            return await json_response(request, view(self._state))

        return handler

    async def _nodes(self, request: web.Request) -> web.Response:
        of = (self._state.loads.changes, self._broadcaster.revision)
        if self._columns is None or self._columns[0] != of:
            self._columns = of, JsonBody(encode_json(views.columns(self._state, self._broadcaster.revision)))
        return await json_response(request, self._columns[1])

    async def _node(self, request: web.Request) -> web.Response:
        loads, name = self._state.loads, request.match_info["name"]
        pods = loads.pods_on(name)
        objections = await self._state.plans.objections(pods, lambda: _is_there(request)) if pods else []
        found: Node | None = self._state.cache.row("Node", name)
        if found is None:
            raise HttpError(404, f"there is no node {_trim(name)}: it may have been deleted")
        return await json_response(request, views.node(self._state, found, pods, objections))

    async def _get_plan(self, request: web.Request) -> web.Response:
        planned = await self._state.plans.get(lambda: _is_there(request))
        if planned is not None and planned is not self._plan[0]:
            self._plan = planned, await asyncio.to_thread(views.document_plan, planned.plan)
        return await json_response(request, views.plan(self._state, *self._plan, self._state.moves.awaiting()))

    async def _pod(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if self._state.cache.row("Pod", (namespace, name)) is None:
            raise HttpError(404, f"there is no pod {_trim(f'{namespace}/{name}')}: it may have been moved or deleted")
        return await json_response(
            request, await self._state.plans.explain((namespace, name), lambda: _is_there(request))
        )

    async def _search(self, request: web.Request) -> web.Response:
        text = request.query.get("q", "")
        if len(text) > _LONGEST_SEARCH:
            raise HttpError(414, f"a search is at most {_LONGEST_SEARCH} characters long")
        if self._searches >= _AT_ONCE:
            raise HttpError(503, "too many search at once: try again", Retry_After="1")
        self._searches += 1
        try:
            return await json_response(request, await views.search(self._state, text))
        finally:
            self._searches -= 1

    async def _config(self, request: web.Request) -> web.Response:
        live_config = self._state.live_config
        if self._configuration is None or self._configuration[0] != live_config.revision:
            self._configuration = live_config.revision, JsonBody(encode_json(views.configuration(live_config)))
        return await json_response(request, self._configuration[1])

    async def _outcomes(self, request: web.Request) -> web.Response:
        async with self._one_outcome:
            found = await views.outcomes(self._state)
        return await json_response(request, found)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        state = self._state
        hello = {"now": state.now(), "replica": state.identity, "revision": self._broadcaster.revision}
        return await self._hub.stream(request, hello)


def _is_there(request: web.Request) -> bool:
    """Whether the client is still connected."""
    return request.transport is not None and not request.transport.is_closing()


def _trim(name: str) -> str:
    """A name from a request, shortened if it is too long to be one."""
    return name if len(name) <= 320 else f"{name[:60]}…"
