"""The flags of `rescheduler demo`, in two groups: what is played, and how it is shown. All are checked here."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import click

from rescheduler.cli.options import gathered
from rescheduler.model.duration import DurationError, parse_duration

_PODS_A_NODE = 10  # if nobody says how many
_SCENARIOS = ("balance", "hotspot", "maintenance", "failing-node", "chaos")
_MOST_A_NODE = 30
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
class Wanted:
    """What is to be played."""

    scenario: str
    nodes: int
    pods: int | None
    speed: float
    once: bool
    timeout: float | None
    port: int

    @property
    def size(self) -> int:
        """How many pods there are to be."""
        return self.pods or self.nodes * _PODS_A_NODE

    @property
    def limit(self) -> float:
        """How many seconds --once waits for the goal."""
        return self.timeout or max(_PATIENCE, _PATIENCE / self.speed)

    def check(self) -> None:
        """Refuse what cannot be."""
        most = self.nodes * _MOST_A_NODE
        if self.pods is not None and self.pods > most:
            least = -(-self.pods // _MOST_A_NODE)
            raise click.UsageError(
                f"--pods {self.pods} is more than {_MOST_A_NODE} for each of {self.nodes} nodes: "
                f"give --pods {most} or less, or --nodes {least} or more."
            )
        if self.timeout is not None and not self.once:
            raise click.UsageError("--timeout says how long --once waits for the goal: give --once, too.")


@dataclass(frozen=True, slots=True)
class Looks:
    """How it is shown."""

    output: str
    browser: bool
    log_file: str | None

    @property
    def live(self) -> bool:
        """Whether there is a picture that changes in place."""
        able = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        if self.output == "live" and not able:
            raise click.UsageError("-o live needs a terminal, and stdout is none: leave -o out, or give -o plain.")
        return able and self.output != "plain"


wanted_options = gathered(
    "wanted",
    Wanted,
    [
        click.option(
            "--scenario",
            type=click.Choice(_SCENARIOS),
            default="balance",
            show_default=True,
            help="What happens; see above.",
        ),
        click.option("--nodes", type=click.IntRange(3, 5000), default=12, show_default=True, help="How many nodes."),
        click.option(
            "--pods",
            type=click.IntRange(6, 150_000),
            help=f"How many pods, besides those of the DaemonSet; {_PODS_A_NODE} for each node if left out, and "
            f"{_MOST_A_NODE} at most.",
        ),
        click.option(
            "--speed",
            type=click.FloatRange(0.1, 50),
            default=1.0,
            show_default=True,
            help="How fast plans, pods and events follow one another; 2 is twice as fast.",
        ),
        click.option("--once", is_flag=True, help="End when the goal is reached, with the result."),
        click.option(
            "--timeout",
            type=_timeout,
            metavar="DURATION",
            help="With --once: how long to wait for the goal, such as 2m; 5m at speed 1 if left out.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=0,
            help="Port of the page on 127.0.0.1; a free one if left out.",
        ),
    ],
)

looks_options = gathered(
    "looks",
    Looks,
    [
        click.option(
            "-o",
            "--output",
            type=click.Choice(["auto", "live", "plain"]),
            default="auto",
            show_default=True,
            help="A live view, or plain lines; auto is live on a terminal.",
        ),
        click.option(
            "--browser/--no-browser",
            default=True,
            show_default=True,
            help="Open the page in a browser, where there is a terminal and a display.",
        ),
        click.option(
            "--log-file",
            metavar="FILE",
            type=click.Path(dir_okay=False),
            help="Write what the controller logs to this file.",
        ),
    ],
)
