"""The rate of requests, in virtual time, and the clock of the server.

Requests go in a burst at once, then so many a second, in the order of asking. The server's clock is right to a second,
however wrong ours is.
"""

from __future__ import annotations

import asyncio
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.client import RateLimiter, ServerClock
from tests.support.virtual_time import clock, in_virtual_time


def pace(qps: float, burst: int) -> RateLimiter:
    return RateLimiter(qps, burst, clock=clock)


async def turns(of: RateLimiter, count: int) -> list[float]:
    """When each of so many who ask at once gets its turn."""

    async def one() -> float:
        await of.wait()
        return clock()

    return await asyncio.gather(*(one() for _ in range(count)))


@in_virtual_time
async def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    assert await turns(pace(qps=2.0, burst=3), 6) == pytest.approx([0.0, 0.0, 0.0, 0.5, 1.0, 1.5])


@in_virtual_time
async def test_the_bucket_fills_up_again_but_never_over() -> None:
    paced = pace(qps=1.0, burst=2)
    await turns(paced, 2)
    await asyncio.sleep(600)
    assert await turns(paced, 3) == pytest.approx([600.0, 600.0, 601.0])


@in_virtual_time
async def test_a_rate_below_one_a_second_is_kept() -> None:
    assert await turns(pace(qps=0.1, burst=1), 3) == pytest.approx([0.0, 10.0, 20.0])


@in_virtual_time
async def test_who_is_cancelled_gives_the_turn_back() -> None:
    paced = pace(qps=1.0, burst=1)
    await paced.wait()
    waiting = asyncio.create_task(paced.wait())
    await asyncio.sleep(0.25)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await turns(paced, 1) == pytest.approx([1.0])


@given(
    qps=st.floats(0.5, 50.0),
    burst=st.integers(1, 10),
    pauses=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=30),
)
@in_virtual_time
async def test_no_stretch_of_time_has_more_turns_than_the_burst_and_its_share(
    qps: float, burst: int, pauses: list[float]
) -> None:
    paced, given_at = pace(qps, burst), []
    for pause in pauses:
        await asyncio.sleep(pause)
        given_at += await turns(paced, 2)
    for first, start in enumerate(given_at):
        for last, end in enumerate(given_at[first:], first):
            assert last - first + 1 <= burst + (end - start) * qps + 1e-6


NOW = 1_800_000_000.25


def heard(there: float, *, sent: float, took: float) -> ServerClock:
    clock = ServerClock(lambda: sent + took)
    clock.update(formatdate(int(there), usegmt=True), sent, sent + took)
    return clock


@pytest.mark.parametrize("ahead", [-3600.0, -8.0, 8.0, 3600.0])
def test_a_clock_that_is_surely_wrong_is_put_right(ahead: float) -> None:
    clock = heard(NOW, sent=NOW + ahead, took=0.01)
    assert abs(clock.now() - NOW) <= 1.1


@pytest.mark.parametrize("ahead", [-0.2, 0.0, 0.7])
def test_a_difference_that_whole_seconds_cannot_show_is_none(ahead: float) -> None:
    assert heard(NOW, sent=NOW + ahead, took=0.01).offset == 0.0


def test_a_slow_answer_proves_nothing() -> None:
    assert heard(NOW + 20, sent=NOW, took=30.0).offset == 0.0


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_an_answer_without_a_date_changes_nothing(date: str | None) -> None:
    clock = heard(NOW, sent=NOW + 60, took=0.0)
    before = clock.offset
    clock.update(date, 0.0, 1.0)
    assert clock.offset == before


@given(st.floats(-1e6, 1e6), st.floats(0, 20), st.floats(0, 1))
def test_it_is_never_put_wrong_by_more_than_it_was(ahead: float, took: float, when: float) -> None:
    stamped = NOW + took * when  # by the server's clock, somewhere between sending and receiving
    clock = heard(stamped, sent=NOW + ahead, took=took)
    assert abs(clock.offset + ahead) <= abs(ahead) + 1e-6
