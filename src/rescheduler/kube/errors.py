"""Errors of the Kubernetes client, and when to retry. Each `str()` is a sentence for the user that says what to do.

A request raises `ApiError` for what the server answered, or for a missing answer. `KubeconfigError`, `AuthError` and
`FencedError` are raised before a request is sent. All are `ClusterError`, so that a command catches one type.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


class ClusterError(Exception):
    """Any problem with reaching the cluster, as a sentence for the user."""


class KubeconfigError(ClusterError):
    """An unusable kubeconfig; the message has the file, the path in it, and the cure."""


class AuthError(ClusterError):
    """Credentials that cannot be loaded: a missing file, a failing exec plugin, a broken certificate."""


class FencedError(ClusterError):
    """A write that was not sent, because another replica may be the leader by now."""


class ApiError(ClusterError):
    """One failed request.

    `status` is None if there was no complete answer; `reason` is then one of the constants below, else the reason of
    the server's `Status` object. `message` says what happened, `cure` (may be empty) what to do about it.
    """

    def __init__(self, status: int | None, reason: str, message: str, path: str, cure: str = "") -> None:
        super().__init__(status, reason, message, path)
        self.status = status
        self.reason = reason
        self.message = message
        self.path = path
        self.cure = cure
        self.retry_after: float | None = None

    def __str__(self) -> str:
        answer = self.reason if self.status is None else f"{self.status} {self.reason}".rstrip()
        sentence = f"{self.message} ({answer} on {self.path})"
        return f"{sentence}; {self.cure}" if self.cure else sentence


# Reasons of errors without an answer.
UNREACHABLE = "Unreachable"  # no connection was made, so nothing was sent
BROKEN_OFF = "BrokenOff"  # the connection was lost before the answer was complete
TIMED_OUT = "TimedOut"
NOT_TRUSTED = "NotTrusted"  # TLS failed
NOT_KUBERNETES = "NotKubernetes"  # something else answered


# Only reads are repeated when it is unknown whether the first attempt arrived. PUT and DELETE are idempotent in HTTP,
# but not for a Kubernetes caller: the repetition of a PUT that arrived is answered 409, that of a DELETE 404.
READS = frozenset({"GET", "HEAD", "OPTIONS"})
PASSING = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off with jitter: pauses of about 0.25, 0.5, 1, 2 s between five attempts."""

    tries: int = 5
    first: float = 0.25
    longest: float = 10.0
    longest_asked: float = 60.0  # if Retry-After asks for more, the error goes to the user instead
    jitter: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def pause(self, failures: int, asked: float | None = None) -> None:
        """Wait after the n-th failure in a row: as long as the server asked for, else an exponential time.

        The jitter is up to half of the time and never shortens what the server asked for. Without it, many clients
        that were rejected together would come back together.
        """
        if asked is not None:
            await self.sleep(asked + self.first * self.jitter())
            return
        time = min(self.longest, self.first * 2.0 ** (failures - 1))
        await self.sleep(time * (0.5 + 0.5 * self.jitter()))

    def allows(self, failures: int, asked: float | None) -> bool:
        """Whether another attempt is allowed after so many failures, and after the pause that the server asked for."""
        return failures < self.tries and (asked or 0.0) <= self.longest_asked


def may_retry(method: str, error: ApiError) -> bool:
    """Whether another attempt is safe and may help."""
    if error.reason == UNREACHABLE:
        return True  # nothing was sent
    if error.status in {429, 503}:
        # With Retry-After, the server has rejected the request unprocessed. Without it, a 429 to a write is an answer
        # (an eviction that the disruption budget does not allow), and a 503 may have been processed.
        return method in READS or error.retry_after is not None
    return method in READS and (error.status in PASSING or error.reason == BROKEN_OFF)
