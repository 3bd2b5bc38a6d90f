"""Doing many like things at once, carefully: in batches that double as long as all goes well.

Controllers create and delete pods this way. What a quota or a webhook refuses once, it would refuse a hundred times, so
the first refusal ends it; and between batches everybody else has his turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

LARGEST = 32


async def together(batch: Iterable[Awaitable[None]]) -> None:
    """All of a batch at once; when all have come to an end, the first failure is raised, if there was one."""
    results = await asyncio.gather(*batch, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def in_growing_batches(jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """One, then two, then four…, until one fails."""
    done, size = 0, 1
    while batch := jobs[done : done + size]:
        await together(job() for job in batch)
        done, size = done + size, min(size * 2, LARGEST)
