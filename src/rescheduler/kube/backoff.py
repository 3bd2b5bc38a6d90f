"""When a failed request is worth another try, and how long to wait before it.

`client.py` asks after every failure. `Backoff` holds the only randomness and the only sleep of the client, so a test
gives it its own and runs at once. `may_retry` is pure.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rescheduler.kube.errors import ApiError
from rescheduler.kube.failures import BROKEN_OFF, UNREACHABLE

# Reads alone are repeated when we cannot know whether the first try arrived. PUT and DELETE are idempotent in HTTP,
# but not to a Kubernetes caller: after a PUT that arrived, its repetition is answered 409; after a DELETE, 404.
READS = frozenset({"GET", "HEAD", "OPTIONS"})
PASSING = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential, with jitter: waits of about 0.25, 0.5, 1, 2 s between five tries."""

    tries: int = 5
    first: float = 0.25
    longest: float = 10.0
    longest_asked: float = 60.0  # a server that asks for a longer pause (Retry-After) gets none: the user is told
    jitter: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def pause(self, failures: int, asked: float | None = None) -> None:
        """Waits after the n-th failure in a row: what the server asked for, else an exponential time.

        The jitter is half of the time and never takes away from what the server asked for: many clients that were
        turned away at once must not come back at once.
        """
        if asked is not None:
            await self.sleep(asked + self.first * self.jitter())
            return
        time = min(self.longest, self.first * 2.0 ** (failures - 1))
        await self.sleep(time * (0.5 + 0.5 * self.jitter()))

    def allows(self, failures: int, asked: float | None) -> bool:
        return failures < self.tries and (asked or 0.0) <= self.longest_asked


def may_retry(method: str, error: ApiError) -> bool:
    """Whether a repetition is safe, and may help."""
    if error.reason == UNREACHABLE:
        return True  # nothing was sent
    if error.status in {429, 503}:
        # The server turned the request away unprocessed when it says when to come back. Without that a 429 to a write
        # is an answer (an eviction that the disruption budget does not allow), and a 503 to it is doubtful.
        return method in READS or error.retry_after is not None
    return method in READS and (error.status in PASSING or error.reason == BROKEN_OFF)
