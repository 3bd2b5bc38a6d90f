"""`rescheduler demo`: a cluster in this process, out of balance or in trouble, and the real controller on it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli import messages
from rescheduler.cli.output.terminal import Terminal
from rescheduler.cli.session import failures
from rescheduler.model.duration import DurationError, parse_duration

if TYPE_CHECKING:
    from rescheduler_demo.runner import Result, Settings, View

_SCENARIOS = ("balance", "hotspot", "maintenance", "failing-node", "chaos")
_PODS_PER_NODE, _MOST_PODS_PER_NODE = 10, 30
_PATIENCE = 300.0  # seconds, at speed 1
_LOG_ROWS = 6
_TEXT_BROWSERS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


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
        """Refuse what does not go together."""
        most = self.nodes * _MOST_PODS_PER_NODE
        if self.pods is not None and self.pods > most:
            least = -(-self.pods // _MOST_PODS_PER_NODE)
            raise click.UsageError(
                f"--pods {self.pods} is more than {_MOST_PODS_PER_NODE} for each of {self.nodes} nodes: "
                f"give --pods {most} or less, or --nodes {least} or more."
            )
        if self.timeout is not None and not self.once:
            raise click.UsageError("--timeout says how long --once waits for the goal: give --once, too.")

    def wants_live(self) -> bool:
        """Whether to show one picture that changes in place."""
        able = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        if self.output == "live" and not able:
            raise click.UsageError("-o live needs a terminal, and stdout is none: leave -o out, or give -o plain.")
        return able and self.output != "plain"

    def wants_browser(self) -> bool:
        """Whether to open the page: where there is a terminal and a display."""
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32")
        return self.browser and sys.stdout.isatty() and bool(display)


@click.command("demo", epilog=messages.EXIT_CODES)
@click.option(
    "--scenario",
    type=click.Choice(_SCENARIOS),
    default="balance",
    show_default=True,
    help="What happens; see above.",
)
@click.option("--nodes", type=click.IntRange(3, 5000), default=12, show_default=True, help="How many nodes.")
@click.option(
    "--pods",
    type=click.IntRange(6, 150_000),
    help=f"How many pods, besides those of the DaemonSet; {_PODS_PER_NODE} for each node if left out, and "
    f"{_MOST_PODS_PER_NODE} at most.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 50),
    default=1.0,
    show_default=True,
    help="How fast plans, pods and events follow one another; 2 is twice as fast.",
)
@click.option("--once", is_flag=True, help="End when the goal is reached, with the result.")
@click.option(
    "--timeout",
    type=_timeout,
    metavar="DURATION",
    help="With --once: how long to wait for the goal, such as 2m; 5m at speed 1 if left out.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the page on 127.0.0.1; a free one if left out.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "live", "plain"]),
    default="auto",
    show_default=True,
    help="A live view, or plain lines; auto is live on a terminal.",
)
@click.option(
    "--browser/--no-browser",
    default=True,
    show_default=True,
    help="Open the page in a browser, where there is a terminal and a display.",
)
@click.option(
    "--log-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write what the controller logs to this file.",
)
@messages.verbose_option
def demo(**given: Any) -> None:
    """Show rescheduling at work, without a cluster.

    Starts a small Kubernetes in this process, with a lively workload on hollow nodes, and the controller of
    `rescheduler run` on it. Shows how nodes are used before and now, what moves, and what happens next; prints the
    page's address, and a KUBECONFIG with which kubectl works beside it. Ctrl-C ends it, and nothing of it stays.

    \b
    Scenarios:
      balance       a third of the nodes is crowded, the others are empty; pods are spread evenly
      hotspot       again and again a workload grows and makes its node hot; the node is cooled
      maintenance   a node is labelled for maintenance, emptied, and taken back
      failing-node  pods crash on a new node; workloads that ask for it recover elsewhere
      chaos         kubelets die, nodes come and go, the controller is killed; nothing is lost

    With --once the exit code is 0 when the goal was reached, 6 when it was not in time, and 5 when a disruption budget
    was broken meanwhile.

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
    with failures(), _open_log(options, live=live) as log:
        result = _run(options, log, live=live)
    _conclude(options, result)


