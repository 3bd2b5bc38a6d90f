"""One `rescheduler demo`: view, log, signals and browser around a run, and its result with the exit code.

Apart from `command`, because all that it imports takes a while.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from rescheduler.cli import messages
from rescheduler.cli.output import Terminal
from rescheduler.runtime.logs import LogFormat, configure
from rescheduler_demo.command import Options
from rescheduler_demo.controller import PortTakenError
from rescheduler_demo.live import LiveView
from rescheduler_demo.plain import PlainView, format_result
from rescheduler_demo.runner import Result, View, run_demo

_LOG_ROWS = 6
_TEXT_BROWSERS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def run_session(options: Options, *, live: bool) -> None:
    """Run the demo, print the result, and end with the exit code for it."""
    terminal = Terminal.of(sys.stdout)
    stop = asyncio.Event()
    with ExitStack() as stack:
        sinks = [stack.enter_context(_open_log(options, live=live))]
        view: View = PlainView(stop.set)
        if live:
            rows = _LOG_ROWS if messages.verbose() else 0
            view = shown = stack.enter_context(LiveView(terminal, stop.set, rows))
            sinks.append(shown.log)
        browse = _browse if options.wants_browser() else lambda page: None
        result = asyncio.run(_run_until_signal(run_demo(options, view, stop, browse, sinks), stop))
    try:
        messages.emit(format_result(result, terminal.arrow) + "\n")
    except OSError:  # the terminal is gone; the interpreter flushes stdout once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(messages.PIPE_CLOSED) from None
    if result.broken:
        raise messages.CommandError(*result.broken[:10], code=messages.FAILED)
    if result.reached or not options.once:
        return
    if result.interrupted:
        raise click.exceptions.Exit(messages.INTERRUPTED)
    raise messages.CommandError(
        f"the goal was not reached within {options.limit:g} s; it was waiting for: {result.missing}; "
        "allow more time with --timeout, or a higher --speed",
        code=messages.TIMED_OUT,
    )


async def _run_until_signal(run: Coroutine[Any, Any, Result], stop: asyncio.Event) -> Result:
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)  # a second Ctrl-C ends it at once

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        return await run
    except PortTakenError as error:
        cure = "choose another port, or leave --port out for a free one"
        raise messages.CommandError(f"--port {error.port}: cannot listen: {error.why}; {cure}") from None


@contextmanager
def _open_log(options: Options, *, live: bool) -> Iterator[Callable[[str], None]]:
    """Where the log goes besides the live view: to a file, with -v to stderr, else nowhere."""
    configure(LogFormat.TEXT, verbose=messages.verbose())
    if options.log_file is None:
        yield (lambda line: click.echo(line, err=True)) if messages.verbose() and not live else (lambda line: None)
        return
    try:
        stream = Path(options.log_file).open("w", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        raise messages.CommandError(
            f"--log-file {options.log_file}: cannot be written: {error.strerror or error}; give another file",
            code=messages.USAGE,
        ) from None
    with stream:
        yield lambda line: print(line, file=stream, flush=True)


def _browse(page: str) -> None:
    """Open the page in a browser that has a window: a text browser would use the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return  # there is none; the address is printed anyway
    if Path(str(getattr(browser, "name", ""))).name in _TEXT_BROWSERS:
        return
    threading.Thread(target=browser.open, args=(page,), daemon=True).start()  # some wait until they have opened
