"""Every mistake in a kubeconfig is reported with the file, the path in it, and what to write instead."""

from pathlib import Path
from typing import Any

import pytest

from rescheduler.kube.connection import Impersonation
from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from tests.support.kubeconfigs import exec_user, kubeconfig, written

SERVER: dict[str, Any] = {"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": True}


def refusal(home: Path, content: dict[str, Any] | str | None = None, options: KubeconfigOptions | None = None) -> str:
    """The error for `~/.kube/config` with this content."""
    if content is not None:
        written(home / ".kube/config", content)
    with pytest.raises(KubeconfigError) as raised:
        load_connection(options or KubeconfigOptions(), {"HOME": str(home)}, home)
    return str(raised.value)


def refused_user(home: Path, user: dict[str, Any]) -> str:
    return refusal(home, kubeconfig(SERVER, user))


def refused_cluster(home: Path, cluster: dict[str, Any]) -> str:
    return refusal(home, kubeconfig(cluster))


def test_an_unknown_context_lists_the_known_ones_and_the_nearest(tmp_path: Path) -> None:
    content = kubeconfig(SERVER)
    content["contexts"].append({"name": "production", "context": {"cluster": "dev"}})
    options = KubeconfigOptions(context="prodution")
    assert refusal(tmp_path, content, options) == (
        "~/.kube/config: --context: there is no context prodution; did you mean production? Known: dev, production"
    )
    content["current-context"] = "zzz"
    expected = "~/.kube/config: current-context: there is no context zzz. Known: dev, production"
    assert refusal(tmp_path, content) == expected


def test_no_current_context_asks_for_the_flag(tmp_path: Path) -> None:
    content = {**kubeconfig(SERVER), "current-context": ""}
    expected = "~/.kube/config: current-context: is not set; give --context. Known: dev"
    assert refusal(tmp_path, content) == expected


def test_a_context_without_its_cluster_or_user_names_the_path(tmp_path: Path) -> None:
    content = kubeconfig(SERVER, context={"cluster": "devv"})
    expected = "~/.kube/config: contexts[dev].context.cluster: there is no cluster devv; did you mean dev? Known: dev"
    assert refusal(tmp_path, content) == expected
    content = kubeconfig(SERVER, context={"user": "nobody"})
    assert refusal(tmp_path, content) == (
        "~/.kube/config: contexts[dev].context.user: there is no user nobody. Known: dev"
    )
    content = kubeconfig(SERVER, context={"cluster": ""})
    assert refusal(tmp_path, content) == "~/.kube/config: contexts[dev].context.cluster: is not set. Known: dev"


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    said = refusal(tmp_path, "apiVersion: v1\nclusters:\n- name: [\n")
    assert said.startswith("~/.kube/config: line 4: not valid YAML: ")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"a: \xff\xfe")
    said = refusal(tmp_path, None, KubeconfigOptions(path))
    assert said.startswith("~/config: not valid YAML: ")


def test_another_document_is_no_kubeconfig(tmp_path: Path) -> None:
    assert refusal(tmp_path, "kind: Deployment") == (
        "~/.kube/config: kind: Deployment is not a kubeconfig; its kind is Config"
    )
    assert "is not a kubeconfig: expected a mapping" in refusal(tmp_path, "just text")


def test_a_wrong_type_names_the_entry_and_the_field(tmp_path: Path) -> None:
    said = refused_user(tmp_path, {"token": ["a"]})
    assert said == "~/.kube/config: users[dev].user.token: expected `str`, got `array`"
    said = refused_cluster(tmp_path, {**SERVER, "insecure-skip-tls-verify": "maybe"})
    assert said == "~/.kube/config: clusters[dev].cluster.insecure-skip-tls-verify: expected `bool`, got `str`"
    said = refusal(tmp_path, "users: [{user: {}}]")
    assert said == "~/.kube/config: users[0]: object missing required field `name`"
    said = refused_user(tmp_path, exec_user(Path("aws"), env=[{"value": "x"}]))
    assert said == "~/.kube/config: users[dev].user.exec.env[0]: object missing required field `name`"


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    content = kubeconfig(SERVER)
    content["users"] *= 2
    assert refusal(tmp_path, content) == ("~/.kube/config: users: the name dev occurs twice; remove or rename one")


