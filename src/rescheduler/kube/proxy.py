"""Which proxy leads to a server, by the rules that kubectl (Go's `httpproxy`) follows.

`kubeconfig.py` decides this when it builds a Connection, so that the client never reads the environment. aiohttp's own
`trust_env` is not used: it does not support CIDRs in NO_PROXY, and clusters use `NO_PROXY=10.0.0.0/8`.
"""

import ipaddress
from collections.abc import Mapping

from yarl import URL

from rescheduler.kube.errors import KubeconfigError


def check_proxy(url: str, where: str) -> str:
    """Return the proxy's URL; the error has `where` it was set."""
    try:
        proxy = URL(url)
        port = proxy.port
    except ValueError as error:
        raise KubeconfigError(f"{where}: is not a URL: {error}") from error
    if proxy.scheme not in {"http", "https"}:
        # The URL may hold a password, so only its scheme is shown.
        shown = f"{proxy.scheme}:// proxies are" if proxy.scheme else "a proxy without a scheme is"
        raise KubeconfigError(f"{where}: {shown} not supported; use an http:// or https:// proxy")
    if not proxy.host or port is None:
        raise KubeconfigError(f"{where}: has no host; write it as http://host:port")
    return url


def proxy_from_environment(server: URL, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for a server by HTTPS_PROXY (HTTP_PROXY for an http server) and NO_PROXY, if any."""
    name = f"{server.scheme}_proxy"
    variable = next((key for key in (name.upper(), name) if environ.get(key)), None)
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if variable is None or _is_direct(server, no_proxy):
        return None
    url = environ[variable]
    return check_proxy(url if "://" in url else f"http://{url}", variable)


def _is_direct(server: URL, no_proxy: str) -> bool:
    host = (server.host or "").lower().rstrip(".")
    address = _address(host)
    # A proxy for the outside world never applies to the machine itself.
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_covers(entry, host, server.port) for entry in entries if entry)


def _covers(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False  # Go ignores an invalid entry too
    if _address(entry.strip("[]")) is None:
        name, colon, entry_port = entry.rpartition(":")
        if colon and entry_port.isdigit():
            if int(entry_port) != port:
                return False
            entry = name
    entry = entry.strip("[]")
    if address is not None:
        return address == _address(entry)
    domain = entry.removeprefix("*")
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
