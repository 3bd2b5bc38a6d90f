"""Keyed locks: one holder a key, every waiter gets its turn, and unused keys leave nothing behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.runtime.reconciler import KeyedLock
from tests.support.virtual_time import clock, in_virtual_time


@in_virtual_time
async def test_two_with_one_key_go_one_after_the_other_and_others_beside_them() -> None:
    turns = KeyedLock()

    async def work(*keys: Hashable) -> float:
        async with turns.acquire(keys):
            await asyncio.sleep(10)
        return clock()

    assert list(await asyncio.gather(work("a"), work("a"), work("b"), work())) == [10, 20, 10, 10]


@in_virtual_time
async def test_the_same_key_twice_does_not_wait_for_itself() -> None:
    async with KeyedLock().acquire(["a", "a"]):
        assert clock() == 0


@in_virtual_time
async def test_opposite_orders_do_not_block_each_other() -> None:
    turns = KeyedLock()

    async def work(*keys: Hashable) -> None:
        async with turns.acquire(keys):
            await asyncio.sleep(1)

    await asyncio.gather(*(work(*keys) for keys in ("ab", "ba", "bca", "cb")))
    assert clock() == 4


@in_virtual_time
async def test_whoever_gives_up_waiting_leaves_the_turn_to_the_next() -> None:
    turns = KeyedLock()

    async def work() -> float:
        async with turns.acquire("a"):
            await asyncio.sleep(10)
        return clock()

    first, second, third = (asyncio.ensure_future(work()) for _ in range(3))
    await asyncio.sleep(1)
    second.cancel()
    assert [await first, await third] == [10, 20]
    assert second.cancelled()


@in_virtual_time
async def test_an_error_frees_the_turn() -> None:
    turns = KeyedLock()
    for _ in range(2):
        with pytest.raises(LookupError):
            async with turns.acquire("a"):
                raise LookupError


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.integers(0, 5), st.integers(0, 9)), max_size=12))
@in_virtual_time
async def test_in_any_crowd_a_key_has_one_holder_and_everybody_comes_to_an_end(
    crowd: list[tuple[set[str], int, int]],
) -> None:
    """Each wants some keys for a while; some lose patience."""

    turns, held = KeyedLock(), Counter[str]()

    async def work(keys: set[str], seconds: int) -> None:
        async with turns.acquire(keys):
            held.update(keys)
            assert all(held[key] == 1 for key in keys)
            await asyncio.sleep(seconds)
            held.subtract(keys)

    async def impatient(keys: set[str], seconds: int, patience: int) -> None:
        task = asyncio.ensure_future(work(keys, seconds))
        await asyncio.wait([task], timeout=patience or None)
        if not task.done() and not any(held[key] for key in keys):
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None

    await asyncio.gather(*(impatient(*one) for one in crowd))
    async with asyncio.timeout(1):
        async with turns.acquire("abcd"):
            held.clear()
