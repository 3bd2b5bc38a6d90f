"""A server of container metrics as kubelets have them, for a Prometheus; and a Prometheus behind TLS.

The counters grow as time passes, and each sample carries its own time: so a rate that Prometheus
finds is the one that was meant, however late it came to look.
"""

from __future__ import annotations

import ssl
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.support.prometheus import HERE, scraping
from tests.testbed.pki import Authority, Pair
from tests.testbed.processes import Child


@dataclass(frozen=True)
class Consumer:
    """Something with these labels that uses so many cores and bytes all the time."""

    labels: str
    cores: float
    memory: int


@contextmanager
def exporter(consumers: Callable[[], Iterable[Consumer]]) -> Iterator[int]:
    """The port of loopback at which the consumers can be scraped, in the block."""
    counters = _Counters(consumers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = counters.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives
            """Silence."""

    class House(ThreadingHTTPServer):
        daemon_threads = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A scrape that is given up in the middle is no error of ours."""
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(request, client_address)

    house = House((HERE, 0), Handler)
    thread = threading.Thread(target=house.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield int(house.server_address[1])
    finally:
        house.shutdown()
        thread.join()
        house.server_close()


class _Counters:
    """Counters that grow from scrape to scrape by what is used."""

    def __init__(self, consumers: Callable[[], Iterable[Consumer]]) -> None:
        self._consumers = consumers
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._until = 0
        self._lock = threading.Lock()

    def text(self) -> str:
        with self._lock:
            found = [*self._consumers()]
            now = max(self._until, int(time.time() * 1000))
            passed, self._until = (now - self._until) / 1000 if self._until else 0.0, now
            lines = ["# TYPE container_cpu_usage_seconds_total counter"]
            for each in found:
                self._seconds[each.labels] += each.cores * passed
                lines.append(f"container_cpu_usage_seconds_total{{{each.labels}}} {self._seconds[each.labels]!r} {now}")
            lines.append("# TYPE container_memory_working_set_bytes gauge")
            lines += [f"container_memory_working_set_bytes{{{each.labels}}} {each.memory} {now}" for each in found]
            return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Guarded:
    """A running Prometheus that asks for certificates: its address, its CA, and a certificate that it accepts."""

    url: str
    authority: Path
    client: Pair
    child: Child


@contextmanager
def guarded_prometheus(jobs: Mapping[str, Sequence[int]], folder: Path) -> Iterator[Guarded]:
    """Prometheus in the block, which scrapes these jobs' ports and answers only clients with a certificate."""
    authority = Authority(folder / "pki")
    client = authority.client("rescheduler")
    serving = authority.server("prometheus")
    web = {
        "tls_server_config": {
            "cert_file": str(serving.certificate),
            "key_file": str(serving.key),
            "client_ca_file": str(authority.certificate),
            "client_auth_type": "RequireAndVerifyClientCert",
        }
    }
    (folder / "web.yml").write_text(yaml.safe_dump(web))
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(client.certificate, client.key)
    with scraping(jobs, folder, f"--web.config.file={folder / 'web.yml'}", context=context) as running:
        yield Guarded(running.url, authority.certificate, client, running.child)
