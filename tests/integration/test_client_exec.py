"""Exec plugins: what they are told, when they run again, and what is said when they fail."""

import asyncio
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescheduler.kube.auth import ExecSource
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Connection, Credential, ExecPlugin
from rescheduler.kube.errors import ApiError, AuthError
from tests.support.api_server import Answer, ApiServer, api_server, authority, status_answer
from tests.support.kubeconfigs import b64, connection, exec_credential, exec_script, exec_user

UNAUTHORIZED = status_answer(401, "Unauthorized", "Unauthorized")
NOWHERE = {"server": "https://127.0.0.1:1"}


def tokens(server: ApiServer) -> list[str | None]:
    return [seen.headers.get("Authorization") for seen in server.seen]


def counting(folder: Path, life: timedelta | None = None) -> Path:
    """A plugin that prints token-1, token-2, …: one line in `runs` for each run."""
    status = {"token": "token-'$(wc -l < runs)'"}
    if life is not None:
        status["expirationTimestamp"] = (datetime.now(UTC) + life).strftime("%Y-%m-%dT%H:%M:%SZ")
    return exec_script(folder / "plugin", f"cd {folder}\necho run >> runs\necho '{exec_credential(**status)}'\n")


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def source(to: Connection, timeout: float = 60.0) -> ExecSource:
    plugin = to.credentials.login
    assert isinstance(plugin, ExecPlugin)
    return ExecSource(plugin, to, timeout)


async def failure(folder: Path, script: str, **fields: Any) -> str:
    to = connection(folder, NOWHERE, exec_user(exec_script(folder / "plugin", script), **fields))
    with pytest.raises(AuthError) as raised:
        await source(to).current()
    return str(raised.value).removeprefix(f"{folder}/kubeconfig: users[dev].user.exec: ").removeprefix(f"{folder}/")


