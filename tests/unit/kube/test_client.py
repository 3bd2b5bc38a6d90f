"""The pace of requests, in virtual time: a burst at once, then so many a second, in the order of asking."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.client import RateLimiter
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
