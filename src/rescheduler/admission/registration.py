"""Serves the webhook on every replica, and registers it with the API server on the leader.

`WebhookServer` waits for a certificate, serves, and reloads renewed ones. `Registration` keeps the Secret and the
MutatingWebhookConfiguration, and probes whether the API server calls the webhook. A new CA is always published in the
configuration before a certificate signed by it is served, so no call meets a certificate that it cannot verify.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from rescheduler.admission.certificate_source import CertificateSource, from_files, from_secret
from rescheduler.admission.certificates import CertificateError, CertificateState, next_state, split
from rescheduler.admission.server import Address, AdmissionServer, Handler, ServerLimits
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import RereadFile
from rescheduler.kube.errors import Backoff, ClusterError
from rescheduler.kube.secrets import SecretStore, StoredSecret
from rescheduler.kube.webhook import WebhookConfiguration, WebhookProbe, WebhookSettings, asks_us, bundle_in
from rescheduler.model.json import Json

SETTLE = 30.0  # seconds until every API server has surely heard of a new authority; they watch, so it is mostly one
_FIRST_LOOKS = 1.0  # seconds between looks for the first certificate
_LOOKS = 3.0  # and for a new one. A Secret is small and a GET is simple: no watch is worth its trouble here
_TRIES = 6  # of the probe after a change, within about 5 s
_log = logging.getLogger(__name__)


def names_of_server(settings: WebhookSettings) -> frozenset[str]:
    """The names by which the API server, the scheduler and we ourselves call the webhook."""
    service = f"{settings.service}.{settings.namespace}"
    names = {f"{service}.svc", f"{service}.svc.cluster.local", service, settings.service}
    host = urlsplit(settings.url).hostname if settings.url else None
    return frozenset(names | ({_canonical(host)} if host else set()))


class WebhookServer:
    """The server of one replica. `serve` runs until it is cancelled, and then lets calls under way end."""

    def __init__(
        self,
        client: ApiClient,
        settings: WebhookSettings,
        routes: Mapping[str, Handler],
        manner: ServerLimits | None = None,
    ) -> None:
        files = settings.files
        source = (
            from_secret(SecretStore(client, settings.namespace, settings.secret))
            if files is None
            else from_files(files.certificate, files.key)
        )
        self._keeper = CertificateSource(source)
        self._settings = settings
        self._routes = routes
        self._manner = manner
        self._server: AdmissionServer | None = None
        self.knows: Callable[[], str] = lambda: ""
        """Why the handlers can't answer yet (nothing is known of the cluster), for `/readyz`; nothing if they can."""
        self.report: Callable[[str, int, float], None] = lambda route, status, seconds: None

    @property
    def address(self) -> Address | None:
        """Where it listens; None while it does not."""
        return self._server.address if self._server is not None else None

    def why_not(self) -> str:
        """Why the webhook is not served here; nothing if it is."""
        if self._keeper.pair is None:
            return f"the webhook has no certificate yet: {self._keeper.why or 'not looked for yet'}"
        return "" if self._server is not None else "the webhook does not listen yet"

    async def serve(self) -> None:
        """Get a certificate, serve, take up new ones; until cancelled."""
        while not await self._keeper.refresh():  # noqa: ASYNC110 - what is waited for is in the cluster, or in files
            await asyncio.sleep(_FIRST_LOOKS)
        server = AdmissionServer(self._routes, self._keeper.context, Address(*self._settings.bind), self._manner)
        server.ready = lambda: self.why_not() or self.knows()
        server.report = self.report
        async with server:
            self._server = server
            _log.info("the webhook listens on %s:%s", *server.address)
            try:
                while True:
                    await asyncio.sleep(_LOOKS)
                    await self._keeper.refresh()
            finally:
                self._server = None


@dataclass(frozen=True, slots=True)
class _PendingRotation:
    """What the Secret is to hold instead of this version of it, when its authority has been announced for a while."""

    version: str
    holding: CertificateState
    announced: float | None = None


