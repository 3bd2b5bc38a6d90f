"""Which certificate is served: files that are swapped, broken or of another kind, while clients go on calling."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from structlog.testing import capture_logs

from rescheduler.admission.certificates import CertificateError, KeyPair, joined, new_authority, new_serving
from rescheduler.admission.server import Address, AdmissionServer, CertificateSource, from_files

HOST = "127.0.0.1"


class World:
    """A pair in files, who serves it, and an authority to sign others."""

    def __init__(self, folder: Path) -> None:
        self.now = time.time()
        self.authority = new_authority("test", self.now)
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.pair = self.renew()
        self.source = CertificateSource(from_files(self.certificate, self.key))

    def renew(self, authority: KeyPair | None = None) -> KeyPair:
        self.pair = new_serving(authority or self.authority, [HOST], self.now)
        self.write(self.pair)
        return self.pair

    def write(self, pair: KeyPair) -> None:
        self.certificate.write_bytes(pair.certificate)
        self.key.write_bytes(pair.key)

    def trust(self, *others: KeyPair) -> ssl.SSLContext:
        bundle = joined(self.authority.certificate, *(each.certificate for each in others))
        return ssl.create_default_context(cadata=bundle.decode())


def with_rsa(authority: KeyPair) -> KeyPair:
    """A pair as a template, of the other common kind."""
    model = x509.load_pem_x509_certificate(new_serving(authority, [HOST], time.time()).certificate)
    signer = serialization.load_pem_private_key(authority.key, None)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    builder = x509.CertificateBuilder().subject_name(model.subject).issuer_name(model.issuer)
    builder = builder.not_valid_before(model.not_valid_before_utc).not_valid_after(model.not_valid_after_utc)
    builder = builder.serial_number(x509.random_serial_number()).public_key(key.public_key())
    names = model.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    made = builder.add_extension(names, critical=False).sign(signer, hashes.SHA256())  # type: ignore[arg-type]  # EC
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return KeyPair(made.public_bytes(serialization.Encoding.PEM), private)


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[str]:
    assert await world.source.refresh()
    async with AdmissionServer({"/echo": bytes}, world.source.context, Address(HOST, 0)).listening() as server:
        yield f"https://{HOST}:{server.address.port}"


async def served(url: str, trust: ssl.SSLContext) -> bytes:
    """The certificate that a new connection is shown, as PEM."""
    port = int(url.rpartition(":")[2])
    _, writer = await asyncio.open_connection(HOST, port, ssl=trust)
    try:
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
        await writer.wait_closed()
    return ssl.DER_cert_to_PEM_cert(found).encode()


async def call(session: aiohttp.ClientSession, url: str, trust: ssl.SSLContext) -> None:
    async with session.post(f"{url}/echo", data=b"{}", headers={"Content-Type": "application/json"}, ssl=trust) as got:
        assert (got.status, await got.read()) == (200, b"{}")


async def test_a_pair_that_has_changed_is_served_to_new_connections_and_old_ones_go_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    trust = world.trust()
    async with serving(world) as url, aiohttp.ClientSession() as session:
        await call(session, url, trust)
        for _ in range(3):
            pair = world.renew()
            assert await world.source.refresh()
            assert await served(url, trust) == pair.certificate
            await call(session, url, trust)  # on the connection of the first call


async def test_no_call_fails_while_certificates_and_authorities_change_under_load(tmp_path: Path) -> None:
    world = World(tmp_path)
    other = new_authority("next", world.now)
    trust = world.trust(other)
    done = asyncio.Event()
    calls = 0

    async def caller(*, kept: bool) -> None:
        nonlocal calls
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=not kept)) as session:
            while not done.is_set():
                await call(session, url, trust)
                calls += 1

    async with serving(world) as url, asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(caller(kept=number % 2 == 0))
        for round_ in range(20):
            goal = calls + 10
            while calls < goal:  # noqa: ASYNC110 - the callers count
                await asyncio.sleep(0)
            pair = world.renew(other if round_ % 2 else None)
            assert await world.source.refresh()
            assert await served(url, trust) == pair.certificate
        done.set()
    assert calls >= 200


async def test_a_pair_of_another_kind_of_key_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    trust = world.trust()
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the template has not all extensions
    async with serving(world) as url:
        for pair in (with_rsa(world.authority), world.pair, with_rsa(world.authority)):
            world.write(pair)
            assert await world.source.refresh()
            assert await served(url, trust) == pair.certificate


@pytest.mark.parametrize("what", ["half a key", "no key", "half a certificate", "empty", "another's key", "gone"])
async def test_files_that_make_no_sense_change_nothing_and_are_told_of_once(tmp_path: Path, what: str) -> None:
    world = World(tmp_path)
    trust = world.trust()
    async with serving(world) as url:
        before = world.pair
        after = new_serving(world.authority, [HOST], world.now)
        spoilt = {
            "half a key": KeyPair(after.certificate, after.key[:60]),
            "no key": KeyPair(after.certificate, b"no key at all"),
            "half a certificate": KeyPair(after.certificate[:200], after.key),
            "empty": KeyPair(b"", b""),
            "another's key": KeyPair(after.certificate, before.key),
            "gone": after,
        }[what]
        world.write(spoilt)
        if what == "gone":
            world.key.unlink()
        with capture_logs() as logs:
            assert await world.source.refresh()
            assert await world.source.refresh()
        (warning,) = logs
        assert warning["event"] == "webhook certificate not reloaded"
        assert str(world.key) in warning["why"]
        assert world.source.why
        assert await served(url, trust) == before.certificate
        world.write(after)
        assert await world.source.refresh()
        assert (world.source.why, await served(url, trust)) == ("", after.certificate)


async def test_without_a_certificate_there_is_nothing_to_serve_and_a_reason(tmp_path: Path) -> None:
    source = CertificateSource(from_files(tmp_path / "tls.crt", tmp_path / "tls.key"))
    assert not await source.refresh()
    assert "cannot read" in source.why


async def test_a_source_that_fails_in_words_is_no_crash() -> None:
    async def nothing() -> KeyPair:
        raise CertificateError("nothing here")

    source = CertificateSource(nothing)
    assert not await source.refresh()
    assert source.why == "nothing here"


async def test_clients_that_offer_http2_get_http1(tmp_path: Path) -> None:
    world = World(tmp_path)
    trust = world.trust()
    for offered, chosen in ((["h2", "http/1.1"], "http/1.1"), (["h2"], None)):
        trust.set_alpn_protocols(offered)
        async with serving(world) as url:
            _, writer = await asyncio.open_connection(HOST, int(url.rpartition(":")[2]), ssl=trust)
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == chosen
            writer.close()
            await writer.wait_closed()
