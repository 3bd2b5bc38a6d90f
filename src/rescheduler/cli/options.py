"""The flags that several commands share, in groups; each group comes to the command as one dataclass.

They follow kubectl's habits. `input_options` says where the cluster is read from, `access_options` which live cluster
is meant where no file will do, `policy_options` what the operator wants, over the file of `--config`; all are checked
here, and a wrong one is a usage error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import click

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
    """What the operator wants: a file, and flags over it."""

    config: str | None
    strategies: tuple[str, ...]
    utilization: str | None
    cpu_threshold: float | None
    memory_threshold: float | None
    imbalance_threshold: float | None
    max_reschedule_pods: int | str | None
    migration_method: str | None
    excluded_namespaces: tuple[str, ...]
    excluded_pod_selector: str | None
    min_pod_age: str | None
    cool_down: str | None
    allow_jobs: bool | None
    allow_local_storage: bool | None
    allow_single_replica: bool | None
    per_node_in: int | str | None
    per_node_out: int | str | None
    per_namespace: int | str | None
    per_workload: int | str | None

    def overrides(self) -> dict[str, object]:
        """The flags as fields of the configuration; None is not given."""
        return {
            "enabledStrategies": self.strategies or None,
            "utilization": self.utilization,
            "cpuThreshold": self.cpu_threshold,
            "memoryThreshold": self.memory_threshold,
            "imbalanceThreshold": self.imbalance_threshold,
            "maxReschedulePods": self.max_reschedule_pods,
            "migrationMethod": self.migration_method,
            "excludedNamespaces": self.excluded_namespaces or None,
            "excludedPodSelector": self.excluded_pod_selector,
            "minPodAge": self.min_pod_age,
            "coolDown": self.cool_down,
            "allow.jobs": self.allow_jobs,
            "allow.localStorage": self.allow_local_storage,
            "allow.singleReplica": self.allow_single_replica,
            "limits.perNodeIn": self.per_node_in,
            "limits.perNodeOut": self.per_node_out,
            "limits.perNamespace": self.per_namespace,
            "limits.perWorkload": self.per_workload,
        }


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


def _flag(name: str, about: str) -> Option:
    """A switch that is None when it is not given, so that the file's word stands."""
    return click.option(f"{name}/--no-{name.removeprefix('--')}", default=None, help=about)


def _limit(name: str, about: str) -> Option:
    return click.option(name, type=_count, metavar="N|unlimited", help=about)


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
    click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="… and group; may be repeated."),
    click.option(
        "--request-timeout",
        type=_timeout,
        metavar="DURATION",
        help="How long one request to the API server may take, such as 30s; 0 is no limit.",
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
            help="Read the cluster from what `kubectl get … -A -o json|yaml` or `rescheduler snapshot` wrote, gzipped "
            "or not; - is standard input. May be repeated. Without it, the live cluster is read.",
        ),
        *_access,
    ],
)

policy_options = group_options(
    "wanted",
    PolicyFlags,
    [
        click.option("--config", metavar="FILE", type=click.Path(), help="The configuration; - is standard input."),
        click.option(
            "--strategy",
            "strategies",
            multiple=True,
            metavar="NAME",
            help="Run this strategy instead of enabledStrategies; may be repeated.",
        ),
        click.option(
            "--utilization",
            type=click.Choice(["requests", "usage", "max"]),
            help="utilization: what a node's use is reckoned by, what pods request or what is measured.",
        ),
        click.option("--cpu-threshold", type=float, metavar="PERCENT", help="cpuThreshold: above it a node is hot."),
        click.option("--memory-threshold", type=float, metavar="PERCENT", help="memoryThreshold: the same of memory."),
        click.option(
            "--imbalance-threshold",
            type=float,
            metavar="POINTS",
            help="imbalanceThreshold: the gap between nodes that LoadBalancing accepts.",
        ),
        click.option(
            "--max-reschedule-pods", type=_count, metavar="N|unlimited", help="maxReschedulePods: moves in one plan."
        ),
        click.option(
            "--migration-method",
            type=click.Choice(["auto", "handoff", "evict"]),
            help="migrationMethod: how pods are moved.",
        ),
        click.option(
            "--excluded-namespace",
            "excluded_namespaces",
            multiple=True,
            metavar="NAMESPACE",
            help="Leave this namespace alone; may be repeated, and replaces excludedNamespaces "
            "(kube-system, kube-public).",
        ),
        click.option("--excluded-pod-selector", metavar="SELECTOR", help="excludedPodSelector: leave these alone."),
        click.option("--min-pod-age", metavar="DURATION", help="minPodAge: leave younger pods alone."),
        click.option("--cool-down", metavar="DURATION", help="coolDown: how long a moved workload rests."),
        _flag("--allow-jobs", "allow.jobs: move pods of Jobs too, which start their work again."),
        _flag("--allow-local-storage", "allow.localStorage: move pods whose local data is lost by it."),
        _flag("--allow-single-replica", "allow.singleReplica: move single replicas that are down meanwhile."),
        _limit("--per-node-in", "limits.perNodeIn: moves onto one node."),
        _limit("--per-node-out", "limits.perNodeOut: moves off one node."),
        _limit("--per-namespace", "limits.perNamespace: moves in one namespace."),
        _limit("--per-workload", "limits.perWorkload: moves of one workload."),
    ],
)

config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(),
    help="The controller's configuration, which says what is never moved; - is standard input.",
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
                help="How long to wait, such as 5m; 0, the default, is no limit. What was ordered goes on after it.",
            ),
        ],
    )


now_option = click.option(
    "--now",
    type=_instant,
    metavar="TIME",
    help="The time that pods' ages are reckoned from (2026-11-15T08:30:00Z); without it the time that a recording "
    "of `rescheduler snapshot` carries or, on a live cluster, the clock.",
)
