"""What a source of usage is: somebody who is asked and hands over rows, as `cluster.metering` and `prometheus` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rescheduler.model.objects import Usage

Take = Callable[[Sequence[Usage]], None]
"""Told a part of an answer."""


class Source(Protocol):
    """Who is asked."""

    async def read(self, take: Take) -> tuple[str, ...]:
        """Hand over all that is used now; sentences about what is wrong with the answer. An error says why there is
        none: a UsageError, or one of the cluster's."""
