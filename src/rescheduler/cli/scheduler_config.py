"""`rescheduler scheduler-config`: prints a kube-scheduler configuration that uses our extender."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures
from rescheduler.cli.lazy import app_scheduler_config as documents
from rescheduler.cli.lazy import kube_errors
from rescheduler.cli.options import STDIN, AccessOptions, command, option
from rescheduler.cli.output import FORMATS, format_document
from rescheduler.model.json import Json
from rescheduler.model.time import DurationError, parse_duration

if TYPE_CHECKING:
    from datetime import datetime

_NAMESPACE = "kube-rescheduler"
_SERVICE = "https://kube-rescheduler-webhook.{}.svc:443"
_PATH = "/extender"
# The target has five points more than the others, and each counts ten times its weight: 1,500. All of the scheduler's
# own plugins together give at most 1,200.
_WEIGHT = 30


def _url(text: str) -> str:
    """Parse an address, and add the extender's path."""
    example = "https://10.96.0.12:443"
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or re.search(r"[\s\x00-\x1f\\]", text):
        raise click.BadParameter(f"{text!r} is not an address such as {example}")
    if parts.username is not None or parts.password is not None:
        raise click.BadParameter("an address with a password in it is not supported: kube-scheduler would log it")
    if "?" in text or "#" in text:
        raise click.BadParameter(f"{text!r} has more than an address such as {example}: leave out what follows ? or #")
    bare = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    return bare if bare.endswith(_PATH) else bare + _PATH


