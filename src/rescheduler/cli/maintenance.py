"""`rescheduler maintenance`: empties nodes and keeps them empty, until the work on them is done.

`app.maintenance` labels nodes and looks at them; the controller's mandatory strategies do the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import connect, live_cluster, read_cluster, report_failures, warn_if_absent
from rescheduler.cli.lazy import app, app_follow, app_maintenance
from rescheduler.cli.options import (
    AccessOptions,
    WaitOptions,
    command,
    config_file,
    no_headers_option,
    option,
    output_option,
    waiting_options,
)
from rescheduler.cli.output import FORMATS, Table, Terminal, format_count, format_document, join_names, plain
from rescheduler.cli.progress import show_progress

if TYPE_CHECKING:
    from rescheduler.app.maintenance import CordonState
    from rescheduler.config.schema import Configuration
    from rescheduler.planning.maintenance import DrainStatus, RemainingPod

    Cordons = Mapping[str, CordonState]

_EQUIPPED = "with NodeMaintenance among its enabledStrategies"
_HEADERS = ("NODE", "CORDONED", "TO MOVE", "REFUSED", "STAYING")
_NAMED = 5

_DRY_RUN = "Let the server check it, and change nothing."


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The configuration, and whether anything is changed."""

    config: str | None = config_file()
    dry_run: bool = option("--dry-run", is_flag=True, help=_DRY_RUN)


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """The configuration, and the output."""

    config: str | None = config_file()
    output: str = output_option(
        "wide says why pods are refused; json and yaml name every pod.", "wide", *FORMATS, "name"
    )
    no_headers: bool = no_headers_option()


@click.group("maintenance")
def maintenance() -> None:
    """Empty nodes for maintenance, and put them back to use.

    A node under maintenance carries the label `scheduler.alpha.kubernetes.io/maintenance: "true"`. A controller with
    NodeMaintenance among its enabledStrategies cordons it and moves its pods away. Without the label it is uncordoned.
    """


@command("start", maintenance)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@waiting_options("only pods of DaemonSets and of the node itself are left", wait=True)
def start(nodes: tuple[str, ...], access: AccessOptions, options: StartOptions, waiting: WaitOptions) -> None:
    """Empty nodes and keep them empty.

    Labels the nodes, and shows how many pods are left until they are empty. Pods that cannot be moved are listed with
    the reason; when only such pods are left, the exit code is 4. Warns if no controller runs, or if none has cordoned
    the nodes after 20 seconds. Ctrl-C only stops waiting.

    \b
    Examples:
      rescheduler maintenance start node-7
      rescheduler maintenance start node-7 node-8 --timeout 30m
    """
    with report_failures():
        live, config = connect(access, options.config)
        for node in live.run(app_maintenance.mark, nodes, maintenance=True, dry=options.dry_run):
            _print_mark(node, "under maintenance", dry=options.dry_run)
        if options.dry_run:
            return
        warn_if_absent(live, config, f"nothing is moved until one runs {_EQUIPPED} (`rescheduler run`)")
        if options.config is not None and (missing := app_maintenance.missing_strategy(config.policy())):
            messages.warn([f"{missing} is not among the configuration's enabledStrategies: nothing is moved"])
        if waiting.wait:
            _wait(live, list(dict.fromkeys(nodes)), config, waiting.timeout)


@command("stop", maintenance)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
def stop(nodes: tuple[str, ...], access: AccessOptions, *, dry_run: bool) -> None:
    """Let nodes take pods again.

    Removes the label. The controller then uncordons the node, if the controller cordoned it.

    \b
    Examples:
      rescheduler maintenance stop node-7
    """
    with report_failures():
        for node in live_cluster(access).run(app_maintenance.mark, nodes, maintenance=False, dry=dry_run):
            _print_mark(node, "no longer under maintenance", dry=dry_run)


@command("status", maintenance)
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
def status(nodes: tuple[str, ...], access: AccessOptions, options: StatusOptions) -> None:
    """Show nodes under maintenance, and what is left on them.

    TO MOVE counts pods that will be moved, REFUSED pods that cannot be moved until something changes, STAYING pods of
    DaemonSets and of the node itself.

    \b
    Examples:
      rescheduler maintenance status
      rescheduler maintenance status node-7 -o wide
    """
    with report_failures():
        live, config = connect(access, options.config)
        cordons, others = live.run(app_maintenance.find_marked, nodes)
        statuses = _describe_nodes(live, config, [*cordons]) if cordons and options.output != "name" else []
    for name in others:
        messages.note(f"node {name} is not under maintenance")
    if uncordoned := _uncordoned(cordons):
        messages.note(_describe_uncordoned(uncordoned))
    if options.output in FORMATS:
        messages.emit(format_document(_status_document(statuses, cordons), options.output))
    elif options.output == "name":
        messages.emit_lines(f"node/{plain(name)}" for name in cordons)
    elif cordons:
        table = _status_table(statuses, cordons, wide=options.output == "wide")
        messages.emit_lines(table.lines(Terminal.of(sys.stdout), headers=not options.no_headers))
    elif not nodes:
        messages.note("no node is under maintenance")


