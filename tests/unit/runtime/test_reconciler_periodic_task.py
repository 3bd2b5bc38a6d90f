"""Periodic tasks: run every so often and when woken; no error keeps them from running again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rescheduler.kube.errors import ApiError
from rescheduler.runtime.reconciler import PeriodicTask
from tests.support.virtual_time import clock, in_virtual_time

Do = Callable[[], Awaitable[object]]


def done_at(do: Do, seconds: float, *calls: float, every: float | Callable[[], float] = 30.0) -> list[float]:
    """When a task was started within so many seconds, if it is woken at these moments."""
    moments: list[float] = []

    async def story() -> None:
        async def noted() -> None:
            moments.append(clock())
            await do()

        task = PeriodicTask("test", every, noted)
        for moment in calls:
            asyncio.get_running_loop().call_at(moment, task.wake.set)
        running = asyncio.ensure_future(task.run())
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.wait([running])

    in_virtual_time(story)()
    return [round(moment, 3) for moment in moments]


async def at_once() -> None:
    """Done."""


def taking(seconds: float) -> Do:
    async def do() -> None:
        await asyncio.sleep(seconds)

    return do


def test_a_task_runs_at_once_and_then_every_so_often() -> None:
    assert done_at(at_once, 100) == [0, 30, 60, 90]


def test_how_often_may_change_from_one_time_to_the_next() -> None:
    seconds = iter([30.0, 10.0, 40.0, 40.0])
    assert done_at(at_once, 100, every=lambda: next(seconds)) == [0, 30, 40, 80]


def test_the_time_that_it_takes_counts_as_time_waited() -> None:
    assert done_at(taking(10), 100) == [0, 30, 60, 90]


def test_one_that_takes_longer_than_its_time_is_never_done_twice_at_once() -> None:
    assert done_at(taking(40), 100) == [0, 40, 80]


def test_a_call_has_it_done_soon_and_several_calls_in_a_row_once() -> None:
    assert done_at(at_once, 50, 10.0, 10.05, 10.1) == [0, 10.2, 40.2]


def test_a_call_while_it_is_being_done_has_it_done_again() -> None:
    assert done_at(taking(5), 20, 3.0) == [0, 5.2]


@pytest.mark.parametrize(
    "error", [ApiError(500, "InternalError", "no", "/x"), KeyError("metadata")], ids=["the server", "a bug"]
)
def test_one_that_fails_is_done_again(error: Exception) -> None:
    async def fail() -> None:
        raise error

    assert done_at(fail, 100) == [0, 30, 60, 90]


async def test_done_once_it_says_whether_it_went_well() -> None:
    async def fail() -> None:
        raise LookupError

    assert await PeriodicTask("good", 0.0, at_once).run_once()
    assert not await PeriodicTask("bad", 0.0, fail).run_once()


@in_virtual_time
async def test_a_task_that_is_cancelled_ends() -> None:
    running = asyncio.ensure_future(PeriodicTask("slow", 1.0, taking(1000)).run())
    await asyncio.sleep(5)
    running.cancel()
    await asyncio.wait([running])
    assert (running.cancelled(), clock()) == (True, 5)
