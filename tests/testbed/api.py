"""The tests' own words with an API server: JSON over one kept connection, no product code in between.

`cluster` and the fixtures use it to see whether the cluster is ready and to make nodes and namespaces; tests use it to
look at a cluster through other eyes than those of the client that they test, and to hold two clusters to one contract.
It blocks, and one thread at a time may use it; each watch has a connection of its own. An answer that is not a success
is an ApiError, with the Status that Kubernetes gave.
"""

import contextlib
import copy
import functools
import http.client
import json
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

from rescheduler.model.json import Json
from tests.testbed.pki import Pair

SECONDS_KEPT_IDLE = 30.0  # the API server hangs up on idle connections after 90
JSON = "application/json"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",  # JSON is YAML too
}


class ApiError(Exception):
    """The API server refused; `code` is the HTTP status, `status` Kubernetes' Status object (empty if it gave none)."""

    def __init__(self, request: str, code: int, answer: str, headers: Mapping[str, str] | None = None) -> None:
        self.code = code
        self.headers = headers or {}
        self.status: Json = {}
        self.message = answer.strip()  # health checks and proxies answer in plain text
        with contextlib.suppress(ValueError):
            decoded = json.loads(answer)
            if isinstance(decoded, dict):
                self.status = decoded
                self.message = str(decoded.get("message", answer))
        self.reason = str(self.status.get("reason", ""))
        super().__init__(f"{request}: {code} {self.reason}: {self.message}")

    @property
    def causes(self) -> list[Json]:
        """What of the object was wrong, field by field, where the server says so."""
        found: list[Json] = (self.status.get("details") or {}).get("causes") or []
        return found


class Api:
    """One user's view of one API server: over TLS as a client certificate says, or plain with a bearer token."""

    def __init__(
        self, port: int, authority: Path | None, client: Pair | None, timeout: float = 30.0, token: str = ""
    ) -> None:
        if authority is None:
            self._open = functools.partial(http.client.HTTPConnection, "127.0.0.1", port, timeout=timeout)
        else:
            context = ssl.create_default_context(cafile=str(authority))
            if client is not None:
                context.load_cert_chain(client.certificate, client.key)
            secure = http.client.HTTPSConnection
            self._open = functools.partial(secure, "127.0.0.1", port, timeout=timeout, context=context)
        self._headers = {"Accept": JSON} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._connection = self._open()
        self._used = time.monotonic()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Json:
        return self._json("GET", path, headers=headers)

    def find(self, path: str) -> Json | None:
        """None if it is not there."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def post(self, path: str, body: Json) -> Json:
        return self._json("POST", path, body)

    def put(self, path: str, body: Json) -> Json:
        return self._json("PUT", path, body)

    def patch(self, path: str, body: Json | list[Json], kind: str = "merge") -> Json:
        return self._json("PATCH", path, body, {"Content-Type": PATCHES[kind]})

    def delete(self, path: str, options: Json | None = None) -> Json:
        return self._json("DELETE", path, options)

    def discard(self, path: str) -> None:
        """Delete it, if it is there."""
        try:
            self.delete(path)
        except ApiError as error:
            if error.code != 404:
                raise

    def text(self, path: str) -> str:
        return self._request("GET", path)

    def send(self, method: str, path: str, body: str, content: str = JSON) -> Json:
        """Any bytes at all, for what a server says to those that are no object."""
        decoded: Json = json.loads(self._request(method, path, body, {"Content-Type": content}))
        return decoded

    @contextlib.contextmanager
    def watch(self, path: str) -> Iterator[Iterator[Json]]:
        """Events as they come, until the server ends the watch (`timeoutSeconds`) or the block is left.

        A watch that begins at a resource version tells all that came after it, so a test can act first and read then.
        Silence for longer than the connection's time-out is a TimeoutError.
        """
        connection = self._open()
        try:
            asked = f"{path}{'&' if '?' in path else '?'}watch=true"
            connection.request("GET", asked, headers=self._headers)
            response = connection.getresponse()
            if response.status >= 300:
                raise ApiError(f"GET {asked}", response.status, response.read().decode(), dict(response.headers))
            with contextlib.closing(_events(response)) as events:
                yield events
        finally:
            connection.close()

    def another(self) -> "Api":
        """The same user at a further connection, for a thread of its own."""
        twin = copy.copy(self)
        twin._connection = self._open()
        return twin

    def close(self) -> None:
        self._connection.close()

    def _json(
        self, method: str, path: str, body: Json | list[Json] | None = None, headers: Mapping[str, str] | None = None
    ) -> Json:
        data = None if body is None else json.dumps(body)
        decoded: Json = json.loads(self._request(method, path, data, headers))
        return decoded

    def _request(
        self, method: str, path: str, data: str | None = None, headers: Mapping[str, str] | None = None
    ) -> str:
        if time.monotonic() - self._used > SECONDS_KEPT_IDLE:
            self._connection.close()
        all_headers = self._headers | {"Content-Type": JSON} | dict(headers or {})
        try:
            self._connection.request(method, path, body=None if data is None else data.encode(), headers=all_headers)
            response = self._connection.getresponse()
            answer = response.read().decode()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # so that the next request starts on a new connection
            raise
        self._used = time.monotonic()
        if response.status >= 300:
            raise ApiError(f"{method} {path}", response.status, answer, dict(response.headers))
        return answer


def _events(response: http.client.HTTPResponse) -> Generator[Json, None, None]:
    with response:
        while line := response.readline():
            yield json.loads(line)