async def test_a_plugin_runs_once_for_many_requests(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", Answer())
        to = connection(tmp_path, {"server": server.url}, exec_user(counting(tmp_path, timedelta(hours=1))))
        async with ApiClient(to) as client:
            await asyncio.gather(*(client.get("/version") for _ in range(5)))
            await client.get("/version")
        assert tokens(server) == ["Bearer token-1"] * 6
    assert runs(tmp_path) == 1


async def test_a_token_without_expiry_is_kept(tmp_path: Path) -> None:
    plugin = source(connection(tmp_path, NOWHERE, exec_user(counting(tmp_path))))
    assert [(await plugin.current()).authorization for _ in range(3)] == ["Bearer token-1"] * 3


async def test_a_token_is_renewed_when_it_has_expired(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", Answer())
        to = connection(tmp_path, {"server": server.url}, exec_user(counting(tmp_path, timedelta(0))))
        plugin = source(to)
        first = await plugin.current()
        second = await plugin.current()
    assert (first.authorization, second.authorization) == ("Bearer token-1", "Bearer token-2")


async def test_a_token_is_renewed_a_minute_before_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return now.astimezone(tz)

    plugin = source(connection(tmp_path, NOWHERE, exec_user(counting(tmp_path, timedelta(hours=1)))))
    await plugin.current()
    monkeypatch.setattr("rescheduler.kube.auth.datetime", Clock)
    now += timedelta(minutes=58)
    assert (await plugin.current()).authorization == "Bearer token-1"
    now += timedelta(minutes=1, seconds=30)
    assert (await plugin.current()).authorization == "Bearer token-2"


async def test_a_401_renews_the_token_once_and_tries_again(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", UNAUTHORIZED, Answer())
        to = connection(tmp_path, {"server": server.url}, exec_user(counting(tmp_path)))
        async with ApiClient(to) as client:
            await client.get("/version")
        assert tokens(server) == ["Bearer token-1", "Bearer token-2"]


async def test_a_second_401_is_the_answer(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/version", UNAUTHORIZED)
        to = connection(tmp_path, {"server": server.url}, exec_user(counting(tmp_path)))
        async with ApiClient(to) as client:
            with pytest.raises(ApiError, match="does not accept the credentials of context dev"):
                await client.get("/version")
        assert len(server.seen) == 2


async def test_many_callers_that_were_refused_at_once_share_one_renewal(tmp_path: Path) -> None:
    plugin = source(connection(tmp_path, NOWHERE, exec_user(counting(tmp_path))))
    refused = await plugin.current()
    renewed = await asyncio.gather(*(plugin.renew(refused) for _ in range(5)))
    assert {credential.authorization for credential in renewed} == {"Bearer token-2"}
    assert runs(tmp_path) == 2


async def test_the_same_token_again_is_not_worth_another_try(tmp_path: Path) -> None:
    script = exec_script(tmp_path / "plugin", f"echo '{exec_credential(token='same')}'")
    async with api_server() as server:
        server.script("/version", UNAUTHORIZED)
        async with ApiClient(connection(tmp_path, {"server": server.url}, exec_user(script))) as client:
            with pytest.raises(ApiError):
                await client.get("/version")
        assert len(server.seen) == 1


async def test_a_plugins_certificate_is_used_and_a_new_one_makes_new_connections(tmp_path: Path) -> None:
    for name in ("one", "two"):
        issued = authority().issue(name)
        pem = {"clientCertificateData": issued.certificate.decode(), "clientKeyData": issued.key.decode()}
        (tmp_path / name).write_text(exec_credential("v1", **pem))
    (tmp_path / "now").symlink_to("one")
    script = exec_script(tmp_path / "plugin", f"cat {tmp_path}/now")
    async with api_server() as server:
        server.script("/version", Answer(), UNAUTHORIZED, Answer())
        async with ApiClient(connection(tmp_path, {"server": server.url}, exec_user(script))) as client:
            await client.get("/version")
            (tmp_path / "now").unlink()
            (tmp_path / "now").symlink_to("two")
            await client.get("/version")
        assert [seen.client for seen in server.seen] == ["one", "one", "two"]
        assert tokens(server) == [None] * 3


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plugin_learns_what_is_wanted_and_about_the_cluster(tmp_path: Path, version: str) -> None:
    body = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\necho "$1 $REGION" > {tmp_path}/call\n'
    script = exec_script(tmp_path / "plugin", f"{body}echo '{exec_credential(version, token='t')}'")
    cluster = {
        "server": "https://a:6443",
        "certificate-authority-data": b64(authority().pem),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:1",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x", "n": 1}}],
    }
    api_version = f"client.authentication.k8s.io/{version}"
    fields = {"args": ["login"], "env": [{"name": "REGION", "value": "eu"}], "provideClusterInfo": True}
    user = exec_user(script, apiVersion=api_version, **fields)
    await source(connection(tmp_path, cluster, user)).current()
    assert (tmp_path / "call").read_text() == "login eu\n"
    assert msgspec.json.decode((tmp_path / "info").read_bytes()) == {
        "apiVersion": api_version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://a:6443",
                "certificate-authority-data": b64(authority().pem),
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy:1",
                "config": {"audience": "x", "n": 1},
            },
        },
    }


async def test_a_plugin_learns_nothing_about_the_cluster_unless_it_is_to(tmp_path: Path) -> None:
    body = f"echo \"$KUBERNETES_EXEC_INFO\" > {tmp_path}/info\necho '{exec_credential(token='t')}'"
    await source(connection(tmp_path, NOWHERE, exec_user(exec_script(tmp_path / "plugin", body)))).current()
    assert msgspec.json.decode((tmp_path / "info").read_bytes())["spec"] == {"interactive": False}


async def test_a_missing_command_shows_the_install_hint(tmp_path: Path) -> None:
    user = exec_user(Path("no-such-plugin"), installHint="brew install no-such-plugin")
    with pytest.raises(AuthError) as raised:
        await source(connection(tmp_path, NOWHERE, user)).current()
    assert str(raised.value) == (
        f"{tmp_path}/kubeconfig: users[dev].user.exec: the command no-such-plugin is not found; "
        "brew install no-such-plugin"
    )


async def test_a_failing_plugins_own_words_are_shown(tmp_path: Path) -> None:
    said = await failure(tmp_path, "echo 'session expired: run aws sso login' >&2; exit 3")
    assert said == "plugin failed with exit code 3: session expired: run aws sso login"


