"""The embedded API server over HTTP, without controllers, for tests that look at its answers as a client does."""

from __future__ import annotations

import contextlib
import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from kubemini.api import Api, Target
from kubemini.kinds import NAMESPACE, Kind
from kubemini.server.app import Server
from rescheduler.model.json import Json

TOKEN = "known to few"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def names(self) -> list[str]:
        """The names of a list's items."""
        return [each["metadata"]["name"] for each in self.json["items"]]

    @property
    def message(self) -> str:
        """What a Status says."""
        found: str = self.json["message"]
        return found


class Client:
    """One client of one server."""

    def __init__(self, server: Server, api: Api, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.api = api
        self._session = session

    async def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        data = body if body is None or isinstance(body, bytes | io.BytesIO) else msgspec.json.encode(body)
        given = {"Content-Type": "application/json"} | dict(headers or {})
        async with self._session.request(method, f"{self.server.url}{path}", data=data, headers=given) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, accept: str = "application/json") -> Answer:
        return await self.send("GET", path, headers={"Accept": accept})

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        return await self.send("POST", path, body, headers)

    @contextlib.asynccontextmanager
    async def watch(self, path: str, accept: str = "application/json") -> AsyncIterator[AsyncGenerator[Json, None]]:
        """Events until the server ends the watch or the block is left; the watch has begun when this returns."""
        url = f"{self.server.url}{path}{'&' if '?' in path else '?'}watch=true"
        async with self._session.get(url, headers={"Accept": accept}) as response:
            assert response.status == 200, await response.text()
            async with contextlib.aclosing(_events(response)) as events:
                yield events

    async def make(self, name: str, kind: Kind = CONFIG_MAP, **body: Any) -> Json:
        """An object in the default namespace, made behind the server's back."""
        metadata = {"name": name} | body.pop("metadata", {})
        return await self.api.create(Target(kind, "default" if kind.namespaced else ""), {"metadata": metadata} | body)

    async def change(self, name: str, **changes: Any) -> Json:
        """A changed ConfigMap."""

        def edit(before: Json) -> Json:
            metadata = before["metadata"] | changes.get("metadata", {})
            return before | changes | {"metadata": metadata}

        return await self.api.edit(Target(CONFIG_MAP, "default", name), edit)


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[Client]:
    """A server with a default namespace and nothing else in it."""
    api = Api()
    await api.create(Target(NAMESPACE), {"metadata": {"name": "default"}})
    server = Server(api, TOKEN)
    await server.start()
    try:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        timeout = aiohttp.ClientTimeout(total=120)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            yield Client(server, api, session)
    finally:
        await server.close()


def pod(name: str, **fields: Any) -> Json:
    """A small pod."""
    spec = {"containers": [{"name": "main", "image": "hollow:1"}]} | fields.pop("spec", {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name} | fields.pop("metadata", {}), "spec": spec}


async def _events(response: aiohttp.ClientResponse) -> AsyncGenerator[Json, None]:
    while line := await response.content.readline():
        yield msgspec.json.decode(line)
