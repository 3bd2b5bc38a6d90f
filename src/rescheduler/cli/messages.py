"""Messages on stderr, data on stdout, and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches

import click

from rescheduler.cli.output import plain

_COMPARED = 5_000
_PREFIX = 3


def nearest_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the nearest names, best first. Of very many, only those with the same first letters are compared."""
    known = list(names)
    if len(known) > _COMPARED:
        known = [candidate for candidate in known if candidate[:_PREFIX] == name[:_PREFIX]][:_COMPARED]
    return get_close_matches(name[:256], known, n=most)


UNREADABLE = 1
USAGE = 2
TO_MOVE = 3
REFUSED = 4
FAILED = 5
TIMED_OUT = 6
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES = """\b
Exit codes:
  0    done
  1    the cluster or a file could not be read, or the API server refused; run: the lead was lost
  2    wrong usage or configuration
  3    plan --exit-code: there is something to move
  4    apply, approve, move, maintenance start: some of it is refused; convert --strict: not all fits
  5    a move that was waited for has failed; demo: a disruption budget was broken
  6    --timeout was over before what was waited for was done
  130  interrupted"""

_WARNINGS = 10
_VERBOSE = "rescheduler.verbose"


class CommandError(click.ClickException):
    """An error that the user can fix."""

    def __init__(self, *texts: str, code: int = UNREADABLE) -> None:
        super().__init__("\n".join(texts))
        self.texts = texts
        self.code = code


def _set_verbose(context: click.Context, parameter: click.Parameter, value: int) -> None:
    context.find_root().meta[_VERBOSE] = max(value, context.find_root().meta.get(_VERBOSE, 0))


verbose_option = click.option(
    "-v",
    "--verbose",
    count=True,
    expose_value=False,
    callback=_set_verbose,
    help="Print more on stderr: what was read, how long it took, every warning.",
)


def verbose() -> bool:
    """Whether -v was given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().meta.get(_VERBOSE))


def error(text: str) -> None:
    """Print an error; the lines after the first are the cure."""
    first, *rest = text.splitlines() or [""]
    click.echo("\n".join([f"{_tinted('error:', 'red')} {plain(first)}", *map(plain, rest)]), err=True)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings; only the first few without -v."""
    listed = list(warnings)
    shown = listed if verbose() else listed[:_WARNINGS]
    for text in shown:
        click.echo(f"{_tinted('warning:', 'yellow')} {plain(text)}", err=True)
    if len(listed) > len(shown):
        click.echo(f"{_tinted('warning:', 'yellow')} and {len(listed) - len(shown)} more (-v shows all)", err=True)


def note(text: str) -> None:
    """Print a note about the output."""
    click.echo(f"note: {plain(text)}", err=True)


def detail(text: str) -> None:
    """Print a detail, with -v only."""
    if verbose():
        click.echo(plain(text), err=True)


def emit(text: str | bytes) -> None:
    """Write data to stdout; when the reader has gone away (`| head`), end quietly."""
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit: that must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(PIPE_CLOSED) from None


def emit_lines(lines: Iterable[str]) -> None:
    """Write formatted lines to stdout, all at once."""
    emit("".join(f"{line}\n" for line in lines))


def emit_line(text: str) -> None:
    """Write one line to stdout, with nothing in it that could disturb a terminal."""
    emit(f"{plain(text)}\n")


def _tinted(word: str, colour: str) -> str:
    """Colour a word; click removes the colour if stderr is not a terminal."""
    return word if os.environ.get("NO_COLOR") else click.style(word, fg=colour)
