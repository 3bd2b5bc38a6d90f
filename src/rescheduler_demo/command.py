"""`rescheduler demo`: the real controller on an embedded cluster with a problem to solve."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import click

from rescheduler.cli import messages
from rescheduler.cli.common import report_failures
from rescheduler.model.time import DurationError, parse_duration

_SCENARIOS = ("balance", "hotspot", "maintenance", "failing-node", "chaos")
_PODS_PER_NODE, _MOST_PODS_PER_NODE = 10, 30
_PATIENCE = 300.0  # seconds, at speed 1


def _timeout(text: str) -> float:
    try:
        seconds = parse_duration(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)
    except DurationError as error:
        raise click.BadParameter(str(error)) from None
    if seconds <= 0:
        raise click.BadParameter(f"{text} is no time to wait: give a duration such as 5m")
    return seconds


@dataclass(frozen=True, slots=True)
class Options:
    """The flags."""

    scenario: str
    nodes: int
    pods: int | None
    speed: float
    once: bool
    timeout: float | None
    port: int
    output: str
    browser: bool
    log_file: str | None

    @property
    def size(self) -> int:
        """How many pods to start."""
        return self.pods or self.nodes * _PODS_PER_NODE

    @property
    def limit(self) -> float:
        """How many seconds --once waits for the goal."""
        return self.timeout or max(_PATIENCE, _PATIENCE / self.speed)

    def check(self) -> None:
        """Refuse contradicting flags."""
        most = self.nodes * _MOST_PODS_PER_NODE
        if self.pods is not None and self.pods > most:
            least = -(-self.pods // _MOST_PODS_PER_NODE)
            raise click.UsageError(
                f"--pods {self.pods} is more than {_MOST_PODS_PER_NODE} for each of {self.nodes} nodes: "
                f"give --pods {most} or less, or --nodes {least} or more."
            )
        if self.timeout is not None and not self.once:
            raise click.UsageError("--timeout limits how long --once waits for the goal: add --once.")

    def wants_live(self) -> bool:
        """Whether to show the live view."""
        able = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        if self.output == "live" and not able:
            raise click.UsageError("-o live needs a terminal, and stdout is not one: omit -o, or use -o plain.")
        return able and self.output != "plain"

    def wants_browser(self) -> bool:
        """Whether to open the page: if there is a terminal and a display."""
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32")
        return self.browser and sys.stdout.isatty() and bool(display)


@click.command("demo", epilog=messages.EXIT_CODES)
@click.option(
    "--scenario",
    type=click.Choice(_SCENARIOS),
    default="balance",
    show_default=True,
    help="The scenario; see above.",
)
@click.option("--nodes", type=click.IntRange(3, 5000), default=12, show_default=True, help="Number of nodes.")
@click.option(
    "--pods",
    type=click.IntRange(6, 150_000),
    help=f"Number of pods besides those of the DaemonSet; by default {_PODS_PER_NODE} per node, at most "
    f"{_MOST_PODS_PER_NODE} per node.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 50),
    default=1.0,
    show_default=True,
    help="Speed of plans, pods and events; 2 is twice as fast.",
)
@click.option("--once", is_flag=True, help="Exit when the goal is reached, with the result.")
@click.option(
    "--timeout",
    type=_timeout,
    metavar="DURATION",
    help="With --once: how long to wait for the goal, such as 2m; by default 5m at speed 1.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the page on 127.0.0.1; by default a free one.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "live", "plain"]),
    default="auto",
    show_default=True,
    help="Live view or plain lines; auto is live on a terminal.",
)
@click.option(
    "--browser/--no-browser",
    default=True,
    show_default=True,
    help="Open the page in a browser, if there is a terminal and a display.",
)
@click.option(
    "--log-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the controller's log to this file.",
)
@messages.verbose_option
def demo(**given: Any) -> None:
    """Show rescheduling at work, without a cluster.

    Starts a small Kubernetes in this process, with busy workloads on hollow nodes, and runs the controller on it. Shows
    the use of the nodes before and now, what moves, and what happens next; prints the page's address, and a KUBECONFIG
    for kubectl. Ctrl-C ends it and leaves nothing behind.

    \b
    Scenarios:
      balance       a third of the nodes is crowded, the others are empty; pods are spread evenly
      hotspot       one after the other, workloads grow and make their nodes hot; pods move off them
      maintenance   a node is labelled for maintenance, emptied, and unlabelled
      failing-node  pods crash on a new node; workloads with scheduling-retries recover elsewhere
      chaos         kubelets die, nodes come and go, the controller is killed; nothing is lost

    With --once the exit code is 0 if the goal was reached, 6 if it was not reached in time, and 5 if a disruption
    budget was violated.

    \b
    Examples:
      rescheduler demo
      rescheduler demo --scenario chaos --speed 2
      rescheduler demo --nodes 60 --pods 600 --no-browser
      rescheduler demo --once -o plain                 for scripts: ends by itself
    """
    options = Options(**given)
    options.check()
    live = options.wants_live()
    messages.emit(f"starting {options.scenario}: {options.nodes} nodes and {options.size} pods\n")
    # Slow to import, and not needed for help and completion.
    from rescheduler_demo.session import run_session  # noqa: PLC0415 - see above

    with report_failures():
        run_session(options, live=live)
