"""Which kubeconfig is used, how several are merged, and what the Connection then holds."""

import os
from pathlib import Path
from typing import Any

import pytest

from rescheduler.kube.connection import BasicLogin, BearerToken, ExecPlugin, Impersonation, RereadFile, TokenFile
from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from tests.support.kubeconfigs import connection, exec_user, kubeconfig, written

SERVER = {"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": True}


def server_of(environ: dict[str, str], options: KubeconfigOptions | None = None) -> str:
    return load_connection(options or KubeconfigOptions(), environ).server


def named(server: str) -> dict[str, Any]:
    return kubeconfig({"server": server})


def service_account(folder: Path) -> Path:
    written(folder / "token", "t0ken\n")
    written(folder / "ca.crt", "ca")
    written(folder / "namespace", "tools\n")
    return folder


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_flag_wins_over_the_variable_and_the_home_folder(tmp_path: Path) -> None:
    home = written(tmp_path / ".kube/config", named("https://home"))
    variable = written(tmp_path / "variable", named("https://variable"))
    flag = written(tmp_path / "flag", named("https://flag"))
    environ = {"HOME": str(tmp_path), "KUBECONFIG": str(variable)}
    assert server_of(environ, KubeconfigOptions(kubeconfig=flag)) == "https://flag"
    assert server_of(environ) == "https://variable"
    assert server_of({"HOME": str(tmp_path), "KUBECONFIG": ""}) == "https://home"
    assert home.exists()


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    folder = service_account(tmp_path / "account")
    found = load_connection(KubeconfigOptions(), {**POD, "HOME": str(tmp_path)}, folder)
    assert found.server == "https://10.96.0.1:443"
    assert found.namespace == "tools"
    assert found.credentials.login == TokenFile(folder / "token", "the pod's service account")
    assert isinstance(found.ca, RereadFile)
    assert found.ca.path == folder / "ca.crt"