def _timeout(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise click.BadParameter(str(error)) from None
    if seconds <= 0:
        raise click.BadParameter(f"{text} is no time to answer in, such as 2s")
    return seconds


def _name(text: str) -> str:
    if not text or text.split() != [text]:
        raise click.BadParameter(f"{text!r} is not what pods have as schedulerName")
    return text


@dataclass(frozen=True, slots=True)
class SchedulerConfigOptions:
    """The extender, the rest of the scheduler's configuration, and the output."""

    url: str | None = option(
        "--url",
        type=_url,
        metavar="URL",
        help=f"Address of our extender, as kube-scheduler reaches it.  [default: {_SERVICE.format('NAMESPACE')}]",
    )
    namespace: str = option(
        "-n",
        "--namespace",
        default=_NAMESPACE,
        show_default=True,
        metavar="NAMESPACE",
        help="Namespace of our Service and Secret.",
    )
    ca_file: str | None = option("--ca-file", metavar="FILE", help="Trust the CA in this file; the output includes it.")
    scheduler_ca_file: str | None = option(
        "--scheduler-ca-file", metavar="PATH", help="Trust the CA in a file that kube-scheduler reads."
    )
    server_name: str | None = option(
        "--server-name", metavar="NAME", help="Name in the certificate, if not the host of the URL."
    )
    insecure: bool = option(
        "--insecure-skip-tls-verify", is_flag=True, help="Do not verify the certificate; for tests only."
    )
    weight: int = option(
        "--weight",
        type=click.IntRange(1, 2**31 - 1),
        default=_WEIGHT,
        show_default=True,
        metavar="N",
        help="Weight of our scores; the default outweighs all others together.",
    )
    timeout: float = option(
        "--timeout",
        type=_timeout,
        default="2s",
        show_default=True,
        metavar="DURATION",
        help="Time after which kube-scheduler continues without the extender.",
    )
    scheduler_names: tuple[str, ...] = option(
        "--scheduler-name",
        type=_name,
        multiple=True,
        metavar="NAME",
        help="Name of a profile; may be repeated.  [default: default-scheduler and rescheduler-scheduler]",
    )
    scheduler_kubeconfig: str | None = option(
        "--scheduler-kubeconfig", metavar="PATH", help="Path of kube-scheduler's own kubeconfig."
    )
    leader_elect: bool | None = option(
        "--leader-elect/--no-leader-elect",
        default=None,
        help="Whether kube-scheduler takes part in leader election.  [default: it does]",
    )
    merge: str | None = option(
        "--merge",
        metavar="FILE",
        help="Add the extender to this configuration, and change nothing else, except as other flags say; - is "
        "standard input. Comments are lost.",
    )
    output: str = option(
        "-o", "--output", type=click.Choice(FORMATS), default="yaml", show_default=True, help="Output format."
    )

    @property
    def prefix(self) -> str:
        """The URL that the scheduler calls."""
        return self.url or _SERVICE.format(self.namespace) + _PATH

    def check(self) -> None:
        """Refuse flags that contradict each other."""
        ways = {
            "--ca-file": self.ca_file,
            "--scheduler-ca-file": self.scheduler_ca_file,
            "--insecure-skip-tls-verify": self.insecure,
        }
        given = [flag for flag, value in ways.items() if value]
        if len(given) > 1:
            raise click.UsageError(f"{given[0]} and {given[1]} are two answers to one question: give one of them.")
        named = [*given, *(["--server-name"] if self.server_name else [])]
        if named and self.prefix.startswith("http:"):
            raise click.UsageError(
                f"{named[0]} is about TLS, and {self.prefix} has none: write https, or leave it out."
            )


@command("scheduler-config", epilog=None)
def scheduler_config(options: SchedulerConfigOptions, access: AccessOptions) -> None:
    """Print a kube-scheduler configuration that uses our extender.

    The output is a KubeSchedulerConfiguration, for kube-scheduler's flag `--config`. With `extender.enabled` in the
    configuration of the rescheduler, its extender keeps pods away from nodes where pods of their workload failed, and
    steers replacements to their targets. If it does not answer, kube-scheduler continues without it.

    No cluster is needed. Without a CA or `--insecure-skip-tls-verify`, our CA is read from the Secret
    kube-rescheduler-webhook in the cluster of the kubeconfig. A kube-scheduler on the host network cannot resolve names
    of Services: give the address of the Service.

    \b
    Examples:
      rescheduler scheduler-config --url https://10.96.0.12:443       with our own CA, from the cluster
      rescheduler scheduler-config --ca-file ca.crt -o json           with another one
      rescheduler scheduler-config --merge scheduler.yaml > new.yaml  added to what is there
    """
    options.check()
    with report_failures():
        there = documents.read_config(options.merge) if options.merge is not None else None
        tls = _find_tls(options, access)
    extender = documents.make_extender(options.prefix, tls, options.weight, options.timeout)
    names, kubeconfig, leader_elect = options.scheduler_names, options.scheduler_kubeconfig, options.leader_elect
    if there is not None:
        merged = documents.merge_config(there, extender, names, kubeconfig, leader_elect=leader_elect)
        messages.emit(format_document(merged, options.output))
        source = "<stdin>" if options.merge == STDIN else options.merge
        messages.warn(f"{source}: {doubt}" for doubt in documents.find_doubts(there, options.prefix))
        return
    document = documents.make_config(extender, names, kubeconfig, leader_elect=leader_elect)
    comment = _make_comment(document, documents.find_end(tls)) if options.output == "yaml" else ""
    messages.emit(comment + format_document(document, options.output))


def _find_tls(options: SchedulerConfigOptions, access: AccessOptions) -> Json:
    """Return the tlsConfig that the flags say, or else one with our CA from the cluster."""
    tls: Json = {
        "caFile": options.scheduler_ca_file, "serverName": options.server_name, "insecure": options.insecure,
    }  # fmt: skip
    if options.prefix.startswith("http:"):
        messages.warn([f"{options.prefix} has no TLS: anything on the network path can answer in our place"])
        return tls
    if options.insecure:
        messages.warn(
            ["--insecure-skip-tls-verify: anything on the network path can answer in our place; use it for trying out"]
        )
    if options.ca_file:
        authority = documents.read_authority(options.ca_file)
        if documents.is_over(authority):
            messages.warn([f"--ca-file {options.ca_file}: the CA has ended; kube-scheduler will not believe it"])
        tls = documents.with_authority(tls, authority)
    if documents.has_authority(tls):
        return tls
    host = urlsplit(options.prefix).hostname or ""
    try:
        found = asyncio.run(documents.read_own_tls(live_cluster(access), options.namespace, host))
    except kube_errors.ClusterError as error:
        if access.kubeconfig or access.context or access.as_user:
            raise
        cure = "give --ca-file; without it kube-scheduler trusts only the CAs of its system"
        messages.warn([f"our CA could not be had from a cluster: {str(error).splitlines()[0]}", cure])
        return tls
    return found | ({"serverName": options.server_name} if options.server_name else {})


def _make_comment(document: Json, end: datetime | None) -> str:
    """Return a comment for readers of the file; the first CA in it expires at the `end`."""
    lines = ["Has a stock kube-scheduler ask kube-rescheduler about every pod: kube-scheduler --config=THIS-FILE"]
    if {"schedulerName": "rescheduler-scheduler"} in document["profiles"]:
        lines += [
            "The profile rescheduler-scheduler is without the plugin Rescheduler: a stock kube-scheduler lacks it, and",
            "does not start where it is enabled. Its pluginConfig may stand here; `rescheduler run --config` reads it.",
        ]
    if end is not None:
        lines.append(f"The CA in caData ends on {end:%Y-%m-%d}; print this again when it is renewed.")
    if "clientConnection" not in document:
        lines += [
            "With --config, kube-scheduler ignores its flag --kubeconfig: unless its pod has a service account,",
            "it needs clientConnection.kubeconfig (rescheduler scheduler-config --scheduler-kubeconfig PATH).",
        ]
    return "".join(f"# {line}\n" for line in lines)
