"""The webhook in the cluster: its MutatingWebhookConfiguration, the Secret with its certificates, and a probe.

The leader maintains it (`admission.registration`). The chart installs it without webhooks, so that the controller needs
no right to create it; with that right, the controller creates it. It is read first and written only if it differs, so
that a quiet cluster sees no writes. Additions by others stay: annotations, other webhooks, and requirements in our
selectors, which some cloud providers add to every webhook (AKS excludes its own namespaces) and add again when they are
removed. A failing webhook never blocks the creation of a pod: its failure policy is Ignore.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.connection import verify_like_go
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, ManagedObject, has_our_label, path_of
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.labels import ANSWER, MANAGED_BY, MANAGER, PROBE, REGISTERED_BY

MUTATE = "/mutate"
PODS_WEBHOOK = "pods.rescheduler.io"
PROBE_WEBHOOK = "probe.rescheduler.io"
_OURS = frozenset({PODS_WEBHOOK, PROBE_WEBHOOK})
_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # a label that the API server sets on every namespace
_SELECTORS = ("namespaceSelector", "objectSelector")
_OUR_LABELS = frozenset({_NAMESPACE_NAME, PROBE})  # requirements on other labels belong to others
_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate and key that are managed elsewhere; without `authority`, the caBundle is, too."""

    certificate: Path
    key: Path
    authority: Path | None = None


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where the webhook is served, and where the API server calls it."""

    name: str = "kube-rescheduler"
    """Of the MutatingWebhookConfiguration."""
    namespace: str = "kube-rescheduler"
    """The controller's namespace: of the Service, the Secret and the probe."""
    service: str = "kube-rescheduler-webhook"
    port: int = 443
    """Of the Service."""
    url: str = ""
    """The address for the API server without a Service, such as https://10.0.0.7:8443; without a path."""
    bind: tuple[str, int] = ("0.0.0.0", 8443)  # noqa: S104 - other machines call it
    files: CertificateFiles | None = None
    """None: the controller makes its own authority, in the Secret."""
    excluded_namespaces: tuple[str, ...] = field(default=())
    timeout: int = 5
    """Seconds that the API server waits for an answer, 1 to 30."""

    @property
    def all_excluded_namespaces(self) -> frozenset[str]:
        """Namespaces whose pods are excluded from the webhook.

        The controller's own namespace is one: its pods must be able to start without it. With a URL, the controller
        does not run in the cluster and has no pods there.
        """
        return frozenset({*self.excluded_namespaces, *(() if self.url else (self.namespace,))})

    @property
    def secret(self) -> str:
        """The name of the Secret with the certificates."""
        return f"{self.name}-webhook"


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A Secret as it was read."""

    data: Mapping[str, bytes]
    version: str
    body: Json


class SecretStore(ManagedObject):
    """The Secret with the webhook's certificates: every replica reads it, the leader writes it."""

    kind = "Secret"
    cure = f"delete it, or label it {MANAGED_BY}={MANAGER} if it may be overwritten"

    async def read(self) -> StoredSecret | None:
        """Return the Secret, or None; ClusterError if it is not ours."""
        body = await self.fetch_ours()
        if body is None:
            return None
        try:
            data = {key: base64.b64decode(value, validate=True) for key, value in (body.get("data") or {}).items()}
        except (binascii.Error, TypeError, ValueError) as error:
            raise self._malformed(error) from error
        return StoredSecret(data, body["metadata"]["resourceVersion"], body)

    async def create(self, data: Mapping[str, bytes]) -> bool:
        """Create the Secret; False if another writer was faster."""
        metadata = {"name": self.name, "namespace": self.namespace, "labels": {MANAGED_BY: MANAGER}}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": _encode(data)}
        return await self._write("POST", body)

    async def replace(self, found: StoredSecret, data: Mapping[str, bytes]) -> bool:
        """Replace the data; False if the Secret is no longer what was found."""
        return await self._write("PUT", found.body | {"data": _encode(data)})


