"""`rescheduler config`: checks configuration files, and shows the effective configuration.

Results go to stdout, errors to stderr with one line each. The exit code is 2 if a file is invalid and 1 if it cannot be
read, so that a pipeline can check a configuration before the rollout.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import exit_code_of
from rescheduler.cli.lazy import app, config_errors

if TYPE_CHECKING:
    from rescheduler.config.schema import Configuration


@click.group("config")
def config_group() -> None:
    """Check and show configurations."""


@config_group.command("check", epilog=messages.EXIT_CODES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def check(files: tuple[str, ...]) -> None:
    """Check configuration files; FILE may be - for standard input.

    Exits 0 if all are valid, 2 if one is invalid, and 1 if one cannot be read. All errors go to stderr, with their
    paths.
    """
    codes = set()
    for file in files:
        try:
            config = app.load_configuration(file, {})
        except config_errors.ConfigErrors as errors:
            click.echo(errors, err=True)
            codes.add(exit_code_of(errors))
        else:
            click.echo(f"{file}: ok ({config.kind}, {_count_strategies(config)})")
    if codes:
        sys.exit(max(codes))


@config_group.command(
    "show", short_help="Print the effective configuration, with all defaults.", epilog=messages.EXIT_CODES
)
@click.option(
    "--config",
    "file",
    metavar="FILE",
    help="Configuration file, or - for standard input. Default: no file, only defaults.",
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def show(file: str | None, output: str) -> None:
    """Print the effective configuration: every field, with defaults, in the native form."""
    try:
        config = app.load_configuration(file, {})
    except config_errors.ConfigErrors as errors:
        click.echo(errors, err=True)
        sys.exit(exit_code_of(errors))
    if output == "json":
        click.echo(json.dumps(config.effective(), indent=2, ensure_ascii=False))
    else:
        click.echo(config.effective_yaml(), nl=False)


def _count_strategies(config: Configuration) -> str:
    """`3 strategies`, or `3 strategies, 2 pools`; a strategy counts once, wherever it is enabled."""
    policy = config.policy()
    named = {*policy.enabled_strategies, *(name for pool in policy.node_pools for name in pool.enabled_strategies)}
    strategies = f"{len(named)} {'strategy' if len(named) == 1 else 'strategies'}"
    pools = len(policy.node_pools)
    return f"{strategies}, {pools} {'pool' if pools == 1 else 'pools'}" if pools else strategies
