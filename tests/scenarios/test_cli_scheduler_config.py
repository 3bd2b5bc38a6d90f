"""`rescheduler scheduler-config`: what it prints, what stays of a given file, whom it trusts, what it refuses."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.admission.certificates import KeyPair, new_authority, new_serving
from rescheduler.app.scheduler_config import make_extender, merge_config
from rescheduler.config.loader import load
from rescheduler.model.labels import MANAGED_BY, MANAGER
from rescheduler.strategies import settings_by_name
from tests.support.cli import Ran, rescheduler, succeeded
from tests.support.embedded import EmbeddedControlPlane
from tests.support.kubeconfigs import kubeconfig, written

NOWHERE = {"KUBECONFIG": "/nowhere/at/all", "KUBERNETES_SERVICE_HOST": None}
URL = "https://10.96.0.12:443"
SERVICE = "kube-rescheduler-webhook.kube-rescheduler.svc"
SEED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: "/path/to/your/kubeconfig"
profiles:
  - schedulerName: rescheduler-scheduler
    pluginConfig:
      - name: Rescheduler
        args: {reschedulingInterval: "30s"}
"""


def printed(*args: str, stdin: str = "") -> Any:
    """What is printed, without a cluster to ask."""
    return yaml.safe_load(succeeded("scheduler-config", *args, stdin=stdin, env=NOWHERE).out)


def extender(document: Any) -> Any:
    (found,) = document["extenders"]
    return found


def refused(*args: str, stdin: str = "", code: int = 2) -> str:
    ran = rescheduler("scheduler-config", *args, stdin=stdin, env=NOWHERE)
    assert (ran.code, ran.out) == (code, ""), ran
    return ran.said


def authority(folder: Path, *, now: float | None = None) -> Path:
    path = folder / "ca.crt"
    path.write_bytes(new_authority("some CA", now or time.time()).certificate)
    return path


@pytest.mark.parametrize("url", [URL, f"{URL}/", f"{URL}/extender", f"{URL}/extender/"])
def test_the_path_is_added_once(url: str) -> None:
    assert extender(printed("--url", url))["urlPrefix"] == f"{URL}/extender"


def test_another_namespace_is_in_the_service_name() -> None:
    found = extender(printed("-n", "elsewhere"))
    assert found["urlPrefix"] == "https://kube-rescheduler-webhook.elsewhere.svc:443/extender"


def test_without_any_ca_nobody_is_trusted_blindly_and_the_operator_is_told() -> None:
    ran = succeeded("scheduler-config", "--url", URL, env=NOWHERE)
    assert not {"enableHTTPS", "tlsConfig"} & extender(yaml.safe_load(ran.out)).keys()
    assert ran.said.startswith("warning: our CA could not be had from a cluster")
    assert "give --ca-file" in ran.said


def test_plain_http_has_no_tls_and_is_warned_of() -> None:
    ran = succeeded("scheduler-config", "--url", "http://10.96.0.12:8080", env=NOWHERE)
    assert not {"enableHTTPS", "tlsConfig"} & extender(yaml.safe_load(ran.out)).keys()
    assert "has no TLS" in ran.said


def test_of_a_file_with_a_ca_only_certificates_are_taken(tmp_path: Path) -> None:
    pair = new_authority("some CA", time.time())
    (tmp_path / "all.pem").write_bytes(b"# ours\n" + pair.key + pair.certificate)
    found = extender(printed("--ca-file", str(tmp_path / "all.pem")))["tlsConfig"]
    assert base64.b64decode(found["caData"]) == pair.certificate