def _encode(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


class WebhookConfiguration(ManagedObject):
    """The configuration on one API server."""

    kind = "MutatingWebhookConfiguration"
    cure = f"delete it, configure another name, or label it {MANAGED_BY}={MANAGER}"

    def __init__(self, client: ApiClient, settings: WebhookSettings) -> None:
        super().__init__(client, "", settings.name)
        self._settings = settings

    def exclude(self, namespaces: tuple[str, ...]) -> None:
        """Exclude pods of these namespaces, besides the controller's own."""
        self._settings = replace(self._settings, excluded_namespaces=namespaces)

    async def read(self) -> Json | None:
        """Return the configuration, or None; ClusterError if it is not ours."""
        return await self.fetch_ours()

    def is_ours(self, body: Json) -> bool:
        """Whether we created or registered it: the chart labels it with its own name."""
        return has_our_label(body) or REGISTERED_BY in annotations_of(body)

    async def keep(self, found: Json | None, bundle: bytes | None) -> bool:
        """Update the configuration that was read, or create it; return whether anything was written.

        Without a bundle, `caBundle` is left as it is.
        """
        wanted = self.wanted(bundle)
        if found is not None:
            if not has_our_label(found):  # made by helm, for example, which sets its own name there
                del wanted["metadata"]["labels"]
            wanted["webhooks"] = [_with_theirs(each, _find_webhook(found, each["name"])) for each in wanted["webhooks"]]
            if _includes(found, wanted):
                return False
        # Forced: edits by others to the two webhooks are overwritten.
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        body, kind = msgspec.json.encode(wanted), "application/apply-patch+yaml"
        try:
            await self._client.send(ApiRequest("PATCH", self._path, params, body, kind))
        except ApiError as error:
            if found is not None or error.status != 403:
                raise
            cure = "install it, by `helm upgrade` or deploy/rbac.yaml, or allow the controller to create it"
            raise ClusterError(
                f"{self} does not exist, and the controller may not create it; {cure} ({error.message})"
            ) from error
        event = "webhook configuration repaired" if has_our_webhook(found) else "webhook configuration filled"
        _log.info(event if found is not None else "webhook configuration created", name=self._settings.name)
        return True

    async def empty(self, found: Json) -> bool:
        """Remove our webhooks from the configuration that was read; return whether there were any.

        The configuration itself stays, because the controller may lack the right to create it again.
        """
        if not has_our_webhook(found):
            return False
        theirs = [each for each in found["webhooks"] if each.get("name") not in _OURS]
        body = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "webhooks": theirs}
        params, kind, gone = {"fieldManager": FIELD_MANAGER}, "application/merge-patch+json", frozenset({404})
        request = ApiRequest("PATCH", self._path, params, msgspec.json.encode(body), kind, gone)
        return await self._client.send_unless(request) is not None

    def is_here(self, found: Json) -> bool:
        """Whether it was registered from this namespace, and not by another controller in the cluster."""
        return annotations_of(found).get(REGISTERED_BY, self._settings.namespace) == self._settings.namespace

    def wanted(self, bundle: bytes | None) -> Json:
        """Return the desired configuration. It has all fields with defaults, so that it can be compared."""
        settings = self._settings
        excluded = {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": sorted(settings.all_excluded_namespaces)}
        rule = {
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            "scope": "Namespaced",
        }  # fmt: skip
        common: Json = {
            "clientConfig": self._client_config(bundle),
            "rules": [rule],
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "reinvocationPolicy": "IfNeeded",
            "matchPolicy": "Equivalent",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": settings.timeout,
        }
        pods = {
            "namespaceSelector": {"matchExpressions": [excluded]} if settings.all_excluded_namespaces else {},
            "objectSelector": _with_probe(exists=False),
        }
        probe = {"namespaceSelector": {}, "objectSelector": _with_probe(exists=True)}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": settings.name,
                "labels": {MANAGED_BY: MANAGER},
                "annotations": {REGISTERED_BY: settings.namespace},
            },
            "webhooks": [{"name": PODS_WEBHOOK} | common | pods, {"name": PROBE_WEBHOOK} | common | probe],
        }

    def _client_config(self, bundle: bytes | None) -> Json:
        settings = self._settings
        trusted = {"caBundle": base64.b64encode(bundle).decode()} if bundle is not None else {}
        if settings.url:
            return {"url": settings.url.rstrip("/") + MUTATE} | trusted
        service = {
            "namespace": settings.namespace, "name": settings.service, "port": settings.port, "path": MUTATE,
        }  # fmt: skip
        return {"service": service} | trusted


def has_our_webhook(found: Json | None) -> bool:
    """Whether the configuration has a webhook of ours."""
    return any(_find_webhook(found or {}, name) for name in _OURS)


def bundle_in(found: Json | None) -> bytes:
    """Return the CA with which the API server verifies the webhook, as PEM; empty if missing or invalid."""
    bundle = (_find_webhook(found or {}, PODS_WEBHOOK).get("clientConfig") or {}).get("caBundle") or ""
    try:
        return base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _with_probe(*, exists: bool) -> Json:
    return {"matchExpressions": [{"key": PROBE, "operator": "Exists" if exists else "DoesNotExist"}]}


def _find_webhook(found: Json, name: str) -> Json:
    """Return the webhook of this name, or an empty object."""
    hooks: dict[str, Json] = {each.get("name", ""): each for each in found.get("webhooks") or ()}
    return hooks.get(name) or {}


def _with_theirs(wanted: Json, found: Json) -> Json:
    """Return the desired webhook with the requirements of others in its selectors, which are written as a whole."""
    return wanted | {key: _merge_selector(wanted[key], found.get(key) or {}) for key in _SELECTORS}


def _merge_selector(ours: Json, found: Json) -> Json:
    """Return the selector that was found if it is up to date; else a merged one, with our requirements first."""
    there = found.get("matchExpressions") or []
    expressions = [*ours.get("matchExpressions", []), *(each for each in there if each.get("key") not in _OUR_LABELS)]
    labels = {key: value for key, value in (found.get("matchLabels") or {}).items() if key not in _OUR_LABELS}
    if _sort_expressions(there) == _sort_expressions(expressions) and labels == (found.get("matchLabels") or {}):
        return found
    return ({"matchExpressions": expressions} if expressions else {}) | ({"matchLabels": labels} if labels else {})


