"""Registers the webhook with the API server, on the leader.

`Registration` keeps the Secret and the MutatingWebhookConfiguration, and probes whether the API server calls the
webhook. A new CA is always published in the configuration before a certificate signed by it is served, so no call meets
a certificate that it cannot verify.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import structlog

from rescheduler.admission.certificates import CertificateError, CertificateState, next_state, split
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import RereadFile
from rescheduler.kube.errors import Backoff, ClusterError
from rescheduler.kube.webhook import (
    SecretStore,
    StoredSecret,
    WebhookConfiguration,
    WebhookProbe,
    WebhookSettings,
    bundle_in,
    has_our_webhook,
)
from rescheduler.model.json import Json

SETTLE = 30.0  # seconds until every API server surely has a new authority; they watch, so it is mostly one
_TRIES = 6  # probes after a change, within about 5 s
_log = structlog.stdlib.get_logger(__name__)


def names_of_server(settings: WebhookSettings) -> frozenset[str]:
    """List the names by which API servers, schedulers and this controller call the webhook."""
    service = f"{settings.service}.{settings.namespace}"
    names = {f"{service}.svc", f"{service}.svc.cluster.local", service, settings.service}
    host = urlsplit(settings.url).hostname if settings.url else None
    return frozenset(names | ({_canonical(host)} if host else set()))


@dataclass(frozen=True, slots=True)
class _PendingRotation:
    """The next state of this version of the Secret, stored when its authority has been announced long enough."""

    version: str
    state: CertificateState
    announced: float | None = None


class Registration:
    """Registers the webhook; the leader calls `keep` every few seconds."""

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
        self._pending: _PendingRotation | None = None
        self.in_force = False
        """Whether a probe has shown that the API server calls our webhook, and accepts its answer."""
        self.why = "not checked yet"
        """Why it is not in force."""

    @property
    def changing(self) -> bool:
        """Whether a new authority is announced and not used yet, so that `keep` should be called soon."""
        return self._pending is not None

    def exclude(self, namespaces: tuple[str, ...]) -> None:
        """Exclude these namespaces from the webhook with the next `keep`."""
        self._configuration.exclude(namespaces)

    async def keep(self) -> None:
        """Renew certificates, correct the configuration, and probe the webhook."""
        try:
            changed = await self._keep()
        except ClusterError as error:
            self._set_state(str(error))
            raise
        if changed is not None:
            self._set_state(await self._probe_until_ok(again=changed))

    async def remove(self) -> None:
        """Unregister the webhook and delete its certificates.

        The configuration is only emptied, since it may belong to the chart; one of another controller is left alone.
        """
        found = await self._configuration.read()
        if found is not None and not self._configuration.is_here(found):
            _log.info("webhook configuration belongs to another controller", configuration=str(self._configuration))
            return
        removed = found is not None and await self._configuration.empty(found)
        if self._files is None:
            removed = await self._secrets.remove() or removed
        self.in_force, self.why = False, "it is not enabled"
        if removed:
            _log.info("webhook unregistered")

    async def _keep(self) -> bool | None:
        """Correct the configuration; True if it was changed, None if it cannot be made yet."""
        found = await self._configuration.read()
        if self._files is not None:
            bundle = self._authority.read() if self._authority is not None else None
        else:
            bundle = await self._renew(found)
        if not has_our_webhook(found) and (why := self._why_not_served()):
            self._set_state(why)  # there would be no answer
            return None
        return await self._configuration.keep(found, bundle)

    async def _renew(self, found: Json | None) -> bytes:
        """Renew what is due; return the authorities that the API server should trust."""
        secret, now = await self._secrets.read(), self._now()
        state, version = self._read_state(secret), secret.version if secret is not None else ""
        trusted = _valid_bundle(bundle_in(found))
        pending = self._pending
        if pending is None or pending.version != version:
            pending = _PendingRotation(version, next_state(state, self._names, trusted, now))
        wanted = pending.state
        if wanted == state:
            self._pending = None
            return wanted.bundle
        same = state is not None and wanted.authority == state.authority
        announced = (pending.announced or now) if trusted == wanted.bundle else None
        if trusted and not same and (announced is None or now < announced + SETTLE):
            if self._pending is None or self._pending.state != wanted:
                _log.info("new webhook CA announced", used_after_seconds=SETTLE)
            self._pending = replace(pending, announced=announced)
            return wanted.bundle
        self._pending = None
        if not await self._store(secret, wanted):
            raise ClusterError(f"{self._secrets} was changed meanwhile; it is read again")
        _log.info("webhook certificate stored", secret=str(self._secrets))
        return wanted.bundle

    def _read_state(self, secret: StoredSecret | None) -> CertificateState | None:
        if secret is None:
            return None
        try:
            return CertificateState.from_data(secret.data)
        except CertificateError as error:
            _log.warning("webhook Secret is invalid, replacing it", secret=str(self._secrets), error=str(error))
            return None

    async def _store(self, secret: StoredSecret | None, wanted: CertificateState) -> bool:
        data = wanted.to_data()
        return await (self._secrets.create(data) if secret is None else self._secrets.replace(secret, data))

    async def _probe_until_ok(self, *, again: bool) -> str:
        """Probe the webhook; after a change several times, until API servers have it."""
        backoff, why = Backoff(first=0.2, longest=2.0), await self._probe.ask()
        for failures in range(1, _TRIES if again else 1):
            if not why:
                break
            await backoff.pause(failures)
            why = await self._probe.ask()
        return why

    def _set_state(self, why: str) -> None:
        if why != self.why or self.in_force != (not why):
            if why:
                _log.warning("webhook not in force", why=why)
            else:
                _log.info("webhook in force")
        self.in_force, self.why = not why, why


def _valid_bundle(bundle: bytes) -> bytes:
    """The bundle if it is valid, else nothing: clients do not trust an invalid one either."""
    try:
        return bundle if split(bundle) else b""
    except CertificateError:
        return b""


def _canonical(host: str) -> str:
    """The host as certificates spell it."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.encode("idna").decode()
