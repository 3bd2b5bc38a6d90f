"""`rescheduler completion`: the script with which a shell completes our command lines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

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
