"""A scripted server on loopback that a cluster calls: a scheduler extender or an admission webhook, as a test wants it.

The test gives a function from the path and the body of a POST to the answer; what was asked is kept, in order. It runs
in threads of its own until the end of the block, and closing it hangs up on the cluster's kept connections.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rescheduler.model.json import Json
from tests.testbed.pki import Pair

Answer = Callable[[str, Json], object]


@dataclass
class Loopback:
    """A running server: where it is, and what it was asked."""

    url: str
    asked: list[tuple[str, Json]] = field(default_factory=list)

    def bodies(self, path: str) -> list[Json]:
        return [body for asked, body in self.asked if asked == path]


@contextlib.contextmanager
def answering(answer: Answer, serving: Pair | None = None) -> Iterator[Loopback]:
    """Over HTTPS where there is a certificate to serve with, else plain."""
    open_sockets: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # clusters keep their connections
        disable_nagle_algorithm = True  # or each answer waits for 40 ms

        def setup(self) -> None:
            open_sockets.append(self.request)
            super().setup()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0]
            server.asked.append((path, body))
            said = json.dumps(answer(path, body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives
            """Silence."""

    class House(ThreadingHTTPServer):
        daemon_threads = False  # so that closing waits for them

        def handle_error(self, request: object, client_address: object) -> None:
            """A caller that hangs up in the middle, as one that gave up waiting does, is no error of ours."""

    house = House(("127.0.0.1", 0), Handler)
    scheme = "http"
    if serving is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(serving.certificate, serving.key)
        house.socket = context.wrap_socket(house.socket, server_side=True)
        scheme = "https"
    server = Loopback(f"{scheme}://127.0.0.1:{house.server_address[1]}")
    thread = threading.Thread(target=house.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        house.shutdown()
        thread.join()
        for each in open_sockets:  # the handlers' threads wait on these for a next request
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        house.server_close()
