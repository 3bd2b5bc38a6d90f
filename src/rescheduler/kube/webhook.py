"""Tells the API server to ask our webhook: one MutatingWebhookConfiguration, kept as it should be, emptied, taken away.

The leader keeps it (`admission.registering`). The chart installs it without webhooks, so that the controller needs no
right to create any; who has that right makes it where it is not there. It is looked at first and applied only if it
differs, so that a quiet cluster sees no writes. What others add to it stays: annotations, webhooks of other names, and
requirements in our selectors, which some providers of clusters add to every webhook (AKS: not the namespaces of its
own), and add again whenever they are taken out. A failing webhook never keeps a pod from being made: the API server
ignores it.
"""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.connection import verify_like_go
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.model.json import Json
from rescheduler.model.labels import ANSWER, MANAGED_BY, MANAGER, PROBE, REGISTERED_BY

MUTATE = "/mutate"
PODS_WEBHOOK = "pods.rescheduler.io"
PROBE_WEBHOOK = "probe.rescheduler.io"
_OURS = frozenset({PODS_WEBHOOK, PROBE_WEBHOOK})
_ALL = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # a label that the API server puts on every namespace
_SELECTORS = ("namespaceSelector", "objectSelector")
_OUR_LABELS = frozenset({_NAMESPACE_NAME, PROBE})  # what selectors require of these is ours to say; all else is not
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A pair that somebody else keeps; without `authority`, others also put the caBundle into the configuration."""

    certificate: Path
    key: Path
    authority: Path | None = None


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where the webhook is, for us who serve it and for the API server that asks it."""

    name: str = "kube-rescheduler"
    """Of the MutatingWebhookConfiguration."""
    namespace: str = "kube-rescheduler"
    """Ours: of the Service, the Secret and the probe."""
    service: str = "kube-rescheduler-webhook"
    port: int = 443
    """Of the Service."""
    url: str = ""
    """How the API server reaches us without a Service, such as https://10.0.0.7:8443; without a path."""
    bind: tuple[str, int] = ("0.0.0.0", 8443)  # noqa: S104 - it is there to be called from other machines
    files: CertificateFiles | None = None
    """None: an authority of our own, in the Secret."""
    excluded_namespaces: tuple[str, ...] = field(default=())
    timeout: int = 5
    """Seconds that the API server waits for our answer, 1 to 30."""

    @property
    def unasked(self) -> frozenset[str]:
        """Namespaces whose pods we are not asked about.

        Among them is our own, where our pods are: whether we can be started must not depend on us. Whoever is reached
        by a URL does not run in the cluster, and has no pods there.
        """
        return frozenset({*self.excluded_namespaces, *(() if self.url else (self.namespace,))})

    @property
    def secret(self) -> str:
        """The name of the Secret with our certificates."""
        return f"{self.name}-webhook"


