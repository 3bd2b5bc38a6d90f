"""Shared by the commands that read a cluster: configuration, reading, and errors as failures.

`plan` and `explain` open a Session from their flags; `snapshot` only reads. Errors of `app` and `config` that a user
can cause get their exit codes here, and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.lazy import app, config_errors, dump, kube_errors
from rescheduler.cli.options import STDIN, AccessOptions, InputOptions, PolicyFlags
from rescheduler.cli.progress import show_bytes_read
from rescheduler.model.policy import Policy

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class Session:
    """A cluster, and the policy to plan by."""

    snapshot: ClusterSnapshot
    policy: Policy


def open_session(inputs: InputOptions, wanted: PolicyFlags, now: float | None) -> Session:
    """Read the configuration, then the cluster; invalid flags are reported before anything is read."""
    inputs.check()
    if wanted.config == STDIN and STDIN in inputs.files:
        raise click.UsageError("--config - and -f - cannot both be standard input.")
    with report_failures():
        config = app.load_configuration(wanted.config, wanted.overrides)
        source = choose_source(inputs, config.fields.client_connection.kubeconfig)
        started = time.monotonic()
        with show_reading(source) as progress:
            snapshot = app.read(source, now, progress)
        live = isinstance(source, app.LiveCluster)
        snapshot = app.with_measured_usage(snapshot, config.fields.utilization, config.fields.usage, live=live)
    took = time.monotonic() - started
    messages.detail(f"read {len(snapshot.nodes)} nodes and {len(snapshot.pods)} pods in {took:.1f} s")
    return Session(snapshot, config.policy())


def choose_source(inputs: InputOptions, configured_kubeconfig: str = "") -> app.DumpFiles | app.LiveCluster:
    """Choose the files, or else the live cluster; a kubeconfig flag wins over the configuration's kubeconfig."""
    if inputs.files:
        return app.DumpFiles(inputs.files)
    return live_cluster(inputs, configured_kubeconfig)


def live_cluster(access: AccessOptions, configured_kubeconfig: str = "") -> app.LiveCluster:
    """Return the live cluster of the flags."""
    return app.LiveCluster(
        kubeconfig=access.kubeconfig or configured_kubeconfig or None,
        context=access.context,
        user=access.as_user or "",
        groups=access.as_groups,
        request_timeout=access.request_timeout or None,
    )


@contextmanager
def show_reading(source: app.DumpFiles | app.LiveCluster) -> Iterator[app.Progress]:
    """Show progress while the block reads."""
    of_bytes = isinstance(source, app.DumpFiles)
    with show_bytes_read(source.size() if isinstance(source, app.DumpFiles) else None, of_bytes=of_bytes) as advance:
        yield advance
