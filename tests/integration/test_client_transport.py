"""TLS, proxies and unreachable servers: what is verified, which way requests go, and how failures read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, AuthError
from tests.support.api_server import Answer, ApiServer, Authority, Issued, api_server, authority, server_context
from tests.support.connect_proxy import connect_proxy
from tests.support.kubeconfigs import RecordedWaits, b64, connection
from tests.support.tls import strict_by_default
from tests.testbed import pki


async def ask(folder: Path, cluster: Mapping[str, Any], waits: RecordedWaits | None = None) -> bytes:
    async with ApiClient(connection(folder, cluster), backoff=(waits or RecordedWaits()).backoff) as client:
        return await client.get("/version")


async def failure(folder: Path, cluster: Mapping[str, Any], waits: RecordedWaits | None = None) -> str:
    with pytest.raises(ApiError) as raised:
        await ask(folder, cluster, waits)
    assert raised.value.status is None
    return str(raised.value)


def issued_by(old: pki.Authority) -> Issued:
    pair = old.server("server")
    return Issued(pair.certificate.read_bytes(), pair.key.read_bytes())


def by_name(server: ApiServer, host: str) -> str:
    return f"https://{host}:{server.port}"


async def test_a_wrong_ca_is_named_with_the_cure_and_not_tried_again(tmp_path: Path) -> None:
    waits = RecordedWaits()
    async with api_server() as server:
        cluster = {"server": server.url, "certificate-authority-data": b64(Authority("other").pem)}
        said = await failure(tmp_path, cluster, waits)
        assert server.seen == []
    assert waits.waits == []
    assert said.startswith(
        f"the certificate of {server.url} is not signed by {tmp_path}/kubeconfig: "
        "clusters[dev].cluster.certificate-authority-data: "
    )
    assert said.endswith("if the cluster was recreated, get its kubeconfig again; else correct certificate-authority")


async def test_a_certificate_for_another_name_points_to_tls_server_name(tmp_path: Path) -> None:
    async with api_server("kubernetes") as server:
        said = await failure(tmp_path, {"server": server.url})
    assert said.startswith(f"the certificate of {server.url} is for another name: ")
    assert said.endswith(
        f"set tls-server-name in context dev of {tmp_path}/kubeconfig to a name that the certificate has"
    )


async def test_tls_server_name_is_what_is_verified(tmp_path: Path) -> None:
    async with api_server("kubernetes") as server:
        server.script("/version", Answer())
        assert await ask(tmp_path, {"server": server.url, "tls-server-name": "kubernetes"}) == b"{}"
        assert "another name" in await failure(tmp_path, {"server": server.url, "tls-server-name": "other"})


async def test_the_ca_of_an_old_installer_is_trusted_on_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict_by_default(monkeypatch)
    old = pki.Authority(tmp_path / "pki", bare=True)
    async with api_server(issued=issued_by(old)) as server:
        server.script("/version", Answer())
        cluster = {"server": server.url, "certificate-authority": str(old.certificate)}
        assert await ask(tmp_path, cluster) == b"{}"


async def test_what_the_ca_of_an_old_installer_signs_is_still_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict_by_default(monkeypatch)
    old, other = (pki.Authority(tmp_path / name, bare=True) for name in ("old", "other"))
    async with api_server(issued=issued_by(old)) as server:
        unsigned = {"server": server.url, "certificate-authority": str(other.certificate)}
        assert "is not signed by" in await failure(tmp_path, unsigned)
        misnamed = {"server": server.url, "certificate-authority": str(old.certificate), "tls-server-name": "other"}
        assert "is for another name" in await failure(tmp_path, misnamed)
        assert server.seen == []


async def test_a_certificate_that_signs_nothing_can_be_the_trusted_one_on_every_python(tmp_path: Path) -> None:
    issued = authority().issue("server", "127.0.0.1")
    async with api_server(issued=issued) as server:
        server.script("/version", Answer())
        cluster = {"server": server.url, "certificate-authority-data": b64(issued.certificate)}
        assert await ask(tmp_path, cluster) == b"{}"


async def test_an_expired_certificate_says_so(tmp_path: Path) -> None:
    async with api_server(days=-1) as server:
        said = await failure(tmp_path, {"server": server.url})
    assert said.startswith(f"the certificate of {server.url} has expired (NotTrusted on /version); renew it")


async def test_verification_can_be_skipped(tmp_path: Path) -> None:
    async with api_server("kubernetes", days=-1) as server:
        server.script("/version", Answer())
        assert await ask(tmp_path, {"server": server.url, "insecure-skip-tls-verify": True}) == b"{}"


async def test_a_ca_in_a_file_is_read_again_when_it_is_rotated(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(Authority("other").pem)
    async with api_server() as server:
        server.script("/version", Answer())
        to = connection(tmp_path, {"server": server.url, "certificate-authority": "ca.crt"})
        async with ApiClient(to) as client:
            with pytest.raises(ApiError, match="is not signed by"):
                await client.get("/version")
            trusted = connection(tmp_path, {"server": server.url}).ca
            assert trusted is not None
            ca.write_bytes(b"# Autorit\xe9\n" + trusted.read())
            assert await client.get("/version") == b"{}"


async def test_a_ca_that_does_not_load_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuthError) as raised:
        await ask(tmp_path, {"server": "https://127.0.0.1:1", "certificate-authority-data": b64(b"no PEM")})
    expected = "clusters[dev].cluster.certificate-authority-data: holds no usable PEM certificate"
    assert str(raised.value).startswith(f"{tmp_path}/kubeconfig: {expected}")
    with pytest.raises(AuthError, match=r"certificate-authority: cannot read .*/gone.crt: No such file"):
        await ask(tmp_path, {"server": "https://127.0.0.1:1", "certificate-authority": "gone.crt"})


async def test_a_server_without_tls_can_be_used(tmp_path: Path) -> None:
    async with api_server(plain=True) as server:
        server.script("/version", Answer())
        assert await ask(tmp_path, {"server": server.url}) == b"{}"


async def test_tls_with_a_port_that_has_none_says_so(tmp_path: Path) -> None:
    async with api_server(plain=True) as server:
        said = await failure(tmp_path, {"server": by_name(server, "127.0.0.1")})
    assert f"TLS with https://127.0.0.1:{server.port} failed: " in said
    assert "is an https port" in said


async def test_an_unreachable_server_is_tried_again_then_named(tmp_path: Path) -> None:
    waits = RecordedWaits()
    url = "https://127.0.0.1:1"
    said = await failure(tmp_path, {"server": url}, waits)
    assert len(waits.waits) == 4
    assert said.startswith(f"cannot reach {url}: ")
    assert said.endswith(f"check that the cluster is running, and the server of context dev of {tmp_path}/kubeconfig")


async def test_an_unknown_host_is_named(tmp_path: Path) -> None:
    said = await failure(tmp_path, {"server": "https://no-such-host.invalid:6443"})
    assert said.startswith("the host name in https://no-such-host.invalid:6443 is not known: ")
    assert "check the server of context dev" in said


async def test_requests_go_through_the_kubeconfigs_proxy(tmp_path: Path) -> None:
    async with api_server("api.invalid") as server, connect_proxy(server.port) as proxy:
        server.script("/version", Answer())
        assert await ask(tmp_path, {"server": "https://api.invalid:6443", "proxy-url": proxy.url}) == b"{}"
        assert proxy.asked == ["api.invalid:6443"]


async def test_requests_go_through_a_proxy_that_itself_speaks_tls(tmp_path: Path) -> None:
    tls = server_context(authority().issue("proxy", "127.0.0.1"))
    async with api_server("api.invalid") as server, connect_proxy(server.port, tls=tls) as proxy:
        server.script("/version", Answer())
        assert await ask(tmp_path, {"server": "https://api.invalid:6443", "proxy-url": proxy.url}) == b"{}"
        assert proxy.asked == ["api.invalid:6443"]


async def test_tls_server_name_holds_through_a_proxy(tmp_path: Path) -> None:
    async with api_server("kubernetes") as server, connect_proxy(server.port) as proxy:
        server.script("/version", Answer())
        cluster = {"server": "https://api.invalid", "proxy-url": proxy.url}
        assert "another name" in await failure(tmp_path, cluster)
        assert await ask(tmp_path, {**cluster, "tls-server-name": "kubernetes"}) == b"{}"


async def test_a_proxys_password_is_sent_and_never_shown(tmp_path: Path) -> None:
    async with api_server("api.invalid") as server, connect_proxy(server.port, "me:s3cret") as proxy:
        server.script("/version", Answer())
        right = proxy.url.replace("http://", "http://me:s3cret@")
        assert await ask(tmp_path, {"server": "https://api.invalid", "proxy-url": right}) == b"{}"
        wrong = proxy.url.replace("http://", "http://me:wr0ng@")
        said = await failure(tmp_path, {"server": "https://api.invalid", "proxy-url": wrong})
    assert said.startswith(f"the proxy {proxy.url} does not connect to https://api.invalid: 407 ")
    assert "wr0ng" not in said


async def test_an_unreachable_proxy_is_named_as_such(tmp_path: Path) -> None:
    url = "http://me:s3cret@127.0.0.1:1"
    said = await failure(tmp_path, {"server": "https://api.invalid", "proxy-url": url})
    assert said.startswith(f"cannot reach the proxy {url.replace('me:s3cret@', '')}: ")
    assert "s3cret" not in said
