"""Which proxy the environment names for a server, by the rules that kubectl follows."""

from pathlib import Path

import pytest
from yarl import URL

from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection, proxy_from_environment
from tests.support.kubeconfigs import kubeconfig, written

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("no_proxy", "server"),
    [
        ("*", "https://api.example.com"),
        ("api.example.com", "https://api.example.com"),
        ("example.com", "https://api.example.com"),
        (".example.com", "https://api.example.com"),
        ("*.example.com", "https://api.example.com"),
        ("EXAMPLE.com, other", "https://API.example.com."),
        ("api.example.com:6443", "https://api.example.com:6443"),
        ("10.0.0.0/8", "https://10.96.0.1"),
        ("10.96.0.1", "https://10.96.0.1:443"),
        ("10.96.0.1:6443", "https://10.96.0.1:6443"),
        ("fd00::/8", "https://[fd00::1]:443"),
        ("fd00::1", "https://[fd00::1]:443"),
        ("[fd00::1]:443", "https://[fd00::1]:443"),
        ("", "https://127.0.0.1:6443"),
        ("", "https://localhost:6443"),
        ("", "https://[::1]:6443"),
    ],
)
def test_no_proxy_keeps_a_server_direct(no_proxy: str, server: str) -> None:
    assert proxy_from_environment(URL(server), {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}) is None


@pytest.mark.parametrize(
    ("no_proxy", "server"),
    [
        ("", "https://api.example.com"),
        (".example.com", "https://example.com"),
        ("example.com", "https://notexample.com"),
        ("api.example.com:443", "https://api.example.com:6443"),
        ("10.0.0.0/8", "https://11.0.0.1"),
        ("10.0.0.0/8", "https://ten.example.com"),
        ("10.0.0.0/nonsense", "https://10.0.0.1"),
        ("10.96.0.1:443", "https://10.96.0.1:6443"),
    ],
)
def test_no_proxy_covers_nothing_else(no_proxy: str, server: str) -> None:
    assert proxy_from_environment(URL(server), {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}) == PROXY


def test_the_variable_is_the_one_of_the_servers_scheme_in_either_case() -> None:
    environ = {"https_proxy": "http://s:1", "HTTP_PROXY": "http://plain:1"}
    assert proxy_from_environment(URL("https://api"), environ) == "http://s:1"
    assert proxy_from_environment(URL("http://api"), environ) == "http://plain:1"
    assert proxy_from_environment(URL("https://api"), {"HTTP_PROXY": PROXY}) is None


def test_a_proxy_without_a_scheme_is_an_http_one() -> None:
    assert proxy_from_environment(URL("https://api"), {"HTTPS_PROXY": "proxy:3128"}) == PROXY


def test_a_socks_proxy_in_the_environment_is_refused_by_the_variables_name() -> None:
    with pytest.raises(KubeconfigError, match=r"^HTTPS_PROXY: socks5:// proxies are not supported; use an http"):
        proxy_from_environment(URL("https://api"), {"HTTPS_PROXY": "socks5://proxy"})


def test_the_kubeconfigs_proxy_wins_over_the_environment(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": PROXY}
    options = KubeconfigOptions(written(tmp_path / "a", kubeconfig({"server": "https://api"})))
    assert load_connection(options, environ).proxy_url == PROXY
    cluster = {"server": "https://api", "proxy-url": "http://own:1"}
    options = KubeconfigOptions(written(tmp_path / "b", kubeconfig(cluster)))
    assert load_connection(options, {**environ, "NO_PROXY": "*"}).proxy_url == "http://own:1"
