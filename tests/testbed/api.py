"""The test bed's own words with the API server: JSON over one kept connection, no product code in between.

`cluster` and the fixtures use it to see whether the cluster is ready and to make nodes and namespaces; tests may use
it to look at the cluster through other eyes than those of the client that they test. It blocks, and one thread at a
time may use it. An answer that is not a success is an ApiError, with the status that Kubernetes gave.
"""

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import Any

from tests.testbed.pki import Pair

Json = dict[str, Any]
SECONDS_KEPT_IDLE = 30.0  # the API server hangs up on idle connections after 90
PATCHES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}


class ApiError(Exception):
    """The API server refused; `code` is the HTTP status, `reason` the one of Kubernetes' Status object."""

    def __init__(self, request: str, code: int, answer: str) -> None:
        self.code = code
        try:
            status = json.loads(answer)
            self.reason = str(status.get("reason", ""))
            message = str(status.get("message", answer))
        except ValueError:  # health checks and proxies answer in plain text
            self.reason, message = "", answer.strip()
        super().__init__(f"{request}: {code} {self.reason}: {message}")


class Api:
    """One user's view of one API server."""

    def __init__(self, port: int, authority: Path, client: Pair | None, timeout: float = 30.0) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, context=context)
        self._used = time.monotonic()

    def get(self, path: str) -> Json:
        return self._json("GET", path)

    def post(self, path: str, body: Json) -> Json:
        return self._json("POST", path, body)

    def put(self, path: str, body: Json) -> Json:
        return self._json("PUT", path, body)

    def patch(self, path: str, body: Json, kind: str = "merge") -> Json:
        return self._json("PATCH", path, body, PATCHES[kind])

    def delete(self, path: str, options: Json | None = None) -> Json:
        return self._json("DELETE", path, options)

    def text(self, path: str) -> str:
        return self._request("GET", path)

    def close(self) -> None:
        self._connection.close()

    def _json(self, method: str, path: str, body: Json | None = None, content: str = "application/json") -> Json:
        decoded: Json = json.loads(self._request(method, path, body, content))
        return decoded

    def _request(self, method: str, path: str, body: Json | None = None, content: str = "application/json") -> str:
        data = None if body is None else json.dumps(body)
        headers = {"Accept": "application/json", "Content-Type": content}
        if time.monotonic() - self._used > SECONDS_KEPT_IDLE:
            self._connection.close()
        try:
            self._connection.request(method, path, body=data, headers=headers)
            response = self._connection.getresponse()
            answer = response.read().decode()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # so that the next request starts on a new connection
            raise
        self._used = time.monotonic()
        if response.status >= 300:
            raise ApiError(f"{method} {path}", response.status, answer)
        return answer
