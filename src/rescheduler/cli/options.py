"""Options that several commands share, and groups of options that a command gets as one dataclass.

An option is declared once: as a field of a group, or as a field of the policy (`model.policy`), for which
`command` makes flags. They follow kubectl's habits; an invalid value is a usage error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, get_type_hints

import click

from rescheduler.cli import messages
from rescheduler.model.fields import Flag, Section, flag_name, to_camel
from rescheduler.model.policy import Approval, MigrationMethod, Policy, ThresholdMode, Utilization
from rescheduler.model.time import DurationError, InstantError, parse_duration, parse_instant

Command = Callable[..., None]
Option = Callable[[Command], Command]

STDIN = "-"


def _timeout(text: str) -> float:
    """Parse `30s`, `1m`, or seconds; 0 is no limit, as in kubectl."""
    try:
        seconds = parse_duration(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)
    except DurationError as error:
        raise click.BadParameter(str(error)) from None
    if seconds < 0:
        raise click.BadParameter(f"{text} is negative")
    return seconds


def _limited(text: str) -> float | None:
    """Parse the same, with None for no limit."""
    return _timeout(text) or None


def _instant(text: str) -> float:
    """Parse an RFC 3339 time."""
    try:
        return parse_instant(text)
    except InstantError as error:
        raise click.BadParameter(str(error)) from None


def _count(text: str) -> int | str:
    """Parse a number, or leave a word for the configuration (`unlimited`)."""
    return int(text) if text.removeprefix("-").isdecimal() else text


def option(*flags: str, **how: Any) -> Any:
    """Declare a field of an option group, with the arguments of `click.option`; its name is that of the field."""
    return field(metadata={"option": (flags, how)})


def command(
    name: str, group: click.Group | None = None, epilog: str | None = messages.EXIT_CODES
) -> Callable[[Command], click.Command]:
    """Make a decorator for a command. Parameters that are option groups get their options; -v is the last option."""

    def decorate(function: Command) -> click.Command:
        groups = {
            parameter: _policy_options() if kind is PolicyFlags else _group_options(kind)
            for parameter, kind in get_type_hints(function).items()
            if isinstance(kind, type) and is_dataclass(kind) and kind is not WaitOptions  # see waiting_options
        }

        @functools.wraps(function)
        def run(**given: Any) -> None:
            function(**{parameter: take(given) for parameter, (_, take) in groups.items()}, **given)

        wrapped: Command = run
        for each in reversed([each for declared, _ in groups.values() for each in declared]):
            wrapped = each(wrapped)
        make = click.command if group is None else group.command
        return messages.verbose_option(make(name, epilog=epilog)(wrapped))

    return decorate


OptionGroup = tuple[Sequence[Option], Callable[[dict[str, Any]], object]]
"""The options of a group, and a function that takes their values out of all that are given, and makes the group."""


def _group_options(into: type) -> OptionGroup:
    """Return the options that the fields of a dataclass declare."""
    listed = sorted(fields(into), key=lambda each: each.name not in into.__annotations__)
    declared = [click.option(*flags, each.name, **how) for each in listed for flags, how in [each.metadata["option"]]]
    return declared, lambda given: into(**{each.name: given.pop(each.name) for each in listed})


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """The live cluster, and the user."""

    kubeconfig: str | None = option(
        "--kubeconfig", metavar="FILE", type=click.Path(), help="The kubeconfig of the live cluster."
    )
    context: str | None = option("--context", metavar="NAME", help="The kubeconfig's context to use.")
    as_user: str | None = option("--as", metavar="USER", help="Act as this user.")
    as_groups: tuple[str, ...] = option(
        "--as-group", multiple=True, metavar="GROUP", help="Act as this group; may be repeated."
    )
    request_timeout: float | None = option(
        "--request-timeout",
        type=_timeout,
        metavar="DURATION",
        help="Timeout of one request to the API server, such as 30s; 0 is no limit.",
    )


@dataclass(frozen=True, slots=True)
class InputOptions(AccessOptions):
    """The source that the cluster is read from."""

    files: tuple[str, ...] = option(
        "-f",
        "--filename",
        multiple=True,
        metavar="FILE",
        type=click.Path(),
        help="Read the cluster from the output of `kubectl get … -A -o json|yaml` or of `rescheduler snapshot`, "
        "gzipped or not; - is standard input. May be repeated. Default: the live cluster.",
    )

    def __post_init__(self) -> None:
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
class WaitOptions:
    """Whether to wait for the end, and for how many seconds at most; None is no limit."""

    wait: bool
    timeout: float | None

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.wait:
            raise click.UsageError("--timeout says how long to wait, and nothing is waited for: give --wait, too.")


@dataclass(frozen=True, slots=True)
class PolicyFlags:
    """A configuration file, and flags that override it."""

    config: str | None
    overrides: Mapping[str, object]
    """Values by field of the configuration, for `config.loader.override`; None if the flag is not given."""


def _policy_flags() -> dict[str, tuple[str, Option]]:
    """Return the field and the option of each flag, by the name of click's parameter."""
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
    """Make the option for a field of this type; the configuration checks the values."""
    if kind.startswith("tuple["):
        return click.option(name, multiple=True, metavar=flag.metavar, help=flag.help)
    about = f"{key}: {flag.help}"
    if kind == "bool":  # None if it is not given, so that the file's value counts
        return click.option(f"{name}/--no-{name.removeprefix('--')}", default=None, help=about)
    if kind in _ENUMS:
        return click.option(name, type=click.Choice([each.value for each in _ENUMS[kind]]), help=about)
    how = {**_TYPES.get(kind, {}), **({"metavar": flag.metavar} if flag.metavar else {})}
    return click.option(name, help=about, **how)