def test_a_pod_on_an_ipv6_network_gets_a_bracketed_server(tmp_path: Path) -> None:
    folder = service_account(tmp_path)
    found = load_connection(KubeconfigOptions(), {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, folder)
    assert found.server == "https://[fd00::1]:443"


def test_a_kubeconfig_wins_over_the_service_account(tmp_path: Path) -> None:
    written(tmp_path / ".kube/config", named("https://home"))
    found = load_connection(KubeconfigOptions(), {**POD, "HOME": str(tmp_path)}, service_account(tmp_path / "account"))
    assert found.server == "https://home"


def test_a_context_asked_for_by_name_is_never_the_pods_own_cluster(tmp_path: Path) -> None:
    folder = service_account(tmp_path / "account")
    with pytest.raises(KubeconfigError, match="no cluster to talk to"):
        load_connection(KubeconfigOptions(context="prod"), {**POD, "HOME": str(tmp_path)}, folder)


def test_nothing_to_use_says_what_was_looked_for_and_the_cure(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as raised:
        load_connection(KubeconfigOptions(), {"HOME": str(tmp_path)}, tmp_path)
    assert str(raised.value) == (
        "no cluster to talk to: --kubeconfig and KUBECONFIG are not set, so it is ~/.kube/config, which does not exist "
        "or is empty, and this is not a pod (KUBERNETES_SERVICE_HOST is not set); give --kubeconfig, or set KUBECONFIG "
        "to your kubeconfig"
    )


def test_a_pod_without_its_token_says_so(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=f"and {tmp_path}/token is missing"):
        load_connection(KubeconfigOptions(), POD, tmp_path)


def test_of_several_files_the_first_to_name_a_thing_wins_and_missing_ones_are_skipped(tmp_path: Path) -> None:
    first = written(
        tmp_path / "first",
        """
        clusters: [{name: shared, cluster: {server: https://first}}]
        contexts: [{name: one, context: {cluster: shared, user: me, namespace: ns1}}]
        """,
    )
    second = written(
        tmp_path / "second",
        """
        current-context: two
        clusters: [{name: shared, cluster: {server: https://second, tls-server-name: not-merged-in}}]
        users: [{name: me, user: {token: from-second}}]
        contexts: [{name: two, context: {cluster: shared, user: me}}]
        """,
    )
    third = written(tmp_path / "third", "current-context: one")
    listed = os.pathsep.join(["", str(first), str(tmp_path / "missing"), str(second), str(third), str(first)])
    found = load_connection(KubeconfigOptions(), {"KUBECONFIG": listed})
    assert (found.source, found.server, found.tls_server_name) == (f"context two of {second}", "https://first", None)
    assert found.credentials.login == BearerToken("from-second")
    assert load_connection(KubeconfigOptions(context="one"), {"KUBECONFIG": listed}).namespace == "ns1"


def test_relative_paths_are_relative_to_the_file_they_stand_in(tmp_path: Path) -> None:
    clusters = written(
        tmp_path / "a/clusters",
        "clusters: [{name: c, cluster: {server: https://c, certificate-authority: pki/ca.crt}}]",
    )
    users = written(
        tmp_path / "b/users",
        """
        current-context: x
        contexts: [{name: x, context: {cluster: c, user: u}}, {name: y, context: {cluster: c, user: plugin}}]
        users:
        - {name: u, user: {tokenFile: ./token, client-certificate: u.crt, client-key: /abs/u.key}}
        - name: plugin
          user: {exec: {command: ./bin/login, apiVersion: client.authentication.k8s.io/v1beta1}}
        """,
    )
    environ = {"KUBECONFIG": os.pathsep.join([str(clusters), str(users)])}
    found = load_connection(KubeconfigOptions(), environ)
    assert isinstance(found.ca, RereadFile)
    assert found.ca.path == tmp_path / "a/pki/ca.crt"
    assert isinstance(found.credentials.login, TokenFile)
    assert found.credentials.login.path == tmp_path / "b/token"
    pair = found.credentials.certificate
    assert pair is not None
    assert isinstance(pair.certificate, RereadFile)
    assert isinstance(pair.key, RereadFile)
    assert (pair.certificate.path, pair.key.path) == (tmp_path / "b/u.crt", Path("/abs/u.key"))
    plugin = load_connection(KubeconfigOptions(context="y"), environ).credentials.login
    assert isinstance(plugin, ExecPlugin)
    assert plugin.command == str(tmp_path / "b/bin/login")


def test_a_plugin_beside_a_kubeconfig_in_this_folder_is_not_looked_up_in_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "config", kubeconfig(SERVER, exec_user(Path("-"), command="./login")))
    monkeypatch.chdir(tmp_path)
    plugin = load_connection(KubeconfigOptions(Path("config")), {}).credentials.login
    assert isinstance(plugin, ExecPlugin)
    assert plugin.command == str(tmp_path / "login")


def test_a_bare_plugin_name_is_left_to_the_path(tmp_path: Path) -> None:
    plugin = connection(tmp_path, SERVER, exec_user(Path("aws"), args=["eks"])).credentials.login
    assert isinstance(plugin, ExecPlugin)
    assert (plugin.command, plugin.args) == ("aws", ("eks",))


def test_v1beta1_plugins_may_talk_to_the_user_by_default(tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1beta1"
    plugin = connection(tmp_path, SERVER, {"exec": {"command": "aws", "apiVersion": version}}).credentials.login
    assert isinstance(plugin, ExecPlugin)
    assert plugin.interactive_mode == "IfAvailable"


def test_the_clusters_extension_for_plugins_keeps_its_types(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"port": 1, "on": True, "text": "2"}}
    cluster = {**SERVER, "extensions": [{"name": "other", "extension": 1}, extension]}
    plugin = connection(tmp_path, cluster, exec_user(Path("aws"), provideClusterInfo=True)).credentials.login
    assert isinstance(plugin, ExecPlugin)
    assert plugin.cluster_config == {"port": 1, "on": True, "text": "2"}


def test_a_cluster_named_by_a_number_finds_its_extension(tmp_path: Path) -> None:
    path = written(
        tmp_path / "config",
        """
        current-context: x
        contexts: [{name: x, context: {cluster: 0123, user: u}}]
        clusters:
        - null
        - name: 0123
          cluster: {server: https://c, extensions: [{name: client.authentication.k8s.io/exec, extension: {a: 1}}]}
        users:
        - name: u
          user: {exec: {command: a, apiVersion: client.authentication.k8s.io/v1beta1, provideClusterInfo: true}}
        """,
    )
    plugin = load_connection(KubeconfigOptions(path), {}).credentials.login
    assert isinstance(plugin, ExecPlugin)
    assert plugin.cluster_config == {"a": 1}


def test_the_fields_of_a_cluster_are_taken_over(tmp_path: Path) -> None:
    cluster = {
        **SERVER,
        "server": "https://rancher.example/k8s/clusters/c-1/",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "some-future-field": {"is": "ignored"},
    }
    found = connection(tmp_path, cluster)
    assert found.server == "https://rancher.example/k8s/clusters/c-1"
    assert (found.tls_server_name, found.insecure, found.compression) == ("kubernetes", True, False)
    assert (found.proxy_url, found.namespace, found.credentials.login) == ("http://proxy:3128", "default", None)


def test_numbers_and_nulls_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    path = written(
        tmp_path / "config",
        """
        current-context: 012345678901
        preferences: null
        clusters: [{name: 1, cluster: {server: https://c, certificate-authority: null}}]
        contexts: [{name: 012345678901, context: {cluster: 1, user: 2}}]
        users: [{name: 2, user: {username: admin, password: 0123, exec: null, as-groups: null}}]
        """,
    )
    found = load_connection(KubeconfigOptions(path), {})
    assert found.credentials.login == BasicLogin("admin", "0123")


def test_a_token_file_wins_over_a_token_and_both_over_a_plugin(tmp_path: Path) -> None:
    plugin = exec_user(Path("aws"))
    both = connection(tmp_path, SERVER, {**plugin, "token": "t", "tokenFile": "/f"}).credentials.login
    assert isinstance(both, TokenFile)
    assert connection(tmp_path, SERVER, {**plugin, "token": "t"}).credentials.login == BearerToken("t")


def test_flags_win_over_the_file_for_impersonation_field_by_field(tmp_path: Path) -> None:
    user = {"as": "jane", "as-groups": ["dev"], "as-uid": "7", "as-user-extra": {"scopes": ["a", "b"]}}
    assert connection(tmp_path, SERVER, user).impersonation == Impersonation(
        "jane", ("dev",), "7", {"scopes": ("a", "b")}
    )
    flags = Impersonation("joe", ("ops", "qa"))
    merged = connection(tmp_path, SERVER, user, flags).impersonation
    assert merged == Impersonation("joe", ("ops", "qa"), "7", {"scopes": ("a", "b")})


def test_only_the_chosen_context_has_to_be_right(tmp_path: Path) -> None:
    content = kubeconfig(SERVER, {"token": "t"})
    content["users"].append({"name": "old", "user": {"auth-provider": {"name": "gcp"}}})
    content["contexts"].append({"name": "old", "context": {"cluster": "gone", "user": "old"}})
    path = written(tmp_path / "config", content)
    assert load_connection(KubeconfigOptions(path), {}).credentials.login == BearerToken("t")


def test_secrets_are_not_in_the_repr(tmp_path: Path) -> None:
    cluster = {**SERVER, "proxy-url": "http://u:s3cret@proxy:3128"}
    plugin = exec_user(Path("aws"), env=[{"name": "A", "value": "s3cret"}], args=["--password=s3cret"])
    for user in ({"token": "s3cret"}, {"username": "u", "password": "s3cret"}, {"client-key-data": "czNjcmV0"}, plugin):
        if "client-key-data" in user:
            user = {**user, "client-certificate": "/c"}
        assert "s3cret" not in repr(connection(tmp_path, cluster, user))
