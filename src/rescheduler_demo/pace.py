"""How fast the demo goes: `--speed` over every time in it.

Scenarios, workloads and the controller's configuration ask it how long something takes. Some things cannot go faster
than the machine can stand; these have a least time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """1 is as things are, 2 twice as fast."""

    speed: float = 1.0

    def seconds(self, usual: float, least: float = 0.0) -> float:
        """How long something takes at this speed."""
        return max(usual / self.speed, least)

    def text(self, usual: float, least: float = 0.0) -> str:
        """The same for an annotation that counts seconds."""
        return f"{self.seconds(usual, least):g}"
