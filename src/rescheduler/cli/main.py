"""The root command: finds the others, and turns their errors into messages on stderr and an exit code.

`rescheduler` and `kubectl rescheduler` start here. Commands are imported on demand, because numpy and the cluster
client take longer to import than `--help` and completion should take.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from rescheduler import __version__
from rescheduler.cli import messages

_PLUGIN = ""
_COMMANDS = {
    "run": ("run:run", "Run the controller: watch the cluster, plan, and move pods."),
    "demo": (_PLUGIN, "Show rescheduling at work, without a cluster."),
    "plan": ("plan:plan", "Show which pods should move where, and why."),
    "explain": ("explain:explain", "Explain why a pod is moved or not, node by node."),
    "snapshot": ("snapshot:snapshot", "Record a cluster for `plan -f`, without secrets."),
    "apply": ("apply:apply", "Order the moves of a reviewed plan."),
    "move": ("move:move", "Move one pod to another node."),
    "migrations": ("migrations:migrations", "Show ordered, running and finished moves."),
    "approve": ("approve:approve", "Approve waiting moves, or reject them."),
    "maintenance": ("maintenance:maintenance", "Empty nodes for maintenance, and put them back to use."),
    "pause": ("pause:pause", "Pause rescheduling: no new moves begin."),
    "resume": ("pause:resume", "Resume after a pause."),
    "cleanup": ("cleanup:cleanup", "Undo all changes in the cluster, before an uninstall."),
    "crds": ("crds:crds", "Print the CustomResourceDefinition of PodMigration."),
    "scheduler-config": (
        "scheduler_config:scheduler_config",
        "Print a kube-scheduler configuration that uses our extender.",
    ),
    "config": ("config:config_group", "Check and show configurations."),
    "convert": ("convert:convert", "Convert the configuration of another tool into ours."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
    "version": ("version:version", "Print the version."),
}
"""Name → place in this package, and line of help. Plug-ins come with distributions of their own."""

_PLUGINS = "rescheduler.commands"

_COMPLETE = "_RESCHEDULER_COMPLETE"
_WIDTH_OF_NAMES = 11
# kubectl's flags take -o=json as well as -ojson and -o json; click would take the "=" for a part of the value.
_SHORT_WITH_VALUE = re.compile(r"(-[A-Za-z])=(.*)", re.DOTALL)


class _Root(click.Group):
    """Commands by name, imported late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        place = _COMMANDS[cmd_name][0]
        if place == _PLUGIN:
            try:
                return _load_plugin(cmd_name)
            except messages.CommandError:
                if not ctx.resilient_parsing:
                    raise
                return click.Command(cmd_name)  # completion has nothing to offer, and must not print errors
        module, _, name = place.partition(":")
        command = getattr(import_module(f"rescheduler.cli.{module}"), name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            near = messages.nearest_names(name, _COMMANDS)
            cure = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(_COMMANDS)}."
            raise click.UsageError(f"there is no command {name!r}; {cure}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            # The one long name gets a line of its own, so that the others' lines stay whole on a narrow terminal.
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()], col_max=_WIDTH_OF_NAMES)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        # Not Group's own, which imports every command for its line of help.
        named = [(name, line) for name, (_, line) in _COMMANDS.items() if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=line) for name, line in named),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [*_normalize_short_options(args)])


def _load_plugin(name: str) -> click.Command:
    """Load a command that another distribution provides as an entry point; CommandError if it is missing or broken."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - only plug-ins need it

    distribution = f"kube-rescheduler-{name}"
    found = next(iter(entry_points(group=_PLUGINS, name=name)), None)
    if found is None:
        raise messages.CommandError(
            f"the command {name} is not installed: it comes with {distribution}; "
            f"pip install {distribution}=={__version__}, or in a checkout: make setup",
            code=messages.USAGE,
        )
    try:
        command = found.load()
    except Exception as error:
        raise messages.CommandError(
            f"the command {name} cannot be loaded from {distribution}: {type(error).__name__}: {error}; "
            f"pip install --force-reinstall {distribution}=={__version__}"
        ) from error
    if not isinstance(command, click.Command):
        raise messages.CommandError(f"the command {name}: {found.value} of {distribution} is not a command of click")
    return command


def _normalize_short_options(args: Sequence[str]) -> list[str]:
    """Change `-o=json` to `-ojson`; everything after `--` stays as it is."""
    end = args.index("--") if "--" in args else len(args)
    found = [_SHORT_WITH_VALUE.sub(r"\1\2", arg) for arg in args[:end]]
    return [*found, *args[end:]]


@click.group(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=messages.EXIT_CODES,
)
@click.version_option(__version__, prog_name="rescheduler", message="%(prog)s %(version)s")
@messages.verbose_option
def root() -> None:
    """Move Kubernetes pods to better nodes: safely, with reasons, and with the plan shown first.

    Data goes to stdout, messages to stderr. NO_COLOR turns colours off.
    """


def run(args: Sequence[str] | None = None) -> int:
    """Run a command line, and return its exit code. Nothing that a user can cause ends in a traceback."""
    try:
        result = root.main(
            args=None if args is None else list(args),
            prog_name=_program(),
            complete_var=_COMPLETE,
            standalone_mode=False,
        )
    except click.exceptions.NoArgsIsHelpError as help_wanted:  # a usage error to click: the help is its message
        click.echo(help_wanted.format_message(), err=True)
        return messages.USAGE
    except click.UsageError as error:
        messages.error(_usage(error))
        return messages.USAGE
    except messages.CommandError as failure:
        for text in failure.texts:
            messages.error(text)
        return failure.code
    except click.ClickException as error:
        messages.error(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return messages.INTERRUPTED
    except SystemExit as ended:  # completion, and commands that exit by themselves
        return ended.code if isinstance(ended.code, int) else messages.UNREADABLE
    except Exception as error:  # noqa: BLE001 - the last resort: what comes here is a bug
        return _bug(error, args)
    return result if isinstance(result, int) else 0


def main() -> None:
    """The entry point of the console scripts."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names that the terminal's encoding lacks are no error
    sys.exit(run())


def _program() -> str:
    """Return the name that the user typed: kubectl runs its plugins by their full name."""
    return "kubectl rescheduler" if Path(sys.argv[0]).name.startswith("kubectl-") else "rescheduler"


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        near = f"; did you mean {' or '.join(error.possibilities)}?" if error.possibilities else ""
        message = f"there is no option {error.option_name}{near}"
    else:
        message = error.format_message().rstrip(".")
        message = message[:1].lower() + message[1:]
    path = error.ctx.command_path if error.ctx is not None else _program()
    return f"{message}\nSee '{path} --help'."


def _bug(error: Exception, args: Sequence[str] | None) -> int:
    given = sys.argv[1:] if args is None else args
    messages.error(f"this is a bug of rescheduler, please report it: {type(error).__name__}: {error}")
    if any(re.fullmatch(r"-v+|--verbose", arg) for arg in given):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    else:
        click.echo("-v shows where it is.", err=True)
    return messages.UNREADABLE