def _policy_options() -> OptionGroup:
    """Return `--config`, and a flag for each field of the policy that has one."""
    flags = _policy_flags()
    config = click.option("--config", metavar="FILE", type=click.Path(), help="The configuration; - is standard input.")

    def take(given: dict[str, Any]) -> PolicyFlags:
        values = {key: given.pop(parameter) for parameter, (key, _) in flags.items()}
        return PolicyFlags(given.pop("config"), {key: None if value == () else value for key, value in values.items()})

    return [config, *(option for _, option in flags.values())], take


def config_file(about: str = "The controller's configuration; - is standard input.") -> Any:
    """Declare the field of an option group for `--config`."""
    return option("--config", metavar="FILE", type=click.Path(), help=about)


def output_option(about: str, *formats: str) -> Any:
    """Declare the field of an option group for `-o`: a table, or one of these formats."""
    choice = click.Choice(["table", *formats])
    return option("-o", "--output", type=choice, default="table", show_default=True, help=about)


def no_headers_option() -> Any:
    """Declare the field of an option group for `--no-headers`."""
    return option("--no-headers", is_flag=True, help="Omit the headers of the table.")


def waiting_options(until: str, *, wait: bool) -> Option:
    """Make a decorator that adds `--wait` and `--timeout`; `wait` is the default. The command gets WaitOptions."""

    def decorate(command: Command) -> Command:
        @click.option("--wait/--no-wait", default=wait, show_default=True, help=f"Wait until {until}.")
        @click.option(
            "--timeout",
            type=_limited,
            default="0",
            metavar="DURATION",
            help="How long to wait, such as 5m; 0 (default) is no limit. Moves go on after it.",
        )
        @functools.wraps(command)
        def grouped(*, wait: bool, timeout: float | None, **given: Any) -> None:
            command(waiting=WaitOptions(wait, timeout), **given)

        return grouped

    return decorate


def now_option() -> Any:
    """Declare the field of an option group for `--now`."""
    about = (
        "The current time (2026-11-15T08:30:00Z), for the ages of pods. Default: the time in the recording "
        "of `rescheduler snapshot`, or on a live cluster the clock."
    )
    return option("--now", type=_instant, metavar="TIME", help=about)
