"""The extension point: what a strategy is, what it sees, what it says, and what it is answered.

A strategy is one file in `strategies/`: frozen `StrategySettings` (its reference), a class with a docstring (its
documentation), and `propose`, a generator. It yields a Proposal; the planner answers each with a Decision, and has by
then laid an accepted one into the view. So a strategy decides what is worth moving, and nothing else: whether a pod
may be moved, where it fits, and how many moves are allowed is the planner's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

from rescheduler.model.plan import Move, Rejection
from rescheduler.model.strategy_traits import StrategyTraits, declare
from rescheduler.planning.columns import Floats, Mask
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View


@dataclass(frozen=True, slots=True)
class PodMove:
    """One pod that should move, and where it would be best.

    `cost` [N] ranks targets, lower is better, infinite is never; without it the least used node is best. A target must
    stay under the thresholds, and suit every strategy; with `force` one that doesn't will do when there is no other.
    """

    pod: int
    why: str
    cost: Floats | None = None
    force: bool = False
    removal: bool = False
    """The pod has ended: it is to be removed, and goes nowhere."""
    never: str = "no better for it"
    """What nodes of infinite cost are, for people."""


class Arrival(NamedTuple):
    """A pending pod that must fit on a node once a proposal's moves are made."""

    pod: int
    node: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves that stand or fall together, and whom they make room for."""

    pod_moves: tuple[PodMove, ...]
    arrivals: tuple[Arrival, ...] = ()
    otherwise: str = ""
    """What it means if this is refused, told before the reason; empty when the reason says it all."""

    @classmethod
    def one(cls, pod: int, why: str, cost: Floats | None = None, *, force: bool = False) -> Proposal:
        """The common case: a single pod."""
        return cls((PodMove(pod, why, cost, force),))


@dataclass(frozen=True, slots=True)
class ProposalResult:
    """The planner's answer: moves when the proposal was taken, else what refused it."""

    moves: tuple[Move, ...] = ()
    rejection: Rejection | None = None
    exhausted: bool = False
    """No move whatever will be taken any more: the plan's limit is reached. Propose on until something is refused for
    it, so that people see that there was more to do."""

    @property
    def accepted(self) -> bool:
        """Whether the proposal is now part of the plan."""
        return bool(self.moves)

    def refused_by(self, *guards: PlanGuard) -> bool:
        """Whether one of these refused the proposal."""
        return self.rejection is not None and self.rejection.guard in guards


Proposals = Generator[Proposal, ProposalResult, None]
Own_co = TypeVar("Own_co", bound=StrategySettings, covariant=True)


class Strategy(ABC, Generic[Own_co]):
    """One reason to move pods."""

    name: ClassVar[str]
    order: ClassVar[int]
    """Strategies run in this order: what must be done before what would be nice."""

    settings_type: ClassVar[type[StrategySettings]] = StrategySettings
    mandatory: ClassVar[bool] = False
    """Whether its moves are made because a person wants them, whatever they gain: they need no approval and no open
    time window, count for no hourly limit, and a bad outcome is not held against them."""
    can_undo: ClassVar[bool] = True
    """Whether a move of it that takes a pod back means that the earlier move was wrong."""
    for_gain: ClassVar[bool] = False
    """Whether its moves are made to make a node less busy, so that they are judged afterwards by whether it is."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in vars(cls):
            declare(cls.name, StrategyTraits(cls.mandatory, cls.can_undo))

    def __init__(self, settings: Own_co, pool: str | None = None) -> None:
        self.settings = settings
        self.pool = pool
        """The node pool that it is responsible for; empty for nodes of no pool, None for all nodes."""

    @abstractmethod
    def propose(self, view: View) -> Proposals:
        """Yield what should move; stop when nothing is left to put right."""

    def idle_reason(self, now: float | None) -> str:
        """Why it moves nothing, whatever the cluster is like; empty if it may. `now` is None where nobody knows it."""
        return ""

    def wait_reason(self, view: View) -> str:
        """Why it moves nothing as the plan finds the cluster, though there is something to do; empty if it may."""
        return ""

    def accepts(self, view: View, pod: int) -> Mask | None:
        """[N]: where this strategy would leave the pod alone; None for anywhere.

        No other strategy moves a pod to where this one would want it away again. It is asked of every pod that may
        move, so it must be quick.
        """
        return None


def propose_each(view: View, pod_moves: Iterable[PodMove]) -> Proposals:
    """Propose these one by one, until the plan is full.

    Where two pods of one look find no target from two nodes, no node takes their like: the others are not asked for.
    """
    refused: defaultdict[tuple[int, int, str], set[int]] = defaultdict(set)
    for pod_move in pod_moves:
        pod, node = view.pods[pod_move.pod], int(view.at[pod_move.pod])
        look = (id(pod.shape), id(pod.labels), pod.namespace)
        if len(refused[look]) > 1:
            continue
        decision = yield Proposal((pod_move,))
        if decision.accepted:
            refused.clear()  # it has left room behind
        elif decision.exhausted:
            return
        elif decision.refused_by(PlanGuard.NO_TARGET):
            refused[look].add(node)
