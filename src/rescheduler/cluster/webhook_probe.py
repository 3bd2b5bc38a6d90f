"""Does the API server ask our webhook? Only it can tell: it is asked to make a pod, without making it (a dry run).

The pod has a label that the webhook answers with an annotation (`model.marks`). Where the answer is missing, the API
server does not say why, because a failing webhook is ignored: so we look at the configuration, and call the webhook
ourselves in the way that it says. The leader asks, through `admission.registering`.
"""

from __future__ import annotations

import base64
import secrets
import ssl
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from rescheduler.cluster.client import ApiClient, Request
from rescheduler.cluster.errors import ApiError, ClusterError
from rescheduler.cluster.paths import path_of
from rescheduler.cluster.tls import verifying_as_go
from rescheduler.cluster.webhook_registration import PROBE_WEBHOOK, WebhookConfiguration, WebhookSettings
from rescheduler.cluster.writer import FIELD_MANAGER
from rescheduler.model.marks import ANSWER, MANAGED_BY, OURSELVES, PROBE

Json = dict[str, Any]
_REFUSALS = frozenset({400, 403, 404, 409, 422, 500})
_SECONDS = 5.0  # for our own call
_DRY = {"dryRun": "All", "fieldManager": FIELD_MANAGER}


class Probe:
    """Asks one API server; where there are several, another one may answer otherwise for a moment."""

    def __init__(self, client: ApiClient, settings: WebhookSettings) -> None:
        self._client = client
        self._settings = settings
        self._configuration = WebhookConfiguration(client, settings)

    async def ask(self) -> str:
        """Nothing, if it asks our webhook and takes its answer; else why not, for people."""
        nonce = secrets.token_hex(8)
        path = path_of("Pod", self._settings.namespace)
        body = msgspec.json.encode(probe_pod(self._settings.namespace, nonce))
        try:
            answer = await self._client.send(Request("POST", path, _DRY, body, answers=_REFUSALS))
        except ClusterError as error:
            return f"whether the API server asks our webhook cannot be told: {_words(error, self._settings.namespace)}"
        made: Json = msgspec.json.decode(answer, type=Json)
        if (made.get("metadata", {}).get("annotations") or {}).get(ANSWER) == nonce:
            return ""
        return f"the API server gets no answer from our webhook: {await self._reason()}"

    async def _reason(self) -> str:
        try:
            found = await self._configuration.read()
        except ClusterError as error:
            return str(error)
        if found is None:
            return f"{self._configuration} is not there"
        hook = next((each for each in found.get("webhooks") or () if each.get("name") == PROBE_WEBHOOK), None)
        if hook is None:
            return f"{self._configuration} has no webhook {PROBE_WEBHOOK}"
        trouble, where = await _called(hook["clientConfig"])
        if trouble:
            return f"{where}: {trouble}"
        unheard = "the API server has not heard of it yet, or cannot reach it (a firewall or a network policy?)"
        return f"we can call {where} ourselves, but {unheard}"


def probe_pod(namespace: str, nonce: str) -> Json:
    """A pod that every namespace should let in: least rights, least resources."""
    container = {
        "name": "probe",
        "image": "registry.k8s.io/pause:3.10",  # nobody will ever pull it
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    security = {
        "runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "rescheduler-probe",  # always the same, so that a refusal reads the same and is told once
            "namespace": namespace,
            "labels": {PROBE: nonce, MANAGED_BY: OURSELVES},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "securityContext": security,
            "containers": [container],
        },
    }


def _words(error: ClusterError, namespace: str) -> str:
    """The server's words, with a cure that fits this pod."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.status == 404:
        return f"namespace {namespace} is not there; configure the one that we run in ({error.message})"
    if error.status == 403 and "exceeded quota" in error.message:
        return f"the quota of namespace {namespace} has no room for one more pod ({error.message})"
    if error.status == 403 and "cannot create resource" in error.message:
        return f"allow `create pods` in namespace {namespace} ({error.message})"
    if error.status in (403, 422):
        return f"namespace {namespace} does not let the probe's pod in ({error.message})"
    return str(error)


async def _called(client: Json) -> tuple[str, str]:
    """What is wrong with the webhook when it is called as a configuration says, and where that is."""
    if "url" in client:
        address = urlsplit(client["url"])
        where = f"{address.scheme}://{address.netloc}"
    else:
        service = client["service"]
        where = f"https://{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
    try:
        trusted = _trusting(client.get("caBundle") or "")
    except (ssl.SSLError, ValueError) as error:
        return f"the caBundle holds no usable certificate ({error})", where
    limits = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=limits, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(f"{where}/healthz", ssl=trusted, allow_redirects=False) as response,
        ):
            trouble = "" if response.status == 200 else f"it answers {response.status}: is it really ours?"
    except aiohttp.ClientConnectorCertificateError as error:
        return f"its certificate is not trusted by the configuration's caBundle ({error.certificate_error})", where
    except aiohttp.ClientConnectorError as error:  # whose own words hold the address of a Python object
        return f"no connection: {error.os_error.strerror or error.os_error}", where
    except (aiohttp.ClientError, OSError) as error:
        return str(error) or f"no answer in {_SECONDS:g} s", where
    return trouble, where


def _trusting(bundle: str) -> ssl.SSLContext:
    """As the API server trusts: the machine's authorities where the configuration names none."""
    trusted = base64.b64decode(bundle, validate=True).decode("ascii", "ignore") if bundle else None
    return verifying_as_go(ssl.create_default_context(cadata=trusted))
