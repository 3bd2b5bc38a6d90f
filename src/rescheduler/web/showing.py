"""Everything that the page is made of, in one place: `app.page` fills it, the views read it.

All of it is in memory and follows the cluster by itself; nothing here asks the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rescheduler.decode.cache import Cache
from rescheduler.kube.pause_state import Pause
from rescheduler.runtime.board import Board
from rescheduler.runtime.mandate import Mandate
from rescheduler.web.history import Samples
from rescheduler.web.loads import Loads
from rescheduler.web.measuring import Measuring
from rescheduler.web.moves import Moves
from rescheduler.web.plans import Plans


@dataclass(frozen=True, slots=True)
class Health:
    """How one part is: a kind that is watched, the leader, a server of ours."""

    name: str
    why: str = ""
    """Why it is not fine; empty when it is."""
    count: int | None = None
    lag: float | None = None
    """Seconds since its last sign of life."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How it stands with what is measured."""

    last: float | None = None
    """When it was measured last; None where it never was."""
    failure: str = ""
    """Why it is not measured now; empty when it is."""


@dataclass(frozen=True, slots=True)
class Replica:
    """Who we are among the replicas."""

    identity: str
    leading: Callable[[], bool]
    leader: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Showing:
    """What there is to show."""

    cluster: str
    """Where we are connected to, in words."""
    mandate: Mandate
    replica: Replica
    cache: Cache
    board: Board
    loads: Loads
    moves: Moves
    plans: Plans
    now: Callable[[], float]
    paused: Callable[[], Pause | None]
    health: Callable[[], Sequence[Health]]
    measuring: Measuring
    usage: Callable[[], Usage]
    local: bool = False
    """Whether this server takes actions from this machine without a token."""
    samples: Samples = field(default_factory=Samples)
