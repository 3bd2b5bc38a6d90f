"""The official Python client reads the same kubeconfig files to the same host, headers, CA and certificates."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from rescheduler.kube.auth import CredentialSource
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from tests.support.api_server import authority
from tests.support.kubeconfigs import b64, exec_credential, exec_script, exec_user, kubeconfig, written


@dataclass(frozen=True)
class Reading:
    host: str
    authorization: str | None
    ca: bytes | None
    certificate: tuple[bytes, bytes] | None
    verify: bool
    tls_server_name: str | None
    proxy: str | None


async def ours(path: str, context: str | None = None) -> Reading:
    connection = load_connection(KubeconfigOptions(context=context), {"KUBECONFIG": path})
    credential = await CredentialSource(connection).current()
    pair = credential.certificate
    return Reading(
        connection.server,
        credential.authorization,
        connection.ca.read() if connection.ca else None,
        (pair.certificate, pair.key) if pair else None,
        not connection.insecure,
        connection.tls_server_name,
        connection.proxy_url,
    )


def theirs(path: str, context: str | None = None) -> Reading:
    read = Configuration()
    load: Any = load_kube_config  # it has no types
    # Its temporary files would live until the interpreter exits.
    folder = Path(path.partition(os.pathsep)[0]).parent
    load(path, context, read, persist_config=False, temp_file_path=str(folder))

    def content(name: str | None) -> bytes | None:
        return Path(name).read_bytes() if name else None

    certificate, key = content(read.cert_file), content(read.key_file)
    return Reading(
        read.host,
        read.api_key.get("BearerToken"),
        content(read.ssl_ca_cert),
        (certificate, key) if certificate and key else None,
        read.verify_ssl,
        read.tls_server_name or None,
        read.proxy,
    )


CLUSTERS: dict[str, dict[str, Any]] = {
    "CA data": {"server": "https://a:6443", "certificate-authority-data": b64(authority().pem)},
    "CA file": {"server": "https://a:6443/", "certificate-authority": "pki/ca.crt"},
    "unverified": {"server": "https://a", "insecure-skip-tls-verify": True, "proxy-url": "http://p:1"},
    "server name": {"server": "https://1.2.3.4", "tls-server-name": "kubernetes"},
    "path": {"server": "https://rancher.example/k8s/clusters/c-1"},
}
CLIENT = authority().issue("jane")
USERS: dict[str, dict[str, Any]] = {
    "nobody": {},
    "token": {"token": "t0ken"},
    "token file": {"tokenFile": "token"},
    "password": {"username": "admin", "password": "pass:word"},
    "certificate data": {
        "client-certificate-data": b64(CLIENT.certificate),
        "client-key-data": b64(CLIENT.key),
    },
    "certificate files": {"client-certificate": "pki/c.crt", "client-key": "pki/c.key", "token": "also"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki/ca.crt").write_bytes(authority().pem)
    (tmp_path / "pki/c.crt").write_bytes(CLIENT.certificate)
    (tmp_path / "pki/c.key").write_bytes(CLIENT.key)
    (tmp_path / "token").write_text("from-file")
    return tmp_path


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("user", USERS)
async def test_every_cluster_and_user_is_read_alike(folder: Path, cluster: str, user: str) -> None:
    path = str(written(folder / "config", kubeconfig(CLUSTERS[cluster], USERS[user])))
    assert await ours(path) == theirs(path)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plugins_token_is_read_alike(folder: Path, version: str) -> None:
    script = exec_script(folder / "plugin", f"echo '{exec_credential(version, token='from-plugin')}'")
    user = exec_user(script, apiVersion=f"client.authentication.k8s.io/{version}")
    path = str(written(folder / "config", kubeconfig(CLUSTERS["CA data"], user)))
    assert (await ours(path)).authorization == "Bearer from-plugin"
    assert await ours(path) == theirs(path)


@pytest.mark.parametrize("context", [None, "one", "two"])
async def test_several_files_are_merged_alike(folder: Path, context: str | None) -> None:
    first = written(
        folder / "first",
        """
        clusters: [{name: shared, cluster: {server: "https://first", certificate-authority: pki/ca.crt}}]
        users: [{name: me, user: {token: from-first}}]
        contexts: [{name: one, context: {cluster: shared, user: me}}]
        """,
    )
    second = written(
        folder / "b/second",
        """
        current-context: two
        clusters:
        - {name: shared, cluster: {server: "https://second"}}
        - {name: own, cluster: {server: "https://own", certificate-authority: ../pki/ca.crt}}
        users: [{name: me, user: {token: from-second}}, {name: you, user: {tokenFile: ../token}}]
        contexts: [{name: two, context: {cluster: own, user: you}}, {name: one, context: {cluster: own, user: you}}]
        """,
    )
    path = os.pathsep.join([str(first), str(second)])
    assert await ours(path, context) == theirs(path, context)
