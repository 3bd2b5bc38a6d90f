"""What a predicate is: a rule about a pod and a node, asked for all nodes at once.

`planning.feasibility` holds them in the order in which a refusal is reported. A mask of None says that the rule does
not concern this pod, which is the common case and costs nothing.
"""

from __future__ import annotations

from typing import Protocol

from rescheduler.planning.columns import Mask


class Predicate(Protocol):
    """One rule."""

    name: str

    def mask(self, pod: int) -> Mask | None:
        """[N]: where the rule lets the pod be; None when it lets it be anywhere."""

    def reason(self, pod: int, node: int) -> str:
        """Why not there, in words; asked only where the mask refuses."""
