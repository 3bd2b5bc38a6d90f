"""The errors of the cluster package: each `str()` is a sentence for the user that says what to do.

From every module here, to the command line and the loops, which print them as they are. `ApiError` is the only one
that a request raises for what the server said, or for its silence; `KubeconfigError`, `AuthError` and `FencedError`
come before a request is sent. All are `ClusterError`, so a command catches one type.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


class ClusterError(Exception):
    """Anything that kept us from talking to the cluster, as a sentence for the user."""


class KubeconfigError(ClusterError):
    """A kubeconfig that cannot be used: names the file, the path in it, and the cure."""


class AuthError(ClusterError):
    """Credentials that could not be obtained or loaded: a missing file, a failing exec plugin, a broken certificate."""


class FencedError(ClusterError):
    """A write that was not sent, because we may not act any more: somebody else may lead by now."""


class ApiError(ClusterError):
    """One failed request.

    `status` is None when no whole answer came; `reason` is then one of the words in `failures.py`, else the reason of
    the server's `Status` object. `message` says what happened, `cure` (may be empty) what to do about it.
    """

    def __init__(self, status: int | None, reason: str, message: str, path: str) -> None:
        super().__init__(status, reason, message, path)
        self.status = status
        self.reason = reason
        self.message = message
        self.path = path
        self.cure = ""
        self.retry_after: float | None = None

    def __str__(self) -> str:
        answer = self.reason if self.status is None else f"{self.status} {self.reason}".rstrip()
        sentence = f"{self.message} ({answer} on {self.path})"
        return f"{sentence}; {self.cure}" if self.cure else sentence


# Reasons of errors without an answer.
UNREACHABLE = "Unreachable"  # no connection was made, so nothing was sent
BROKEN_OFF = "BrokenOff"  # the connection was lost before the whole answer was here
TIMED_OUT = "TimedOut"
NOT_TRUSTED = "NotTrusted"  # TLS failed
NOT_KUBERNETES = "NotKubernetes"  # something else answered


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
