"""What a configuration says about failed pods: the section `recovery`."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from itertools import combinations
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from rescheduler.config.errors import FieldError, quote
from rescheduler.config.fields import Duration, ObjectName, Period, PositiveCount, Section, WholePeriod
from rescheduler.model.policy import Timing
from rescheduler.model.time import format_duration
from rescheduler.model.usage import PrometheusAccess, PrometheusQueries, UsageSettings, UsageSource
from rescheduler.model.windows import Schedule, parse_window, zone_of
from rescheduler.recovery.settings import FAILED_REASONS, RecoverySettings

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\*?|\*", re.ASCII)
_RECOVERY = RecoverySettings()


def _check_reason(text: str) -> str:
    if not _REASON.fullmatch(text):
        raise ValueError(f"{quote(text)} is not a reason such as Evicted or OutOf*")
    return text


Reason = Annotated[str, AfterValidator(_check_reason)]


class RecoveryFields(Section):
    """Pods that fail on their node, of workloads with the annotation `scheduling-retries`: deleted, made elsewhere."""

    enabled: bool = Field(default=_RECOVERY.enabled, description="Reschedule failed pods of workloads that ask for it.")
    crash_restarts: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=_RECOVERY.crash_restarts, description="Restarts of a container after which a crash counts as a failure."
    )
    failed_reasons: tuple[Reason, ...] = Field(
        default=FAILED_REASONS,
        description="Reasons of pods in phase Failed that count; `Error` is a container's exit code, and `OutOf*` all "
        "that begin so.",
    )
    start_timeout: Period = Field(
        default=_RECOVERY.start_timeout,
        description="A pod that has not started on its node after this time has failed.",
    )
    image_pull_timeout: Period = Field(
        default=_RECOVERY.image_pull_timeout,
        description="A pod whose image cannot be pulled on its node for this time has failed.",
    )
    node_not_ready: Period = Field(
        default=_RECOVERY.node_not_ready, description="A pod whose node has not been ready for this time has failed."
    )
    delay: Duration = Field(
        default=_RECOVERY.delay, description="How long a failure must have lasted before anything is done about it."
    )
    same_node_delay: Duration = Field(
        default=_RECOVERY.same_node_delay,
        description="How long a pod waits that came back to a node where its like failed before: nobody kept it off, "
        "so another try would only use up its retries.",
    )
    clear_after: Period = Field(
        default=_RECOVERY.clear_after,
        description="A workload whose pods have all been Ready for this time has its record cleared.",
    )
    forget_after: Period = Field(
        default=_RECOVERY.forget_after,
        description="An older failure is forgotten: its node may be tried again.",
    )
    fault_nodes: Annotated[int, Field(ge=2, le=1000)] = Field(
        default=_RECOVERY.fault_nodes,
        description="Pods that failed on so many nodes and run on none fail by their workload's own fault (a bad "
        "image, a bad configuration): they are not moved on.",
    )

    def settings(self) -> RecoverySettings:
        """As `recovery` takes them."""
        return RecoverySettings(**dict(self))


class SteeringMode(StrEnum):
    """How the webhook leads a replacement to its target."""

    PREFER = "prefer"
    NOMINATE = "nominate"


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


HttpsUrl = Annotated[
    str, AfterValidator(_check_https_url), WithJsonSchema({"type": "string", "format": "https address"})
]
Port = Annotated[int, Field(ge=1, le=65535)]
OptionalPort = Annotated[int, Field(ge=0, le=65535)]


class CertificateFields(Section):
    """The webhook's certificate, where it is given and not our own: files that may be renewed at any time."""

    certificate_file: str = Field(default="", description="The certificate and what it is signed by, as PEM.")
    key_file: str = Field(default="", description="Its private key, as PEM.")
    ca_file: str = Field(
        default="",
        description="The CA that API servers shall trust, as PEM; empty leaves `caBundle` to whoever fills it in, such "
        "as cert-manager.",
    )

    @model_validator(mode="after")
    def _a_pair(self) -> Self:
        for name, value, other in (
            ("keyFile", self.key_file, self.certificate_file),
            ("certificateFile", self.certificate_file, self.key_file),
        ):
            if other and not value:
                raise FieldError(name, "is needed too: a certificate and its key belong together")
        if self.ca_file and not self.certificate_file:
            raise FieldError("caFile", "cannot be given without certificateFile and keyFile")
        return self


