"""The page on a server whose answers are made up: the product's files and headers, `page_documents` behind them.

Browser tests, screenshots of rare states and people who work on the page use it: `serving()` runs it in a thread,
`python -m tests.support.page_fixture --nodes 5000` until Ctrl-C. What a test changes in `documents` is what is answered
from then on, and `publish` sends to every open page. Actions are written down and answered as done, or as the test
says.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiohttp import web

from rescheduler.model.json import Json
from rescheduler.web.api import PageFiles
from rescheduler.web.responses import HttpError, json_response
from rescheduler.web.views import captions
from tests.support import page_documents
from tests.support.page_thread import InThread, pages_in_thread
from tests.testbed.processes import until

EVERYTHING = {"pause": True, "approve": True, "migrate": True, "maintenance": True}
NOTHING = dict.fromkeys(EVERYTHING, False)
PEOPLE: dict[str, Json] = {
    "good": {"name": "jane", "groups": ["ops"], "may": EVERYTHING},
    "poor": {"name": "joe", "groups": [], "may": NOTHING},
}
"""By their tokens: one who may do everything, and one who may do nothing."""


@dataclass(eq=False)
class Served:
    """A running one."""

    documents: dict[str, Json]
    local: bool = False
    address: str = ""
    tokens: dict[str, Json] = field(default_factory=lambda: dict(PEOPLE))
    """What whoami says to each."""
    actions: list[tuple[str, Json, dict[str, str]]] = field(default_factory=list)
    """Name, body and headers of what was asked for, in order."""
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    _readers: set[asyncio.Queue[bytes | None]] = field(default_factory=set)
    _running: InThread | None = None

    def publish(self, event: str, data: Json) -> None:
        """Send to every listener; waits for the first, because a page may be shown before it listens."""
        assert self._running is not None
        until("a page listens", lambda: self._readers)
        if event == "overview":
            self.documents["overview"] = data  # it may be about to be asked for
        line = f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
        self._running.call(lambda: self._tell(line))

    def refuse(self, action: str, status: int, sentence: str) -> None:
        """From now on this action is answered so."""
        self.refusals[action] = (status, sentence)

    def install(self, app: web.Application) -> None:
        """The routes, as the product's server asks its parts for them."""
        files = PageFiles()
        app.router.add_get("/", files.index)
        app.router.add_get("/page/{path:.+}", files.file)
        app.router.add_get("/api/live", self._live)
        app.router.add_get("/api/whoami", self._whoami)
        app.router.add_get("/api/search", self._search)
        app.router.add_get("/api/nodes/{name}", self._node)
        app.router.add_get("/api/pods/{namespace}/{name}", self._pod)
        app.router.add_get("/api/{name}", self._document)
        app.router.add_post("/api/actions/{name}", self._act)
        app.on_shutdown.append(self._end)

    async def _end(self, app: web.Application) -> None:
        for reader in self._readers:
            reader.put_nowait(None)

    def _tell(self, line: bytes) -> None:
        for reader in self._readers:
            reader.put_nowait(line)

    async def _document(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name == "captions":
            return await json_response(request, captions())
        if name not in self.documents:
            raise HttpError(404, f"there is no {name}")
        return await json_response(request, self.documents[name])

    async def _node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.documents["nodes"]["names"]:
            raise HttpError(404, f"there is no node {name}: it may have been removed")
        return await json_response(request, page_documents.node(self.documents["nodes"], name))

    async def _pod(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        if name.startswith("gone"):
            raise HttpError(404, f"there is no pod {namespace}/{name}: it may have been moved or deleted")
        nodes, plan = self.documents["nodes"], self.documents["plan"]
        return await json_response(request, page_documents.pod(nodes, plan, namespace, name))

    async def _search(self, request: web.Request) -> web.Response:
        wanted = request.query.get("q", "").lower()
        nodes = [each for each in self.documents["nodes"]["names"] if wanted in each.lower()]
        moves = (self.documents["plan"]["plan"] or {"moves": []})["moves"]
        pods = [{"namespace": each["namespace"], "name": each["pod"], "node": each["from"]} for each in moves]
        found = [each for each in pods if wanted in each["name"].lower()]
        return await json_response(request, {"nodes": nodes[:20], "pods": found[:20], "more": max(0, len(nodes) - 20)})

    async def _whoami(self, request: web.Request) -> web.Response:
        return await json_response(request, self._who(request))

    def _who(self, request: web.Request) -> Json:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            name, may = ("local", EVERYTHING) if self.local else ("", NOTHING)
            return {"name": name, "groups": [], "may": may}
        if token not in self.tokens:
            raise HttpError(401, "the token is not accepted: it may have expired; make a new one")
        return self.tokens[token]

    async def _act(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.actions.append((name, await request.json(), dict(request.headers)))
        if name in self.refusals:
            raise HttpError(*self.refusals[name])
        who = self._who(request)["name"]
        if not who:
            raise HttpError(401, "nobody is signed in: an action needs a Kubernetes token")
        return await json_response(request, {"done": f"{name}: done by {who}"})

    async def _live(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        reader: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._readers.add(reader)
        try:
            await response.write(f'event: hello\ndata: {{"now": {time.time()}}}\n\n'.encode())
            while line := await reader.get():
                await response.write(line)
        except ConnectionError:
            pass  # the page was closed
        finally:
            self._readers.discard(reader)
        return response


@contextlib.contextmanager
def serving(nodes: int = 12, access: str = "token", port: int = 0) -> Iterator[Served]:
    """Served until the end of the block; `access` as in /api/overview."""
    made = Served(page_documents.documents(nodes), local=access == "local")
    made.documents["overview"]["access"] = access
    with pages_in_thread(made, port=port) as running:
        made.address, made._running = running.address, running
        yield made


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.page_fixture", description=__doc__)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--access", choices=["token", "local"], default="token")
    options = parser.parse_args()
    with serving(options.nodes, options.access, options.port) as served, contextlib.suppress(KeyboardInterrupt):
        print(f"{served.address}  (the tokens `good` and `poor` are known; Ctrl-C ends it)", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
