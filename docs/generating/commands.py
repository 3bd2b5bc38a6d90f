"""docs/commands.md: every command and flag, as `--help` has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from docs.generating.markdown import table
from rescheduler.cli.main import root
from rescheduler.cli.messages import EXIT_CODES

_VERBATIM = "\b"  # click's mark for a paragraph that is not to be wrapped

_COMMANDS = """\
Data goes to stdout, messages to stderr. `NO_COLOR` turns colours off. `-o=json` and `-ojson` mean `-o json`. As a
kubectl plugin each command is also `kubectl rescheduler …`. `demo` comes with `kube-rescheduler-demo` ([the
demo](demo.md)); all others with `kube-rescheduler`.
"""


def commands() -> str:
    """Every command and flag, as `--help` has them."""
    context = click.Context(root, info_name="rescheduler", **root.context_settings)
    return "\n".join(["# Commands\n", _COMMANDS, "## Exit codes\n", _exit_codes(), *_command(root, context)])


def _exit_codes() -> str:
    rows = re.findall(r"^ +(\d+) +(.+)$", EXIT_CODES, re.MULTILINE)
    return table(("code", "meaning"), [(f"`{code}`", meaning) for code, meaning in rows])


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    if command is not root:
        yield f"## {context.command_path}\n"
        yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
        yield from _help(command)
        yield _options(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _command(found, click.Context(found, info_name=name, parent=context))


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if not paragraph.startswith(_VERBATIM):
            yield paragraph + "\n"
            continue
        lines, language = paragraph.removeprefix(_VERBATIM).strip("\n").splitlines(), "text"
        if lines[0].strip() == "Examples:":
            lines, language = lines[1:], "bash"
            yield "Examples:\n"
            lines = [re.sub(r"^(\S.*?\S) {2,}(\S.*)$", r"\1  # \2", line.strip()) for line in lines]
        yield f"```{language}\n" + "\n".join(lines) + "\n```\n"


def _options(command: click.Command, context: click.Context) -> str:
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    rows = [record for option in options if (record := option.get_help_record(context))]
    return table(("flag", "meaning"), [(f"`{flags}`", " ".join(words.split())) for flags, words in rows])