class WebhookFields(Section):
    """The admission webhook: it leads replacements to their targets, and away from nodes where their like failed.

    Every replica serves it; the leader registers it. If it is down, pods are made as if it were not there.
    """

    enabled: bool = Field(default=False, description="Serve the webhook and register it with the API server.")
    name: ObjectName = Field(
        default="kube-rescheduler",
        description="Name of the MutatingWebhookConfiguration; our own CA and certificate are kept in the Secret of "
        "this name with `-webhook` after it, beside the Lease.",
    )
    bind_address: str = Field(default="0.0.0.0", description="Address to listen on.")  # noqa: S104 - pods are called
    port: Port = Field(default=9443, description="Port to listen on, with TLS.")
    service_name: ObjectName = Field(
        default="kube-rescheduler-webhook", description="The Service by which API servers reach it, beside the Lease."
    )
    service_port: Port = Field(default=443, description="Port of the Service.")
    url: HttpsUrl = Field(
        default="",
        description="Where API servers reach it without a Service, such as `https://10.0.0.7:9443`; empty means the "
        "Service.",
    )
    timeout: WholePeriod = Field(
        default=2.0, description="How long an API server waits for an answer, at most 30s, in whole seconds."
    )
    steering: SteeringMode = Field(
        default=SteeringMode.PREFER,
        description="`prefer` gives a replacement a preference for its target; `nominate` is exact: the replacement is "
        "held back for a moment, while room is reserved for it there.",
    )
    certificates: CertificateFields = Field(
        default=CertificateFields(), description="Certificates that somebody else makes; see below."
    )

    @model_validator(mode="after")
    def _what_api_servers_take(self) -> Self:
        if self.timeout > 30:
            raise FieldError("timeout", f"{int(self.timeout)}s is not at most 30s")
        return self


class ExtenderFields(Section):
    """The scheduler extender: a stock kube-scheduler asks it (`rescheduler scheduler-config` says how)."""

    enabled: bool = Field(
        default=False,
        description="Serve `/extender/filter` and `/extender/prioritize` on the webhook's port, with TLS.",
    )
    insecure_port: OptionalPort = Field(
        default=0, description="Serve them without TLS on this port as well; 0 does not."
    )


class WebFields(Section):
    """The page, metrics and health, without TLS: `/`, `/metrics`, `/livez`, `/readyz`. Every replica serves them."""

    bind_address: str = Field(default="0.0.0.0", description="Address to listen on.")  # noqa: S104 - pods are scraped
    port: OptionalPort = Field(default=0, description="Port to listen on; 0 serves nothing.")
    page: bool = Field(default=True, description="Serve the page, too, and not only metrics and health.")


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


_USAGE = UsageSettings()
_ACCESS = PrometheusAccess()
_QUERIES = PrometheusQueries()
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


HttpUrl = Annotated[
    str, AfterValidator(_check_http_url), WithJsonSchema({"type": "string", "format": "http or https address"})
]


