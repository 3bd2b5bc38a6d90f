"""The webhook and the extender, put together: what every replica serves, and what the leader keeps for it.

Replicas answer from their own copy of the cluster, with a client that is not bound to leadership; the leader registers
the webhook and finds out whether it is in force, by which evictions are steered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from rescheduler.admission.advisor import AdvisorSettings, PlacementAdvisor
from rescheduler.admission.extender import Extender
from rescheduler.admission.registration import Registration, WebhookServer
from rescheduler.admission.server import Address, AdmissionServer, Handler, ServerLimits
from rescheduler.admission.webhook import PodMutator
from rescheduler.config.configuration import Configuration
from rescheduler.config.live import LiveConfig
from rescheduler.config.schema import SteeringMode as Wanted
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.events import EventQueue, EventRecorder
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.kube.webhook import MUTATE, CertificateFiles, WebhookSettings
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.migration.observation import SteeringMethod
from rescheduler.model.advice import NewPod
from rescheduler.runtime.controller import Runnable
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.stale_gates import StaleGateController
from rescheduler.web.metrics import Metrics

FILTER, PRIORITIZE = "/extender/filter", "/extender/prioritize"
_NODES = 4 * 2**20  # bytes: names of more nodes than there can be, or some hundred whole ones
_KEPT_EVERY = 30.0  # seconds between looks at a webhook that is in force
_UNWANTED_EVERY = 600.0  # seconds between looks for one that is not wanted any more
_SOON = 2.0  # and at one that is not yet
_PATIENCE = 600.0  # seconds that others wait for one that is not in force, or not yet
_TRIES = 30  # in a row, soon one after the other; then it is not to be had, and looked at as seldom as one in force
_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """What it stands on."""

    live_config: LiveConfig
    namespace: str
    """Ours."""
    own: ApiClient
    """May always write."""
    leading: ApiClient
    """Writes only while we lead."""
    watching: Informers
    metrics: Metrics
    identity: str


class AdmissionServices:
    """The parts, and the loops that run them."""

    def __init__(self, ground: AdmissionContext) -> None:
        self._ground = ground
        watching, now = ground.watching, ground.own.clock.now
        self._fields = fields = ground.live_config.config.fields  # of ours, all that needs a restart to change
        self._settings = webhook_settings(ground.live_config.config, ground.namespace)
        self._unasked = self._settings.unasked
        self._bulletins = EventQueue(EventRecorder(ground.own, ground.identity, now))
        self._wants_gate = fields.webhook.enabled and fields.webhook.steering is Wanted.NOMINATE
        self._known_by = self._settings_of_knowledge()
        self._knowledge = PlacementAdvisor(watching.cache, watching.migrations, lambda: self._known_by, now)
        self._serving = self._secure()
        self._plain = self._insecure()
        served = self._serving.why_not if self._serving is not None else lambda: "it is not served"
        self._registration = Registration(ground.leading, self._settings, served, ground.leading.clock.now)
        self._last_in_force: float | None = None
        self._failures = 0
        self._keeping = PeriodicTask("webhook", _KEPT_EVERY, self._keep)
        ground.live_config.listen(self._changed)

    @property
    def everybody(self) -> list[Runnable]:
        """What every replica does."""
        ungater = StaleGateController(
            self._ground.watching.cache,
            MigrationObserver(self._ground.own),
            CommandSender(self._ground.own),
            self._ground.own.clock.now,
        )
        loops: list[Runnable] = [ungater, self._bulletins]  # gates may be left of a time when they were wanted
        if self._serving is not None:
            loops.append(_Served(self._serving))
        if self._plain is not None:
            loops.append(_Listening(self._plain))
        return loops

    @property
    def duties(self) -> Sequence[Runnable]:
        """What the leader does: see to the webhook, or, if there is none any more, that nobody is asked to ask it."""
        wanted = self._fields.webhook.enabled
        return [self._keeping if wanted else PeriodicTask("no webhook", _UNWANTED_EVERY, self._unregister)]

    def keeps_off(self) -> bool:
        """Whether new pods are kept off nodes where they failed, as far as we can see to it.

        A webhook that is not in force for long may never be: then it is as if there were none.
        """
        if not self._fields.webhook.enabled or self._registration.in_force:
            return True
        if self._last_in_force is None:
            self._last_in_force = time.monotonic()  # we have only begun to lead
        return time.monotonic() - self._last_in_force > _PATIENCE

    def steered(self, namespace: str) -> SteeringMethod:
        """How evictions in a namespace are steered now."""
        if not self._registration.in_force or namespace in self._unasked:
            return SteeringMethod.TEMPLATE
        return SteeringMethod.NOMINATE if self._wants_gate else SteeringMethod.WEBHOOK

    def why_not_served(self) -> str:
        """Why this replica does not serve what it should; empty if it does."""
        return self._serving.why_not() if self._serving is not None else ""

    def _settings_of_knowledge(self) -> AdvisorSettings:
        recovery = self._ground.live_config.recovery()
        reasons = recovery.failed_reasons if recovery.enabled else ()  # else nobody records what we avoid
        return AdvisorSettings(recovery.forget_after, self._wants_gate, reasons)

    def _changed(self) -> None:
        """Go by another configuration, as far as it can be changed: whose pods are left alone, and what is avoided."""
        self._settings = webhook_settings(self._ground.live_config.config, self._ground.namespace)
        self._unasked, self._known_by = self._settings.unasked, self._settings_of_knowledge()
        self._registration.exclude(self._settings.excluded_namespaces)
        self._keeping.called.set()

    def _secure(self) -> WebhookServer | None:
        fields = self._fields
        routes = self._extender() if fields.extender.enabled else {}
        if fields.webhook.enabled:
            routes[MUTATE] = PodMutator(self._knowledge, lambda: self._unasked, self._ground.own.clock.now).review
        if not routes or not (fields.webhook.enabled or self._settings.files):
            return None
        serving = WebhookServer(self._ground.own, self._settings, routes, _manner())
        serving.knows = self._ground.watching.why_not_ready
        serving.report = self._ground.metrics.requests.observe_answer
        return serving

    def _insecure(self) -> AdmissionServer | None:
        fields = self._fields
        if not (fields.extender.enabled and fields.extender.insecure_port):
            return None
        address = Address(fields.webhook.bind_address, fields.extender.insecure_port)
        server = AdmissionServer(self._extender(), None, address, _manner())
        server.report = self._ground.metrics.requests.observe_answer
        return server

    def _extender(self) -> dict[str, Handler]:
        extender = Extender(self._knowledge, self._tell, lambda: self._settings.excluded_namespaces)
        return {FILTER: extender.filter, PRIORITIZE: extender.prioritize}

    def _tell(self, newcomer: NewPod, why: str) -> None:
        """Tell people that the extender has nothing left to refuse; not of pods that nobody knows."""
        row = self._ground.watching.cache.row("Pod", (newcomer.namespace, newcomer.name))
        if row is None or row.uid != newcomer.uid or row.node:
            return
        pod = Subject("Pod", newcomer.namespace, newcomer.name, newcomer.uid)
        for news in self._bulletins.add(
            [ObjectEvent(pod, pod, "NoNodeLeft", "Schedule", why, newcomer.uid, warning=True)]
        ):
            _log.warning(news.note, pod=f"{newcomer.namespace}/{newcomer.name}")

    async def _keep(self) -> None:
        with suppress(ClusterError):  # it has said why it is not in force, once
            await self._registration.keep()
        self._ground.metrics.replica.set_webhook_in_force(yes=self._registration.in_force)
        self._failures = 0 if self._registration.in_force else self._failures + 1
        if self._registration.in_force:
            self._last_in_force = time.monotonic()
        if (0 < self._failures < _TRIES) or self._registration.changing:
            asyncio.get_running_loop().call_later(_SOON, self._keeping.called.set)

    async def _unregister(self) -> None:
        """Have API servers ask no more for a webhook that was served once."""
        try:
            await self._registration.remove()
        except ApiError as error:
            if error.status != 403:
                raise
            _log.debug("whether a webhook is still registered cannot be seen", why=error.message)


@dataclass(frozen=True, slots=True)
class _Served:
    serving: WebhookServer

    async def run(self) -> None:
        await self.serving.serve()


@dataclass(frozen=True, slots=True)
class _Listening:
    server: AdmissionServer

    async def run(self) -> None:
        async with self.server:
            _log.info("the extender listens without TLS", address=str(self.server.address))
            await asyncio.get_running_loop().create_future()


def webhook_settings(config: Configuration, namespace: str) -> WebhookSettings:
    """Where the webhook is, by the configuration."""
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


def _manner() -> ServerLimits:
    return ServerLimits(bodies={FILTER: _NODES, PRIORITIZE: _NODES})