async def test_a_command_that_may_not_be_run_is_named(tmp_path: Path) -> None:
    script = exec_script(tmp_path / "plugin", "")
    script.chmod(0o644)
    with pytest.raises(AuthError, match=r"plugin does not start: Permission denied$"):
        await source(connection(tmp_path, NOWHERE, exec_user(script))).current()


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        ("hello", "plugin did not print an ExecCredential: "),
        (exec_credential("v1beta1", token="t"), "plugin printed client.authentication.k8s.io/v1beta1 ExecCredential"),
        (exec_credential(), "plugin printed neither a token nor a certificate"),
        (exec_credential(clientKeyData="k"), "plugin printed a certificate or a key without the other"),
        (exec_credential(token="a\nb"), "plugin printed a token with characters that no token has"),
        (exec_credential(token="t", expirationTimestamp="soon"), "plugin did not print an ExecCredential: "),
    ],
)
async def test_what_a_plugin_prints_is_checked(tmp_path: Path, printed: str, problem: str) -> None:
    assert (await failure(tmp_path, f"cat <<'END'\n{printed}\nEND\n")).startswith(problem)


def hanging(folder: Path) -> Connection:
    """A plugin that never prints, with a child that keeps its output open; both have MARK in their environment."""
    script = exec_script(folder / "plugin", "sleep 600 & wait")
    return connection(folder, NOWHERE, exec_user(script, env=[{"name": "MARK", "value": str(folder)}]))


def processes(folder: Path) -> list[str]:
    """The processes that carry the folder in their environment. (A dead one has none.)"""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked, or it is not ours
            if f"MARK={folder}".encode() in (process / "environ").read_bytes():
                found.append(process.name)
    return found


async def none_is_left(folder: Path) -> None:
    """Killed they are; the kernel may take its time to bury them."""
    async with asyncio.timeout(20):
        while processes(folder):  # noqa: ASYNC110 (a process has no event)
            await asyncio.sleep(0.005)


async def test_a_plugin_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(AuthError, match=r"plugin gave nothing in 0.3 s; run it by hand"):
        await source(hanging(tmp_path), timeout=0.3).current()
    await none_is_left(tmp_path)


async def test_a_plugin_that_ends_but_leaves_a_child_at_its_output_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    script = exec_script(tmp_path / "plugin", f"sleep 600 &\necho '{exec_credential(token='t')}'")
    to = connection(tmp_path, NOWHERE, exec_user(script, env=[{"name": "MARK", "value": str(tmp_path)}]))
    with pytest.raises(AuthError, match=r"plugin gave nothing in 0.3 s"):
        await source(to, timeout=0.3).current()
    await none_is_left(tmp_path)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
async def test_a_cancelled_request_is_cancelled_even_where_the_plugin_does_not_start(
    tmp_path: Path, steps: int
) -> None:
    request = asyncio.create_task(source(connection(tmp_path, NOWHERE, exec_user(Path("no-such-plugin")))).current())
    for _ in range(steps):
        await asyncio.sleep(0)
    if request.cancel():
        with pytest.raises(asyncio.CancelledError):
            await request
    else:
        assert isinstance(request.exception(), AuthError)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 6, 8, 20])
async def test_a_plugin_is_ended_whenever_its_request_is_cancelled(tmp_path: Path, steps: int) -> None:
    request = asyncio.create_task(source(hanging(tmp_path)).current())
    for _ in range(steps):
        await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await request
    await none_is_left(tmp_path)


async def test_a_plugin_is_ended_with_the_request_that_waits_for_it(tmp_path: Path) -> None:
    async with ApiClient(hanging(tmp_path)) as client:
        request = asyncio.create_task(client.get("/version"))
        while len(processes(tmp_path)) < 2:  # noqa: ASYNC110 (a process has no event)
            await asyncio.sleep(0.005)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    await none_is_left(tmp_path)


async def test_a_plugin_that_needs_a_terminal_says_so_where_there_is_none(tmp_path: Path) -> None:
    said = await failure(tmp_path, "exit 0", interactiveMode="Always")
    assert said.startswith("plugin needs a terminal (interactiveMode: Always)")


async def test_a_plugin_that_may_use_the_terminal_is_told_that_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, terminal = os.openpty()
    try:
        with os.fdopen(terminal) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            body = f"echo \"$KUBERNETES_EXEC_INFO\" > {tmp_path}/info\necho '{exec_credential(token='t')}'"
            user = exec_user(exec_script(tmp_path / "plugin", body), interactiveMode="IfAvailable")
            credential = await source(connection(tmp_path, NOWHERE, user)).current()
    finally:
        os.close(leader)
    assert credential == Credential("Bearer t")
    assert msgspec.json.decode((tmp_path / "info").read_bytes())["spec"] == {"interactive": True}