def _check_query(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty: give a query in PromQL, or leave the field out for the ready one")
    return text


Query = Annotated[str, AfterValidator(_check_query)]


class QueryFields(Section):
    """What Prometheus is asked. Nodes are known by the label `node`, else `instance` (less its port).

    Pods are known by the labels `namespace` and `pod`. CPU is in cores, memory in bytes.
    """

    node_cpu: Query = Field(default=_QUERIES.node_cpu, description="CPU that each node uses, in cores.")
    node_memory: Query = Field(default=_QUERIES.node_memory, description="Memory that each node uses, in bytes.")
    pod_cpu: Query = Field(default=_QUERIES.pod_cpu, description="CPU that each pod uses, in cores.")
    pod_memory: Query = Field(default=_QUERIES.pod_memory, description="Memory that each pod uses, in bytes.")


class PrometheusFields(Section):
    """A Prometheus, or whatever answers like one (Thanos, Mimir, VictoriaMetrics). Files are re-read as they change."""

    url: HttpUrl = Field(
        default=_ACCESS.url, description=f"Where its HTTP API is, such as `{_EXAMPLE}`; a path may be part of it."
    )
    bearer_token_file: str = Field(
        default=_ACCESS.bearer_token_file, description="A file with the token to send; empty sends none."
    )
    ca_file: str = Field(
        default=_ACCESS.ca_file, description="The CA that signed its certificate, as PEM; empty trusts the system's."
    )
    certificate_file: str = Field(
        default=_ACCESS.certificate_file, description="Our own certificate for it, as PEM; empty shows none."
    )
    key_file: str = Field(default=_ACCESS.key_file, description="The private key of our certificate, as PEM.")
    insecure_skip_verify: bool = Field(
        default=_ACCESS.insecure_skip_verify, description="Do not check its certificate: for trials only."
    )
    timeout: Period = Field(default=_ACCESS.timeout, description="How long each query may take.")
    queries: QueryFields = Field(default=QueryFields(), description="What it is asked; see below.")

    @model_validator(mode="after")
    def _what_belongs_together(self) -> Self:
        for name, value, other in (
            ("keyFile", self.key_file, self.certificate_file),
            ("certificateFile", self.certificate_file, self.key_file),
        ):
            if other and not value:
                raise FieldError(name, "is needed too: a certificate and its key belong together")
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
        return self


class UsageFields(Section):
    """What nodes and pods really use, for `utilization: usage` and `max`; with `requests` nothing here matters."""

    source: UsageSource = Field(
        default=_USAGE.source,
        description="Who is asked: `metrics.k8s.io` (metrics-server) or `prometheus`.",
    )
    interval: Period = Field(default=_USAGE.interval, description="How often it is asked.")
    window: Period = Field(
        default=_USAGE.window, description="What was used is averaged over this time, so that no single peak counts."
    )
    max_age: Period = Field(
        default=_USAGE.max_age,
        description="An older sample does not count: who has no newer one is counted by requests.",
    )
    prometheus: PrometheusFields = Field(
        default=PrometheusFields(), description="Where `source` is `prometheus`: how to reach it; see below."
    )

    @model_validator(mode="after")
    def _times_that_make_sense(self) -> Self:
        for name, value in (("window", self.window), ("maxAge", self.max_age)):
            if value < self.interval:
                text, than = format_duration(value), format_duration(self.interval)
                raise FieldError(name, f"{text} is shorter than interval ({than}): make it as long at least")
        if self.source is UsageSource.PROMETHEUS and not self.prometheus.url:
            raise FieldError("prometheus", f"has no url, and source is prometheus: give one such as {_EXAMPLE}")
        return self

    def settings(self) -> UsageSettings:
        """As `usage` takes them."""
        access = dict(self.prometheus)
        access["queries"] = PrometheusQueries(**dict(self.prometheus.queries))
        own = {name: value for name, value in dict(self).items() if name != "prometheus"}
        return UsageSettings(**own, prometheus=PrometheusAccess(**access))


_TIMING = Timing()


def _check_window(text: str) -> str:
    return parse_window(text).text


def _check_zone(name: str) -> str:
    zone_of(name)
    return name


WindowText = Annotated[str, AfterValidator(_check_window), WithJsonSchema({"type": "string", "format": "time window"})]
ZoneName = Annotated[str, AfterValidator(_check_zone), WithJsonSchema({"type": "string", "format": "time zone"})]


class WhenFields(Section):
    """When moves by choice may begin; what a person has asked for does not wait. See [when](when.md)."""

    windows: tuple[WindowText, ...] = Field(
        default=(),
        description="Time windows in which moves may begin, such as `Mon-Fri 22:00-05:00`, `Sat,Sun`, `* 02:00-04:00` "
        "or `Fri 22:00-Mon 05:00`. Outside of them plans are made and shown, and nothing is ordered; `[]` is always.",
    )
    time_zone: ZoneName = Field(default="UTC", description="Time zone of the windows, such as `Europe/Berlin`.")
    moves_per_hour: PositiveCount = Field(
        default=None, description="How many moves may begin within any 60 minutes, whoever leads."
    )
    moves_per_hour_per_namespace: PositiveCount = Field(
        default=None, description="How many of them in one namespace; other namespaces go on meanwhile."
    )
    rest_after_scaling: Duration = Field(
        default=_TIMING.rest_after_scaling,
        description="How long a workload is left alone after its HorizontalPodAutoscaler has scaled it.",
    )

    def timing(self) -> Timing:
        """As planning and the loops take it."""
        schedule = Schedule.of(tuple(parse_window(text) for text in self.windows), self.time_zone)
        return Timing(schedule, self.moves_per_hour, self.rest_after_scaling, self.moves_per_hour_per_namespace)