def test_a_ca_that_has_ended_is_warned_of(tmp_path: Path) -> None:
    path = authority(tmp_path, now=1_000_000_000.0)
    ran = succeeded("scheduler-config", "--ca-file", str(path), env=NOWHERE)
    assert "the CA has ended" in ran.said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--url", "10.96.0.12:443"), "not an address such as https://10.96.0.12:443"),
        (("--url", "https://x:99999"), "not an address"),
        (("--url", "https://me:secret@x"), "password"),
        (("--url", "https://x?a=b"), "leave out what follows"),
        (("--weight", "0"), "not in the range"),
        (("--timeout", "0s"), "no time to answer in"),
        (("--scheduler-name", ""), "schedulerName"),
        (("--ca-file", "a", "--insecure-skip-tls-verify"), "give one of them"),
        (("--url", "http://x", "--ca-file", "a"), "is about TLS"),
    ],
)
def test_wrong_flags_are_refused_with_the_cure(flags: tuple[str, ...], said: str) -> None:
    assert said in refused(*flags)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), (b"", "holds no PEM certificate"), (b"-----BEGIN CERTIFICATE-----\nx", "broken")],
)
def test_a_ca_that_is_none_is_refused_by_its_file(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    told = refused("--ca-file", str(path), code=1)
    assert told.startswith(f"error: --ca-file {path}: ")
    assert said in told


def test_a_file_that_is_there_gets_the_extender_and_keeps_the_rest() -> None:
    there = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 8,
        "profiles": [{"schedulerName": "mine", "plugins": {"score": {"disabled": [{"name": "*"}]}}}],
        "extenders": [{"urlPrefix": "https://other.example/", "filterVerb": "f"}],
    }
    once = succeeded("scheduler-config", "--merge", "-", "--url", URL, stdin=json.dumps(there), env=NOWHERE).out
    document = yaml.safe_load(once)
    ours = document["extenders"].pop()
    assert document == there
    assert ours["urlPrefix"] == f"{URL}/extender"
    again = succeeded("scheduler-config", "--merge", "-", "--url", URL, stdin=once, env=NOWHERE).out
    assert again == once


def test_names_add_profiles_to_a_file_and_never_take_the_stock_one_away() -> None:
    bare = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
    assert "profiles" not in printed("--merge", "-", stdin=bare)
    document = printed("--merge", "-", "--scheduler-name", "rescheduler-scheduler", "--leader-elect", stdin=bare)
    assert [each["schedulerName"] for each in document["profiles"]] == ["default-scheduler", "rescheduler-scheduler"]
    assert document["leaderElection"] == {"leaderElect": True}


def test_the_seeds_file_stays_ours_to_read() -> None:
    ran = succeeded("scheduler-config", "--merge", "-", "--url", URL, stdin=SEED, env=NOWHERE)
    assert "plugin" not in ran.said
    assert load(ran.out, "merged", settings_by_name()).fields.rescheduling_interval == 30


def test_a_plugin_that_a_stock_scheduler_lacks_is_warned_of_with_its_place() -> None:
    enabled = SEED.replace(
        "    pluginConfig",
        "    plugins: {multiPoint: {enabled: [{name: Other}, {name: Rescheduler}]}}\n    pluginConfig",
    )
    ran = succeeded("scheduler-config", "--merge", "-", "--url", URL, stdin=enabled, env=NOWHERE)
    place = "<stdin>: profiles[0].plugins.multiPoint.enabled[1]"
    assert f"{place}: a stock kube-scheduler lacks the plugin Rescheduler; take it out" in ran.said


def test_what_looks_like_ours_at_another_address_is_warned_of() -> None:
    once = succeeded("scheduler-config", "--url", "https://old.example", env=NOWHERE).out
    ran = succeeded("scheduler-config", "--url", URL, "--merge", "-", stdin=once, env=NOWHERE)
    assert 'extenders[0]: "https://old.example/extender" looks like ours at another address' in ran.said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "broken YAML"),
        ("kind: Pod\napiVersion: v1", 'kind: "Pod" is not KubeSchedulerConfiguration'),
        (SEED.replace("/v1\n", "/v1beta3\n"), 'apiVersion: "kubescheduler.config.k8s.io/v1beta3" is not'),
        (SEED + "extenders: {}", "extenders: is a mapping, expected a list"),
        (SEED + "---" + SEED, "holds 2 documents"),
    ],
)
def test_a_file_that_is_something_else_is_refused_with_the_place(text: str, said: str) -> None:
    told = refused("--merge", "-", stdin=text)
    assert told.startswith("error: <stdin>: ")
    assert said in told


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
EXTENDERS = st.lists(
    st.fixed_dictionaries({"urlPrefix": st.sampled_from(["https://a/extender", "https://a/extender/", "b"])}),
    max_size=4,
)


