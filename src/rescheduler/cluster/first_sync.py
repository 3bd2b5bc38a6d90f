"""The wait for the first whole copy of a cluster, without garbage collection: none of what is read then is garbage.

`runtime` waits here after it has started its reflectors; `app` reads files and lists in the same way. What was read is
frozen afterwards: the collector would only walk over it, again and again, and find nothing. The collector is off for
the whole process meanwhile, so this is for the beginning of a process.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rescheduler.cluster.reflector import Reflector  # with it comes aiohttp, which readers of files don't need


async def first_sync(reflectors: Iterable[Reflector], patience: float = 300.0) -> None:
    """Wait until every reflector has its first state. After `patience` seconds rubbish is collected as ever."""
    waiting = asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))
    try:
        with uncollected():
            done, _ = await asyncio.wait([waiting], timeout=patience)
        if not done:
            await waiting
            gc.freeze()
    finally:
        waiting.cancel()


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection in the block; what there is after it is never looked at again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
