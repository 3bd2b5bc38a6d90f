"""The controller's life: whatever ends it, all that it started has ended, and only a lead that it has is given up.

Its parts are played: each notes when it is begun, and when it is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from rescheduler.kube.lease import LeaderElector, LeaseName
from rescheduler.runtime.controller import Controller, LeadershipLostError, finish_before, run_beside
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_controller import MigrationController
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.starting.gate import StartGate
from tests.support.virtual_time import clock, in_virtual_time

GRACE = 20.0


class CrashError(Exception):
    """Of one of the parts."""


@dataclass
class Part:
    """Goes on until it is ended; may crash, or end by itself, after some seconds."""

    log: list[str]
    name: str
    crashes: float | None = None
    ends: float | None = None

    async def run(self) -> None:
        self.log.append(f"{self.name} begins")
        try:
            await asyncio.sleep(min(self.crashes or 9e9, self.ends or 9e9))
            if self.crashes is not None:
                raise CrashError(self.name)
        finally:
            self.log.append(f"{self.name} ends")


@dataclass
class Played:
    """A controller of played parts."""

    synced_after: float = 1.0
    leads_after: float = 1.0
    lost_after: float | None = None
    parking: float = 3.0
    telling: float = 0.0
    elects: bool = True
    serves: bool = False
    first: list[Callable[[], Awaitable[object]]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch, self.carry, self.task = (Part(self.log, name) for name in ("watching", "carrying", "task"))
        self.serve = Part(self.log, "serving")
        self.open = True
        self.leading = asyncio.Event()
        self.lease = LeaseName("ours", "kube-rescheduler", "me")

    # as Informers
    async def synced(self) -> None:
        await asyncio.sleep(self.synced_after)
        self.log.append("synced")

    # as MigrationController
    async def park(self, grace: float) -> None:
        assert (grace, self.open) == (GRACE, False), "nothing new is begun while moves are parked"
        self.log.append("parking")
        await asyncio.sleep(self.parking)
        self.log.append("parked")

    # as Election
    async def release(self) -> None:
        if self.leading.is_set():
            self.log.append("released")

    async def elect(self) -> None:
        await asyncio.sleep(self.leads_after)
        self.leading.set()
        self.log.append("leading")
        await asyncio.sleep(self.lost_after or 9e9)
        self.leading.clear()
        self.log.append("lost")

    def controller(self) -> Controller:
        async def last() -> None:
            await asyncio.sleep(self.telling)
            self.log.append("last")

        return Controller(
            informers=cast("Informers", _Seat(self.watch.run, wait_for_sync=self.synced)),
            election=cast("LeaderElector", _Elected(self)) if self.elects else None,
            gate=cast("StartGate", self),
            migrations=cast("MigrationController", _Seat(self.carry.run, drain=self.park)),
            startup_tasks=[PeriodicTask(f"first {number}", 0.0, do) for number, do in enumerate(self.first)],
            leader_tasks=[self.task],
            shutdown_tasks=[PeriodicTask("last", 0.0, last)],
            grace=lambda: GRACE,
            replica_tasks=[self.serve] if self.serves else [],
        )


class _Seat:
    def __init__(self, run: Callable[[], Awaitable[None]], **others: object) -> None:
        self.run = run
        self.__dict__.update(others)


class _Elected:
    """The played election; `lost` and the others share the stage's state."""

    def __init__(self, played: Played) -> None:
        self.run, self.release = played.elect, played.release
        self.leading, self.lease = played.leading, played.lease


def lived(played: Callable[[], Played], stop_after: float | None, error: type[BaseException] | None = None) -> Played:
    """A controller's whole life, until it is asked to stop or ends by an error; no task of it is left."""
    told: list[Played] = []

    async def story() -> None:
        one = played()
        told.append(one)
        stop = asyncio.Event()
        if stop_after is not None:
            asyncio.get_running_loop().call_later(stop_after, stop.set)
        if error is None:
            await one.controller().run(stop)
        else:
            with pytest.raises(error):
                await one.controller().run(stop)
        one.log.append(f"over at {clock():g}")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    in_virtual_time(story)()
    return told[0]


def test_a_whole_life() -> None:
    async def clean_up() -> None:
        told.append("cleaned up")

    told: list[str] = []
    found = lived(lambda: Played(first=[clean_up], log=told), stop_after=10)
    assert found.log == [
        "watching begins",
        "synced",
        "leading",
        "cleaned up",
        "carrying begins",
        "task begins",
        "task ends",
        "parking",
        "parked",
        "carrying ends",
        "last",
        "released",
        "watching ends",
        "over at 13",
    ]


def test_alone_it_leads_without_an_election() -> None:
    found = lived(lambda: Played(elects=False), stop_after=10)
    assert "carrying begins" in found.log
    assert "leading" not in found.log
    assert found.log[-1] == "over at 13"


def test_asked_to_stop_before_the_cluster_is_known_it_just_ends() -> None:
    found = lived(lambda: Played(synced_after=100), stop_after=10)
    assert found.log == ["watching begins", "watching ends", "over at 10"]


def test_asked_to_stop_while_somebody_else_leads_it_releases_nothing() -> None:
    found = lived(lambda: Played(leads_after=100), stop_after=10)
    assert found.log == ["watching begins", "synced", "watching ends", "over at 10"]


