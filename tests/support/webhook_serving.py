"""Our webhook as replicas of it run, in threads of their own, so that tests which block may have it asked.

A Replica serves with the product's `WebhookServer`; as a leader it also registers with `Registration`. It answers with
a test's `Reviews`: a probe's answer, and an annotation on every other pod, so that each pod shows whether it was asked
about and whether the answer was taken. Nothing here is product code.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rescheduler.admission.registration import Registration
from rescheduler.admission.server import WebhookServer
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Impersonation
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.webhook import MUTATE, WebhookSettings
from rescheduler.model.json import Json
from rescheduler.model.labels import ANSWER, PROBE
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.loop_thread import LoopThread
from tests.support.manifests import gated
from tests.testbed.api import ApiError
from tests.testbed.processes import free_port, until

Result = TypeVar("Result")
ASKED = "asked-about"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@dataclass
class Reviews:
    """Answers reviews, and keeps the names of the pods that it was asked about."""

    asked: list[str] = field(default_factory=list)

    def review(self, body: bytes) -> bytes:
        asked = json.loads(body)
        request = asked["request"]
        metadata = request["object"]["metadata"]
        nonce = metadata.get("labels", {}).get(PROBE)
        value = {ANSWER: nonce} if nonce else {ASKED: "yes"}
        if not nonce:
            self.asked.append(metadata.get("name") or metadata["generateName"])
        annotations = metadata.get("annotations", {}) | value
        patch = json.dumps([{"op": "add", "path": "/metadata/annotations", "value": annotations}]).encode()
        response = {
            "uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode(),
        }  # fmt: skip
        return json.dumps({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response}).encode()


class Replica:
    """One running replica; it serves from its making until its end."""

    def __init__(self, cluster: ClusterUnderTest, settings: WebhookSettings, user: str = "") -> None:
        self.reviews = Reviews()
        self.settings = settings
        self.ahead = 0.0
        """By how many seconds its clock is ahead."""
        self._connection = load_connection(KubeconfigOptions(cluster.kubeconfig, None, Impersonation(user)), {})
        self.client: ApiClient
        self.serving: WebhookServer
        self.registration: Registration
        self._thread = LoopThread(self._live, "webhook")

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it runs in."""
        return self._thread.loop

    def now(self) -> float:
        """By its clock."""
        return time.time() + self.ahead

    def call(self, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine function in its loop."""
        return self._thread.call(make)

    def keep(self) -> str:
        """A leader's round; why the webhook is not in force."""
        self.call(self.registration.keep)
        return self.registration.why

    def in_force(self) -> None:
        """Rounds of a leader until the webhook is in force."""
        until("the webhook is in force", lambda: not self.keep())

    def stop(self) -> None:
        """Stop serving, as a replica that is asked to end does."""
        self._thread.end()

    @contextlib.asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        async with ApiClient(self._connection) as self.client:
            self.serving = WebhookServer(self.client, self.settings, {MUTATE: self.reviews.review})
            self.registration = Registration(self.client, self.settings, self.serving.why_not, self.now)
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self.serving.run())
                yield
                serving.cancel()


@contextlib.contextmanager
def replica(space: Space, settings: WebhookSettings, user: str = "") -> Iterator[Replica]:
    """A replica for the block."""
    running = Replica(space.cluster, settings, user)
    try:
        yield running
    finally:
        running.stop()


def settings_of(home: str, **fields: Any) -> WebhookSettings:
    """For a test's own webhook, at a free port of loopback; `home` is its namespace."""
    port = free_port()
    given: dict[str, Any] = {
        "name": f"contract-{secrets.token_hex(4)}",
        "namespace": home,
        "url": f"https://127.0.0.1:{port}",
        "bind": ("127.0.0.1", port),
        "excluded_namespaces": ("kube-system", "kube-public"),
        "timeout": 30,  # a pod that we are late for would be made without us
    }
    return WebhookSettings(**(given | fields))


@contextlib.contextmanager
def leader(space: Space, settings: WebhookSettings) -> Iterator[Replica]:
    """A replica that leads, whose webhook is in force; afterwards nothing of it is left."""
    with removed(space, settings), replica(space, settings) as running:
        running.in_force()
        yield running


@contextlib.contextmanager
def removed(space: Space, settings: WebhookSettings) -> Iterator[None]:
    """At the end of the block the configuration is gone."""
    try:
        yield
    finally:
        with contextlib.suppress(ApiError):
            space.api.delete(f"{CONFIGURATIONS}/{settings.name}")


class Creation:
    """Pods that are made by two threads, one after another, for the block; by its end there are enough of them."""

    def __init__(self, space: Space, least: int) -> None:
        self._space = space
        self._least = least
        self._enough = threading.Event()
        self._numbers = itertools.count()  # `next` on it is atomic
        self.made: list[Json] = []
        self._failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._create) for _ in range(2)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._least = self._least if error is None else 0
        self._enough.set()
        for each in self._threads:
            each.join()
        if self._failed and error is None:
            raise self._failed[0]

    def goes_on(self, count: int = 30) -> None:
        """Wait until so many more are made."""
        goal = len(self.made) + count
        until(f"{count} more pods are made", lambda: len(self.made) >= goal or self._failed)

    def _create(self) -> None:
        try:
            with contextlib.closing(self._space.api.another()) as api:
                while len(self.made) < self._least or not self._enough.is_set():
                    self.made.append(api.post(self._space.path("Pod"), gated(f"pod-{next(self._numbers)}")))
                    time.sleep(0.03)  # a steady load, not as much as can be
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._failed.append(error)


@contextlib.contextmanager
def process(space: Space, settings: WebhookSettings) -> Iterator[subprocess.Popen[bytes]]:
    """A replica as a process of its own, which can be killed; it serves, and leads nothing."""
    wanted = {"name": settings.name, "namespace": settings.namespace, "url": settings.url, "bind": settings.bind}
    command = [sys.executable, "-m", __name__, str(space.cluster.kubeconfig), json.dumps(wanted)]
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


async def _serve(kubeconfig: str, wanted: Json) -> None:
    settings = WebhookSettings(**(wanted | {"bind": tuple(wanted["bind"])}))
    async with ApiClient(load_connection(KubeconfigOptions(Path(kubeconfig), None), {})) as client:
        await WebhookServer(client, settings, {MUTATE: Reviews().review}).run()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], json.loads(sys.argv[2])))
