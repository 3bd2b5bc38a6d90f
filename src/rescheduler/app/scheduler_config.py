"""Makes a KubeSchedulerConfiguration that uses our extender, for `rescheduler scheduler-config`.

kube-scheduler checks the extender's certificate with a CA from a file, or with ours from the webhook's Secret.
"""

from __future__ import annotations

import base64
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from rescheduler.admission.certificates import CertificateError, ends_at, joined, names_of, split
from rescheduler.app.planning import InputError, LiveCluster
from rescheduler.config.document import read_document
from rescheduler.config.errors import ConfigError, ConfigErrors, Finding, InvalidError
from rescheduler.config.loader import PLUGIN, SCHEDULER_KIND
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import Backoff, ClusterError
from rescheduler.model.fields import quote, wrong_type
from rescheduler.model.json import Json
from rescheduler.model.time import format_duration

SERVICE = "kube-rescheduler-webhook"
"""Our Service, and the Secret with its certificates."""
_QUICK = 5.0  # seconds for a request that is not essential


class _Secret(msgspec.Struct):
    """The Secret with the certificates, made by the webhook or by a tool such as cert-manager."""

    data: dict[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """How the certificate of an https address is checked; by default, with the CAs of the scheduler's system."""

    authority: bytes = b""
    """PEM, for the file itself."""
    authority_path: str = ""
    """The path of a file that the scheduler reads."""
    server_name: str = ""
    """The name in the certificate, if that is not the host of the address."""
    insecure: bool = False

    @property
    def is_given(self) -> bool:
        """Whether a CA is given, or none is to be checked."""
        return bool(self.authority or self.authority_path or self.insecure)

    @property
    def ends(self) -> datetime | None:
        """When the first of the CAs expires, if they are known."""
        found = split(self.authority)
        return min((each.not_valid_after_utc for each in found), default=None)


def read_authority(path: str) -> bytes:
    """Read the certificates of a PEM file, and nothing else in it; InputError says what is wrong with it."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        cure = "for a path that only the scheduler sees, give --scheduler-ca-file"
        raise InputError(f"--ca-file {path}: cannot be read: {error.strerror or error}; {cure}") from None
    try:
        found = joined(raw)
    except CertificateError as error:
        raise InputError(f"--ca-file {path}: {error}") from None
    if not found:
        raise InputError(f"--ca-file {path}: holds no PEM certificate (-----BEGIN CERTIFICATE-----)")
    return found


async def read_own_trust(live: LiveCluster, namespace: str, host: str) -> ServerTrust:
    """Read our own CA from the webhook's Secret; ClusterError says why that is not possible.

    If the certificate does not name the host that the scheduler uses, it is checked for the name of the Service.
    """
    timeout = live.request_timeout or _QUICK
    async with ApiClient(live.connection(), request_timeout=timeout, backoff=Backoff(tries=1)) as client:
        answer = await client.find(f"/api/v1/namespaces/{urllib.parse.quote(namespace, safe='')}/secrets/{SERVICE}")
    secret = f"Secret {namespace}/{SERVICE}"
    if answer is None:
        cure = "the webhook makes it when it first runs; -n says in which namespace that is"
        raise ClusterError(f"there is no {secret}: {cure}")
    try:
        return _trust_in(msgspec.json.decode(answer, type=_Secret).data, namespace, host)
    except (CertificateError, msgspec.MsgspecError) as error:
        raise ClusterError(f"{secret}: {error}") from None


def _trust_in(data: Mapping[str, bytes], namespace: str, host: str) -> ServerTrust:
    authority = joined(data.get("ca.crt", b""), data.get("previous-ca.crt", b""))
    if not authority:
        raise CertificateError("its key ca.crt holds no PEM certificate")
    names = names_of(data["tls.crt"]) if data.get("tls.crt") else frozenset({host})
    return ServerTrust(authority, server_name="" if host in names else f"{SERVICE}.{namespace}.svc")


def is_over(authority: bytes) -> bool:
    """Whether a CA has expired, so that its certificates are rejected."""
    return ends_at(authority) <= datetime.now(UTC).timestamp()


VERSION = "kubescheduler.config.k8s.io/v1"
STOCK_PROFILE, SEED_PROFILE = "default-scheduler", "rescheduler-scheduler"
PATH = "/extender"
_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    """Our entry among the scheduler's extenders."""

    url: str
    """With the path of our extender."""
    trust: ServerTrust
    weight: int
    timeout: float

    def document(self) -> Json:
        """Return the entry in the form of kube-scheduler."""
        # With enableHTTPS and no CA, kube-scheduler accepts any certificate silently. Without enableHTTPS, an https
        # address is checked with the CAs of its system.
        https = {"enableHTTPS": True, "tlsConfig": self._tls()} if self.trust.is_given else {}
        if not https and self.trust.server_name:
            https = {"tlsConfig": self._tls()}
        return {
            "urlPrefix": self.url,
            **_VERBS,
            "weight": self.weight,
            **https,
            "httpTimeout": format_duration(self.timeout),
            "nodeCacheCapable": True,
            "ignorable": True,
        }

    def _tls(self) -> Json:
        fields = {
            "caData": base64.b64encode(self.trust.authority).decode(),
            "caFile": self.trust.authority_path,
            "serverName": self.trust.server_name,
            "insecure": self.trust.insecure,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class SchedulerFields:
    """Other settings of the scheduler; empty and None are left out."""

    names: tuple[str, ...] = ()
    kubeconfig: str = ""
    leader_elect: bool | None = None


def make_config(extender: ExtenderEntry, scheduler: SchedulerFields) -> Json:
    """Make a whole configuration."""
    names = scheduler.names or (STOCK_PROFILE, SEED_PROFILE)
    connection = {"clientConnection": {"kubeconfig": scheduler.kubeconfig}} if scheduler.kubeconfig else {}
    return {
        "apiVersion": VERSION,
        "kind": SCHEDULER_KIND,
        "leaderElection": {"leaderElect": scheduler.leader_elect is not False},
        **connection,
        "profiles": [{"schedulerName": name} for name in dict.fromkeys(names)],
        "extenders": [extender.document()],
    }


def merge_config(document: Json, extender: ExtenderEntry, scheduler: SchedulerFields) -> Json:
    """Add our extender to a configuration, exactly once, and apply the other settings."""
    new = dict(document)
    if scheduler.leader_elect is not None:
        new["leaderElection"] = {**(new.get("leaderElection") or {}), "leaderElect": scheduler.leader_elect}
    if scheduler.kubeconfig:
        new["clientConnection"] = {**(new.get("clientConnection") or {}), "kubeconfig": scheduler.kubeconfig}
    if scheduler.names:
        # Without profiles, kube-scheduler has a default one; it would vanish as soon as another is listed.
        there = new.get("profiles") or [{"schedulerName": STOCK_PROFILE}]
        known = {each.get("schedulerName") or STOCK_PROFILE for each in there}
        new["profiles"] = [
            *there,
            *({"schedulerName": name} for name in dict.fromkeys(scheduler.names) if name not in known),
        ]
    others = new.get("extenders") or []
    at = next((index for index, each in enumerate(others) if _is_at(each, extender.url)), len(others))
    kept = [each for each in others if not _is_at(each, extender.url)]
    new["extenders"] = [*kept[:at], extender.document(), *kept[at:]]
    return new


def find_doubts(document: Mapping[str, Any], url: str) -> Iterator[str]:
    """Yield the parts of a configuration that do not have the effect that they seem to have, with path and cure."""
    for number, profile in enumerate(document.get("profiles") or ()):
        for place, name in _enabled(profile.get("plugins")):
            if name == PLUGIN:
                cure = "take it out; its pluginConfig may stay, for `rescheduler run --config`"
                yield f"profiles[{number}].plugins.{place}: a stock kube-scheduler lacks the plugin {PLUGIN}; {cure}"
    for number, each in enumerate(document.get("extenders") or ()):
        like_ours = {key: each.get(key) for key in _VERBS} == _VERBS and str(each.get("urlPrefix")).endswith(PATH)
        if like_ours and not _is_at(each, url):
            cure = "take it out if this one takes its place"
            yield f"extenders[{number}]: {quote(each['urlPrefix'])} looks like ours at another address; {cure}"


def read_config(path: str) -> Json:
    """Read a KubeSchedulerConfiguration from a file, or stdin for `-`; ConfigErrors says what is wrong."""
    source = "<stdin>" if path == "-" else path
    try:
        text = (_standard_input() if path == "-" else Path(path).read_bytes()).decode("utf-8-sig")
    except OSError as error:
        raise ConfigErrors([ConfigError(source, "", f"cannot be read: {error.strerror or error}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigErrors([ConfigError(source, "", "is not UTF-8 text")]) from error
    try:
        document = read_document(text)
    except InvalidError as error:
        raise ConfigErrors.in_source(source, error.findings) from error
    findings = [*document.findings, *_faults(document.data)]
    if findings:
        raise ConfigErrors.in_source(source, findings)
    return document.data


def _standard_input() -> bytes:
    if sys.stdin is None:  # closed by the shell: `<&-`
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read()


def _faults(data: Json) -> Iterator[Finding]:
    if data.get("kind") != SCHEDULER_KIND:
        yield Finding(
            ("kind",), f"{quote(data.get('kind'))} is not {SCHEDULER_KIND}: give the file that kube-scheduler gets"
        )
        return
    if data.get("apiVersion") != VERSION:
        cure = "`kube-scheduler --config OLD --write-config-to NEW` of the last release that read it converts it"
        yield Finding(("apiVersion",), f"{quote(data.get('apiVersion'))} is not {VERSION}; {cure}")
        return
    for key in ("leaderElection", "clientConnection"):
        if data.get(key) is not None and not isinstance(data[key], dict):
            yield Finding((key,), wrong_type(data[key], "a mapping"))
    for key in ("profiles", "extenders"):
        value = data.get(key)
        if value is not None and not isinstance(value, list):
            yield Finding((key,), wrong_type(value, "a list"))
            continue
        for index, each in enumerate(value or ()):
            if not isinstance(each, dict):
                yield Finding((key, index), wrong_type(each, "a mapping"))


def _enabled(plugins: object) -> Iterator[tuple[str, object]]:
    """Yield the plugins that a profile enables, with their paths; kube-scheduler refuses other shapes."""
    for point, sets in plugins.items() if isinstance(plugins, dict) else ():
        listed = sets.get("enabled") if isinstance(sets, dict) else None
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            yield f"{point}.enabled[{index}]", each.get("name") if isinstance(each, dict) else None


def _is_at(extender: Mapping[str, Any], url: str) -> bool:
    return str(extender.get("urlPrefix", "")).rstrip("/") == url
