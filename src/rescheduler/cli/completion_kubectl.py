"""`kubectl_complete-rescheduler`: completes the words after `kubectl rescheduler`, asked by kubectl's own completion.

kubectl (1.26 and later) runs the program of this name from the PATH with the words typed so far, the last of which is
the one to complete (maybe empty). It reads what cobra's completion writes: one candidate a line, a tab and its
description, and at the end a colon and a sum of directives. The words are those of the root command.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from click.shell_completion import CompletionItem, ShellComplete

from rescheduler.cli.main import root
from rescheduler.cli.messages import emit

# Cobra's directives, by their numbers in its protocol.
FILES = 0  # the shell goes on with names of files
NO_FILES = 4
FOLDERS = 16


def answer(words: Sequence[str]) -> str:
    """All that kubectl reads, for the words after `kubectl rescheduler`."""
    *before, last = words or [""]
    found = ShellComplete(root, {}, "kubectl rescheduler", "").get_completions(list(before), last)
    lines = [_line(item) for item in found if item.type == "plain"]
    return "".join(f"{line}\n" for line in [*lines, f":{_directive(found)}"])


def main() -> None:
    """The entry point of the console script."""
    emit(answer(sys.argv[1:]))


def _line(item: CompletionItem[str]) -> str:
    described = " ".join((item.help or "").split())
    return f"{item.value}\t{described}" if described else str(item.value)


def _directive(found: Sequence[CompletionItem[str]]) -> int:
    types = {item.type for item in found}
    if "file" in types:
        return FILES
    return FOLDERS if "dir" in types else NO_FILES
