"""The webhook and the extender: what every replica serves, and the registration that the leader keeps.

Replicas answer from their own caches, with a client that may always write. The leader registers the webhook and checks
whether it is active, which decides how evictions are steered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from rescheduler.admission.advisor import PlacementAdvisor
from rescheduler.admission.extender import Extender
from rescheduler.admission.registration import Registration
from rescheduler.admission.server import Address, AdmissionServer, Handler, ServerLimits, WebhookServer
from rescheduler.admission.webhook import PodMutator
from rescheduler.app.context import AppContext
from rescheduler.config.schema import Configuration
from rescheduler.config.schema import SteeringMode as Wanted
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.events import EventQueue
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.kube.webhook import MUTATE, CertificateFiles, WebhookSettings
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.migration.observation import SteeringMethod
from rescheduler.model.advice import NewPod
from rescheduler.runtime.controller import Runnable
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.stale_gates import StaleGateController

FILTER, PRIORITIZE = "/extender/filter", "/extender/prioritize"
_NODES = 4 * 2**20  # bytes: names of more nodes than there can be, or some hundred whole ones
_LIMITS = ServerLimits(bodies={FILTER: _NODES, PRIORITIZE: _NODES})
_KEPT_EVERY = 30.0  # seconds between looks at a webhook that is in force
_UNWANTED_EVERY = 600.0  # seconds between looks for one that is not wanted any more
_SOON = 2.0  # and at one that is not yet
_PATIENCE = 600.0  # seconds that others wait for one that is not in force, or not yet
_TRIES = 30  # in a row, soon one after the other; then it is not to be had, and looked at as seldom as one in force
_log = structlog.stdlib.get_logger(__name__)


class AdmissionServices:
    """The webhook and the extender of one replica."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        informers = context.informers
        self._fields = fields = context.live.config.fields  # of ours, all that needs a restart to change
        self._settings = webhook_settings(context.live.config, context.namespace)
        self._events = EventQueue(context.recorder)
        self._wants_gate = fields.webhook.enabled and fields.webhook.steering is Wanted.NOMINATE
        self._advisor = PlacementAdvisor(
            informers.cache, informers.migrations, context.live.recovery, context.now, gate=self._wants_gate
        )
        self._secure_server = self._make_secure_server()
        self._plain_server = self._make_plain_server()
        served = self._secure_server.why_not if self._secure_server is not None else lambda: "it is not served"
        self._registration = Registration(context.client, self._settings, served, context.client.clock.now)
        self._last_in_force: float | None = None
        self._failures = 0
        self._webhook_task = PeriodicTask("webhook", _KEPT_EVERY, self._keep)
        context.live.listen(self._apply_config)

    @property
    def replica_tasks(self) -> list[Runnable]:
        """The tasks of every replica."""
        stale_gates = StaleGateController(
            self._context.informers.cache,
            MigrationObserver(self._context.own),
            CommandSender(self._context.own),
            self._context.own.clock.now,
        )
        loops: list[Runnable] = [stale_gates, self._events]  # gates may be left from an earlier configuration
        if self._secure_server is not None:
            loops.append(self._secure_server)
        if self._plain_server is not None:
            loops.append(self._plain_server)
        return loops

    @property
    def leader_tasks(self) -> Sequence[Runnable]:
        """The tasks of the leader: register the webhook, or remove its registration if it is disabled."""
        wanted = self._fields.webhook.enabled
        return [self._webhook_task if wanted else PeriodicTask("no webhook", _UNWANTED_EVERY, self._unregister)]

    def steers_pods(self) -> bool:
        """Whether new pods are kept off nodes where they failed, as far as possible.

        A webhook that has not been active for long may never become active; then it counts as disabled.
        """
        if not self._fields.webhook.enabled or self._registration.in_force:
            return True
        if self._last_in_force is None:
            self._last_in_force = time.monotonic()  # this replica has just begun to lead
        return time.monotonic() - self._last_in_force > _PATIENCE

    def steering(self, namespace: str) -> SteeringMethod:
        """How evictions in a namespace are steered now."""
        if not self._registration.in_force or namespace in self._settings.all_excluded_namespaces:
            return SteeringMethod.TEMPLATE
        return SteeringMethod.NOMINATE if self._wants_gate else SteeringMethod.WEBHOOK

    def why_not_served(self) -> str:
        """Why this replica does not serve the webhook; empty if it does."""
        return self._secure_server.why_not() if self._secure_server is not None else ""

    def _apply_config(self) -> None:
        """Apply the parts of a new configuration that need no restart."""
        self._settings = webhook_settings(self._context.live.config, self._context.namespace)
        self._registration.exclude(self._settings.excluded_namespaces)
        self._webhook_task.wake.set()

    def _make_secure_server(self) -> WebhookServer | None:
        fields = self._fields
        routes = self._extender() if fields.extender.enabled else {}
        if fields.webhook.enabled:
            routes[MUTATE] = PodMutator(
                self._advisor, lambda: self._settings.all_excluded_namespaces, self._context.now
            ).review
        if not routes or not (fields.webhook.enabled or self._settings.files):
            return None
        serving = WebhookServer(self._context.own, self._settings, routes, _LIMITS)
        serving.knows = self._context.informers.why_not_ready
        serving.report = self._context.metrics.requests.observe_answer
        return serving

    def _make_plain_server(self) -> AdmissionServer | None:
        fields = self._fields
        if not (fields.extender.enabled and fields.extender.insecure_port):
            return None
        address = Address(fields.webhook.bind_address, fields.extender.insecure_port)
        server = AdmissionServer(self._extender(), None, address, _LIMITS)
        server.report = self._context.metrics.requests.observe_answer
        return server

    def _extender(self) -> dict[str, Handler]:
        extender = Extender(self._advisor, self._report_no_node, lambda: self._settings.excluded_namespaces)
        return {FILTER: extender.filter, PRIORITIZE: extender.prioritize}

    def _report_no_node(self, pod: NewPod, why: str) -> None:
        """Record an Event when the extender leaves no node for a pod that the cache knows."""
        row = self._context.informers.cache.row("Pod", (pod.namespace, pod.name))
        if row is None or row.uid != pod.uid or row.node:
            return
        subject = Subject("Pod", pod.namespace, pod.name, pod.uid)
        event = ObjectEvent(subject, subject, "NoNodeLeft", "Schedule", why, pod.uid, warning=True)
        if self._events.add([event]):
            _log.warning("no node left", why=why, pod=f"{pod.namespace}/{pod.name}")

    async def _keep(self) -> None:
        with suppress(ClusterError):  # the registration has logged it
            await self._registration.keep()
        self._context.metrics.webhook_in_force = self._registration.in_force
        self._failures = 0 if self._registration.in_force else self._failures + 1
        if self._registration.in_force:
            self._last_in_force = time.monotonic()
        if (0 < self._failures < _TRIES) or self._registration.changing:
            asyncio.get_running_loop().call_later(_SOON, self._webhook_task.wake.set)

    async def _unregister(self) -> None:
        """Remove the registration of a webhook that was enabled before."""
        try:
            await self._registration.remove()
        except ApiError as error:
            if error.status != 403:
                raise
            _log.debug("webhook registration not readable", why=error.message)


def webhook_settings(config: Configuration, namespace: str) -> WebhookSettings:
    """The settings of the webhook from the configuration."""
    fields = config.fields.webhook
    given = fields.certificates
    files = None
    if given.certificate_file:
        authority = Path(given.ca_file) if given.ca_file else None
        files = CertificateFiles(Path(given.certificate_file), Path(given.key_file), authority)
    return WebhookSettings(
        name=fields.name,
        namespace=namespace,
        service=fields.service_name,
        port=fields.service_port,
        url=fields.url,
        bind=(fields.bind_address, fields.port),
        files=files,
        excluded_namespaces=config.fields.excluded_namespaces,
        timeout=int(fields.timeout),
    )
