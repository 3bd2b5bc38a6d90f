"""A webhook for unit tests: it serves TLS in the test's own event loop and answers as the test says."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kubemini.errors import Json
from tests.testbed.pki import Authority

Respond = Callable[[Json], Any]
"""From the request in an AdmissionReview to what is answered: the `response` of a review, or a web.Response."""


@dataclass
class Stage:
    """A running webhook: where it is, and what it was asked, in order."""

    url: str
    bundle: str
    asked: list[tuple[str, Json]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)

    def requests(self, path: str = "/") -> list[Json]:
        return [request for where, request in self.asked if where == path]


@contextlib.asynccontextmanager
async def serving(authority: Authority, **answers: Respond) -> AsyncIterator[Stage]:
    """A webhook that has an answer for each path; `root` is the answer for /."""

    async def handle(request: web.Request) -> web.StreamResponse:
        review = await request.json()
        stage.asked.append((request.path, review["request"]))
        stage.headers.append(dict(request.headers))
        stage.queries.append(dict(request.query))
        said = answers[request.path.strip("/") or "root"](review["request"])
        if isinstance(said, web.StreamResponse):
            return said
        if hasattr(said, "__await__"):
            said = await said
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": said})

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    pair = authority.server("webhook")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    stage = Stage(f"https://127.0.0.1:{port}", bundle)
    try:
        yield stage
    finally:
        await runner.cleanup()


def allow(request: Json) -> Json:
    return {"uid": request["uid"], "allowed": True}


def patching(*operations: Json) -> Respond:
    """Allows, and patches."""
    patch = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return lambda request: allow(request) | {"patchType": "JSONPatch", "patch": patch}


def labelling(key: str, value: str = "yes") -> Respond:
    return patching({"op": "add", "path": f"/metadata/labels/{key}", "value": value})


def hook(stage: Stage, path: str = "/", **fields: Any) -> Json:
    """A webhook for new pods."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "name": "hook.example.com",
        "clientConfig": {"url": stage.url + path, "caBundle": stage.bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
