"""`rescheduler completion`: prints the script with which a shell completes our command lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from rescheduler.cli.main import root
from rescheduler.cli.messages import emit, verbose_option


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@verbose_option
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash, in ~/.bashrc:                    source <(rescheduler completion bash)
    zsh, in ~/.zshrc:                      source <(rescheduler completion zsh)
    fish, in ~/.config/fish/config.fish:   rescheduler completion fish | source

    `kubectl rescheduler` needs none: kubectl's own completion (1.26 and later) asks ours.
    """
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"completion for {shell} is not available")
    # The template itself: bash's own `source()` would run bash first, to see how old it is.
    complete = script(click.get_current_context().find_root().command, {}, "rescheduler", "_RESCHEDULER_COMPLETE")
    text = complete.source_template % complete.source_vars()
    # click's script for fish cuts descriptions at their first comma.
    emit(text.replace('string split "," $completion', 'string split -m 1 "," $completion'))


# Cobra's directives, by their numbers in its protocol.
FILES = 0  # the shell goes on with names of files
NO_FILES = 4
FOLDERS = 16


def answer(words: Sequence[str]) -> str:
    """Return the output that kubectl reads, for the words after `kubectl rescheduler`."""
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
