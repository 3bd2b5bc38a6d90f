"""`rescheduler scheduler-config`: prints a kube-scheduler configuration that uses our extender."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from rescheduler.cli import messages
from rescheduler.cli.options import STDIN, AccessOptions, access_options, group_options, option
from rescheduler.cli.output import FORMATS, format_document
from rescheduler.model.time import DurationError, parse_duration

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
class ExtenderOptions:
    """Flags about the extender."""

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


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Flags about the rest of the scheduler's configuration."""

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


if TYPE_CHECKING:
    from rescheduler.app.scheduler_config import ServerTrust


@click.command("scheduler-config")
@group_options("options", ExtenderOptions)
@group_options("scheduler_options", SchedulerOptions)
@access_options
@messages.verbose_option
def scheduler_config(options: ExtenderOptions, scheduler_options: SchedulerOptions, access: AccessOptions) -> None:
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
    from rescheduler.app import scheduler_config as documents  # noqa: PLC0415 - help and completion do without it
    from rescheduler.cli.common import report_failures  # noqa: PLC0415 - the same

    options.check()
    with report_failures():
        there = documents.read_config(scheduler_options.merge) if scheduler_options.merge is not None else None
        extender = documents.ExtenderEntry(options.prefix, _trust(options, access), options.weight, options.timeout)
    scheduler = documents.SchedulerFields(
        scheduler_options.scheduler_names, scheduler_options.scheduler_kubeconfig or "", scheduler_options.leader_elect
    )
    if there is not None:
        messages.emit(format_document(documents.merge_config(there, extender, scheduler), scheduler_options.output))
        source = "<stdin>" if scheduler_options.merge == STDIN else scheduler_options.merge
        messages.warn(f"{source}: {doubt}" for doubt in documents.find_doubts(there, options.prefix))
        return
    document = documents.make_config(extender, scheduler)
    names = [each["schedulerName"] for each in document["profiles"]]
    comment = _make_comment(extender.trust, names, scheduler.kubeconfig) if scheduler_options.output == "yaml" else ""
    messages.emit(comment + format_document(document, scheduler_options.output))


def _trust(options: ExtenderOptions, access: AccessOptions) -> ServerTrust:
    """Return the trust of the flags, or else that of the cluster."""
    from rescheduler.app.scheduler_config import ServerTrust, is_over, read_authority  # noqa: PLC0415 - as above

    trust = ServerTrust(b"", options.scheduler_ca_file or "", options.server_name or "", options.insecure)
    if options.prefix.startswith("http:"):
        messages.warn([f"{options.prefix} has no TLS: anything on the network path can answer in our place"])
        return trust
    if options.insecure:
        messages.warn(
            ["--insecure-skip-tls-verify: anything on the network path can answer in our place; use it for trying out"]
        )
    if options.ca_file:
        trust = replace(trust, authority=read_authority(options.ca_file))
        if is_over(trust.authority):
            messages.warn([f"--ca-file {options.ca_file}: the CA has ended; kube-scheduler will not believe it"])
    return trust if trust.is_given else _own_trust(options, access)


def _own_trust(options: ExtenderOptions, access: AccessOptions) -> ServerTrust:
    from rescheduler.app.scheduler_config import ServerTrust, read_own_trust  # noqa: PLC0415 - as above
    from rescheduler.cli.common import live_cluster  # noqa: PLC0415 - the same
    from rescheduler.kube.errors import ClusterError  # noqa: PLC0415 - the same

    host = urlsplit(options.prefix).hostname or ""
    try:
        found = asyncio.run(read_own_trust(live_cluster(access), options.namespace, host))
    except ClusterError as error:
        if access.kubeconfig or access.context or access.as_user:
            raise
        cure = "give --ca-file; without it kube-scheduler trusts only the CAs of its system"
        messages.warn([f"our CA could not be had from a cluster: {str(error).splitlines()[0]}", cure])
        return ServerTrust(server_name=options.server_name or "")
    return replace(found, server_name=options.server_name or found.server_name)


def _make_comment(trust: ServerTrust, names: list[str], kubeconfig: str) -> str:
    """Return a comment for readers of the file."""
    lines = ["Has a stock kube-scheduler ask kube-rescheduler about every pod: kube-scheduler --config=THIS-FILE"]
    if "rescheduler-scheduler" in names:
        lines += [
            "The profile rescheduler-scheduler is without the plugin Rescheduler: a stock kube-scheduler lacks it, and",
            "does not start where it is enabled. Its pluginConfig may stand here; `rescheduler run --config` reads it.",
        ]
    if trust.ends is not None:
        lines.append(f"The CA in caData ends on {trust.ends:%Y-%m-%d}; print this again when it is renewed.")
    if not kubeconfig:
        lines += [
            "With --config, kube-scheduler ignores its flag --kubeconfig: unless its pod has a service account,",
            "it needs clientConnection.kubeconfig (rescheduler scheduler-config --scheduler-kubeconfig PATH).",
        ]
    return "".join(f"# {line}\n" for line in lines)
