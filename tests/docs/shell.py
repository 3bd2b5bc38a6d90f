"""Command lines out of fenced blocks: a block of `bash`, `sh` or `console` becomes simple commands with their words.

It knows as much of a shell as documentation needs: lines that go on, quotes, comments, pipes, `&&`, redirections,
substitutions, variables before a command, loops and here-documents. `commands` asks what is wrong with each.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tests.docs.pages import Block, name_of

LANGUAGES = ("bash", "sh", "console")
_PUNCTUATION = frozenset("&|;()<>")
_BREAKS = frozenset("|;()")
_KEYWORDS = frozenset(("if", "while", "do", "then", "else", "!", "{", "time", "sudo"))
_ENDS = frozenset(("done", "fi", "esac", "}"))
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A simple command, where it stands, and what is fed to it from a here-document."""

    place: str
    words: tuple[str, ...]
    fed: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a console, and the output that the page shows for it."""

    place: str
    command: str
    output: str


class ShellError(Exception):
    """A block that no shell would take; the text names the place."""


def shown(block: Block) -> Iterator[Shown]:
    """The commands of a console block: a line that begins with `$ ` and what stands below it."""
    begun: tuple[int, str] | None = None
    output = ""
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            if begun:
                yield Shown(f"{name_of(block.page)}:{begun[0]}", begun[1], output)
            begun, output = (number, line.removeprefix("$ ")), ""
        elif begun is None:
            raise ShellError(f"{name_of(block.page)}:{number}: a console shows a command first, after `$ `")
        else:
            output += f"{line}\n"
    if begun:
        yield Shown(f"{name_of(block.page)}:{begun[0]}", begun[1], output)


def command_lines(block: Block) -> Iterator[CommandLine]:
    """Every simple command of a block."""
    if block.language == "console":
        for each in shown(block):
            yield from simple(each.place, each.command)
        return
    lines = enumerate(block.text.splitlines(), block.line + 1)
    for number, line in lines:
        place = f"{name_of(block.page)}:{number}"
        while line.endswith("\\") or _is_open(line):
            _, more = next(lines, (0, None))
            if more is None:
                raise ShellError(f"{place}: the command has no end: a quote is open, or its last line ends with a \\")
            line = f"{line[:-1]} {more}" if line.endswith("\\") else f"{line}\n{more}"
        fed = ""
        if here := _HERE.search(line):
            while (more := next(lines, (0, here[2]))[1]).strip() != here[2]:
                fed += f"{more}\n"
            line = line.replace(here[0], " ")
        yield from simple(place, line, fed)


def simple(place: str, line: str, fed: str = "") -> Iterator[CommandLine]:
    """The simple commands of one line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="".join(sorted(_PUNCTUATION)))
    lexer.commenters = "#"
    lexer.wordchars += "$%@{}[]:,+!^"
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise ShellError(f"{place}: {error}: {line}") from error
    words: list[str] = []
    skip = False
    for token in [*tokens, ";"]:
        if token in ("&", "&&") or (set(token) <= _PUNCTUATION and set(token) & _BREAKS):
            if found := _command(words):
                yield CommandLine(place, found, fed)
            words = []
        elif token and set(token) <= _PUNCTUATION:
            skip = True
            if words and words[-1] in ("1", "2"):
                words.pop()
        elif skip:
            skip = False
        else:
            words.append(token)


def _command(words: list[str]) -> tuple[str, ...]:
    """The words from the command's name on; none where a line is only syntax."""
    left = [word for word in words if word != "$"]
    if left and (left[0] in ("for", "case") or left[0] in _ENDS):
        return ()
    while left and (left[0] in _KEYWORDS or _VARIABLE.match(left[0])):
        left = left[1:]
    return tuple(left)


def _is_open(line: str) -> bool:
    """Whether a quote is open at the end."""
    try:
        shlex.split(line, comments=True)
    except ValueError as error:
        return "quotation" in str(error)
    return False