def _sort_expressions(expressions: list[Json]) -> list[bytes]:
    return sorted(msgspec.json.encode(each, order="sorted") for each in expressions)


def _includes(found: object, wanted: object) -> bool:
    """Whether `found` has everything wanted. Maps, except selectors, and lists of named objects may have more."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or any(found.get(key) != wanted[key] for key in wanted.keys() & {*_SELECTORS}):
            return False
        return all(_includes(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        if all(isinstance(each, dict) and "name" in each for each in wanted):
            named = {each.get("name"): each for each in found if isinstance(each, dict)}
            return all(_includes(named.get(each["name"]), each) for each in wanted)
        return len(found) == len(wanted) and all(map(_includes, found, wanted))
    return found == wanted


_REFUSALS = frozenset({400, 403, 404, 409, 422, 500})
_SECONDS = 5.0  # for the direct call
_DRY = {"dryRun": "All", "fieldManager": FIELD_MANAGER}


class WebhookProbe:
    """Tests on one API server whether it calls the webhook. Another server may lag behind for a moment."""

    def __init__(self, client: ApiClient, settings: WebhookSettings) -> None:
        self._client = client
        self._settings = settings
        self._configuration = WebhookConfiguration(client, settings)

    async def ask(self) -> str:
        """Return nothing if the API server calls the webhook and uses its answer; else the reason, for people."""
        nonce = secrets.token_hex(8)
        path = path_of("Pod", self._settings.namespace)
        body = msgspec.json.encode(probe_pod(self._settings.namespace, nonce))
        try:
            answer = await self._client.send(ApiRequest("POST", path, _DRY, body, answers=_REFUSALS))
        except ClusterError as error:
            return f"cannot tell whether the API server calls the webhook: {_explain(error, self._settings.namespace)}"
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
            return f"{self._configuration} does not exist"
        hook = next((each for each in found.get("webhooks") or () if each.get("name") == PROBE_WEBHOOK), None)
        if hook is None:
            return f"{self._configuration} has no webhook {PROBE_WEBHOOK}"
        trouble, where = await _call(hook["clientConfig"])
        if trouble:
            return f"{where}: {trouble}"
        reason = (
            "the API server has not seen the configuration yet, or cannot reach it (a firewall or a network policy?)"
        )
        return f"this replica can call {where}, but {reason}"


def probe_pod(namespace: str, nonce: str) -> Json:
    """Return a pod that every namespace should admit: least rights, least resources."""
    container = {
        "name": "probe",
        "image": "registry.k8s.io/pause:3.10",  # never pulled
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
            "name": "rescheduler-probe",  # constant, so that a refusal is reported once
            "namespace": namespace,
            "labels": {PROBE: nonce, MANAGED_BY: MANAGER},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "securityContext": security,
            "containers": [container],
        },
    }


def _explain(error: ClusterError, namespace: str) -> str:
    """Return the server's message, with a cure that fits the probe."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.status == 404:
        return f"namespace {namespace} does not exist; configure the namespace of the controller ({error.message})"
    if error.status == 403 and "exceeded quota" in error.message:
        return f"the quota of namespace {namespace} has no room for one more pod ({error.message})"
    if error.status == 403 and "cannot create resource" in error.message:
        return f"allow `create pods` in namespace {namespace} ({error.message})"
    if error.status in (403, 422):
        return f"namespace {namespace} does not admit the probe's pod ({error.message})"
    return str(error)


async def _call(client: Json) -> tuple[str, str]:
    """Call the webhook as the configuration says; return what is wrong, and the address."""
    if "url" in client:
        address = urlsplit(client["url"])
        where = f"{address.scheme}://{address.netloc}"
    else:
        service = client["service"]
        where = f"https://{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
    try:
        trusted = _tls_context(client.get("caBundle") or "")
    except (ssl.SSLError, ValueError) as error:
        return f"the caBundle holds no usable certificate ({error})", where
    limits = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=limits, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(f"{where}/healthz", ssl=trusted, allow_redirects=False) as response,
        ):
            trouble = "" if response.status == 200 else f"it answers {response.status}: is it really the webhook?"
    except aiohttp.ClientConnectorCertificateError as error:
        return f"its certificate is not trusted by the configuration's caBundle ({error.certificate_error})", where
    except aiohttp.ClientConnectorError as error:  # its text has the address of a Python object
        return f"no connection: {error.os_error.strerror or error.os_error}", where
    except (aiohttp.ClientError, OSError) as error:
        return str(error) or f"no answer in {_SECONDS:g} s", where
    return trouble, where


def _tls_context(bundle: str) -> ssl.SSLContext:
    """Return a context that verifies as the API server does: without a caBundle, by the system's CAs."""
    trusted = base64.b64decode(bundle, validate=True).decode("ascii", "ignore") if bundle else None
    return verify_like_go(ssl.create_default_context(cadata=trusted))
