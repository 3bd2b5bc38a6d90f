"""The flags of `rescheduler scheduler-config`: what the extender is, and what else the scheduler is told.

Each group comes to the command as one dataclass; a wrong flag is a usage error that says what would be right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

import click

from rescheduler.cli.options import gathered
from rescheduler.cli.output.documents import FORMATS
from rescheduler.model.duration import DurationError, parse_duration

_NAMESPACE = "kube-rescheduler"
_SERVICE = "https://kube-rescheduler-webhook.{}.svc:443"
_PATH = "/extender"
# The target has five points more than the others, and each counts ten times its weight: 1,500. All of the scheduler's
# own plugins together give at most 1,200.
_WEIGHT = 30


@dataclass(frozen=True, slots=True)
class Asked:
    """The extender, as the flags have it."""

    url: str | None
    namespace: str
    ca_file: str | None
    scheduler_ca_file: str | None
    server_name: str | None
    insecure: bool
    weight: int
    timeout: float

    @property
    def prefix(self) -> str:
        """Where the scheduler asks."""
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
class Rest:
    """The rest of the scheduler's configuration."""

    scheduler_names: tuple[str, ...]
    scheduler_kubeconfig: str | None
    leader_elect: bool | None
    merge: str | None
    output: str


def _url(text: str) -> str:
    """The address with the extender's path."""
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


asked_options = gathered(
    "asked",
    Asked,
    [
        click.option(
            "--url",
            type=_url,
            metavar="URL",
            help=f"Where kube-scheduler reaches our extender.  [default: {_SERVICE.format('NAMESPACE')}]",
        ),
        click.option(
            "-n",
            "--namespace",
            default=_NAMESPACE,
            show_default=True,
            metavar="NAMESPACE",
            help="Where our Service and our Secret are.",
        ),
        click.option("--ca-file", metavar="FILE", help="Trust the CA in this file; it becomes a part of the output."),
        click.option(
            "--scheduler-ca-file", metavar="PATH", help="Trust the CA in a file that kube-scheduler reads by itself."
        ),
        click.option("--server-name", metavar="NAME", help="Whose certificate it is, if not that of the URL's host."),
        click.option(
            "--insecure-skip-tls-verify", "insecure", is_flag=True, help="Trust whoever answers; for trying out only."
        ),
        click.option(
            "--weight",
            type=click.IntRange(1, 2**31 - 1),
            default=_WEIGHT,
            show_default=True,
            metavar="N",
            help="How much our scores count; the default outdoes all others together.",
        ),
        click.option(
            "--timeout",
            type=_timeout,
            default="2s",
            show_default=True,
            metavar="DURATION",
            help="After which time kube-scheduler goes on without us.",
        ),
    ],
)
rest_options = gathered(
    "rest",
    Rest,
    [
        click.option(
            "--scheduler-name",
            "scheduler_names",
            type=_name,
            multiple=True,
            metavar="NAME",
            help="A profile; may be repeated.  [default: default-scheduler and rescheduler-scheduler]",
        ),
        click.option("--scheduler-kubeconfig", metavar="PATH", help="The kubeconfig that kube-scheduler reads."),
        click.option(
            "--leader-elect/--no-leader-elect",
            default=None,
            help="Whether kube-scheduler takes part in leader election.  [default: it does]",
        ),
        click.option(
            "--merge",
            metavar="FILE",
            help="Add the extender to this configuration, and leave the rest alone, but for what other flags say; - is "
            "standard input. Comments are not kept.",
        ),
        click.option(
            "-o", "--output", type=click.Choice(FORMATS), default="yaml", show_default=True, help="In which form."
        ),
    ],
)
