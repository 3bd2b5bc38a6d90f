"""The extension point: the base class of strategies, their proposals, and the planner's results.

A strategy is one file in `strategies/`: frozen `StrategySettings` (its reference), a class with a docstring (its
documentation), and `propose`, a generator. It yields a Proposal and receives a ProposalResult; the view then includes
the moves of an accepted proposal. A strategy decides only what is worth moving. The planner decides whether a pod may
be moved, where it fits, and how many moves are allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_args, get_origin
from weakref import WeakKeyDictionary

from rescheduler.model.plan import Move, Rejection
from rescheduler.model.strategy_traits import StrategyTraits, declare
from rescheduler.planning.columns import Columns, Floats, Mask
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import Look, View


@dataclass(frozen=True, slots=True)
class PodMove:
    """A pod that should move, and which targets are best.

    `cost` [N] ranks targets: lower is better, infinite means never. Without it the least used node is best. A target
    must stay under the thresholds, and every strategy must accept the pod there; `force` allows other targets if there
    are none of these.
    """

    pod: int
    why: str
    cost: Floats | None = None
    force: bool = False
    removal: bool = False
    """Remove the pod, which has ended, instead of moving it."""
    never: str = "no improvement"
    """Describes the nodes of infinite cost in the reason of a refusal."""


class Arrival(NamedTuple):
    """A pending pod that must fit on a node after a proposal's moves."""

    pod: int
    node: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves that are accepted or refused together, and the pending pods that they make room for."""

    pod_moves: tuple[PodMove, ...]
    arrivals: tuple[Arrival, ...] = ()
    otherwise: str = ""
    """What a refusal means; it precedes the reason. Empty if the reason is enough."""

    @classmethod
    def one(cls, pod: int, why: str, cost: Floats | None = None, *, force: bool = False) -> Proposal:
        """Propose a single pod, the common case."""
        return cls((PodMove(pod, why, cost, force),))


@dataclass(frozen=True, slots=True)
class ProposalResult:
    """The moves of an accepted proposal, or what refused it."""

    moves: tuple[Move, ...] = ()
    rejection: Rejection | None = None
    exhausted: bool = False
    """The plan's limit is reached: no more moves will be accepted. Go on until a proposal is refused for it, so that
    the plan shows that there was more to do."""

    @property
    def accepted(self) -> bool:
        """Whether the proposal is now part of the plan."""
        return bool(self.moves)

    @property
    def is_final(self) -> bool:
        """Whether the strategy should stop: the plan is full, and shows that there was more to do."""
        return self.exhausted and not self.accepted

    def refused_by(self, *guards: PlanGuard) -> bool:
        """Whether one of these refused the proposal."""
        return self.rejection is not None and self.rejection.guard in guards


Proposals = Generator[Proposal, ProposalResult, None]
Kept = TypeVar("Kept")
Own_co = TypeVar("Own_co", bound=StrategySettings, covariant=True)


class Strategy(ABC, Generic[Own_co]):
    """One reason to move pods."""

    name: ClassVar[str]
    """What configurations, plans and PodMigrations call it: the name of the class."""
    order: ClassVar[int]
    """Strategies run in this order: what must be done comes before what would be nice."""

    settings_type: ClassVar[type[StrategySettings]] = StrategySettings
    """The class that it names in brackets: `Strategy[MySettings]`."""
    mandatory: ClassVar[bool] = False
    """Whether its moves are made because a person wants them, whatever they gain: they need no approval and no open
    time window, count for no hourly limit, and a bad outcome is not held against them."""
    can_undo: ClassVar[bool] = True
    """Whether a move of it that takes a pod back means that the earlier move was wrong."""
    for_gain: ClassVar[bool] = False
    """Whether its moves are meant to make a node less busy; whether they did is checked afterwards."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Strategy:
                (cls.settings_type,) = get_args(base)
        cls.name = cls.__name__
        declare(cls.name, StrategyTraits(cls.mandatory, cls.can_undo, cls.for_gain))

    def __init__(self, settings: Own_co, pool: str | None = None) -> None:
        self.settings = settings
        self.pool = pool
        """Its node pool; empty for nodes outside of all pools, None for all nodes."""
        self._kept: WeakKeyDictionary[Columns, Any] = WeakKeyDictionary()

    @abstractmethod
    def propose(self, view: View) -> Proposals:
        """Yield what should move; stop when nothing is left to do."""

    def keep(self, view: View, create: Callable[[], Kept]) -> Kept:
        """Return what this strategy keeps for a snapshot: created at its first use, and freed with the snapshot."""
        if view.columns not in self._kept:
            self._kept[view.columns] = create()
        kept: Kept = self._kept[view.columns]
        return kept

    def idle_reason(self, now: float | None) -> str:
        """Explain why it cannot move anything in any cluster; empty if it can. `now` is None if the time is unknown."""
        return ""

    def wait_reason(self, view: View) -> str:
        """Explain why it moves nothing in this cluster although there is something to do; empty if it can."""
        return ""

    def accepts(self, view: View, pod: int) -> Mask | None:
        """[N]: nodes on which this strategy would leave the pod alone; None means all of them.

        Other strategies move the pod only to these. It is called for every pod that may move, so it must be quick.
        """
        return None


def propose_each(view: View, pod_moves: Iterable[PodMove]) -> Proposals:
    """Propose moves one by one, until the plan is full.

    If two alike pods on two nodes have no target, then no node takes such a pod: the others are skipped.
    """
    refused: defaultdict[Look, set[int]] = defaultdict(set)
    for pod_move in pod_moves:
        look = view.look(pod_move.pod)
        if len(refused[look]) > 1:
            continue
        result = yield Proposal((pod_move,))
        if result.accepted:
            refused.clear()  # it left room behind
        elif result.exhausted:
            return
        elif result.refused_by(PlanGuard.NO_TARGET):
            refused[look].add(int(view.at[pod_move.pod]))
