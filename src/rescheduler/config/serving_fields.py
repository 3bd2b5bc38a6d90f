"""What a configuration says about our servers: the admission webhook, the scheduler extender, metrics and health.

`schema` has these sections beside its own; `Configuration` hands them on to `app`.
"""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from itertools import combinations
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from rescheduler.config.errors import FieldError, shown
from rescheduler.config.fields import ObjectName, Section, WholePeriod


class Steering(StrEnum):
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


def _check_url(text: str) -> str:
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
        raise ValueError(f"{shown(text)} is not an address such as https://10.0.0.7:9443")
    return text.rstrip("/")


Url = Annotated[str, AfterValidator(_check_url), WithJsonSchema({"type": "string", "format": "https address"})]
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
    url: Url = Field(
        default="",
        description="Where API servers reach it without a Service, such as `https://10.0.0.7:9443`; empty means the "
        "Service.",
    )
    timeout: WholePeriod = Field(
        default=2.0, description="How long an API server waits for an answer, at most 30s, in whole seconds."
    )
    steering: Steering = Field(
        default=Steering.PREFER,
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
