"""A scheduler extender that closes the way out: a case's pod goes to the node that it is asked about, or nowhere.

A pin in the pod's own node affinity would do so too, but it would change the question: topology spread counts only
the nodes that the affinity means, and one node is never uneven. kube-scheduler asks its extenders last, with the nodes
that passed all its filters, so this one only narrows its answer. A pod whose claims wait for a provisioner that never
comes is held at the door, and it is noted that it would have passed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rescheduler.model.json import Json
from tests.contract.agreement.world import HOLD, NODE, name_of, namespace_of
from tests.testbed.cluster import ControlPlane

CLOSED = "not the node that is asked about"
HELD = "would fit, and is held at the door"


class Doorkeeper:
    """Who was seen at the door."""

    def __init__(self) -> None:
        self._held: set[tuple[str, str]] = set()

    def held(self, pod: Json) -> bool:
        """Whether the scheduler would have bound this pod to the node that it was asked about."""
        return (namespace_of(pod), name_of(pod)) in self._held

    def answer(self, asked: Json) -> Json:
        """The extender's answer to ExtenderArgs."""
        pod, names = asked["Pod"], asked["NodeNames"] or []
        marks = pod["metadata"].get("annotations") or {}
        if NODE not in marks:
            return {"NodeNames": names}
        passed = [name for name in names if name == marks[NODE]]
        closed = {name: CLOSED for name in names if name not in passed}
        if passed and HOLD in marks:
            self._held.add((namespace_of(pod), name_of(pod)))
            return {"NodeNames": [], "FailedNodes": {**closed, passed[0]: HELD}}
        return {"NodeNames": passed, "FailedNodes": closed}


@contextmanager
def doorkeeper(control_plane: ControlPlane) -> Iterator[Doorkeeper]:
    """The cluster's scheduler with a doorkeeper, until the end of the block."""
    keeper = Doorkeeper()

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the scheduler keeps its connections
        disable_nagle_algorithm = True  # or each answer waits for 40 ms

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(keeper.answer(asked)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives
            """Silence."""

    class House(ThreadingHTTPServer):
        daemon_threads = False  # so that closing waits for them

    house = House(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=house.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        url = f"http://127.0.0.1:{house.server_address[1]}"
        extender = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "30s"}
        control_plane.configure_scheduler(extenders=[extender])
        try:
            yield keeper
        finally:
            control_plane.configure_scheduler()  # which also hangs up on the door
    finally:
        house.shutdown()
        thread.join()
        house.server_close()
