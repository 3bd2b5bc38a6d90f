"""The flags that several commands share, in groups; each group comes to the command as one dataclass.

They follow kubectl's habits. `input_options` says where the cluster is read from, `access_options` which live cluster
is meant where no file will do, `policy_options` what the operator wants, over the file of `--config`; all are checked
here, and a wrong one is a usage error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import click

from rescheduler.model.fields import Flag, Section, flag_name, to_camel
from rescheduler.model.policy import Approval, MigrationMethod, Policy, ThresholdMode, Utilization
from rescheduler.model.time import DurationError, InstantError, parse_duration, parse_instant

Command = Callable[..., None]
Option = Callable[[Command], Command]
Group = TypeVar("Group")

STDIN = "-"


@dataclass(frozen=True, slots=True)
class InputOptions:
    """Where the cluster is read from."""

    files: tuple[str, ...]
    kubeconfig: str | None
    context: str | None
    as_user: str | None
    as_groups: tuple[str, ...]
    request_timeout: float | None

    def check(self) -> None:
        """Refuse flags that contradict each other."""
        live = {
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--as": self.as_user,
            "--as-group": self.as_groups,
            "--request-timeout": self.request_timeout,
        }
        given = [flag for flag, value in live.items() if value]
        if self.files and given:
            raise click.UsageError(f"{given[0]} is for the live cluster and -f reads a file: give one of the two.")
        if self.files.count(STDIN) > 1:
            raise click.UsageError("-f - can be given only once: standard input can be read only once.")


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Which live cluster, and as whom."""

    kubeconfig: str | None
    context: str | None
    as_user: str | None
    as_groups: tuple[str, ...]
    request_timeout: float | None


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """Whether to wait until what was ordered is done, and how many seconds at most; None is no limit."""

    wait: bool
    timeout: float | None

    def check(self) -> None:
        """Refuse a time-out for what is not waited for."""
        if self.timeout is not None and not self.wait:
            raise click.UsageError("--timeout says how long to wait, and nothing is waited for: give --wait, too.")


@dataclass(frozen=True, slots=True)
class PolicyFlags:
    """A configuration file, and flags over it."""

    config: str | None
    overrides: Mapping[str, object]
    """Values by field of the configuration, as `config.loader.override` takes them; None is not given."""


def _timeout(text: str) -> float:
    """`30s`, `1m`, or seconds; 0 is none, as in kubectl."""
    try:
        seconds = parse_duration(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)
    except DurationError as error:
        raise click.BadParameter(str(error)) from None
    if seconds < 0:
        raise click.BadParameter(f"{text} is negative")
    return seconds


def _limited(text: str) -> float | None:
    """The same, with None for no limit."""
    return _timeout(text) or None


def _instant(text: str) -> float:
    """An RFC 3339 time."""
    try:
        return parse_instant(text)
    except InstantError as error:
        raise click.BadParameter(str(error)) from None


def _count(text: str) -> int | str:
    """A number, or a word that the configuration understands (`unlimited`)."""
    return int(text) if text.removeprefix("-").isdecimal() else text


def group_options(name: str, into: type[Group], options: Sequence[Option]) -> Option:
    """A decorator that adds options to a command and hands them to it as one dataclass."""
    taken = [field.name for field in fields(into)]  # type: ignore[arg-type] # always one of the dataclasses above

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def gathering(**given: Any) -> None:
            group = into(**{key: given.pop(key) for key in taken})
            command(**{name: group}, **given)

        wrapped: Command = gathering
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorate


_access: Sequence[Option] = (
    click.option("--kubeconfig", metavar="FILE", type=click.Path(), help="The kubeconfig of the live cluster."),
    click.option("--context", metavar="NAME", help="The kubeconfig's context to use."),
    click.option("--as", "as_user", metavar="USER", help="Act as this user."),
    click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="Act as this group; may be repeated."),
    click.option(
        "--request-timeout",
        type=_timeout,
        metavar="DURATION",
        help="Timeout of one request to the API server, such as 30s; 0 is no limit.",
    ),
)

access_options = group_options("access", AccessOptions, _access)