def _run(options: Options, log: Callable[[str], None], *, live: bool) -> Result:
    # These take a while to import, and help and completion need none of them.
    from rescheduler_demo.plain import Hooks, PlainView  # noqa: PLC0415 - as said above
    from rescheduler_demo.runner import Settings  # noqa: PLC0415 - the same
    from rescheduler_demo.scenarios import SCENARIOS  # noqa: PLC0415 - the same
    from rescheduler_demo.workloads import Pace, Size  # noqa: PLC0415 - the same

    scenario, size = SCENARIOS[options.scenario](), Size(options.nodes, options.size)
    settings = Settings(scenario, size, Pace(options.speed), options.once, options.limit, options.port)
    stop = asyncio.Event()
    hooks = Hooks(log, _browse if options.wants_browser() else lambda page: None, stop.set)
    if not live:
        return asyncio.run(_run_with_signals(settings, PlainView(hooks), stop))
    from rescheduler_demo.live import Heading, LiveView  # noqa: PLC0415 - only the live view needs rich

    heading = Heading(options.scenario, scenario.goal)
    with LiveView(heading, Terminal.of(sys.stdout), hooks, _LOG_ROWS if messages.verbose() else 0) as view:
        return asyncio.run(_run_with_signals(settings, view, stop))


async def _run_with_signals(settings: Settings, view: View, stop: asyncio.Event) -> Result:
    from rescheduler_demo.controller import PortTakenError  # noqa: PLC0415 - it takes a while to import
    from rescheduler_demo.runner import run_demo  # noqa: PLC0415 - the same

    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)  # a second Ctrl-C ends it at once

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        return await run_demo(settings, view, stop)
    except PortTakenError as error:
        cure = "choose another port, or leave --port out for a free one"
        raise messages.Failure(f"--port {error.port}: cannot be listened on: {error.why}; {cure}") from None


@contextmanager
def _open_log(options: Options, *, live: bool) -> Iterator[Callable[[str], None]]:
    """Where the log goes: to a file, with -v to stderr or the live view's pane, else nowhere."""
    from rescheduler.runtime.logs import LogFormat, configure  # noqa: PLC0415 - it takes a while to import

    configure(LogFormat.TEXT, verbose=messages.verbose())
    if options.log_file is not None:
        try:
            stream = Path(options.log_file).open("w", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise messages.Failure(
                f"--log-file {options.log_file}: cannot be written: {error.strerror or error}; give another file",
                code=messages.USAGE,
            ) from None
        with stream:
            yield lambda line: print(line, file=stream, flush=True)
    elif messages.verbose() and not live:
        yield lambda line: click.echo(line, err=True)
    else:
        yield lambda line: None


def _conclude(options: Options, result: Result) -> None:
    """Print the result, and end with the exit code for it."""
    from rescheduler_demo.plain import format_result  # noqa: PLC0415 - it takes a while to import
    from rescheduler_demo.scenarios import SCENARIOS  # noqa: PLC0415 - the same

    goal, arrow = SCENARIOS[options.scenario].goal, Terminal.of(sys.stdout).arrow
    try:
        messages.emit(format_result(options.scenario, goal, result, arrow) + "\n")
    except OSError:  # the terminal is gone; the interpreter flushes stdout once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(messages.PIPE_CLOSED) from None
    if result.broken:
        raise messages.Failure(*result.broken[:10], code=messages.FAILED)
    if result.reached or not options.once:
        return
    if result.interrupted:
        raise click.exceptions.Exit(messages.INTERRUPTED)
    raise messages.Failure(
        f"the goal was not reached within {options.limit:g} s: it ended at: {result.missing}; give it more time with "
        "--timeout, or a higher --speed",
        code=messages.TIMED_OUT,
    )


def _browse(page: str) -> None:
    """Open the page in a browser that has a window: another one would take over the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return  # there is none; the address is printed anyway
    if Path(str(getattr(browser, "name", ""))).name in _TEXT_BROWSERS:
        return
    threading.Thread(target=browser.open, args=(page,), daemon=True).start()  # some wait until they have opened
