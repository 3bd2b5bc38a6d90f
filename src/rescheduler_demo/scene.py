"""What the demo's audience is shown: one moment as plain values, and the result in the end.

`stage` makes scenes several times a second; `cli.output` draws them. What happens in between is told as lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rescheduler.model.migration import Migration
from rescheduler.model.plan import Picture
from rescheduler.model.policy import Thresholds


@dataclass(frozen=True, slots=True)
class Moves:
    """The migrations as they are now."""

    active: tuple[Migration, ...] = ()
    """Those that are not over; those under way first."""
    lately: tuple[Migration, ...] = ()
    """Those that were over last, the newest first."""
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Coming:
    """What happens next; `seconds` is None where it is waited for."""

    what: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment of the demo."""

    elapsed: float
    act: str
    """What goes on, in a few words."""
    now: Picture
    before: Picture | None
    """None until everything is in its place."""
    thresholds: Thresholds
    states: Mapping[str, str]
    """What is not usual about nodes, by their name."""
    pods: int
    pending: int
    """Pods that have no node yet."""
    moves: Moves
    next_plan: float | None
    """In how many seconds the next plan is made; None before the first one."""
    paused: str
    """That somebody has paused rescheduling, on the page or with kubectl; empty if nobody has."""
    coming: Coming
    checked: int
    """How often a move of ours took a pod that a disruption budget protects."""
    broken: int
    """How often the budget needed that pod."""
    reached: bool


@dataclass(frozen=True, slots=True)
class Result:
    """How it ended."""

    scenario: str
    goal: str
    reached: bool
    why: str
    """What was missing, if the goal was not reached."""
    seconds: float
    scene: Scene
    broken: tuple[str, ...] = ()
    interrupted: bool = False


class Audience(Protocol):
    """Whoever looks on."""

    def show(self, scene: Scene) -> None:
        """How things stand; called several times a second."""

    def tell(self, elapsed: float, line: str) -> None:
        """Something has happened."""

    def log(self, level: int, line: str) -> None:
        """The controller, or another part, has logged something."""

    def opened(self, address: str) -> None:
        """The page can be looked at."""

    def connected(self, kubeconfig: str) -> None:
        """The cluster can be talked to, with this kubeconfig."""
