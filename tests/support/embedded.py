"""The embedded cluster for tests that block, in the words of the real one (`tests.testbed.cluster.ControlPlane`).

It runs in a thread with an event loop of its own, so that a test may talk to it with `Api`, kubectl or the product's
client as it talks to the real one. Ending it ends the thread; an error of any of its parts is raised there.
"""

import contextlib
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import yaml

from kubemini.cluster import EmbeddedCluster
from kubemini.kubelet.node import NodeShape as EmbeddedShape
from tests.support.loop_thread import LoopThread
from tests.testbed.api import Api
from tests.testbed.binaries import binaries
from tests.testbed.hollow import NodeShape, is_ready
from tests.testbed.processes import until


class EmbeddedControlPlane:
    """One running embedded cluster."""

    version = "embedded"

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="embedded-cluster-")))
        self._cache = folder / "kubectl-cache"
        self._thread = LoopThread(EmbeddedCluster, "embedded-cluster")
        self._stack.callback(self._thread.end)
        self.cluster = self._thread.value
        self.server = self.cluster.url
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self.cluster.kubeconfig()))
        self.api = Api(urlsplit(self.server).port or 80, None, None, token=self.cluster.token)
        self._stack.callback(self.api.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends everything; an error of one of the cluster's parts is raised here."""
        self._stack.close()

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints."""
        program = str(binaries()["kubectl"])
        command = [program, f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self._cache}", *args]
        try:
            return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr)
            raise

    def add_nodes(self, count: int, shape: NodeShape | None = None, *, prefix: str = "node") -> list[str]:
        """Nodes, Ready when this returns."""
        given = shape or NodeShape()
        wanted = EmbeddedShape(
            cpu=given.cpu,
            memory=given.memory,
            pods=given.pods,
            zones=tuple(given.zones),
            labels=dict(given.labels),
            taints=tuple(dict(taint) for taint in given.taints),
            extended=dict(given.extended),
        )
        names = self._thread.call(lambda: self.cluster.add_nodes(count, wanted, prefix=prefix))
        until(f"{count} new nodes are Ready", lambda: self._ready_nodes() >= set(names))
        return names

    def remove_nodes(self, names: list[str]) -> None:
        for name in names:
            self.api.delete(f"/api/v1/nodes/{quote(name)}")

    def configure_scheduler(self, *, extenders: list[dict[str, Any]] | None = None) -> None:
        """The scheduler with this extender (it can have one) from now on; without any, as it was."""

        async def configure() -> None:
            self.cluster.scheduler.configure(extenders[0] if extenders else None)

        self._thread.call(configure)

    def _ready_nodes(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.api.get("/api/v1/nodes")["items"] if is_ready(each)}
