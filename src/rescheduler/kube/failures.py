"""What went wrong with a request, as an ApiError: from the server's answer, or from the exception that came instead.

`client.py` calls these; nothing else in the package knows aiohttp's exceptions. Each error says what the user can do:
check the address, the CA, the proxy, log in again, ask for a role.
"""

import ssl
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp
import msgspec

from rescheduler.kube.connection import Connection
from rescheduler.kube.errors import ApiError
from rescheduler.kube.proxy import without_password

# Reasons of errors without an answer.
UNREACHABLE = "Unreachable"  # no connection was made, so nothing was sent
BROKEN_OFF = "BrokenOff"  # the connection was lost before the whole answer was here
TIMED_OUT = "TimedOut"
NOT_TRUSTED = "NotTrusted"  # TLS failed
NOT_KUBERNETES = "NotKubernetes"  # something else answered

# OpenSSL's verification results.
_EXPIRED = 10
_NAME_MISMATCHES = frozenset({62, 64})


class _Status(msgspec.Struct):
    kind: str = ""
    reason: str | None = None
    message: str | None = None


def error_from_answer(
    status: int, body: bytes, headers: Mapping[str, str], path: str, connection: Connection
) -> ApiError:
    """The error for an answer that is not a success (a redirect is none either: credentials are not sent elsewhere)."""
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        said = _Status()  # a proxy or load balancer answered; its text is used below
    reason = said.reason or _phrase(status)
    error = ApiError(status, reason, said.message or _text_of(body) or f"the server answered {_phrase(status)}", path)
    error.retry_after = _seconds(headers.get("Retry-After"))
    if 300 <= status < 400:
        error.message = f"{connection.server} redirects to {headers.get('Location', 'nowhere')}"
        error.cure = f"credentials are not sent on; correct the server of {connection.source}"
    elif status == 401:
        error.message = f"the server does not accept the credentials of {connection.source}"
        error.cure = "log in again, or correct the user's token, certificate or exec plugin"
    elif status == 403:
        error.cure = "ask for an RBAC role that allows it, or use another --context or --as"
    elif status in {429, 503} and error.retry_after is not None:
        error.cure = f"the server is busy; try again in {error.retry_after:g} s"
    return error


def error_from_exception(exception: Exception, path: str, connection: Connection) -> ApiError:
    """The error for a request that got no whole answer."""
    reason, message, cure = _explained(exception, connection)
    error = ApiError(None, reason, message, path)
    error.cure = cure
    return error


def not_kubernetes(path: str, connection: Connection, problem: str) -> ApiError:
    message = f"{connection.server} answered, but not as a Kubernetes API server does: {problem}"
    error = ApiError(None, NOT_KUBERNETES, message, path)
    error.cure = f"check the server of {connection.source}"
    return error


def _explained(exception: Exception, connection: Connection) -> tuple[str, str, str]:
    server, source = connection.server, connection.source
    proxy = without_password(connection.proxy_url) if connection.proxy_url else ""
    via = f" through the proxy {proxy}" if proxy else ""
    match exception:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as refused):
            return _distrust(refused, connection)
        case aiohttp.ClientHttpProxyError():
            problem = f"{exception.status} {exception.message}"
            return UNREACHABLE, f"the proxy {proxy} does not connect to {server}: {problem}", "check proxy-url"
        case aiohttp.ClientProxyConnectionError():
            cure = f"check proxy-url of {source}, or HTTPS_PROXY"
            return UNREACHABLE, f"cannot reach the proxy {proxy}: {_words(exception)}", cure
        case aiohttp.ClientConnectorDNSError():
            cure = f"check the server of {source}, and your network or VPN"
            return UNREACHABLE, f"the host name in {server}{via} is not known: {_words(exception)}", cure
        case ssl.SSLError() | aiohttp.ClientSSLError():
            cure = f"check that the server of {source} is an https port, and the client certificate"
            return NOT_TRUSTED, f"TLS with {server}{via} failed: {_words(exception)}", cure
        case aiohttp.ConnectionTimeoutError():
            cure = f"check the server of {source}, and your network, VPN or firewall"
            return TIMED_OUT, f"no connection to {server}{via} in time", cure
        case TimeoutError():
            return TIMED_OUT, f"{server} did not answer in time", "try again, or give a longer --request-timeout"
        case aiohttp.ClientConnectorError():
            cure = f"check that the cluster is running, and the server of {source}"
            return UNREACHABLE, f"cannot reach {server}{via}: {_words(exception)}", cure
        case aiohttp.ClientResponseError():
            problem = f"{server} answered, but not in HTTP: {exception.message}"
            return NOT_KUBERNETES, problem, f"check the server of {source}"
        case _:
            # In TLS 1.3 a server that refuses our certificate does so by hanging up, after the handshake.
            certificate = connection.credentials.certificate is not None
            cure = "try again" + ("; if it persists, renew the client certificate" if certificate else "")
            return BROKEN_OFF, f"the connection to {server} broke off: {_words(exception)}", cure


def _distrust(refused: ssl.SSLCertVerificationError, connection: Connection) -> tuple[str, str, str]:
    server, problem = connection.server, refused.verify_message
    if refused.verify_code in _NAME_MISMATCHES:
        cure = f"set tls-server-name in {connection.source} to a name that the certificate has"
        return NOT_TRUSTED, f"the certificate of {server} is for another name: {problem}", cure
    if refused.verify_code == _EXPIRED:
        cure = "renew it on the server, and check this computer's clock"
        return NOT_TRUSTED, f"the certificate of {server} has expired", cure
    trusted = connection.ca.where if connection.ca is not None else "the system's CAs"
    cure = "if the cluster was made anew, get its kubeconfig again; else correct certificate-authority"
    return NOT_TRUSTED, f"the certificate of {server} is not signed by {trusted}: {problem}", cure


def _words(exception: Exception) -> str:
    cause = exception.os_error if isinstance(exception, aiohttp.ClientConnectorError) else exception
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.replace("_", " ").lower()
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _text_of(body: bytes) -> str:
    """The words of an answer that is not a Status object; none of a web page's."""
    text = body[:300].decode(errors="replace").strip()
    return "" if text.startswith(("<", "{")) else " ".join(text.split())


def _seconds(retry_after: str | None) -> float | None:
    """Kubernetes gives seconds. A date, which load balancers may give, counts as none: the usual back-off follows."""
    return float(retry_after) if retry_after is not None and retry_after.strip().isdecimal() else None
