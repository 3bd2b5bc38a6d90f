"""The page's API: its files, everything that it reads, and the stream of what changes. It is read-only, and open.

`app.page` makes it, `server` installs it. All answers come from memory. What is large is encoded once for all who ask,
what takes long is done off the loop (`plans`), and whatever is asked that makes no sense is refused with a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from aiohttp import web

from rescheduler.web.answers import Body, Refusal, answered, encoded
from rescheduler.web.files import Files
from rescheduler.web.live import Hub
from rescheduler.web.plans import Planned
from rescheduler.web.pulse import Pulse
from rescheduler.web.showing import Showing
from rescheduler.web.views.configuration import configuration
from rescheduler.web.views.migrations import migrations
from rescheduler.web.views.node import node
from rescheduler.web.views.nodes import columns
from rescheduler.web.views.outcomes import outcomes
from rescheduler.web.views.overview import overview, sample
from rescheduler.web.views.plans import NONE, Written, plan, written
from rescheduler.web.views.search import search

_LONGEST_SEARCH = 512  # characters: more than the longest namespace and name
_AT_ONCE = 4  # searches; each goes over all pods


class Api:
    """What is served of it."""

    def __init__(self, showing: Showing, files: Files | None = None) -> None:
        self._showing = showing
        self._files = files if files is not None else Files()
        self._hub = Hub()
        self._pulse = Pulse(showing, self._hub)
        self._columns: tuple[tuple[int, int], Body] | None = None
        self._plan: tuple[Planned | None, Written] = (None, NONE)
        self._configuration: tuple[int, Body] | None = None
        self._searches = 0
        self._one_outcome = asyncio.Lock()  # one reckoning at a time, however many ask

    @property
    def readers(self) -> int:
        """How many event streams are open."""
        return self._hub.readers

    def install(self, app: web.Application) -> None:
        """Add everything to an application that is to be served."""
        for path, handler in (
            ("/", self._files.index),
            ("/page/{path:.+}", self._files.file),
            ("/api/overview", self._overview),
            ("/api/nodes", self._nodes),
            ("/api/nodes/{name}", self._node),
            ("/api/spread", self._spread),
            ("/api/plan", self._look_at_plan),
            ("/api/migrations", self._migrations),
            ("/api/pods/{namespace}/{name}", self._pod),
            ("/api/search", self._search),
            ("/api/config", self._config),
            ("/api/outcomes", self._outcomes),
            ("/api/live", self._live),
        ):
            app.router.add_get(path, handler)
        app.cleanup_ctx.append(self._beating)
        app.on_shutdown.append(self._end)

    async def _beating(self, app: web.Application) -> AsyncGenerator[None]:
        running = [asyncio.create_task(each.run()) for each in (self._pulse, self._showing.measuring)]
        yield
        for each in running:
            each.cancel()
        await asyncio.wait(running)
        await self._showing.plans.end()

    async def _end(self, app: web.Application) -> None:
        """Before the server waits for what is being answered: streams never end by themselves."""
        self._hub.end()

    async def _overview(self, request: web.Request) -> web.Response:
        return await answered(request, overview(self._showing))

    async def _nodes(self, request: web.Request) -> web.Response:
        of = (self._showing.loads.changes, self._pulse.revision)
        if self._columns is None or self._columns[0] != of:
            self._columns = of, Body(encoded(columns(self._showing, self._pulse.revision)))
        return await answered(request, self._columns[1])

    async def _node(self, request: web.Request) -> web.Response:
        loads, name = self._showing.loads, request.match_info["name"]
        pods = loads.pods_on(name)
        objections = await self._showing.plans.objections(pods, lambda: _is_there(request)) if pods else []
        found = loads.node(name)
        if found is None:
            raise Refusal(404, f"there is no node {_shown(name)}: it may have been deleted")
        return await answered(request, node(self._showing, found, pods, objections))

    async def _spread(self, request: web.Request) -> web.Response:
        return await answered(request, {"samples": [sample(each) for each in self._showing.samples.all()]})

    async def _look_at_plan(self, request: web.Request) -> web.Response:
        planned = await self._showing.plans.look(lambda: _is_there(request))
        if planned is not None and planned is not self._plan[0]:
            self._plan = planned, await asyncio.to_thread(written, planned.plan)
        return await answered(request, plan(self._showing, *self._plan, self._showing.moves.awaiting()))

    async def _migrations(self, request: web.Request) -> web.Response:
        return await answered(request, migrations(self._showing))

    async def _pod(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if self._showing.loads.pod((namespace, name)) is None:
            raise Refusal(404, f"there is no pod {_shown(f'{namespace}/{name}')}: it may have been moved or deleted")
        return await answered(
            request, await self._showing.plans.explained((namespace, name), lambda: _is_there(request))
        )

    async def _search(self, request: web.Request) -> web.Response:
        text = request.query.get("q", "")
        if len(text) > _LONGEST_SEARCH:
            raise Refusal(414, f"a search is at most {_LONGEST_SEARCH} characters long")
        if self._searches >= _AT_ONCE:
            raise Refusal(503, "too many search at once: try again", Retry_After="1")
        self._searches += 1
        try:
            return await answered(request, await search(self._showing, text))
        finally:
            self._searches -= 1

    async def _config(self, request: web.Request) -> web.Response:
        mandate = self._showing.mandate
        if self._configuration is None or self._configuration[0] != mandate.revision:
            self._configuration = mandate.revision, Body(encoded(configuration(mandate)))
        return await answered(request, self._configuration[1])

    async def _outcomes(self, request: web.Request) -> web.Response:
        async with self._one_outcome:
            found = await outcomes(self._showing)
        return await answered(request, found)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        replica = self._showing.replica.identity
        hello = {"now": self._showing.now(), "replica": replica, "revision": self._pulse.revision}
        return await self._hub.stream(request, hello)


def _is_there(request: web.Request) -> bool:
    """Whether whoever asked has not hung up."""
    return request.transport is not None and not request.transport.is_closing()


def _shown(name: str) -> str:
    """A name that somebody sent: not all of it, if it is no name."""
    return name if len(name) <= 320 else f"{name[:60]}…"