def _status_table(nodes: Sequence[DrainStatus], cordons: Cordons, *, wide: bool) -> Table:
    """The nodes; `wide` names what is refused."""
    rows = []
    for node in nodes:
        counts = (len(node.remaining) - len(node.stuck), len(node.stuck), node.staying)
        held = [_describe_remaining(pod) for pod in node.remaining if pod.reason]
        more = [f"and {len(held) - _NAMED} more"] if len(held) > _NAMED else []
        reasons = ["; ".join([*held[:_NAMED], *more])] if wide else []
        rows.append([node.node, cordons[node.node].value, *map(str, counts), *reasons])
    headers = (*_HEADERS, "REASONS") if wide else _HEADERS
    return Table(headers, rows, flowing=int(wide), right=frozenset({2, 3, 4}))


def _status_document(nodes: Sequence[DrainStatus], cordons: Cordons) -> dict[str, object]:
    return {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "MaintenanceStatus",
        "nodes": [
            {
                "name": node.node,
                "cordoned": cordons[node.node] is not app_maintenance.CordonState.NONE,
                "cordonedByRescheduler": cordons[node.node] is app_maintenance.CordonState.OURS,
                "remaining": [
                    {"namespace": pod.namespace, "pod": pod.pod, "reason": pod.reason, "refused": pod.lasting}
                    for pod in node.remaining
                ],
                "staying": node.staying,
            }
            for node in nodes
        ],
    }


def _describe_remaining(pod: RemainingPod) -> str:
    """A pod that is still there, and why."""
    return f"{pod.full_name}: {pod.reason or 'waits for its turn'}"


def _print_mark(node: app_maintenance.MarkedNode, what: str, *, dry: bool) -> None:
    state = what if node.changed else f"{what} already" if what.startswith("under") else "not under maintenance"
    messages.emit_line(f"node/{node.node} {state}{' (dry run)' if dry and node.changed else ''}")


def _uncordoned(cordons: Cordons) -> list[str]:
    return [name for name, cordon in cordons.items() if cordon is app_maintenance.CordonState.NONE]


def _describe_uncordoned(nodes: Iterable[str]) -> str:
    # A controller that empties nodes cordons them first, even when it is paused.
    return f"not cordoned by any controller yet: {', '.join(nodes)}; one must run {_EQUIPPED}"


def _describe_controller(live: app.LiveCluster, config: Configuration, nodes: Sequence[str]) -> str:
    """Say whether a controller will go on, as far as that can be seen."""
    if absent := live.run(app_follow.explain_absence, config.fields.leader_election.resource_name):
        return absent
    cordons, _ = live.run(app_maintenance.find_marked, nodes)
    if uncordoned := _uncordoned(cordons):
        return _describe_uncordoned(uncordoned)
    ours = all(cordon is app_maintenance.CordonState.OURS for cordon in cordons.values())
    return "the controller goes on" if ours else f"a controller {_EQUIPPED} goes on"


def _describe_nodes(live: app.LiveCluster, config: Configuration, nodes: Sequence[str]) -> list[DrainStatus]:
    return app_maintenance.describe_nodes(read_cluster(live), config.policy(), nodes)


def _wait(live: app.LiveCluster, nodes: list[str], config: Configuration, timeout: float | None) -> None:
    """Wait until the nodes are empty; pods that cannot be moved are listed at once, and not waited for."""
    barred = [pod for node in _describe_nodes(live, config, nodes) for pod in node.stuck]
    messages.warn(f"{_describe_remaining(pod)}; it will stay" for pod in barred)
    try:
        with show_progress() as show:

            def show_left(left: dict[str, int]) -> None:
                text = ", ".join(f"{node}: {format_count(count, 'pod')} left" for node, count in left.items())
                show(text, text)

            def warn(names: list[str]) -> None:
                messages.warn([_describe_uncordoned(names)])

            keys = [(pod.namespace, pod.pod) for pod in barred]
            left = live.run(app_maintenance.await_drain, nodes, keys, show_left, warn, timeout)
    except TimeoutError:
        stuck = [_describe_remaining(pod) for node in _describe_nodes(live, config, nodes) for pod in node.remaining]
        prospect = _describe_controller(live, config, nodes)
        raise messages.CommandError(f"not empty yet; {prospect}", *stuck[:10], code=messages.TIMED_OUT) from None
    except KeyboardInterrupt:
        messages.note("interrupted; the mark stays. `rescheduler maintenance status` shows how far it is")
        raise
    _conclude(left)


def _conclude(left: dict[str, set[tuple[str, str]]]) -> None:
    for node, pods in left.items():
        if not pods:
            messages.emit_line(f"node/{node} is empty")
    named = {node: [f"{namespace}/{name}" for namespace, name in sorted(pods)] for node, pods in left.items() if pods}
    staying = [f"{node} keeps {join_names(pods, _NAMED)}, which cannot be moved" for node, pods in named.items()]
    if staying:
        raise messages.CommandError(*staying, code=messages.REFUSED)
