"""The configuration file: every section and field beyond planning's, the top level, and the checked Configuration.

The fields that planning reads are in `model.policy`, those of recovery in `recovery.settings`; here are those of the
controller and its servers. A new field is one line in one of the three, and the code that uses it.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Annotated
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le

from rescheduler.migration.settings import MigrationSettings
from rescheduler.model.fields import (
    Check,
    FieldError,
    ObjectName,
    OptionalNamespace,
    Period,
    Section,
    ShortPeriod,
    WholePeriod,
    check_text,
    quote,
    setting,
)
from rescheduler.model.policy import Policy
from rescheduler.model.time import format_duration
from rescheduler.planning.settings import StrategySettings
from rescheduler.recovery.settings import RecoverySettings

NATIVE_KIND = "ReschedulerConfiguration"
NATIVE_VERSION = "rescheduler.io/v1alpha1"


class SteeringMode(StrEnum):
    """How the webhook leads a replacement to its target."""

    PREFER = "prefer"
    NOMINATE = "nominate"


class UsageSource(StrEnum):
    """The API that measured usage is read from."""

    METRICS_API = "metrics.k8s.io"
    PROMETHEUS = "prometheus"


_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


def _check_https_url(text: str) -> str:
    if not text:
        return text
    try:
        parts = urlsplit(text)
        fine = (
            parts.scheme == "https" and bool(parts.hostname) and not (parts.query or parts.fragment or parts.username)
        )
        fine = fine and (parts.port is None or parts.port > 0) and parts.path in ("", "/")
        fine = fine and _is_host(parts.hostname or "")
    except ValueError:
        fine = False
    if not fine:
        raise ValueError(f"{quote(text)} is not an address such as https://10.0.0.7:9443")
    return text.rstrip("/")


HttpsUrl = Annotated[str, check_text(_check_https_url, "https address")]
Port = Annotated[int, Ge(1), Le(65535)]
OptionalPort = Annotated[int, Ge(0), Le(65535)]


def _check_key_pair(certificate_file: str, key_file: str) -> None:
    if bool(certificate_file) != bool(key_file):
        missing = "keyFile" if certificate_file else "certificateFile"
        raise FieldError(missing, "is needed too: a certificate and its key belong together")


@dataclass(frozen=True)
class CertificateFields(Section):
    """A certificate for the webhook, instead of a generated one. The files may be renewed at any time."""

    certificate_file: str = setting("", "The certificate and what it is signed by, as PEM.")
    key_file: str = setting("", "Its private key, as PEM.")
    ca_file: str = setting(
        "",
        "The CA that API servers trust, as PEM. Empty leaves `caBundle` as it is, to be filled in by "
        "cert-manager, for example.",
    )

    def __post_init__(self) -> None:
        _check_key_pair(self.certificate_file, self.key_file)
        if self.ca_file and not self.certificate_file:
            raise FieldError("caFile", "cannot be given without certificateFile and keyFile")


@dataclass(frozen=True)
class WebhookFields(Section):
    """The admission webhook: it steers replacements to their targets, and away from nodes where such pods failed.

    Every replica serves it, and the leader registers it. While it is down, pods are created without steering.
    """

    enabled: bool = setting(False, "Serve the webhook and register it with the API server.")
    name: ObjectName = setting(
        "kube-rescheduler",
        "Name of the MutatingWebhookConfiguration; the generated CA and certificate are in the Secret "
        "of this name with the suffix `-webhook`, in the namespace of the Lease.",
    )
    bind_address: str = setting("0.0.0.0", "Address to listen on.")  # noqa: S104 - pods are called
    port: Port = setting(9443, "Port to listen on, with TLS.")
    service_name: ObjectName = setting(
        "kube-rescheduler-webhook", "The Service through which API servers reach it, in the namespace of the Lease."
    )
    service_port: Port = setting(443, "Port of the Service.")
    url: HttpsUrl = setting(
        "",
        "Where API servers reach it without a Service, such as `https://10.0.0.7:9443`; empty means the Service.",
    )
    timeout: WholePeriod = setting(2.0, "How long an API server waits for an answer, at most 30s, in whole seconds.")
    steering: SteeringMode = setting(
        SteeringMode.PREFER,
        "`prefer` gives a replacement a node affinity for its target. `nominate` is exact: the replacement is "
        "gated for a moment, while room is reserved for it on its target.",
    )
    certificates: CertificateFields = setting(CertificateFields(), "Certificates from elsewhere; see below.")

    def __post_init__(self) -> None:
        if self.timeout > 30:
            raise FieldError("timeout", f"{int(self.timeout)}s is not at most 30s")


@dataclass(frozen=True)
class ExtenderFields(Section):
    """The scheduler extender for a stock kube-scheduler; `rescheduler scheduler-config` prints its configuration."""

    enabled: bool = setting(
        False,
        "Serve `/extender/filter` and `/extender/prioritize` on the webhook's port, with TLS.",
    )
    insecure_port: OptionalPort = setting(0, "Also serve them without TLS on this port; 0 does not.")


@dataclass(frozen=True)
class WebFields(Section):
    """The page, metrics and health, without TLS: `/`, `/metrics`, `/livez`, `/readyz`. Every replica serves them."""

    bind_address: str = setting("0.0.0.0", "Address to listen on.")  # noqa: S104 - pods are scraped
    port: OptionalPort = setting(0, "Port to listen on; 0 serves nothing.")
    page: bool = setting(True, "Serve the page, not only metrics and health.")


_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - looked for, and not listened on


def check_listeners(web: WebFields, webhook: WebhookFields, extender: ExtenderFields) -> None:
    """Raise FieldError if two of our servers would listen in the same place."""
    secure = webhook.enabled or (extender.enabled and webhook.certificates.certificate_file)
    listeners = (
        ("web.port", web.bind_address, web.port),
        ("webhook.port", webhook.bind_address, webhook.port if secure else 0),
        ("extender.insecurePort", webhook.bind_address, extender.insecure_port if extender.enabled else 0),
    )
    for (first, here, taken), (second, there, port) in combinations(listeners, 2):
        if port and port == taken and (here == there or here in _EVERYWHERE or there in _EVERYWHERE):
            raise FieldError(second, f"{port} is {first} as well: give one of them another port")


_EXAMPLE = "http://prometheus.monitoring:9090"


def _check_http_url(text: str) -> str:
    if not text:
        return text
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        secret = parts.username is not None or parts.password is not None
        more = bool(parts.query or parts.fragment) or any(each.isspace() for each in text)
    except ValueError:
        fine, secret, more = False, False, False
    if secret:  # without the text: it may hold a password
        raise ValueError("has a user or a password in it: leave them out, and give bearerTokenFile or certificateFile")
    if not fine or more:
        raise ValueError(f"{quote(text)} is not an address such as {_EXAMPLE}, without a query")
    return text.rstrip("/")


HttpUrl = Annotated[str, check_text(_check_http_url, "http or https address")]


def _check_query(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty: give a query in PromQL, or leave the field out for the ready one")
    return text


Query = Annotated[str, Check(_check_query, after=True)]


@dataclass(frozen=True)
class PrometheusQueries(Section):
    """Queries for Prometheus. The label `node` names a node, or else `instance` (without its port).

    The labels `namespace` and `pod` name a pod. CPU is in cores, memory in bytes.
    """

    node_cpu: Query = setting(
        'max by (node, instance) (irate(container_cpu_usage_seconds_total{id="/"}[5m]))',
        "CPU that each node uses, in cores.",
    )
    node_memory: Query = setting(
        'max by (node, instance) (container_memory_working_set_bytes{id="/"})', "Memory that each node uses, in bytes."
    )
    pod_cpu: Query = setting(
        "sum by (namespace, pod) (max by (namespace, pod, container) "
        '(irate(container_cpu_usage_seconds_total{container!="",container!="POD"}[5m])))',
        "CPU that each pod uses, in cores.",
    )
    pod_memory: Query = setting(
        "sum by (namespace, pod) (max by (namespace, pod, container) "
        '(container_memory_working_set_bytes{container!="",container!="POD"}))',
        "Memory that each pod uses, in bytes.",
    )


@dataclass(frozen=True)
class PrometheusAccess(Section):
    """A Prometheus, or a compatible server (Thanos, Mimir, VictoriaMetrics). Files are re-read when they change."""

    url: HttpUrl = setting("", f"Where its HTTP API is, such as `{_EXAMPLE}`; a path may be part of it.")
    bearer_token_file: str = setting("", "A file with the token to send; empty sends none.")
    ca_file: str = setting("", "The CA that signed its certificate, as PEM; empty trusts the system's.")
    certificate_file: str = setting("", "A client certificate, as PEM; empty sends none.")
    key_file: str = setting("", "The private key of the client certificate, as PEM.")
    insecure_skip_verify: bool = setting(False, "Do not verify its certificate; for tests only.")
    timeout: Period = setting(10.0, "How long each query may take.")
    queries: PrometheusQueries = setting(PrometheusQueries(), "The queries; see below.")

    def __post_init__(self) -> None:
        _check_key_pair(self.certificate_file, self.key_file)
        if self.ca_file and self.insecure_skip_verify:
            raise FieldError("insecureSkipVerify", "cannot be true beside caFile: leave one of them out")
        if urlsplit(self.url).scheme == "http":
            for name, given in (
                ("caFile", self.ca_file),
                ("certificateFile", self.certificate_file),
                ("insecureSkipVerify", self.insecure_skip_verify),
            ):
                if given:
                    raise FieldError(name, "is for https, but url begins with http: change one of them")


@dataclass(frozen=True)
class UsageSettings(Section):
    """Measured usage of nodes and pods, for `utilization: usage` and `max`; not used with `requests`."""

    source: UsageSource = setting(
        UsageSource.METRICS_API,
        "Where samples come from: `metrics.k8s.io` (metrics-server) or `prometheus`.",
    )
    interval: Period = setting(30.0, "How often samples are read.")
    window: Period = setting(300.0, "Usage is averaged over this time, so that a single peak does not count.")
    max_age: Period = setting(
        180.0,
        "Older samples do not count. Without a newer one, requests count.",
    )
    prometheus: PrometheusAccess = setting(
        PrometheusAccess(), "Where `source` is `prometheus`: how to reach it; see below."
    )

    def __post_init__(self) -> None:
        for name, value in (("window", self.window), ("maxAge", self.max_age)):
            if value < self.interval:
                text, than = format_duration(value), format_duration(self.interval)
                raise FieldError(name, f"{text} is shorter than interval ({than}): make it as long at least")
        if self.source is UsageSource.PROMETHEUS and not self.prometheus.url:
            raise FieldError("prometheus", f"has no url, and source is prometheus: give one such as {_EXAMPLE}")


@dataclass(frozen=True)
class LeaderElectionFields(Section):
    """Which of several replicas acts. `leaseDuration` must exceed `renewDeadline`, and that one `retryPeriod`."""

    leader_elect: bool = setting(True, "Take part in leader election; false is for a single replica.")
    lease_duration: Period = setting(
        15.0, "How long the other replicas wait after the leader's last renewal before one of them takes over."
    )
    renew_deadline: Period = setting(10.0, "How long the leader tries to renew the lease before it gives up and exits.")
    retry_period: ShortPeriod = setting(2.0, "Time between attempts to acquire or renew the lease.")
    resource_name: ObjectName = setting("kube-rescheduler", "Name of the Lease.")
    resource_namespace: OptionalNamespace = setting(
        "", "Namespace of the Lease; empty is the namespace that the rescheduler runs in."
    )

    def __post_init__(self) -> None:
        longer = ("leaseDuration", self.lease_duration)
        for name, value in (("renewDeadline", self.renew_deadline), ("retryPeriod", self.retry_period)):
            if value >= longer[1]:
                text, than = format_duration(value), format_duration(longer[1])
                raise FieldError(name, f"{text} is not shorter than {longer[0]} ({than})")
            longer = (name, value)


@dataclass(frozen=True)
class ClientConnectionFields(Section):
    """How to reach the API server."""

    kubeconfig: str = setting(
        "",
        "Path of a kubeconfig. Empty: found as kubectl does, or the pod's service account.",
    )
    qps: Annotated[float, Gt(0)] | None = setting(
        None, "Average requests per second of the controller; no limit if not given."
    )
    burst: Annotated[int, Ge(1)] | None = setting(
        None, "Burst of requests, with `qps`; by default as many as in one second."
    )


@dataclass(frozen=True)
class PluginArgs(Policy):
    """What to move and what not, and how: the args of the scheduler form."""

    migration: MigrationSettings = setting(MigrationSettings(), "How moves are carried out; see below.")
    usage: UsageSettings = setting(UsageSettings(), "Where measured usage comes from; see below.")
    recovery: RecoverySettings = setting(RecoverySettings(), "Pods that fail on their node; see below.")
    webhook: WebhookFields = setting(WebhookFields(), "The admission webhook; see below.")
    extender: ExtenderFields = setting(ExtenderFields(), "The scheduler extender; see below.")
    web: WebFields = setting(WebFields(), "The page, metrics and health; see below.")
    strategies: dict[str, dict[str, object]] = setting(
        {}, "Settings of single strategies, by the strategy's name; see below."
    )

    def __post_init__(self) -> None:
        served = self.webhook.enabled or self.webhook.certificates.certificate_file or self.extender.insecure_port
        if self.extender.enabled and not served:
            cure = "enable the webhook, give webhook.certificates, or give extender.insecurePort"
            raise FieldError("extender", f"has no certificate to be served with: {cure}")
        check_listeners(self.web, self.webhook, self.extender)


@dataclass(frozen=True)
class Fields(PluginArgs):
    """The native form's top level, in the order in which it is printed and documented."""

    leader_election: LeaderElectionFields = setting(LeaderElectionFields(), "Leader election; see below.")
    client_connection: ClientConnectionFields = setting(
        ClientConnectionFields(), "The connection to the API server; see below."
    )


