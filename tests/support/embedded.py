"""The embedded cluster for tests that block, in the words of the real one (`tests.testbed.cluster.ControlPlane`).

It runs in a thread with an event loop of its own, so that a test may talk to it with `Api`, kubectl or the product's
client as it talks to the real one. Ending it ends the thread; an error of any of its parts is raised there.
"""

import asyncio
import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import yaml

from kubemini.cluster import EmbeddedCluster
from kubemini.kubelet.node import NodeShape as EmbeddedShape
from tests.testbed.api import Api
from tests.testbed.binaries import binaries
from tests.testbed.hollow import NodeShape, is_ready
from tests.testbed.processes import until

Result = TypeVar("Result")


class EmbeddedControlPlane:
    """One running embedded cluster."""

    version = "embedded"

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="embedded-cluster-")))
        self._cache = folder / "kubectl-cache"
        self._thread = _Thread()
        self._stack.callback(self._thread.end)
        self.cluster = self._thread.cluster
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


class _Thread:
    """A thread that runs an embedded cluster until it is told to end."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.cluster: EmbeddedCluster
        self._thread = threading.Thread(target=self._run, name="embedded-cluster")
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self.end()

    def call(self, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """What a coroutine function gives when it is run in the cluster's loop."""
        return asyncio.run_coroutine_threadsafe(make(), self._loop).result()

    def end(self) -> None:
        if self._thread.is_alive() and self._failure is None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself, with a failure that is raised below
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  it is raised again in the thread that ends this one
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with EmbeddedCluster() as self.cluster:
            self._ready.set()
            await self._stop.wait()
