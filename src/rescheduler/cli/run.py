"""`rescheduler run`: runs the controller, which watches, plans, and moves pods until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures
from rescheduler.cli.lazy import app
from rescheduler.cli.options import AccessOptions, PolicyFlags, command, option
from rescheduler.model.migration import Phase


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Flags of `run`."""

    once: bool = option("--once", is_flag=True, help="Make one plan, carry it out, and exit.")
    dry_run: bool = option("--dry-run", is_flag=True, help="Log what would be moved, and change nothing.")
    leader_elect: bool | None = option(
        "--leader-elect/--no-leader-elect",
        default=None,
        help="leaderElection.leaderElect: act only as the leader of several replicas.",
    )
    ui_insecure_local: bool = option(
        "--ui-insecure-local",
        is_flag=True,
        help="Allow the page's buttons without signing in, for everyone on this machine; web.bindAddress must be a "
        "loopback address.",
    )
    log_format: str = option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Log format on stderr; -v also logs every write to the API server.",
    )


@command("run")
def run(access: AccessOptions, wanted: PolicyFlags, options: RunOptions) -> None:
    """Run the controller: watch the cluster, plan, and move pods.

    Makes a plan every reschedulingInterval. Its moves become PodMigrations (kubectl get pmig), which are carried out
    within the limits of the configuration. Of several replicas, the leader acts. A changed configuration file is
    re-read, and rejected if it is invalid. SIGTERM and SIGINT stop it: nothing new begins, and moves under way are
    finished, or left in a state from which the next leader continues.

    \b
    Examples:
      rescheduler run --config rescheduler.yaml
      rescheduler run --once                     one plan, carried out
      rescheduler run --dry-run                  what it would do, for as long as it runs
    """
    from rescheduler.app.context import RunRequest  # noqa: PLC0415 - it takes a while to import
    from rescheduler.app.controller import open_config, run_controller, run_dry  # noqa: PLC0415 - the same
    from rescheduler.runtime.controller import LeadershipLostError  # noqa: PLC0415 - the same
    from rescheduler.runtime.logs import LogFormat, configure  # noqa: PLC0415 - the same

    configure(LogFormat(options.log_format), verbose=messages.verbose())
    elect = {} if options.leader_elect is None else {"leaderElection.leaderElect": options.leader_elect}
    with report_failures():
        flags = {**wanted.overrides, **elect}
        given = wanted.config
        config, origin = (app.load_configuration(None, flags), None) if given is None else open_config(given, flags)
        live = live_cluster(access, config)
        running = RunRequest(live, config, once=options.once, insecure_local=options.ui_insecure_local, origin=origin)

        async def live_and_end() -> int:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.set)
            if options.dry_run:
                await run_dry(running, stop)
                return 0
            outcome = await run_controller(running, stop)
            return outcome[Phase.FAILED]

        try:
            failed = asyncio.run(live_and_end())
        except LeadershipLostError as error:
            raise messages.CommandError(str(error)) from None
    if failed:
        raise messages.CommandError(
            f"{failed} of the plan's moves failed; rescheduler migrations shows why", code=messages.FAILED
        )
