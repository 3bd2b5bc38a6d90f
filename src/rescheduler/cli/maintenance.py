"""`rescheduler maintenance`: empties nodes and keeps them empty, until the work on them is done.

`app.maintenance` labels nodes and looks at them; the controller's mandatory strategies do the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures, show_reading
from rescheduler.cli.lazy import app, app_follow, app_maintenance, maintenance_output
from rescheduler.cli.options import AccessOptions, WaitOptions, access_options, config_option, waiting_options
from rescheduler.cli.output.documents import FORMATS, document_text
from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.cli.progress import show_progress

if TYPE_CHECKING:
    from rescheduler.config.configuration import Configuration
    from rescheduler.planning.maintenance import DrainStatus

_EQUIPPED = "with NodeMaintenance among its enabledStrategies"
_dry_run = click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")


@click.group("maintenance")
def maintenance() -> None:
    """Empty nodes for maintenance, and put them back to use.

    A node under maintenance carries the label `scheduler.alpha.kubernetes.io/maintenance: "true"`. A controller with
    NodeMaintenance among its enabledStrategies cordons it and moves its pods away. Without the label it is uncordoned.
    """


@maintenance.command("start", epilog=messages.EXIT_CODES)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@access_options
@config_option
@_dry_run
@waiting_options("only pods of DaemonSets and of the node itself are left", wait=True)
@messages.verbose_option
def start(
    nodes: tuple[str, ...], access: AccessOptions, config: str | None, waiting: WaitOptions, *, dry_run: bool
) -> None:
    """Empty nodes and keep them empty.

    Labels the nodes, and shows how many pods are left until they are empty. Pods that cannot be moved are listed with
    the reason; when only such pods are left, the exit code is 4. Warns if no controller runs, or if none has cordoned
    the nodes after 20 seconds. Ctrl-C only stops waiting.

    \b
    Examples:
      rescheduler maintenance start node-7
      rescheduler maintenance start node-7 node-8 --timeout 30m
    """
    waiting.check()
    with report_failures():
        configured = app.load_configuration(config, {})
        live = live_cluster(access, configured.fields.client_connection.kubeconfig)
        for node in app_maintenance.mark(live, nodes, maintenance=True, dry=dry_run):
            _say(node, "under maintenance", dry=dry_run)
        if dry_run:
            return
        _warn_if_idle(live, configured, known=config is not None)
        if waiting.wait:
            _wait(live, list(dict.fromkeys(nodes)), configured, waiting.timeout)


@maintenance.command("stop", epilog=messages.EXIT_CODES)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@access_options
@_dry_run
@messages.verbose_option
def stop(nodes: tuple[str, ...], access: AccessOptions, *, dry_run: bool) -> None:
    """Let nodes take pods again.

    Removes the label. The controller then uncordons the node, if the controller cordoned it.

    \b
    Examples:
      rescheduler maintenance stop node-7
    """
    with report_failures():
        for node in app_maintenance.mark(live_cluster(access), nodes, maintenance=False, dry=dry_run):
            _say(node, "no longer under maintenance", dry=dry_run)


@maintenance.command("status", epilog=messages.EXIT_CODES)
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
@access_options
@config_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *FORMATS, "name"]),
    default="table",
    show_default=True,
    help="wide says why pods are refused; json and yaml name every pod.",
)
@click.option("--no-headers", is_flag=True, help="Omit the headers of the table.")
@messages.verbose_option
def status(nodes: tuple[str, ...], access: AccessOptions, **flags: str | bool | None) -> None:
    """Show nodes under maintenance, and what is left on them.

    TO MOVE counts pods that will be moved, REFUSED pods that cannot be moved until something changes, STAYING pods of
    DaemonSets and of the node itself.

    \b
    Examples:
      rescheduler maintenance status
      rescheduler maintenance status node-7 -o wide
    """
    output = str(flags["output"])
    with report_failures():
        configured = app.load_configuration(str(flags["config"]) if flags["config"] else None, {})
        live = live_cluster(access, configured.fields.client_connection.kubeconfig)
        cordons, others = app_maintenance.find_marked(live, nodes)
        looked = _describe_nodes(live, configured, list(cordons)) if cordons and output != "name" else []
    for name in others:
        messages.note(f"node {name} is not under maintenance")
    if uncordoned := _uncordoned(cordons):
        messages.note(_describe_uncordoned(uncordoned))
    if output in FORMATS:
        messages.emit(document_text(maintenance_output.status_document(looked, cordons), output))
    elif output == "name":
        messages.emit("".join(f"node/{plain(name)}\n" for name in cordons))
    elif cordons:
        how = {"wide": output == "wide", "headers": not flags["no_headers"]}
        lines = maintenance_output.status_lines(looked, cordons, Terminal.of(sys.stdout), **how)
        messages.emit("".join(f"{line}\n" for line in lines))
    elif not nodes:
        messages.note("no node is under maintenance")


def _say(node: app_maintenance.MarkedNode, what: str, *, dry: bool) -> None:
    said = what if node.changed else f"{what} already" if what.startswith("under") else "not under maintenance"
    messages.emit(plain(f"node/{node.node} {said}{' (dry run)' if dry and node.changed else ''}") + "\n")


def _warn_if_idle(live: app.LiveCluster, configured: Configuration, *, known: bool) -> None:
    """Warn if nothing will happen, as far as that can be seen."""
    if absent := app_follow.explain_absence(live, configured.fields.leader_election.resource_name):
        messages.warn([f"{absent}; nothing is moved until one runs {_EQUIPPED} (`rescheduler run`)"])
    if known and (missing := app_maintenance.missing_strategy(configured.policy())):
        messages.warn([f"{missing} is not among the configuration's enabledStrategies: nothing is moved"])


def _uncordoned(cordons: Mapping[str, app_maintenance.CordonState]) -> list[str]:
    return [name for name, cordon in cordons.items() if cordon is app_maintenance.CordonState.NONE]


def _describe_uncordoned(nodes: Iterable[str]) -> str:
    # A controller that empties nodes cordons them first, even when it is paused.
    return f"not cordoned by any controller yet: {', '.join(nodes)}; one must run {_EQUIPPED}"


def _describe_controller(live: app.LiveCluster, configured: Configuration, nodes: Sequence[str]) -> str:
    """Say whether a controller will go on, as far as that can be seen."""
    if absent := app_follow.explain_absence(live, configured.fields.leader_election.resource_name):
        return absent
    cordons, _ = app_maintenance.find_marked(live, nodes)
    if uncordoned := _uncordoned(cordons):
        return _describe_uncordoned(uncordoned)
    ours = all(cordon is app_maintenance.CordonState.OURS for cordon in cordons.values())
    return "the controller goes on" if ours else f"a controller {_EQUIPPED} goes on"


def _describe_nodes(live: app.LiveCluster, configured: Configuration, nodes: Sequence[str]) -> list[DrainStatus]:
    with show_reading(live) as advance:
        snapshot = app.read(live, None, advance)
    return app_maintenance.describe_nodes(snapshot, configured.policy(), nodes)


def _wait(live: app.LiveCluster, nodes: list[str], configured: Configuration, timeout: float | None) -> None:
    """Wait until the nodes are empty; pods that cannot be moved are listed at once, and not waited for."""
    barred = [pod for node in _describe_nodes(live, configured, nodes) for pod in node.stuck]
    messages.warn(f"{maintenance_output.describe_remaining(pod)}; it will stay" for pod in barred)
    try:
        with show_progress() as line:

            def show(left: dict[str, int]) -> None:
                text = ", ".join(f"{node}: {_pods(count)} left" for node, count in left.items())
                line.change(text)
                line.state(text)

            def warn(names: list[str]) -> None:
                messages.warn([_describe_uncordoned(names)])

            callbacks = app_maintenance.DrainCallbacks(show, warn)
            emptying = app_maintenance.DrainWaiter(live, nodes, [(pod.namespace, pod.pod) for pod in barred], callbacks)
            emptying.wait(timeout)
    except TimeoutError:
        stuck = [
            maintenance_output.describe_remaining(pod)
            for node in _describe_nodes(live, configured, nodes)
            for pod in node.remaining
        ]
        prospect = _describe_controller(live, configured, nodes)
        raise messages.CommandError(f"not empty yet; {prospect}", *stuck[:10], code=messages.TIMED_OUT) from None
    except KeyboardInterrupt:
        messages.note("interrupted; the mark stays. `rescheduler maintenance status` shows how far it is")
        raise
    _conclude(emptying.left)


def _conclude(left: dict[str, set[tuple[str, str]]]) -> None:
    for node, pods in left.items():
        if not pods:
            messages.emit(plain(f"node/{node} is empty") + "\n")
    staying = [f"{node} keeps {_listed(pods)}, which cannot be moved" for node, pods in left.items() if pods]
    if staying:
        raise messages.CommandError(*staying, code=messages.REFUSED)


def _listed(pods: Iterable[tuple[str, str]]) -> str:
    names = [f"{namespace}/{name}" for namespace, name in sorted(pods)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"