def test_asked_to_stop_at_the_moment_of_taking_the_lead_it_gives_it_up_and_does_nothing() -> None:
    found = lived(lambda: Played(synced_after=1, leads_after=9), stop_after=10)
    assert "carrying begins" not in found.log
    assert "task begins" not in found.log
    if "leading" in found.log:
        assert "released" in found.log


def test_asked_to_stop_during_the_first_duties_it_moves_nothing() -> None:
    async def slow() -> None:
        await asyncio.sleep(100)

    found = lived(lambda: Played(first=[slow]), stop_after=10)
    assert "carrying begins" not in found.log
    assert found.log[-3:] == ["released", "watching ends", "over at 10"]


def test_when_the_lead_is_lost_everything_stops_at_once_and_nothing_is_released() -> None:
    found = lived(lambda: Played(lost_after=30), stop_after=None, error=LeadershipLostError)
    assert found.log[-5:] == ["lost", "task ends", "carrying ends", "watching ends", "over at 32"]
    assert "parking" not in found.log


def test_the_lead_may_be_lost_while_moves_are_parked() -> None:
    found = lived(lambda: Played(lost_after=9, parking=15), stop_after=10, error=LeadershipLostError)
    assert found.log[-4:] == ["lost", "carrying ends", "watching ends", "over at 11"]
    assert "parked" not in found.log


def test_what_is_done_last_takes_no_longer_than_the_grace() -> None:
    found = lived(lambda: Played(telling=1000), stop_after=10)
    assert "last" not in found.log
    assert found.log[-3:] == ["released", "watching ends", "over at 33"]


def test_the_lead_may_be_lost_during_the_first_duties() -> None:
    async def slow() -> None:
        await asyncio.sleep(100)

    found = lived(lambda: Played(first=[slow], lost_after=9), stop_after=None, error=LeadershipLostError)
    assert "carrying begins" not in found.log
    assert found.log[-1] == "over at 11"


@pytest.mark.parametrize("part", ["watch", "carry"])
def test_a_part_that_crashes_ends_it_with_its_error(part: str) -> None:
    def played() -> Played:
        one = Played()
        getattr(one, part).crashes = 20.0
        return one

    found = lived(played, stop_after=None, error=CrashError)
    assert "released" in found.log, "the next one need not wait for the lease to run out"
    assert found.log.index("carrying ends") < found.log.index("released")
    assert found.log.count("carrying ends") == found.log.count("watching ends") == found.log.count("task ends") == 1


def test_a_task_that_crashes_ends_it_with_its_error() -> None:
    def played() -> Played:
        one = Played()
        one.task.crashes = 20.0
        return one

    found = lived(played, stop_after=None, error=CrashError)
    assert found.log[-1].startswith("over at 22")


def test_who_does_not_lead_serves_all_the_same() -> None:
    found = lived(lambda: Played(serves=True, leads_after=100), stop_after=10)
    assert found.log == ["watching begins", "synced", "serving begins", "serving ends", "watching ends", "over at 10"]


def test_it_serves_until_the_lease_is_given_up() -> None:
    found = lived(lambda: Played(serves=True), stop_after=10)
    assert found.log[-4:] == ["released", "serving ends", "watching ends", "over at 13"]


@pytest.mark.parametrize("leads_after", [1.0, 100.0])
def test_whoever_cannot_serve_ends_with_the_reason(leads_after: float) -> None:
    def played() -> Played:
        one = Played(serves=True, leads_after=leads_after)
        one.serve.crashes = 20.0
        return one

    assert lived(played, stop_after=None, error=CrashError).log[-1] == "over at 21"


def test_a_part_that_ends_by_itself_is_a_bug_that_is_told() -> None:
    def played() -> Played:
        one = Played()
        one.carry.ends = 20.0
        return one

    lived(played, stop_after=None, error=RuntimeError)


def test_watching_that_crashes_before_the_cluster_is_known_ends_it() -> None:
    def played() -> Played:
        one = Played(synced_after=100)
        one.watch.crashes = 5.0
        return one

    found = lived(played, stop_after=None, error=CrashError)
    assert found.log == ["watching begins", "watching ends", "over at 5"]


def test_a_first_task_that_fails_does_not_keep_it_from_leading() -> None:
    async def fail() -> None:
        raise CrashError

    assert "carrying begins" in lived(lambda: Played(first=[fail]), stop_after=10).log


async def test_before_gives_the_error_of_its_own_work() -> None:
    async def fail() -> None:
        raise CrashError

    with pytest.raises(CrashError):
        await finish_before(fail(), asyncio.Event())


async def test_before_is_not_done_if_we_were_asked_to_stop() -> None:
    async def work() -> None:
        """Done."""

    stop = asyncio.Event()
    assert await finish_before(work(), stop)
    stop.set()
    assert not await finish_before(work(), stop)
    assert await finish_before(work(), None)


async def test_beside_ends_with_its_block_also_by_an_error() -> None:
    part = Part([], "part")

    async def block() -> None:
        async with run_beside(part.run()):
            await asyncio.sleep(0)
            raise LookupError

    with pytest.raises(LookupError):
        await block()
    assert part.log == ["part begins", "part ends"]
