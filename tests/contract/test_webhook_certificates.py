"""The webhook's certificates on a cluster: kept in a Secret, or in files; renewed while the API server calls us."""

from __future__ import annotations

import asyncio
import base64
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.admission.certificates import (
    AUTHORITY_NAME,
    PREVIOUS_KEPT,
    CertificateState,
    new_authority,
    new_serving,
)
from rescheduler.admission.registration import SETTLE, names_of_server
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.webhook import CertificateFiles, WebhookConfiguration, WebhookSettings, bundle_in
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.manifests import gated
from tests.support.webhook_serving import (
    ASKED,
    CONFIGURATIONS,
    Creation,
    Replica,
    leader,
    removed,
    replica,
    settings_of,
)
from tests.testbed.namespaces import own_namespace
from tests.testbed.pki import Authority
from tests.testbed.processes import free_port, until

YEAR = 365 * 86400.0


@pytest.fixture
def home(cluster: ClusterUnderTest) -> Iterator[str]:
    """The namespace that the webhook runs in."""
    with own_namespace(cluster.api, "home-of-the-webhook") as name:
        yield name


@pytest.fixture
def settings(home: str) -> WebhookSettings:
    return settings_of(home)


def secrets_of(settings: WebhookSettings) -> str:
    return f"/api/v1/namespaces/{settings.namespace}/secrets"


def stored(space: Space, settings: WebhookSettings) -> CertificateState:
    found = space.api.get(f"{secrets_of(settings)}/{settings.secret}")["data"]
    return CertificateState.from_data({key: base64.b64decode(value) for key, value in found.items()})


def store(space: Space, settings: WebhookSettings, data: dict[str, bytes], labels: Json | None = None) -> None:
    """As an earlier leader, or somebody else, has left it."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    labels = {MANAGED_BY: MANAGER} if labels is None else labels
    space.api.post(secrets_of(settings), {"metadata": {"name": settings.secret, "labels": labels}, "data": encoded})


def trusted(space: Space, settings: WebhookSettings) -> bytes:
    return bundle_in(space.api.get(f"{CONFIGURATIONS}/{settings.name}"))


def served(settings: WebhookSettings) -> bytes:
    """The certificate that a new connection is shown, as DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(settings.bind, timeout=30) as line, context.wrap_socket(line) as secure:
        return secure.getpeercert(binary_form=True) or b""


def der(certificate: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.decode())


def aged(settings: WebhookSettings, authority: float, serving: float) -> CertificateState:
    """Certificates of an age, in seconds."""
    now = time.time()
    ours = new_authority(AUTHORITY_NAME, now - authority)
    return CertificateState(ours, new_serving(ours, sorted(names_of_server(settings)), now - serving))


def registered_with(ours: Replica, bundle: bytes) -> None:
    """Registered as an earlier leader has left it, and in force."""
    configuration = WebhookConfiguration(ours.client, ours.settings)

    async def register() -> None:
        await configuration.keep(await configuration.read(), bundle)

    ours.call(register)


def all_asked(made: list[Json]) -> bool:
    return all((each["metadata"].get("annotations") or {}).get(ASKED) == "yes" for each in made)


def is_asked(space: Space) -> bool:
    return all_asked([space.create(gated("try"), dryRun="All")])


def test_the_leader_makes_a_secret_that_every_replica_serves_from(space: Space, settings: WebhookSettings) -> None:
    other = settings_of(settings.namespace, name=settings.name, bind=("127.0.0.1", free_port()), url=settings.url)
    with replica(space, other) as follower:
        assert follower.serving.why_not().startswith("the webhook has no certificate yet")
        with leader(space, settings):
            until("the other one serves too", lambda: not follower.serving.why_not())
            holding = stored(space, settings)
            assert served(settings) == served(other) == der(holding.serving.certificate)
            assert trusted(space, settings) == holding.bundle


def test_a_certificate_that_is_due_is_renewed_while_pods_are_made(space: Space, settings: WebhookSettings) -> None:
    before = aged(settings, YEAR, 61 * 86400.0)
    store(space, settings, before.to_data())
    with removed(space, settings), replica(space, settings) as ours:
        until("it serves", lambda: not ours.serving.why_not())
        registered_with(ours, before.bundle)
        until("it is asked", lambda: is_asked(space))
        with Creation(space, 60) as creation:
            creation.goes_on()
            assert ours.keep() == ""
            after = stored(space, settings)
            assert (after.authority, after.serving == before.serving) == (before.authority, False)
            until("the new one is served", lambda: served(settings) == der(after.serving.certificate))
            creation.goes_on()
    assert all_asked(creation.made)


def test_a_new_authority_takes_over_while_pods_are_made(space: Space, settings: WebhookSettings) -> None:
    before = aged(settings, 7 * YEAR, 86400.0)
    store(space, settings, before.to_data())
    with removed(space, settings), replica(space, settings) as ours:
        until("it serves", lambda: not ours.serving.why_not())
        registered_with(ours, before.bundle)
        until("it is asked", lambda: is_asked(space))
        with Creation(space, 60) as creation:
            creation.goes_on()
            assert ours.keep() == ""  # announces it
            assert stored(space, settings) == before
            assert trusted(space, settings).count(b"BEGIN") == 2
            creation.goes_on()
            assert ours.keep() == ""  # sees that it is announced
            assert stored(space, settings) == before
            ours.ahead += SETTLE + 1
            assert ours.keep() == ""  # uses it
            after = stored(space, settings)
            assert after.authority != before.authority
            assert after.previous == before.authority.certificate
            until("the new one is served", lambda: served(settings) == der(after.serving.certificate))
            creation.goes_on()
            ours.ahead += PREVIOUS_KEPT
            assert ours.keep() == ""  # forgets the old one
            assert trusted(space, settings) == after.authority.certificate
            creation.goes_on()
    assert all_asked(creation.made)


