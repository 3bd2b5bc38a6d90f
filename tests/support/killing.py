"""The product's command line with a trap: `python -m tests.support.killing --at handoff:HandOver:stored -- run …`.

The process kills itself, by a real SIGKILL, at the named point of the named step of a method; the product knows
nothing of it, because its classes are wrapped in this process alone. Steps are called as `status.step` calls them, and
where there is none by the phase (`InProgress`, `Completed`). The points of a step, in their order:

storing: the request that records it is sent, its answer not read · stored: recorded, nothing of it done · sending: the
request of its first command is sent · unanswered: that one's answer has come and is not read · first: right after that
command · sending-second, unanswered-second, second: the same with its second command · leaving: all of it is done, the
next step not recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import aiohttp

from rescheduler.cli.main import run
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import CommandSender
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.migration import MigrationStatus, PodMigration

STORING, STORED, SENDING, UNANSWERED = "storing", "stored", "sending", "unanswered"
SENDING_SECOND, UNANSWERED_SECOND = "sending-second", "unanswered-second"
FIRST, SECOND, LEAVING = "first", "second", "leaving"
IN_REQUEST = ({SENDING: SENDING, UNANSWERED: UNANSWERED}, {SENDING_SECOND: SENDING, UNANSWERED_SECOND: UNANSWERED})
"""For the first and for the second command: the points within its request, and what of the request they are."""
AFTER = (FIRST, SECOND)
POINTS = (STORING, STORED, *IN_REQUEST[0], FIRST, *IN_REQUEST[1], SECOND, LEAVING)
KILLED = "killed itself at "

_at_work: ContextVar[PodMigration | None] = ContextVar("_at_work", default=None)
"""The migration that the current task works on: commands do not name their migration."""
_armed: ContextVar[str] = ContextVar("_armed", default="")
"""What kills the next request of the current task: SENDING, UNANSWERED, or nothing."""


@dataclass(frozen=True)
class Point:
    """Where to die."""

    method: str
    step: str
    point: str

    @classmethod
    def parsed(cls, text: str) -> Point:
        """From `method:step:point`."""
        method, step, point = text.split(":")
        if point not in POINTS:
            raise ValueError(f"{point} is not one of {', '.join(POINTS)}")
        return cls(method, step, point)

    def __str__(self) -> str:
        return f"{self.method}:{self.step}:{self.point}"


@dataclass
class Trap:
    """Waits for a migration to come to a point; `of` says for which, as `namespace/name`, or for any."""

    at: Point
    of: str = ""
    commands: int = field(default=0)
    """How many of the step's commands were carried out."""

    def is_in(self, migration: PodMigration, progress: MigrationStatus) -> bool:
        """Whether this progress is the step to die in."""
        ours = self.of in ("", migration.full_name) and progress.method == self.at.method
        return ours and step_of(progress) == self.at.step

    def spring(self, *points: str) -> None:
        """The end, if it is to be at one of these points."""
        if self.at.point in points:
            die(self.at)

    def set_up(self) -> None:
        """Wrap the classes through which every write goes, in this process."""
        self._wrap_journal()
        self._wrap_writer()
        _wrap_answers(self.at)

    def _wrap_journal(self) -> None:
        read, store = MigrationClient.read, MigrationClient.update_status

        async def trapped_read(migration_client: MigrationClient, namespace: str, name: str) -> PodMigration | None:
            found = await read(migration_client, namespace, name)
            _at_work.set(found)
            return found

        async def trapped_store(
            migration_client: MigrationClient, migration: PodMigration, progress: MigrationStatus
        ) -> PodMigration:
            was, is_now = self.is_in(migration, migration.status), self.is_in(migration, progress)
            if was and not is_now:
                self.spring(LEAVING)
            entering = is_now and not was
            _armed.set(SENDING if entering and self.at.point == STORING else "")
            stored = await store(migration_client, migration, progress)
            _armed.set("")
            _at_work.set(stored)
            if entering:
                self.spring(STORED)
            return stored

        MigrationClient.read, MigrationClient.update_status = trapped_read, trapped_store  # type: ignore[method-assign, assignment]  # this is the trap

    def _wrap_writer(self) -> None:
        carry_out = CommandSender.carry_out

        async def trapped(writer: CommandSender, command: Command) -> FailedCommand | None:
            migration = _at_work.get()
            here = migration is not None and self.is_in(migration, migration.status) and self.commands < len(AFTER)
            _armed.set(IN_REQUEST[self.commands].get(self.at.point, "") if here else "")
            refused = await carry_out(writer, command)
            _armed.set("")
            if here:
                self.commands += 1
                self.spring(AFTER[self.commands - 1])
            return refused

        CommandSender.carry_out = trapped  # type: ignore[method-assign, assignment]  # this is the trap


def step_of(progress: MigrationStatus) -> str:
    """The step's name, or where there is none the phase's."""
    return progress.step or progress.phase.value


def die(at: Point) -> NoReturn:
    """Like a machine that loses its power: nothing is cleaned up, closed or said, but for one line in the log."""
    os.write(sys.stderr.fileno(), f"{KILLED}{at}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("no process survives SIGKILL")


def _wrap_answers(at: Point) -> None:
    start = aiohttp.ClientResponse.start

    async def trapped(response: aiohttp.ClientResponse, connection: Any) -> aiohttp.ClientResponse:
        if _armed.get() == SENDING:
            if (sending := response._writer) is not None:
                await asyncio.wait([sending])  # until the last byte of the request is on its way
            die(at)
        started = await start(response, connection)
        if _armed.get() == UNANSWERED:
            die(at)
        return started

    aiohttp.ClientResponse.start = trapped  # type: ignore[method-assign, assignment]  # this is the trap


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.killing", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--at", type=Point.parsed, help="where to die, as method:step:point; without it, nowhere")
    parser.add_argument("--of", default="", help="of which migration, as namespace/name; without it, of any")
    parser.add_argument("arguments", nargs="+", help="after `--`: the product's command line")
    options = parser.parse_args()
    if options.at is not None:
        Trap(options.at, options.of).set_up()
    return run(options.arguments)


if __name__ == "__main__":
    sys.exit(main())