input_options = group_options(
    "inputs",
    InputOptions,
    [
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="FILE",
            type=click.Path(),
            help="Read the cluster from the output of `kubectl get … -A -o json|yaml` or of `rescheduler snapshot`, "
            "gzipped or not; - is standard input. May be repeated. Default: the live cluster.",
        ),
        *_access,
    ],
)


def _policy_flags() -> dict[str, tuple[str, Option]]:
    """The flag of each field that has one, by the parameter that click gives its value in: the field, the option."""
    nested = [(f"{to_camel(each.name)}.", each.default) for each in fields(Policy) if isinstance(each.default, Section)]
    found: dict[str, tuple[str, Option]] = {}
    for prefix, section in (("", Policy), *nested):
        for each in fields(section):  # type: ignore[arg-type] # every section is a dataclass
            flag = each.metadata.get("flag")
            if flag is not None:
                key = prefix + to_camel(each.name)
                name = flag.name or flag_name(key)
                found[name.removeprefix("--").replace("-", "_")] = (key, _policy_flag(name, key, str(each.type), flag))
    return dict(sorted(found.items(), key=lambda item: _PLACES.get(item[1][0], len(_PLACES))))


_PLACES = {
    key: place
    for place, key in enumerate(("enabledStrategies", "utilization", "cpuThreshold", "memoryThreshold",
        "imbalanceThreshold", "maxReschedulePods", "migrationMethod", "excludedNamespaces", "excludedPodSelector",
        "minPodAge", "coolDown", "allow.jobs", "allow.localStorage", "allow.singleReplica"))
}  # fmt: skip
"""The order of help: what plans are tried with comes first. Other flags follow in the order of the fields."""
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "Percent": {"type": float, "metavar": "PERCENT"},
    "Count": {"type": _count, "metavar": "N|unlimited"},
    "PositiveCount": {"type": _count, "metavar": "N|unlimited"},
    "Duration": {"metavar": "DURATION"},
    "LabelSelector": {"metavar": "SELECTOR"},
}
_ENUMS = {each.__name__: each for each in (Approval, MigrationMethod, ThresholdMode, Utilization)}


def _policy_flag(name: str, key: str, kind: str, flag: Flag) -> Option:
    """The option for a field of this type; the checks of values are the configuration's."""
    if kind.startswith("tuple["):
        return click.option(name, multiple=True, metavar=flag.metavar, help=flag.help)
    about = f"{key}: {flag.help}"
    if kind == "bool":  # None when it is not given, so that the file's word stands
        return click.option(f"{name}/--no-{name.removeprefix('--')}", default=None, help=about)
    if kind in _ENUMS:
        return click.option(name, type=click.Choice([each.value for each in _ENUMS[kind]]), help=about)
    how = {**_TYPES.get(kind, {}), **({"metavar": flag.metavar} if flag.metavar else {})}
    return click.option(name, help=about, **how)


def policy_options(command: Command) -> Command:
    """Adds `--config` and a flag for each field of the policy that has one; the command gets them as PolicyFlags."""
    flags = _policy_flags()

    @functools.wraps(command)
    def grouped(config: str | None, **given: Any) -> None:
        values = {key: given.pop(parameter) for parameter, (key, _) in flags.items()}
        command(
            wanted=PolicyFlags(config, {key: value if value != () else None for key, value in values.items()}), **given
        )

    wrapped: Command = grouped
    for _, option in reversed(flags.values()):
        wrapped = option(wrapped)
    about = "The configuration; - is standard input."
    return click.option("--config", metavar="FILE", type=click.Path(), help=about)(wrapped)


config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(),
    help="The controller's configuration; - is standard input.",
)


def waiting_options(until: str, *, wait: bool) -> Option:
    """`--wait` and `--timeout`; `wait` is what is done where neither is given."""
    return group_options(
        "waiting",
        WaitOptions,
        [
            click.option("--wait/--no-wait", default=wait, show_default=True, help=f"Wait until {until}."),
            click.option(
                "--timeout",
                type=_limited,
                default="0",
                metavar="DURATION",
                help="How long to wait, such as 5m; 0 (default) is no limit. Moves go on after it.",
            ),
        ],
    )


now_option = click.option(
    "--now",
    type=_instant,
    metavar="TIME",
    help="The current time (2026-11-15T08:30:00Z), for the ages of pods. Default: the time in the recording "
    "of `rescheduler snapshot`, or on a live cluster the clock.",
)
