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
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.output.terminal import Terminal
from rescheduler.cli.session import failures
from rescheduler_demo.options import Looks, Wanted, looks_options, wanted_options

if TYPE_CHECKING:
    from rescheduler_demo.scene import Audience, Result
    from rescheduler_demo.stage import Performance

Log = Callable[[int, str], None]
_LOG_ROWS = 6
_TEXT_BROWSERS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@click.command("demo", epilog=messages.EXIT_CODES)
@wanted_options
@looks_options
@messages.verbose_option
def demo(wanted: Wanted, looks: Looks) -> None:
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
    wanted.check()
    live = looks.live
    messages.emit(f"starting {wanted.scenario}: {wanted.nodes} nodes and {wanted.size} pods\n")
    with failures(), _log_of(looks, live=live) as log:
        browse = _browse if looks.browser and sys.stdout.isatty() and _has_display() else _look_away
        result = _Playing(_performance(wanted), log, browse).play(live=live)
    _conclude(wanted, result)


def _performance(wanted: Wanted) -> Performance:
    from rescheduler_demo.pace import Pace  # noqa: PLC0415 - they take a while to import
    from rescheduler_demo.scenarios import SCENARIOS  # noqa: PLC0415 - the same
    from rescheduler_demo.stage import Performance  # noqa: PLC0415 - the same
    from rescheduler_demo.workload import Size  # noqa: PLC0415 - the same

    return Performance(
        scenario=SCENARIOS[wanted.scenario](),
        size=Size(wanted.nodes, wanted.size),
        pace=Pace(wanted.speed),
        once=wanted.once,
        timeout=wanted.limit,
        port=wanted.port,
    )


class _Playing:
    """One demo, from its start to its end; a signal ends it, and that nobody reads any more does, too."""

    def __init__(self, performance: Performance, log: Log, browse: Callable[[str], None]) -> None:
        self._performance = performance
        self._log = log
        self._browse = browse
        self._stop = asyncio.Event()

    def play(self, *, live: bool) -> Result:
        """Play it."""
        if not live:
            from rescheduler_demo.plain import PlainView  # noqa: PLC0415 - it takes a while to import

            return asyncio.run(self._played(PlainView(self._write, self._log, self._browse)))
        # rich takes a while to import, and is not needed otherwise.
        from rich.console import Console  # noqa: PLC0415 - as said above

        from rescheduler_demo.frame import Billing  # noqa: PLC0415 - the same
        from rescheduler_demo.live import Eyes, LiveView  # noqa: PLC0415 - the same

        scenario = self._performance.scenario
        eyes = Eyes(self._browse, self._log, self._stop.set, _LOG_ROWS if messages.verbose() else 0)
        with LiveView(Console(), Terminal.of(sys.stdout), Billing(scenario.name, scenario.goal), eyes) as view:
            return asyncio.run(self._played(view))

    async def _played(self, audience: Audience) -> Result:
        from rescheduler_demo.settings import PortTakenError  # noqa: PLC0415 - it takes a while to import
        from rescheduler_demo.stage import perform  # noqa: PLC0415 - the same

        loop = asyncio.get_running_loop()

        def told_to_end() -> None:
            self._stop.set()
            loop.remove_signal_handler(signal.SIGINT)  # whoever has no patience may ask again

        for number in _SIGNALS:
            loop.add_signal_handler(number, told_to_end)
        try:
            return await perform(self._performance, audience, self._stop)
        except PortTakenError as error:
            cure = "choose another port, or leave --port out for a free one"
            raise messages.Failure(f"--port {error.port}: cannot be listened on: {error.why}; {cure}") from None

    def _write(self, text: str) -> None:
        """A line; when its reader has gone away, nothing more is written, and the demo ends."""
        if self._stop.is_set():
            return
        try:
            click.echo(text, nl=False)
            sys.stdout.flush()
        except OSError:
            self._stop.set()


@contextmanager
def _log_of(looks: Looks, *, live: bool) -> Iterator[Log]:
    """Where the log goes: to a file, with -v to stderr or the live view's pane, else nowhere."""
    from rescheduler.runtime.logs import LogFormat, configure  # noqa: PLC0415 - it takes a while to import

    configure(LogFormat.TEXT, verbose=messages.verbose())
    if looks.log_file is not None:
        try:
            stream = Path(looks.log_file).open("w", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise messages.Failure(
                f"--log-file {looks.log_file}: cannot be written: {error.strerror or error}; give another file",
                code=messages.USAGE,
            ) from None
        with stream:
            yield lambda _, line: print(line, file=stream, flush=True)
    elif messages.verbose() and not live:
        yield lambda _, line: click.echo(line, err=True)
    else:
        yield lambda _, line: None


def _conclude(wanted: Wanted, result: Result) -> None:
    from rescheduler_demo.words import ending  # noqa: PLC0415 - it takes a while to import

    try:
        messages.emit(ending(result, Terminal.of(sys.stdout).arrow) + "\n")
    except OSError:  # the terminal is gone; the interpreter flushes stdout once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(messages.PIPE_CLOSED) from None
    if result.broken:
        raise messages.Failure(*result.broken[:10], code=messages.FAILED)
    if result.reached or not wanted.once:
        return
    if result.interrupted:
        raise click.exceptions.Exit(messages.INTERRUPTED)
    raise messages.Failure(
        f"the goal was not reached within {wanted.limit:g} s: {result.why}; give it more time with --timeout, or a "
        "higher --speed",
        code=messages.TIMED_OUT,
    )


def _has_display() -> bool:
    named = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(named) or sys.platform in ("darwin", "win32")


def _browse(address: str) -> None:
    """Open the page in a browser with a window: one without would take over the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return  # there is none; the address is told anyway
    if Path(str(getattr(browser, "name", ""))).name in _TEXT_BROWSERS:
        return
    threading.Thread(target=browser.open, args=(address,), daemon=True).start()  # some wait until they have opened


def _look_away(address: str) -> None:
    """There is nothing to open it with."""