class WebhookConfiguration:
    """The configuration on one API server; as text, it is its name."""

    def __init__(self, client: ApiClient, settings: WebhookSettings) -> None:
        self._client = client
        self._settings = settings
        self._path = f"{_ALL}/{quote(settings.name, safe='')}"

    def __str__(self) -> str:
        return f"MutatingWebhookConfiguration {self._settings.name}"

    def exclude(self, namespaces: tuple[str, ...]) -> None:
        """Want not to be asked about pods of these namespaces, besides our own."""
        self._settings = replace(self._settings, excluded_namespaces=namespaces)

    async def read(self) -> Json | None:
        """What is there; a ClusterError if it is not ours."""
        answer = await self._client.find(self._path)
        if answer is None:
            return None
        try:
            found: Json = msgspec.json.decode(answer, type=Json)
            marked = _is_made_by_us(found) or REGISTERED_BY in _notes(found)
        except (msgspec.MsgspecError, KeyError, AttributeError) as error:
            raise ApiError(None, NOT_KUBERNETES, f"{self} does not decode: {error}", self._path) from error
        if not marked:
            cure = f"delete it, configure another name, or label it {MANAGED_BY}={MANAGER}"
            raise ClusterError(f"{self} is not ours, and is left alone; {cure}")
        return found

    async def keep(self, found: Json | None, bundle: bytes | None) -> bool:
        """Make it what it should be, from what was read; whether anything had to be done.

        Without a bundle, `caBundle` is left to whoever puts it there.
        """
        wanted = self.wanted(bundle)
        if found is not None:
            if not _is_made_by_us(found):  # but by helm, say, which wants its own name there
                del wanted["metadata"]["labels"]
            wanted["webhooks"] = [_with_theirs(each, _named(found, each["name"])) for each in wanted["webhooks"]]
            if _contains(found, wanted):
                return False
        # By force: our two webhooks are ours, whoever has edited them.
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        body, kind = msgspec.json.encode(wanted), "application/apply-patch+yaml"
        try:
            await self._client.send(ApiRequest("PATCH", self._path, params, body, kind))
        except ApiError as error:
            if found is not None or error.status != 403:
                raise
            cure = "install it, by `helm upgrade` or deploy/rbac.yaml, or allow us to create it"
            raise ClusterError(f"{self} is not there, and we may not make it; {cure} ({error.message})") from error
        if found is None:
            _log.info("%s was made", self)
        else:
            _log.info("%s was %s", self, "not as it should be, and is put right" if asks_us(found) else "empty: filled")
        return True

    async def empty(self, found: Json) -> bool:
        """Take our webhooks out of what was read, so that nobody asks us; whether there were any.

        It stays itself: who may not make one could not have it again.
        """
        if not asks_us(found):
            return False
        theirs = [each for each in found["webhooks"] if each.get("name") not in _OURS]
        body = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "webhooks": theirs}
        params, kind = {"fieldManager": FIELD_MANAGER}, "application/merge-patch+json"
        gone = frozenset({404})
        try:
            await self._client.send(ApiRequest("PATCH", self._path, params, msgspec.json.encode(body), kind, gone))
        except ApiError as error:
            if error.status not in gone:
                raise
            return False
        return True

    async def remove(self) -> bool:
        """Delete it, if it is there and ours; whether it was."""
        found = await self.read()
        if found is None:
            return False
        options = {"preconditions": {"uid": found["metadata"]["uid"]}}
        gone = frozenset({404, 409})
        try:
            await self._client.send(ApiRequest("DELETE", self._path, {}, msgspec.json.encode(options), answers=gone))
        except ApiError as error:
            if error.status not in gone:
                raise
            return False
        return True

    def is_here(self, found: Json) -> bool:
        """Whether it was registered from our namespace, and not by a controller of ours elsewhere in the cluster."""
        return bool(_notes(found).get(REGISTERED_BY, self._settings.namespace) == self._settings.namespace)

    def wanted(self, bundle: bytes | None) -> Json:
        """As it should be; every field that has a default is said, so that it can be compared."""
        settings = self._settings
        unasked = {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": sorted(settings.unasked)}
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
            "namespaceSelector": {"matchExpressions": [unasked]} if settings.unasked else {},
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


def asks_us(found: Json | None) -> bool:
    """Whether a webhook of ours is in it."""
    return any(_named(found or {}, name) for name in _OURS)


def bundle_in(found: Json | None) -> bytes:
    """Whom the API server trusts when it asks us, as PEM; empty if nobody, or if that makes no sense."""
    told = (_named(found or {}, PODS_WEBHOOK).get("clientConfig") or {}).get("caBundle") or ""
    try:
        return base64.b64decode(told, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _is_made_by_us(found: Json) -> bool:
    return bool((found["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER)


def _notes(found: Json) -> Json:
    return found["metadata"].get("annotations") or {}


def _with_probe(*, exists: bool) -> Json:
    return {"matchExpressions": [{"key": PROBE, "operator": "Exists" if exists else "DoesNotExist"}]}


def _named(found: Json, name: str) -> Json:
    """The webhook of this name, empty if there is none."""
    hooks: dict[str, Json] = {each.get("name", ""): each for each in found.get("webhooks") or ()}
    return hooks.get(name) or {}


def _with_theirs(wanted: Json, found: Json) -> Json:
    """One webhook as we want it, with what others require in its selectors. A selector is written as a whole."""
    return wanted | {key: _merged(wanted[key], found.get(key) or {}) for key in _SELECTORS}


def _merged(ours: Json, found: Json) -> Json:
    """What is found, if all of ours is in it and nothing that was ours once; else both, ours first."""
    there = found.get("matchExpressions") or []
    expressions = [*ours.get("matchExpressions", []), *(each for each in there if each.get("key") not in _OUR_LABELS)]
    labels = {key: value for key, value in (found.get("matchLabels") or {}).items() if key not in _OUR_LABELS}
    if _in_order(there) == _in_order(expressions) and labels == (found.get("matchLabels") or {}):
        return found
    return ({"matchExpressions": expressions} if expressions else {}) | ({"matchLabels": labels} if labels else {})


def _in_order(expressions: list[Json]) -> list[bytes]:
    return sorted(msgspec.json.encode(each, order="sorted") for each in expressions)


def _contains(found: object, wanted: object) -> bool:
    """Whether all that is wanted is there. Maps may hold more, but for selectors; so may lists of things with names."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or any(found.get(key) != wanted[key] for key in wanted.keys() & {*_SELECTORS}):
            return False
        return all(_contains(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        if all(isinstance(each, dict) and "name" in each for each in wanted):
            named = {each.get("name"): each for each in found if isinstance(each, dict)}
            return all(_contains(named.get(each["name"]), each) for each in wanted)
        return len(found) == len(wanted) and all(map(_contains, found, wanted))
    return found == wanted


_REFUSALS = frozenset({400, 403, 404, 409, 422, 500})
_SECONDS = 5.0  # for our own call
_DRY = {"dryRun": "All", "fieldManager": FIELD_MANAGER}


class WebhookProbe:
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
            answer = await self._client.send(ApiRequest("POST", path, _DRY, body, answers=_REFUSALS))
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
            "labels": {PROBE: nonce, MANAGED_BY: MANAGER},
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
    return verify_like_go(ssl.create_default_context(cadata=trusted))
