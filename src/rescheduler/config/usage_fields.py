"""What a configuration says about measured usage: the section `usage`. It counts where `utilization` says so."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from rescheduler.config.errors import FieldError, shown
from rescheduler.config.fields import Period, Section
from rescheduler.model.duration import format_duration
from rescheduler.model.usage import PrometheusAccess, Queries, UsageSettings, UsageSource

_DEFAULT = UsageSettings()
_ACCESS = PrometheusAccess()
_QUERIES = Queries()
_EXAMPLE = "http://prometheus.monitoring:9090"


def _check_url(text: str) -> str:
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
        raise ValueError(f"{shown(text)} is not an address such as {_EXAMPLE}, without a query")
    return text.rstrip("/")


Url = Annotated[str, AfterValidator(_check_url), WithJsonSchema({"type": "string", "format": "http or https address"})]


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

    url: Url = Field(
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
        default=_DEFAULT.source,
        description="Who is asked: `metrics.k8s.io` (metrics-server) or `prometheus`.",
    )
    interval: Period = Field(default=_DEFAULT.interval, description="How often it is asked.")
    window: Period = Field(
        default=_DEFAULT.window, description="What was used is averaged over this time, so that no single peak counts."
    )
    max_age: Period = Field(
        default=_DEFAULT.max_age,
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
        access["queries"] = Queries(**dict(self.prometheus.queries))
        own = {name: value for name, value in dict(self).items() if name != "prometheus"}
        return UsageSettings(**own, prometheus=PrometheusAccess(**access))