@given(rest=st.dictionaries(st.text(max_size=6), VALUES, max_size=4), extenders=EXTENDERS | st.none())
def test_whatever_else_is_in_a_file_stays_and_ours_is_there_once(rest: Any, extenders: Any) -> None:
    document = {"kind": "KubeSchedulerConfiguration", **rest, "extenders": extenders}
    ours = make_extender("https://a/extender", {}, 3, 1.0)
    new = merge_config(document, ours, (), None, leader_elect=None)
    assert {**new, "extenders": None} == {**document, "extenders": None}
    assert [each for each in new["extenders"] if each["urlPrefix"] != "b"] == [ours]
    assert merge_config(new, ours, (), None, leader_elect=None) == new


@pytest.fixture(scope="module")
def cluster() -> Any:
    with EmbeddedControlPlane() as embedded:
        embedded.api.post("/api/v1/namespaces", {"metadata": {"name": "kube-rescheduler"}})
        yield embedded


SECRETS = "/api/v1/namespaces/kube-rescheduler/secrets"


@pytest.fixture
def own(cluster: EmbeddedControlPlane) -> Any:
    """Our Secret, as the webhook keeps it."""
    now = time.time()
    first, old = new_authority("ours", now), new_authority("old", now)
    serving = new_serving(first, [SERVICE, "10.96.0.99"], now)
    keep(cluster, {"ca.crt": first.certificate, "previous-ca.crt": old.certificate, "tls.crt": serving.certificate})
    yield KeyPair(first.certificate + old.certificate, b"")
    cluster.api.delete(f"{SECRETS}/kube-rescheduler-webhook")


def keep(cluster: EmbeddedControlPlane, data: dict[str, bytes]) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    metadata = {"name": "kube-rescheduler-webhook", "labels": {MANAGED_BY: MANAGER}}
    cluster.api.post(SECRETS, {"metadata": metadata, "data": encoded})


def asking(cluster: EmbeddedControlPlane, *args: str) -> Ran:
    flags = ("--kubeconfig", str(cluster.kubeconfig), "--request-timeout", "1m")
    return rescheduler("scheduler-config", *args, *flags)


def test_our_own_ca_is_taken_from_the_cluster(cluster: EmbeddedControlPlane, own: KeyPair) -> None:
    ran = asking(cluster)
    assert (ran.code, ran.said) == (0, "")
    found = extender(yaml.safe_load(ran.out))
    assert found["enableHTTPS"] is True
    assert base64.b64decode(found["tlsConfig"].pop("caData")) == own.certificate
    assert found["tlsConfig"] == {}
    assert "# The CA in caData ends on 20" in ran.out


@pytest.mark.parametrize(
    ("host", "name"), [("10.96.0.99", None), ("10.96.0.12", SERVICE), ("webhook.example", SERVICE)]
)
def test_a_host_that_our_certificate_does_not_name_is_known_by_the_services_name(
    cluster: EmbeddedControlPlane, own: KeyPair, host: str, name: str | None
) -> None:
    ran = asking(cluster, "--url", f"https://{host}:443", "-ojson")
    assert extender(ran.data)["tlsConfig"].get("serverName") == name


def test_without_our_secret_a_cluster_that_was_asked_for_is_an_error(cluster: EmbeddedControlPlane) -> None:
    ran = asking(cluster)
    assert (ran.code, ran.out) == (1, "")
    assert "there is no Secret kube-rescheduler/kube-rescheduler-webhook" in ran.said


def test_a_secret_without_a_certificate_is_an_error_that_names_the_key(cluster: EmbeddedControlPlane) -> None:
    keep(cluster, {"ca.crt": b"nothing"})
    ran = asking(cluster)
    cluster.api.delete(f"{SECRETS}/kube-rescheduler-webhook")
    assert (ran.code, ran.out) == (1, "")
    assert "its key ca.crt holds no PEM certificate" in ran.said


def test_a_cluster_that_is_not_there_is_an_error_where_it_was_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "kubeconfig", kubeconfig({"server": "http://127.0.0.1:9"}, {"token": "t"}))
    ran = rescheduler("scheduler-config", "--kubeconfig", str(path))
    assert (ran.code, ran.out) == (1, "")
    assert "127.0.0.1:9" in ran.said
