"""Makes a KubeSchedulerConfiguration that uses our extender, for `rescheduler scheduler-config`.

kube-scheduler checks the extender's certificate with a CA from a file, or with ours from the webhook's Secret. How it
does so is a `tlsConfig` of the extender, as kube-scheduler has it, also here.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from rescheduler.admission.certificates import CertificateError, ends_at, joined, names_of, split
from rescheduler.app.planning import InputError, LiveCluster
from rescheduler.config.document import read_document
from rescheduler.config.errors import ConfigErrors, Finding, InvalidError
from rescheduler.config.loader import PLUGIN, SCHEDULER_KIND, read_text, source_name
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import Backoff, ClusterError
from rescheduler.kube.objects import path_of
from rescheduler.model.fields import quote, wrong_type
from rescheduler.model.json import Json
from rescheduler.model.time import format_duration

SERVICE = "kube-rescheduler-webhook"
"""Our Service, and the Secret with its certificates."""
VERSION = "kubescheduler.config.k8s.io/v1"
STOCK_PROFILE, SEED_PROFILE = "default-scheduler", "rescheduler-scheduler"
PATH = "/extender"
_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
_QUICK = 5.0  # seconds for a request that is not essential


class _Secret(msgspec.Struct):
    """The Secret with the certificates, made by the webhook or by a tool such as cert-manager."""

    data: dict[str, bytes] = {}


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


async def read_own_tls(live: LiveCluster, namespace: str, host: str) -> Json:
    """Read our own CA from the webhook's Secret; ClusterError says why that is not possible.

    If the certificate does not name the host that the scheduler uses, it is checked for the name of the Service.
    """
    timeout = live.request_timeout or _QUICK
    async with ApiClient(live.connection(), request_timeout=timeout, backoff=Backoff(tries=1)) as client:
        answer = await client.find(path_of("Secret", namespace, SERVICE))
    secret = f"Secret {namespace}/{SERVICE}"
    if answer is None:
        cure = "the webhook makes it when it first runs; -n says in which namespace that is"
        raise ClusterError(f"there is no {secret}: {cure}")
    try:
        data = msgspec.json.decode(answer, type=_Secret).data
        authority = joined(data.get("ca.crt", b""), data.get("previous-ca.crt", b""))
        names = names_of(data["tls.crt"]) if data.get("tls.crt") else frozenset({host})
    except (CertificateError, msgspec.MsgspecError) as error:
        raise ClusterError(f"{secret}: {error}") from None
    if not authority:
        raise ClusterError(f"{secret}: its key ca.crt holds no PEM certificate")
    return with_authority({"serverName": "" if host in names else f"{SERVICE}.{namespace}.svc"}, authority)


def with_authority(tls: Json, authority: bytes) -> Json:
    """Return a tlsConfig that includes these CAs."""
    return {**tls, "caData": base64.b64encode(authority).decode()}


def has_authority(tls: Json) -> bool:
    """Whether a CA is given, or none is to be checked; if not, the CAs of the scheduler's system count."""
    return any(tls.get(key) for key in ("caData", "caFile", "insecure"))


def is_over(authority: bytes) -> bool:
    """Whether a CA has expired, so that its certificates are rejected."""
    return ends_at(authority) <= time.time()


def find_end(tls: Json) -> datetime | None:
    """When the first of the CAs that a tlsConfig includes expires."""
    found = split(base64.b64decode(tls.get("caData", "")))
    return min((each.not_valid_after_utc for each in found), default=None)


def make_extender(url: str, tls: Json, weight: int, timeout: float) -> Json:
    """Make our entry among the scheduler's extenders; the URL includes the path of our extender."""
    tls = {key: tls[key] for key in ("caData", "caFile", "serverName", "insecure") if tls.get(key)}
    # With enableHTTPS and no CA, kube-scheduler accepts any certificate silently. Without enableHTTPS, an https address
    # is checked with the CAs of its system.
    https = {"enableHTTPS": True} if has_authority(tls) else {}
    return {
        "urlPrefix": url,
        **_VERBS,
        "weight": weight,
        **https,
        **({"tlsConfig": tls} if tls else {}),
        "httpTimeout": format_duration(timeout),
        "nodeCacheCapable": True,
        "ignorable": True,
    }


def make_config(extender: Json, names: tuple[str, ...], kubeconfig: str | None, *, leader_elect: bool | None) -> Json:
    """Make a whole configuration."""
    return {
        "apiVersion": VERSION,
        "kind": SCHEDULER_KIND,
        "leaderElection": {"leaderElect": leader_elect is not False},
        **({"clientConnection": {"kubeconfig": kubeconfig}} if kubeconfig else {}),
        "profiles": [{"schedulerName": name} for name in dict.fromkeys(names or (STOCK_PROFILE, SEED_PROFILE))],
        "extenders": [extender],
    }


def merge_config(
    document: Json, extender: Json, names: tuple[str, ...], kubeconfig: str | None, *, leader_elect: bool | None
) -> Json:
    """Add our extender to a configuration, exactly once, and apply the other settings that are given."""
    new = dict(document)
    if leader_elect is not None:
        new["leaderElection"] = {**(new.get("leaderElection") or {}), "leaderElect": leader_elect}
    if kubeconfig:
        new["clientConnection"] = {**(new.get("clientConnection") or {}), "kubeconfig": kubeconfig}
    if names:
        # Without profiles, kube-scheduler has a default one; it would vanish as soon as another is listed.
        there = new.get("profiles") or [{"schedulerName": STOCK_PROFILE}]
        known = {each.get("schedulerName") or STOCK_PROFILE for each in there}
        new["profiles"] = [*there, *({"schedulerName": name} for name in dict.fromkeys(names) if name not in known)]
    others, url = new.get("extenders") or [], extender["urlPrefix"]
    at = next((index for index, each in enumerate(others) if _is_at(each, url)), len(others))
    kept = [each for each in others if not _is_at(each, url)]
    new["extenders"] = [*kept[:at], extender, *kept[at:]]
    return new


def find_doubts(document: Mapping[str, Any], url: str) -> Iterator[str]:
    """Yield the parts of a configuration that do not have the effect that they seem to have, with path and cure."""
    for number, profile in enumerate(document.get("profiles") or ()):
        for place, name in _list_enabled(profile.get("plugins")):
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
    source = source_name(path)
    try:
        document = read_document(read_text(path))
    except InvalidError as error:
        raise ConfigErrors.in_source(source, error.findings) from error
    findings = [*document.findings, *_find_faults(document.data)]
    if findings:
        raise ConfigErrors.in_source(source, findings)
    return document.data


def _find_faults(data: Json) -> Iterator[Finding]:
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


def _list_enabled(plugins: object) -> Iterator[tuple[str, object]]:
    """Yield the plugins that a profile enables, with their paths; kube-scheduler refuses other shapes."""
    for point, sets in plugins.items() if isinstance(plugins, dict) else ():
        listed = sets.get("enabled") if isinstance(sets, dict) else None
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            yield f"{point}.enabled[{index}]", each.get("name") if isinstance(each, dict) else None


def _is_at(extender: Mapping[str, Any], url: str) -> bool:
    return str(extender.get("urlPrefix", "")).rstrip("/") == url
