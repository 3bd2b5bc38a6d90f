"""A TLS server on 127.0.0.1 that sends the given answer and then stays open, whatever the client sends.

For tests of how the client ends its connections. A polite one answers TLS's farewell with its own; the others never
look at the connection again. It runs in threads, so that the client's event loop is the client's alone.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.api_server import authority, server_context


@dataclass
class StubbornServer:
    """What it says to each request, how often (None: until the client hangs up), and whether it is polite."""

    answer: bytes
    times: int | None = 1
    polite: bool = False
    shakes_hands: bool = True
    url: str = ""
    asked: threading.Event = field(default_factory=threading.Event)
    """Set when a request has come, or a connection where no hands are shaken."""
    _closing: threading.Event = field(default_factory=threading.Event)
    _sockets: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def accept(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(OSError):  # the listener is shut down at the end
                accepted, _ = listener.accept()
                self._sockets.append(accepted)
                thread = threading.Thread(target=self._serve, args=(accepted, context))
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        self._closing.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _serve(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        with accepted, contextlib.suppress(OSError):  # the client hangs up when it likes, and so does `close`
            if not self.shakes_hands:
                self.asked.set()
                self._closing.wait()
                return
            with context.wrap_socket(accepted, server_side=True) as spoken:
                self._sockets.append(spoken)
                self._answer(spoken)

    def _answer(self, spoken: ssl.SSLSocket) -> None:
        heard = b""
        while b"\r\n\r\n" not in heard:
            part = spoken.recv(65536)
            if not part:
                return
            heard += part
        self.asked.set()
        said = 0
        while self.times is None or said < self.times:
            spoken.sendall(self.answer)
            said += 1
        if self.polite:
            spoken.recv(1)  # the client's farewell
            with contextlib.suppress(ValueError):  # `close` was faster, and took the TLS off
                spoken.unwrap()
        else:
            self._closing.wait()


@contextlib.contextmanager
def stubborn(server: StubbornServer) -> Iterator[StubbornServer]:
    """Runs until the end of the block, which waits for no client."""
    context = server_context(authority().issue("server", "127.0.0.1"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        accepting = threading.Thread(target=server.accept, args=(listener, context))
        accepting.start()
        try:
            yield server
        finally:
            server.close()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
