"""The product's recovery loop at work on a cluster under test, for as long as a block lasts.

It runs in a thread of its own with the product's own watches, reads and writes, so that tests drive the cluster
meanwhile. There is neither webhook nor extender: where replacements land is the scheduler's choice. A `Fuse` ends the
loop right after a write, as a process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from rescheduler.decode.structs import CRON_JOBS
from rescheduler.kube.client import ApiClient
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.record_owner import RecordOwners
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.policy import Policy
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.controller import run_beside
from rescheduler.runtime.informers import WATCHED, Informers
from rescheduler.runtime.recovery_controller import RecoveryController
from tests.support.both_clusters import ClusterUnderTest
from tests.support.informers import informers
from tests.support.live import live
from tests.support.migrations import Fuse, Killed, wait_until_undisturbed
from tests.testbed.processes import until

SECONDS = 120.0
QUICK = RecoverySettings(
    crash_restarts=1, delay=0.0, same_node_delay=0.0, image_pull_timeout=1.0, start_timeout=600.0, node_not_ready=2.0
)
"""Failures count early; the record stays for tests to read."""


@dataclass
class Recovering:
    """A loop at work."""

    fuse: Fuse = field(default_factory=Fuse)
    counted: Counter[str] = field(default_factory=Counter)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when it has ended, by itself or with the block."""
    error: BaseException | None = None
    meddle: Callable[[Command], Command | None] = lambda command: None
    """What another writer writes just before each write."""

    def count(self, outcome: str) -> None:
        self.counted[outcome] += 1

    def counts(self, **outcomes: int) -> None:
        """Wait until it has counted exactly so many of these."""
        until(f"{outcomes} are counted", lambda: outcomes.items() <= self.counted.items())

    def is_killed(self) -> None:
        """Wait until the fuse has burnt."""
        assert self.ended.wait(SECONDS), f"it lives, and has written {self.fuse.written}"
        assert isinstance(self.error, Killed), self.error


class _FusedWriter:
    def __init__(self, writer: CommandSender, found: Recovering) -> None:
        self._writer, self._found = writer, found

    async def carry_out(self, command: Command) -> FailedCommand | None:
        if (other := self._found.meddle(command)) is not None:
            assert await self._writer.carry_out(other) is None
        refused = await self._writer.carry_out(command)
        self._found.fuse.burn(f"{command.verb} {command.kind}{'' if refused is None else ' refused'}")
        return refused


@contextlib.contextmanager
def recovering(
    cluster: ClusterUnderTest, settings: RecoverySettings = QUICK, policy: Policy | None = None, **others: Any
) -> Iterator[Recovering]:
    """A loop whose caches are synced when the block begins, and that ends with it; `others` are of Recovering.

    It looks after every namespace, also after those of earlier tests that are not gone yet.
    """
    wait_until_undisturbed(cluster)
    found = Recovering(**others)
    ready, stop = threading.Event(), threading.Event()

    def live() -> None:
        try:
            asyncio.run(_live(cluster, found, (settings, policy or Policy()), (ready, stop)))
        except BaseException as error:  # noqa: BLE001  # raised in the waiting thread
            found.error = error
        finally:
            found.ended.set()
            ready.set()

    thread = threading.Thread(target=live, name="recovery")
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield found
    finally:
        stop.set()
        thread.join()
    if found.error is not None and not isinstance(found.error, Killed):
        raise found.error


async def _live(
    cluster: ClusterUnderTest,
    found: Recovering,
    configured: tuple[RecoverySettings, Policy],
    signals: tuple[threading.Event, threading.Event],
) -> None:
    (settings, policy), (ready, stop) = configured, signals
    async with ApiClient(load_connection(KubeconfigOptions(cluster.kubeconfig, None), os.environ)) as client:
        watching = Informers(client, "test", (*WATCHED, CRON_JOBS))
        recorder = EventRecorder(client, "test", client.clock.now)
        sender = cast("CommandSender", _FusedWriter(CommandSender(client), found))
        now_live = live(policy=lambda: policy, recovery=lambda: settings)
        known = informers(cache=watching.cache, now=client.clock.now)
        recovery = RecoveryController(RecordOwners(client), known, now_live, sender, recorder)
        recovery.count_outcome = found.count
        async with run_beside(watching.run()) as following:
            async with asyncio.timeout(SECONDS):
                await watching.wait_for_sync()
            running = asyncio.create_task(recovery.run())
            stopping = asyncio.create_task(asyncio.to_thread(stop.wait))
            ready.set()
            await asyncio.wait([running, stopping, following], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            if running.done():
                _raise_killed(running)
            running.cancel()
            await asyncio.wait([running, stopping])
            await recovery.flush()


def _raise_killed(task: asyncio.Task[None]) -> None:
    try:
        task.result()
    except* Killed as group:
        raise Killed(str(group.exceptions[0])) from None
