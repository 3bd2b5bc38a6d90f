"""`rescheduler move`: orders the move of one pod, and follows it until the pod is there.

`app.orders` checks and orders the move. Progress goes to stderr.
"""

from __future__ import annotations

from dataclasses import dataclass

import click

from rescheduler.cli import messages
from rescheduler.cli.common import await_migrations, connect, read_cluster, report_failures, warn_if_absent
from rescheduler.cli.lazy import app, app_orders, kube_migrations
from rescheduler.cli.options import (
    AccessOptions,
    WaitOptions,
    command,
    config_file,
    option,
    waiting_options,
)
from rescheduler.cli.output import FORMATS, RESOURCE, format_document
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy

_POD_KINDS = ("pod", "pods", "po")


class _Methods(click.Choice[str]):
    """The methods that move a pod; the error for `remove` says what that is for."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == Method.REMOVE:
            self.fail("remove moves nothing: that is how FailedPods and PodLifeTime clear away ended pods", param)
        return super().convert(value, param, ctx)


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """The move, and how it is shown."""

    namespace: str | None = option(
        "-n", "--namespace", metavar="NAMESPACE", help="The pod's namespace (default: the context's)."
    )
    target: str | None = option("--to", metavar="NODE", help="The target node (default: the best one).")
    method: str = option(
        "--method",
        type=_Methods(["auto", *(each.value for each in Method if each is not Method.REMOVE)]),
        default="auto",
        show_default=True,
        help="How it is moved; auto picks the least disruptive way.",
    )
    reason: str = option("--reason", metavar="TEXT", default="", help="The reason, stored in the migration.")
    config: str | None = config_file()
    dry_run: bool = option("--dry-run", is_flag=True, help="Only show what would be done now.")
    output: str | None = option(
        "-o", "--output", type=click.Choice([*FORMATS, "name"]), help="Print the migration instead of messages."
    )

    def wish(self, pod: str, live: app.LiveCluster) -> app_orders.ManualMove:
        """Return the requested move; POD may be POD, pod/POD or NAMESPACE/POD."""
        before, _, name = pod.rpartition("/")
        named = "" if before in _POD_KINDS else before
        if not name or "/" in named:
            raise click.UsageError(f"{pod!r} is not POD, pod/POD or NAMESPACE/POD")
        if named and self.namespace and named != self.namespace:
            raise click.UsageError(f"{pod} names namespace {named}, and -n names {self.namespace}: give one of the two")
        namespace = named or self.namespace or live.connection().namespace
        method = None if self.method == "auto" else Method(self.method)
        return app_orders.ManualMove(namespace, name, self.target or "", method, self.reason)


@command("move")
@click.argument("pod")
@waiting_options("the pod is there, or the move has failed", wait=True)
def move(pod: str, access: AccessOptions, options: MoveOptions, waiting: WaitOptions) -> None:
    """Move one pod to another node.

    Makes a PodMigration, which the controller carries out by the same rules as its own moves, and follows it step by
    step on stderr. Ctrl-C only ends the following: the move goes on. `--no-wait` doesn't follow it at all.

    \b
    Examples:
      rescheduler move web-6d5f9c-x2x9z -n shop
      rescheduler move web-6d5f9c-x2x9z -n shop --to node-7 --reason "noisy neighbour"
      rescheduler move shop/web-6d5f9c-x2x9z --dry-run
    """
    with report_failures():
        live, config = connect(access, options.config)
        try:
            wanted = live.run(app_orders.draft_migration, options.wish(pod, live))
        except app_orders.MoveRefusedError as refused:
            raise messages.CommandError(str(refused), code=messages.REFUSED) from None
        if options.dry_run:
            _dry_run(live, wanted, config.policy(), options.output)
            return
        migration = live.run(app_orders.order, wanted)
        warn_if_absent(live, config, "the move waits until one does (`rescheduler run`)")
        if not options.output:
            messages.emit_line(f"{RESOURCE}/{migration.name} created")
        ended = _await_end(live, migration, waiting.timeout) if waiting.wait else migration
        if options.output:
            _print(live.run(app_orders.fetch, migration), migration, options.output)
        if waiting.wait:
            _conclude(live, ended, quiet=bool(options.output))


def _dry_run(live: app.LiveCluster, migration: PodMigration, policy: Policy, output: str | None) -> None:
    """Print what the controller would do now."""
    verdict = app_orders.judge(read_cluster(live), policy, migration)
    title = f"pod {migration.namespace}/{migration.spec.pod.name}"
    if verdict.method is None:
        until = "; the move would wait for that to change" if verdict.temporary else ""
        raise messages.CommandError(f"{title} would not be moved now: {verdict.reason}{until}", code=messages.REFUSED)
    if output:
        _print(kube_migrations.encode_migration(migration), migration, output)
    else:
        messages.emit_line(f"{title} would be moved to {verdict.target} by {verdict.method} (dry run)")


def _await_end(live: app.LiveCluster, migration: PodMigration, timeout: float | None) -> PodMigration:
    """Wait for the end of the migration, printing its steps."""
    name, namespace = migration.name, migration.namespace
    goes_on = (
        f"the move goes on. Watch it with `rescheduler migrations {name} -n {namespace} -w`, "
        f"cancel it with `kubectl delete pmig {name} -n {namespace}`"
    )
    found, late = await_migrations(live, [(namespace, name)], timeout, f"interrupted; {goes_on}")
    if late:
        raise messages.CommandError(f"not over yet; {goes_on}", code=messages.TIMED_OUT)
    ended = found[namespace, name]
    if ended is None:
        raise messages.CommandError("the migration was deleted before it was over", code=messages.FAILED)
    return ended


def _conclude(live: app.LiveCluster, ended: PodMigration, *, quiet: bool) -> None:
    made, title = ended.status, f"pod {ended.namespace}/{ended.spec.pod.name}"
    if made.phase is Phase.FAILED:
        raise messages.CommandError(
            f"{title} was not moved: {made.message or 'no reason is given'}", code=messages.FAILED
        )
    if not quiet:
        replacement = f" as {made.replacement.name}" if made.replacement is not None else ""
        where = live.run(app_orders.find_landing_node, ended)
        messages.emit_line(f"{title} moved from {made.source} to {where}{replacement}")


def _print(body: dict[str, object], migration: PodMigration, form: str) -> None:
    messages.emit(f"{RESOURCE}/{migration.name}\n" if form == "name" else format_document(body, form))
