"""An event loop whose time stands still while anything can be done, and jumps when all wait.

What takes an hour there takes a moment here, and takes exactly an hour of its time. For code that waits for nothing but
time and itself: a loop that waits for the network would spin.
"""

from __future__ import annotations

import asyncio
import selectors


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; its time begins at 0."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._jumping.now


class _Jumping(selectors.SelectSelector):
    """Never waits: the time goes on by as much as it would have."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everybody waits, and nothing will ever happen"
            self.now += max(timeout, 0.0)
        return found