INHERITED = ("cpuThreshold", "memoryThreshold", "imbalanceThreshold")
"""Fields whose value is the default of a strategy's setting of the same name."""

OUTSIDE_ARGS = ("leaderElection", "clientConnection")
"""Fields that the scheduler form has at the top of its file, not among the plugin's args."""

Settings = Mapping[str, StrategySettings]
"""The settings of strategies, by the strategy's name."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A checked configuration, with all defaults; two are equal when they mean the same.

    `load`, `override` and `load_defaults` (in `loader`) make it. Planning takes `policy()`; everything else reads
    `fields`, and `config show` prints `effective_yaml()`.

    `fields.strategies` holds the settings of strategies as a file would give them, without inherited ones; `settings`
    holds all of them, parsed.
    """

    fields: Fields
    settings: Settings
    pools: tuple[Settings, ...] = ()
    """The settings of the strategies of each of `fields.pools`."""
    kind: str = field(default=NATIVE_KIND, compare=False)
    known: Mapping[str, type[StrategySettings]] = field(default_factory=dict, compare=False, repr=False)

    def policy(self) -> Policy:
        """The part that planning reads, with the settings of all strategies."""
        own = {each.name: getattr(self.fields, each.name) for each in dataclasses.fields(Policy)}
        names = [pool.name for pool in self.fields.pools]
        return Policy(
            **own
            | {
                "strategy_settings": _as_data(self.settings),
                "pool_settings": dict(zip(names, map(_as_data, self.pools), strict=True)),
            }
        )

    def effective(self) -> dict[str, object]:
        """Everything, in the native form, as plain data."""
        from rescheduler.config.validate import dump  # noqa: PLC0415 - it brings pydantic's schema of all fields along

        return {"apiVersion": NATIVE_VERSION, "kind": NATIVE_KIND} | dump(self.fields)

    def effective_yaml(self) -> str:
        """Everything, in the native form, as YAML that loads to an equal Configuration."""
        from rescheduler.config.document import dump_document  # noqa: PLC0415 - plans need no YAML

        return dump_document(self.effective())


def _as_data(settings: Settings) -> dict[str, dict[str, object]]:
    return {name: values.model_dump() for name, values in settings.items()}
