"""Each way to log in, seen from the server: what header or certificate arrives, and when it is renewed."""

import os
from pathlib import Path

import pytest

from rescheduler.kube.auth import impersonation_headers
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Connection, Impersonation
from rescheduler.kube.errors import ApiError, AuthError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from tests.support.api_server import Answer, ApiServer, api_server, authority, status_answer
from tests.support.kubeconfigs import RecordedWaits, b64, connection

UNAUTHORIZED = status_answer(401, "Unauthorized", "Unauthorized")


def headers(server: ApiServer) -> list[str | None]:
    return [seen.headers.get("Authorization") for seen in server.seen]


async def ask(to: Connection, times: int = 1) -> None:
    async with ApiClient(to, backoff=RecordedWaits().backoff) as client:
        for _ in range(times):
            await client.get("/version")


async def test_nobody_sends_no_authorization(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", Answer())
        await ask(connection(tmp_path, {"server": server.url}))
        assert headers(server) == [None]


async def test_a_token_is_sent_as_bearer(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", Answer())
        await ask(connection(tmp_path, {"server": server.url}, {"token": "t0ken"}))
        assert headers(server) == ["Bearer t0ken"]


async def test_a_user_name_and_password_are_sent_as_basic(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", Answer())
        await ask(connection(tmp_path, {"server": server.url}, {"username": "u", "password": "p"}))
        assert headers(server) == ["Basic dTpw"]


async def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    to_server = {"tokenFile": str(token)}
    async with api_server() as server:
        server.script("/version", Answer())
        async with ApiClient(connection(tmp_path, {"server": server.url}, to_server)) as client:
            await client.get("/version")
            token.write_text("two\n")
            await client.get("/version")
    assert headers(server) == ["Bearer one", "Bearer two"]


async def test_a_pods_token_is_followed_through_the_kubelets_symlinks(tmp_path: Path) -> None:
    """The kubelet writes a new folder and swaps a symlink, so that the file's own path never changes."""
    for folder, token in (("..1", "one"), ("..2", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "token").write_text(token)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "token").symlink_to("..data/token")
    (tmp_path / "ca.crt").write_bytes(authority().pem)
    async with api_server() as server:
        server.script("/version", Answer())
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        async with ApiClient(load_connection(KubeconfigOptions(), environ, tmp_path)) as client:
            await client.get("/version")
            (tmp_path / "..new").symlink_to("..2")
            (tmp_path / "..new").rename(tmp_path / "..data")
            await client.get("/version")
    assert headers(server) == ["Bearer one", "Bearer two"]


async def test_a_missing_or_empty_token_file_is_named(tmp_path: Path) -> None:
    to = connection(tmp_path, {"server": "https://127.0.0.1:1"}, {"tokenFile": "gone"})
    expected = f"{tmp_path}/kubeconfig: users[dev].user.tokenFile: cannot read {tmp_path}/gone: No such file"
    with pytest.raises(AuthError) as raised:
        await ask(to)
    assert str(raised.value).startswith(expected)
    (tmp_path / "gone").write_text("\n")
    with pytest.raises(AuthError, match="does not hold a token"):
        await ask(to)


async def test_a_token_file_that_changed_with_a_401_is_tried_once_more(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    async with api_server() as server:
        server.script("/version", Answer(401, before=lambda: token.write_text("two")), Answer())
        await ask(connection(tmp_path, {"server": server.url}, {"tokenFile": str(token)}))
    assert headers(server) == ["Bearer one", "Bearer two"]


async def test_a_401_for_a_fixed_token_is_not_tried_again_and_says_what_to_do(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", UNAUTHORIZED)
        with pytest.raises(ApiError) as raised:
            await ask(connection(tmp_path, {"server": server.url}, {"token": "old"}))
        assert len(server.seen) == 1
    assert str(raised.value) == (
        f"the server does not accept the credentials of context dev of {tmp_path}/kubeconfig "
        "(401 Unauthorized on /version); log in again, or correct the user's token, certificate or exec plugin"
    )


async def test_a_client_certificate_from_data_is_verified_by_the_server(tmp_path: Path) -> None:
    jane = authority().issue("jane")
    user = {"client-certificate-data": b64(jane.certificate), "client-key-data": b64(jane.key)}
    async with api_server() as server:
        server.script("/version", Answer())
        await ask(connection(tmp_path, {"server": server.url}, user))
        assert server.seen[0].client == "jane"


async def test_a_client_certificate_in_files_is_loaded_again_when_it_is_rotated(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.crt", tmp_path / "c.key"

    def rotate(name: str) -> None:
        issued = authority().issue(name)
        certificate.write_bytes(issued.certificate)
        key.write_bytes(issued.key)

    rotate("jane")
    user = {"client-certificate": "c.crt", "client-key": "c.key"}
    async with api_server() as server:
        server.script("/version", Answer())
        async with ApiClient(connection(tmp_path, {"server": server.url}, user)) as client:
            await client.get("/version")
            rotate("janet")
            await client.get("/version")
            await client.get("/version")
    assert [seen.client for seen in server.seen] == ["jane", "janet", "janet"]


async def test_a_certificate_that_does_not_fit_its_key_is_named(tmp_path: Path) -> None:
    jane, joe = authority().issue("jane"), authority().issue("joe")
    user = {"client-certificate-data": b64(jane.certificate), "client-key-data": b64(joe.key)}
    with pytest.raises(AuthError) as raised:
        await ask(connection(tmp_path, {"server": "https://127.0.0.1:1"}, user))
    assert str(raised.value) == (
        f"{tmp_path}/kubeconfig: users[dev].user.client-certificate-data: "
        "the client certificate and key do not load (KEY_VALUES_MISMATCH)"
    )


async def test_an_encrypted_key_is_refused_and_never_asked_about(tmp_path: Path) -> None:
    jane = authority().issue("jane", password=b"secret")
    user = {"client-certificate-data": b64(jane.certificate), "client-key-data": b64(jane.key)}
    with pytest.raises(AuthError, match="the client key is encrypted, which is not supported"):
        await ask(connection(tmp_path, {"server": "https://127.0.0.1:1"}, user))


async def test_no_key_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    jane = authority().issue("jane")
    user = {"client-certificate-data": b64(jane.certificate), "client-key-data": b64(jane.key)}
    async with api_server() as server:
        server.script("/version", Answer())
        await ask(connection(tmp_path, {"server": server.url}, user))
    assert os.listdir(folder) == []  # noqa: PTH208 (its names are all that matters)


async def test_impersonation_is_sent_with_every_request(tmp_path: Path) -> None:
    who = Impersonation("jane", ("dev", "ops"), "u-1", {"example.com/scopes": ("view", "edit")})
    async with api_server() as server:
        server.script("/version", Answer())
        await ask(connection(tmp_path, {"server": server.url}, {"token": "t"}, who), times=2)
        for seen in server.seen:
            assert seen.headers["Authorization"] == "Bearer t"
            assert seen.headers["Impersonate-User"] == "jane"
            assert seen.headers["Impersonate-Uid"] == "u-1"
            assert seen.headers.getall("Impersonate-Group") == ["dev", "ops"]
            assert seen.headers.getall("Impersonate-Extra-example.com%2Fscopes") == ["view", "edit"]


def test_nobody_is_impersonated_by_default() -> None:
    assert impersonation_headers(Impersonation()) == []


async def test_the_client_says_who_it_is(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", Answer())
        await ask(connection(tmp_path, {"server": server.url}))
        assert server.seen[0].headers["User-Agent"].startswith("rescheduler/0.")
        assert server.seen[0].headers["Accept"] == "application/json"
