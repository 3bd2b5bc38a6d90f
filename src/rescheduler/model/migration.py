"""A migration: one move that is being carried out, as its PodMigration object tells it.

The planner's moves and people's orders become migrations; the lifecycle decides what to do next from their progress;
the journal (`cluster`) stores them. All values are immutable: progress is made by replacing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rescheduler.model.plan import Method
from rescheduler.model.strategy_traits import MANUAL

REPLANNED = "it is given up, and planned anew then"
"""How the message of one ends that only waited for its hour, which comes too late for it."""


class Phase(StrEnum):
    """Where a migration is in its life."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


class OutcomeVerdict(StrEnum):
    """Whether a move was worth it."""

    PAID = "Paid"
    NOT_PAID = "NotPaid"
    CAME_BACK = "CameBack"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class MoveOutcome:
    """What a move that is over came to, some time later."""

    verdict: OutcomeVerdict
    gain: float | None = None
    """The gain that came true, in percentage points; None where there is nothing left to compare."""
    assessed: float | None = None


@dataclass(frozen=True, slots=True)
class MigrationSpec:
    """What is to be done (`spec`)."""

    pod: str
    uid: str = ""
    """Which pod of that name; empty means whichever has it when the migration begins."""
    target: str = ""
    method: Method | None = None
    strategy: str = MANUAL
    reason: str = ""
    proposal: str = ""
    """Migrations of one proposal stand or fall together."""
    members: int = 1
    """How many migrations the proposal has."""
    paused: bool = False
    timeout: float | None = None
    needs_approval: bool = False
    """Nothing is begun until somebody approves of it."""
    plan: str = ""
    """The plan that it is a part of: what is approved together."""
    expected_gain: float | None = None
    """By how many percentage points the busier of its two nodes becomes less busy."""
    windowed: bool = False
    """Whether it waits for time windows and counts for the hour: nobody but the planner has asked for it."""

    @property
    def by_hand(self) -> bool:
        """Whether a person ordered it, and no strategy."""
        return self.strategy == MANUAL


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """An object in the migration's namespace."""

    kind: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """How far it has come (`status`)."""

    phase: Phase = Phase.PENDING
    step: str = ""
    method: Method | None = None
    uid: str = ""
    """The original's."""
    source: str = ""
    target: str = ""
    controller: ObjectReference | None = None
    workload: ObjectReference | None = None
    """What carries our note: the Deployment, else the controller."""
    replacement: ObjectReference | None = None
    bystanders: tuple[str, ...] = ()
    """The UIDs of the pods beside the original, where a new one could not be told from them otherwise."""
    attempts: int = 0
    tried: tuple[Method, ...] = ()
    """Methods that could not go on, so that another one was taken."""
    message: str = ""
    started: float | None = None
    step_started: float | None = None
    finished: float | None = None
    retry_at: float | None = None
    remark: str = ""
    """What it had to do without; its message says so, too, when it is over."""
    outcome: MoveOutcome | None = None

    @property
    def over(self) -> bool:
        """Whether nothing is to be done any more."""
        return self.phase in (Phase.COMPLETED, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class MigrationCondition:
    """What `status.conditions` said when it was read: a new state must know since when the old one held."""

    type: str
    status: str
    since: float | None


@dataclass(frozen=True, slots=True)
class PodMigration:
    """One move being carried out. Its name is the migration-id that everything of it is marked with."""

    namespace: str
    name: str
    order: MigrationSpec
    progress: MigrationStatus = field(default_factory=MigrationStatus)
    uid: str = ""
    version: str = ""
    created: float | None = None
    generation: int = 0
    """Counts the changes of its order."""
    conditions: tuple[MigrationCondition, ...] = ()
    approved_by: str = ""
    """Who approved of it, if somebody had to."""
    rejected_by: str = ""
    """Who rejected it while it waited for approval: it is given up."""

    @property
    def awaits_approval(self) -> bool:
        """Whether it waits for somebody to approve of it."""
        pending = self.progress.phase is Phase.PENDING
        return pending and self.order.needs_approval and not self.approved_by

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"
