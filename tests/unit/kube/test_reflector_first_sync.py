"""The first sync: it is over when every copy is whole, and the garbage collector rests until then."""

import asyncio
import gc
from collections.abc import Iterator
from typing import cast

import pytest

from rescheduler.decode.reader import without_gc
from rescheduler.kube.reflector import Reflector, wait_for_first_sync


class Copy:
    def __init__(self) -> None:
        self.synced = asyncio.Event()


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


async def test_it_waits_for_all_of_them_with_the_collector_off() -> None:
    copies = [Copy(), Copy()]
    task = asyncio.create_task(wait_for_first_sync(cast("list[Reflector]", copies)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not gc.isenabled()
    copies[0].synced.set()
    await asyncio.sleep(0)
    assert not task.done()
    copies[1].synced.set()
    await task
    assert gc.isenabled()
    assert gc.get_freeze_count()


async def test_who_has_lost_patience_collects_and_goes_on_waiting() -> None:
    copy = Copy()
    task = asyncio.create_task(wait_for_first_sync(cast("list[Reflector]", [copy]), patience=0.0))
    for _ in range(20):  # turns of the loop: more than the end of no patience takes
        await asyncio.sleep(0)
    assert not task.done()
    assert gc.isenabled()
    copy.synced.set()
    await task


async def test_a_wait_that_is_cancelled_leaves_the_collector_on() -> None:
    task = asyncio.create_task(wait_for_first_sync(cast("list[Reflector]", [Copy()])))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with without_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