def test_a_deleted_secret_is_made_anew_without_a_failed_call(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        before = stored(space, settings)
        with Creation(space, 60) as creation:
            creation.goes_on()
            space.api.delete(f"{secrets_of(settings)}/{settings.secret}")
            assert ours.keep() == ""
            assert ours.keep() == ""
            ours.ahead += SETTLE + 1
            assert ours.keep() == ""
            after = stored(space, settings)
            assert after.authority != before.authority
            until("the new one is served", lambda: served(settings) == der(after.serving.certificate))
            creation.goes_on()
    assert all_asked(creation.made)


def test_two_that_believe_to_lead_agree_on_one_secret(space: Space, settings: WebhookSettings) -> None:
    with removed(space, settings), replica(space, settings) as first:
        port = free_port()
        other = settings_of(settings.namespace, name=settings.name, bind=("127.0.0.1", port), url=settings.url)
        with replica(space, other) as second:

            async def both() -> tuple[BaseException | None, ...]:
                mine = first.registration.keep()
                theirs = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(second.registration.keep(), second.loop))
                return await asyncio.gather(mine, theirs, return_exceptions=True)

            errors = [str(each) for each in first.call(both) if each is not None]
            assert all("was changed meanwhile" in each for each in errors)
            holding = stored(space, settings)
            for each in (first, second, first):
                each.in_force()
            assert stored(space, settings) == holding
            assert trusted(space, settings) == holding.bundle


def test_a_secret_that_is_not_ours_is_left_alone(space: Space, settings: WebhookSettings) -> None:
    store(space, settings, {"ca.crt": b"somebody's"}, labels={})
    with removed(space, settings), replica(space, settings) as ours:
        with pytest.raises(ClusterError, match=f"Secret {settings.namespace}/{settings.secret} is not ours") as caught:
            ours.keep()
        assert "delete it" in str(caught.value)
        assert not ours.registration.in_force
        until("it says so, too", lambda: "is not ours" in ours.serving.why_not())
        assert space.api.get(f"{secrets_of(settings)}/{settings.secret}")["data"].keys() == {"ca.crt"}


@pytest.mark.parametrize(
    "broken", [{}, {"ca.crt": b"garbage"}, {"tls.key": b""}, {"previous-ca.crt": b"-----BEGIN CERTIFICATE-----\nx"}]
)
def test_a_secret_of_ours_that_is_broken_is_made_anew(
    space: Space, settings: WebhookSettings, broken: dict[str, bytes]
) -> None:
    good = aged(settings, 0.0, 0.0).to_data()
    store(space, settings, good | broken if broken else {})
    with leader(space, settings):
        stored(space, settings)
        assert is_asked(space)


def test_given_files_are_served_and_changed_ones_taken_up(space: Space, home: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    first = authority.server("first")
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key", authority.certificate)
    shutil.copy(first.certificate, files.certificate)
    shutil.copy(first.key, files.key)
    settings = settings_of(home, files=files)
    with leader(space, settings):
        assert trusted(space, settings) == authority.certificate.read_bytes()
        with Creation(space, 60) as creation:
            creation.goes_on()
            files.key.write_bytes(b"half")  # somebody is writing
            second = authority.server("second")
            shutil.copy(second.certificate, files.certificate)
            assert served(settings) == der(first.certificate.read_bytes())
            creation.goes_on()
            shutil.copy(second.key, files.key)
            until("the new one is served", lambda: served(settings) == der(second.certificate.read_bytes()))
            creation.goes_on()
        assert all_asked(creation.made)
        found = space.api.get(secrets_of(settings))["items"]
        assert settings.secret not in [each["metadata"]["name"] for each in found]


def test_a_bundle_that_others_inject_is_left_to_them(space: Space, home: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.server("first")
    settings = settings_of(home, files=CertificateFiles(pair.certificate, pair.key))
    with removed(space, settings), replica(space, settings) as ours:
        until("it serves", lambda: not ours.serving.why_not())
        until("nobody has injected it yet", lambda: "is not trusted" in ours.keep())
        value = base64.b64encode(authority.certificate.read_bytes()).decode()
        steps = [{"op": "add", "path": f"/webhooks/{each}/clientConfig/caBundle", "value": value} for each in (0, 1)]
        space.api.patch(f"{CONFIGURATIONS}/{settings.name}", steps, "json")
        ours.in_force()
        steps = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]
        space.api.patch(f"{CONFIGURATIONS}/{settings.name}", steps, "json")
        ours.in_force()
        assert trusted(space, settings) == authority.certificate.read_bytes()
        assert space.api.get(f"{CONFIGURATIONS}/{settings.name}")["webhooks"][0]["failurePolicy"] == "Ignore"