def test_the_file_of_the_flag_must_exist(tmp_path: Path) -> None:
    options = KubeconfigOptions(tmp_path / "nowhere")
    assert refusal(tmp_path, None, options) == "~/nowhere: cannot be read: No such file or directory"


def test_data_must_be_base64(tmp_path: Path) -> None:
    said = refused_cluster(tmp_path, {"server": "https://c", "certificate-authority-data": "not base64!"})
    assert said.startswith("~/.kube/config: clusters[dev].cluster.certificate-authority-data: is not valid base64: ")
    said = refused_user(tmp_path, {"client-certificate": "/c", "client-key-data": "A"})
    assert said.startswith("~/.kube/config: users[dev].user.client-key-data: is not valid base64: ")


@pytest.mark.parametrize("server", ["", "10.0.0.1:6443", "ftp://x", "https://", "https://x:port"])
def test_a_server_must_be_an_http_url(tmp_path: Path, server: str) -> None:
    said = refused_cluster(tmp_path, {"server": server})
    assert said.startswith("~/.kube/config: clusters[dev].cluster.server: ")


def test_a_socks_proxy_is_refused_with_the_cure(tmp_path: Path) -> None:
    said = refused_cluster(tmp_path, {**SERVER, "proxy-url": "socks5://me:pw@localhost:1080"})
    assert said == (
        "~/.kube/config: clusters[dev].cluster.proxy-url: socks5:// proxies are not supported; "
        "use an http:// or https:// proxy"
    )


def test_a_ca_beside_skipped_verification_is_refused(tmp_path: Path) -> None:
    said = refused_cluster(tmp_path, {**SERVER, "certificate-authority": "/ca"})
    assert "clusters[dev].cluster.certificate-authority: has no effect beside insecure-skip-tls-verify" in said


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    said = refused_user(tmp_path, {"client-certificate": "/c"})
    assert said == "~/.kube/config: users[dev].user.client-key: is not set, but a client certificate is; set both"


def test_a_token_beside_a_password_is_refused(tmp_path: Path) -> None:
    said = refused_user(tmp_path, {"username": "u", "password": "p", "token": "t"})
    assert said == "~/.kube/config: users[dev].user.username: there is a token as well; remove one of the two"


def test_a_token_that_cannot_be_a_header_is_refused(tmp_path: Path) -> None:
    assert "users[dev].user.token: holds characters" in refused_user(tmp_path, {"token": "a\nb"})


def test_legacy_auth_providers_are_refused_with_the_cure(tmp_path: Path) -> None:
    said = refused_user(tmp_path, {"auth-provider": {"name": "gcp", "config": {}}})
    assert said.startswith("~/.kube/config: users[dev].user.auth-provider: the gcp provider is not supported")
    assert "gke-gcloud-auth-plugin" in said


def test_an_exec_plugin_must_be_complete_and_of_a_known_version(tmp_path: Path) -> None:
    plugin = exec_user(Path("aws"))["exec"]
    alpha = "client.authentication.k8s.io/v1alpha1"
    assert refused_user(tmp_path, {"exec": {**plugin, "apiVersion": alpha}}) == (
        f"~/.kube/config: users[dev].user.exec.apiVersion: {alpha} is not supported; use v1 or v1beta1"
    )
    assert "users[dev].user.exec.command: is not set" in refused_user(tmp_path, {"exec": {**plugin, "command": ""}})
    assert refused_user(tmp_path, {"exec": {**plugin, "interactiveMode": "Sometimes"}}) == (
        "~/.kube/config: users[dev].user.exec.interactiveMode: Sometimes is not allowed; use Never, IfAvailable, Always"
    )
    without_mode = {key: value for key, value in plugin.items() if key != "interactiveMode"}
    assert "exec.interactiveMode: nothing is not allowed" in refused_user(tmp_path, {"exec": without_mode})


def test_groups_without_a_user_to_act_as_are_refused(tmp_path: Path) -> None:
    assert "users[dev].user.as: is not set, but groups" in refused_user(tmp_path, {"as-groups": ["dev"]})
    options = KubeconfigOptions(impersonation=Impersonation(groups=("dev",)))
    assert "users[dev].user.as: is not set" in refusal(tmp_path, kubeconfig(SERVER), options)


def test_a_name_to_act_as_must_fit_in_a_header(tmp_path: Path) -> None:
    assert "users[dev].user.as: holds characters that cannot be sent" in refused_user(tmp_path, {"as": "a\nb"})
