"""What several commands do: connect, read a cluster, wait for migrations, and report errors as failures.

Errors of `app` and `config` that a user can cause get their exit codes here, and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.lazy import app, app_follow, config_errors, dump, kube_errors
from rescheduler.cli.options import STDIN, AccessOptions, InputOptions, PolicyFlags
from rescheduler.cli.progress import MigrationProgress, show_bytes_read, show_progress

if TYPE_CHECKING:
    from rescheduler.config.schema import Configuration
    from rescheduler.model.json import ObjectKey
    from rescheduler.model.migration import PodMigration
    from rescheduler.model.policy import Policy
    from rescheduler.model.snapshot import ClusterSnapshot


@contextmanager
def report_failures() -> Iterator[None]:
    """Raise errors that a user can cause as CommandError."""
    try:
        yield
    except config_errors.ConfigErrors as errors:
        raise messages.CommandError(*map(str, errors.errors), code=exit_code_of(errors)) from None
    except (app.InputError, dump.DumpError, kube_errors.ClusterError) as error:
        raise messages.CommandError(str(error)) from error
    except RecursionError:
        raise messages.CommandError("the input is nested too deeply to be Kubernetes objects") from None


def exit_code_of(errors: config_errors.ConfigErrors) -> int:
    """Return the exit code for a configuration: an unreadable file differs from an invalid one."""
    return messages.UNREADABLE if isinstance(errors.__cause__, OSError) else messages.USAGE


def open_session(inputs: InputOptions, wanted: PolicyFlags, now: float | None) -> tuple[ClusterSnapshot, Policy]:
    """Read the configuration, then the cluster; return the cluster and the policy to plan by."""
    if wanted.config == STDIN and STDIN in inputs.files:
        raise click.UsageError("--config - and -f - cannot both be standard input.")
    with report_failures():
        config = app.load_configuration(wanted.config, wanted.overrides)
        source = choose_source(inputs, config)
        started = time.monotonic()
        snapshot = read_cluster(source, now)
        live = isinstance(source, app.LiveCluster)
        snapshot = app.with_measured_usage(snapshot, config.fields.utilization, config.fields.usage, live=live)
    took = time.monotonic() - started
    messages.detail(f"read {len(snapshot.nodes)} nodes and {len(snapshot.pods)} pods in {took:.1f} s")
    return snapshot, config.policy()


def choose_source(inputs: InputOptions, config: Configuration | None = None) -> app.DumpFiles | app.LiveCluster:
    """Choose the files, or else the live cluster."""
    return app.DumpFiles(inputs.files) if inputs.files else live_cluster(inputs, config)


def live_cluster(access: AccessOptions, config: Configuration | None = None) -> app.LiveCluster:
    """Return the live cluster of the flags; a kubeconfig flag wins over the configuration's kubeconfig."""
    configured = config.fields.client_connection.kubeconfig if config is not None else ""
    return app.LiveCluster(
        kubeconfig=access.kubeconfig or configured or None,
        context=access.context,
        user=access.as_user or "",
        groups=access.as_groups,
        request_timeout=access.request_timeout or None,
    )


def connect(access: AccessOptions, config_file: str | None) -> tuple[app.LiveCluster, Configuration]:
    """Return the live cluster, and the configuration of its controller."""
    config = app.load_configuration(config_file, {})
    return live_cluster(access, config), config


def read_cluster(source: app.DumpFiles | app.LiveCluster, now: float | None = None) -> ClusterSnapshot:
    """Read files or a live cluster, showing progress."""
    with show_reading(source) as advance:
        return app.read(source, now, advance)


def show_reading(source: app.DumpFiles | app.LiveCluster) -> AbstractContextManager[app.Progress]:
    """Show progress while the block reads."""
    of_bytes = isinstance(source, app.DumpFiles)
    return show_bytes_read(source.size() if isinstance(source, app.DumpFiles) else None, of_bytes=of_bytes)


def warn_if_absent(live: app.LiveCluster, config: Configuration, consequence: str) -> None:
    """Warn if no controller seems to run."""
    if absent := live.run(app_follow.explain_absence, config.fields.leader_election.resource_name):
        messages.warn([f"{absent}; {consequence}"])


def await_migrations(
    live: app.LiveCluster, keys: Sequence[ObjectKey], timeout: float | None, interrupted: str
) -> tuple[dict[ObjectKey, PodMigration | None], bool]:
    """Wait for the end of migrations, showing progress; return how they ended, and whether time ran out.

    A deleted migration is None. `interrupted` is said after Ctrl-C.
    """
    try:
        with show_progress() as show:
            progress = MigrationProgress(show, len(keys))
            return live.run(app_follow.await_migrations, keys, progress.show, timeout), False
    except TimeoutError:
        return dict(progress.known), True
    except KeyboardInterrupt:
        messages.note(interrupted)
        raise
