"""A replica that serves our webhook to a cluster under test, in a thread with an event loop of its own.

It is put together as a replica of the product is: watches, what they bring it to know, the webhook behind the HTTPS
server, and the controller of stale gates; it never leads. The test registers it for one namespace, and may have
that controller run or not.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from rescheduler.admission.advisor import PlacementAdvisor
from rescheduler.admission.server import Address, AdmissionServer
from rescheduler.admission.webhook import PodMutator
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Impersonation
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.model import labels
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.stale_gates import StaleGateController
from tests.support.both_clusters import Space
from tests.support.loop_thread import LoopThread
from tests.support.manifests import gated
from tests.testbed.pki import Authority
from tests.testbed.processes import until

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}


@dataclass(frozen=True)
class Wanted:
    """What a test wants of a replica."""

    gate: bool = False
    """Whether it holds expected pods back, as `steering: nominate` has it."""
    patience: float | None = None
    """After how many seconds it lets stale pods through; None for never."""


class Replica:
    """One that runs; the test asks it from another thread."""

    def __init__(self, space: Space, authority: Authority, wanted: Wanted) -> None:
        self._space, self._authority, self._wanted = space, authority, wanted
        options = KubeconfigOptions(space.cluster.kubeconfig, None, Impersonation("", ()))
        self._connection = load_connection(options, os.environ)
        self._migrations: MigrationCache | None = None
        self._thread: LoopThread[str] | None = None

    def start(self) -> str:
        """The URL of its webhook."""
        self._thread = LoopThread(self._live, "replica")
        return self._thread.value

    def end(self) -> None:
        if self._thread is not None:
            self._thread.end()

    def knows(self, name: str, step: str) -> bool:
        """Whether its cache has the migration in this step."""

        async def ask() -> bool:
            found = self._migrations.get((self._space.name, name)) if self._migrations is not None else None
            return found is not None and found.status.step == step

        return self._thread is not None and self._thread.call(ask)

    @contextlib.asynccontextmanager
    async def _live(self) -> AsyncIterator[str]:
        async with ApiClient(self._connection) as client:
            watching, now = Informers(client, "the cluster"), client.clock.now
            self._migrations = watching.migrations
            works = [asyncio.ensure_future(watching.run())]
            try:
                await watching.wait_for_sync()
                placement_advisor = PlacementAdvisor(
                    watching.cache, watching.migrations, RecoverySettings, now, gate=self._wanted.gate
                )
                if self._wanted.patience is not None:
                    gate_controller = StaleGateController(
                        watching.cache, MigrationObserver(client), CommandSender(client), now, self._wanted.patience
                    )
                    works.append(asyncio.ensure_future(gate_controller.run()))
                mutation = PodMutator(placement_advisor, tuple, now)
                async with AdmissionServer(
                    {"/mutate": mutation.review}, self._tls(), Address("127.0.0.1", 0)
                ).listening() as server:
                    yield f"https://127.0.0.1:{server.address.port}/mutate"
            finally:
                for work in works:
                    work.cancel()
                await asyncio.wait(works)

    def _tls(self) -> ssl.SSLContext:
        pair = self._authority.server(f"replica-{secrets.token_hex(4)}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        return context


@contextlib.contextmanager
def replica(space: Space, authority: Authority, wanted: Wanted) -> Iterator[Replica]:
    """A replica that the API server asks about new pods of this namespace, until the end of the block."""
    found = Replica(space, authority, wanted)
    try:
        with _registered(space, authority, found.start()):
            until("it is asked", lambda: _is_asked(space))
            yield found
    finally:
        found.end()


@contextlib.contextmanager
def _registered(space: Space, authority: Authority, url: str) -> Iterator[None]:
    name = f"contract-{secrets.token_hex(4)}"
    webhook = {
        "name": "pods.rescheduler.io",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.certificate.read_bytes()).decode()},
        "rules": [PODS],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    space.api.post(CONFIGURATIONS, {"metadata": {"name": name}, "webhooks": [webhook]})
    try:
        yield
    finally:
        space.api.delete(f"{CONFIGURATIONS}/{name}")


def _is_asked(space: Space) -> bool:
    """Whether a pod that is never made comes back with its answer."""
    made = space.create(gated("probe", labels={labels.PROBE: "asked"}), dryRun="All")
    return (made["metadata"].get("annotations") or {}).get(labels.ANSWER) == "asked"