class Registration:
    """The leader's part: `keep` is a duty, done every few seconds."""

    def __init__(
        self, client: ApiClient, settings: WebhookSettings, why_not_served: Callable[[], str], now: Callable[[], float]
    ) -> None:
        self._secrets = SecretStore(client, settings.namespace, settings.secret)
        self._configuration = WebhookConfiguration(client, settings)
        self._probe = WebhookProbe(client, settings)
        self._names = names_of_server(settings)
        self._why_not_served = why_not_served
        self._now = now
        files = settings.files
        self._files = files
        self._authority = RereadFile(files.authority, "the webhook's CA") if files and files.authority else None
        self._coming: _PendingRotation | None = None
        self.in_force = False
        """Whether the API server asks our webhook, and takes its answer."""
        self.why = "not looked at yet"
        """Why not."""

    @property
    def changing(self) -> bool:
        """Whether a new authority is announced, and not yet used: better kept on with soon."""
        return self._coming is not None

    def exclude(self, namespaces: tuple[str, ...]) -> None:
        """Have the API server ask nothing about pods of these namespaces, when it is kept the next time."""
        self._configuration.exclude(namespaces)

    async def keep(self) -> None:
        """See that certificates are fresh and the API server knows them, and ask it whether it does."""
        try:
            changed = await self._keep()
        except ClusterError as error:
            self._conclude(str(error))
            raise
        if changed is not None:
            self._conclude(await self._asked(again=changed))

    async def remove(self) -> None:
        """Have the API server ask us no more, and forget the certificates; what leads to another controller stays.

        The configuration is only emptied: it may be the chart's.
        """
        found = await self._configuration.read()
        if found is not None and not self._configuration.is_here(found):
            _log.info("%s leads to another controller, and is left alone", self._configuration)
            return
        removed = found is not None and await self._configuration.empty(found)
        if self._files is None:
            removed = await self._secrets.remove() or removed
        self.in_force, self.why = False, "it is not wanted"
        if removed:  # mostly there was none, and nothing to tell
            _log.info("the webhook is not wanted, and what an earlier one had registered is removed")

    async def _keep(self) -> bool | None:
        """Whether the configuration had to be changed; None if it cannot be made yet."""
        found = await self._configuration.read()
        if self._files is not None:
            bundle = self._authority.read() if self._authority is not None else None
        else:
            bundle = await self._certified(found)
        if not asks_us(found) and (why := self._why_not_served()):
            self._conclude(why)  # nobody would answer
            return None
        return await self._configuration.keep(found, bundle)

    async def _certified(self, found: Json | None) -> bytes:
        """Renew what is due; the answer is whom the API server is to trust."""
        secret, now = await self._secrets.read(), self._now()
        holding, version = self._held(secret), secret.version if secret is not None else ""
        told = _readable(bundle_in(found))
        coming = self._coming
        if coming is None or coming.version != version:
            coming = _PendingRotation(version, next_state(holding, self._names, told, now))
        wanted = coming.holding
        if wanted == holding:
            self._coming = None
            return wanted.bundle
        same = holding is not None and wanted.authority == holding.authority
        announced = (coming.announced or now) if told == wanted.bundle else None
        if told and not same and (announced is None or now < announced + SETTLE):
            if self._coming is None or self._coming.holding != wanted:
                _log.info("the webhook gets a new CA: it is announced, and used after %g s", SETTLE)
            self._coming = replace(coming, announced=announced)
            return wanted.bundle
        self._coming = None
        if not await self._stored(secret, wanted):
            raise ClusterError(f"{self._secrets} was changed by somebody else; it is read again")
        _log.info("%s holds a new certificate for the webhook", self._secrets)
        return wanted.bundle

    def _held(self, secret: StoredSecret | None) -> CertificateState | None:
        if secret is None:
            return None
        try:
            return CertificateState.from_data(secret.data)
        except CertificateError as error:
            _log.warning("%s is broken, and is made anew: %s", self._secrets, error)
            return None

    async def _stored(self, secret: StoredSecret | None, wanted: CertificateState) -> bool:
        data = wanted.to_data()
        return await (self._secrets.create(data) if secret is None else self._secrets.replace(secret, data))

    async def _asked(self, *, again: bool) -> str:
        """What the probe says; API servers hear of a change in their own time."""
        backoff, why = Backoff(first=0.2, longest=2.0), await self._probe.ask()
        for failures in range(1, _TRIES if again else 1):
            if not why:
                break
            await backoff.pause(failures)
            why = await self._probe.ask()
        return why

    def _conclude(self, why: str) -> None:
        if why != self.why or self.in_force != (not why):
            if why:
                _log.warning("the webhook is not in force: %s", why)
            else:
                _log.info("the webhook is in force")
        self.in_force, self.why = not why, why


def _readable(bundle: bytes) -> bytes:
    """The bundle, if it holds certificates: one that makes no sense is trusted by nobody."""
    try:
        return bundle if split(bundle) else b""
    except CertificateError:
        return b""


def _canonical(host: str) -> str:
    """As certificates write it."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.encode("idna").decode()
