"""How moves are carried out: the section `migration` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rescheduler.model.fields import Duration, FieldError, Period, Section, Share, ShortPeriod, WholeSeconds, setting
from rescheduler.model.policy import Concurrency
from rescheduler.model.time import format_duration


@dataclass(frozen=True)
class TemporaryBudget(Section):
    """The PodDisruptionBudget that guards a workload while a pod of it is evicted, where it has none of its own.

    Give one of the two fields; `minAvailable: 1` holds where neither is given.
    """

    min_available: Share | None = setting(None, "Pods that must stay available.")
    max_unavailable: Share | None = setting(None, "Pods that may be unavailable.")

    def __post_init__(self) -> None:
        if self.min_available is None and self.max_unavailable is None:
            object.__setattr__(self, "min_available", 1)
        if self.min_available is not None and self.max_unavailable is not None:
            raise FieldError("maxUnavailable", "cannot be given beside minAvailable: leave one of them out")

    def spec(self) -> dict[str, int | str]:
        """The one that is given, as a PodDisruptionBudget has it."""
        given = {"minAvailable": self.min_available, "maxUnavailable": self.max_unavailable}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class MigrationSettings(Section):
    """How moves are carried out, and what happens when one fails."""

    timeout: Period = setting(
        600.0, "A move that takes longer is rolled back. A PodMigration may have its own timeout."
    )
    attempts: Annotated[int, Field(ge=1, le=100)] = setting(
        3,
        "How often a move is tried before it fails; 1 never retries. Where a handoff yielded to a rollout, it is tried "
        "again in any case.",
    )
    retry_delay: ShortPeriod = setting(10.0, "How long to wait before a move that was rolled back is tried again.")
    max_retry_delay: ShortPeriod = setting(300.0, "That wait doubles with each attempt, up to this limit.")
    min_overlap: Duration = setting(
        0.0,
        "How long a copy and its original are both Ready before the original goes. `minReadySeconds` of the workload "
        "holds too; the longer of the two counts.",
    )
    eviction_grace_period: WholeSeconds = setting(
        30.0,
        "How long an evicted pod has to end by itself, at least, in whole seconds. A pod whose own "
        "`terminationGracePeriodSeconds` are more has these.",
    )
    temporary_budget: TemporaryBudget = setting(
        TemporaryBudget(), "The disruption budget of workloads that have none; see below."
    )
    restore_after: Period = setting(
        300.0,
        "After an eviction, changes that steer the new pod are reverted once the pod exists, and at the latest "
        "after this time.",
    )
    keep_finished: Duration = setting(3600.0, "How long a finished PodMigration is kept.")
    shutdown_grace_period: Duration = setting(
        20.0,
        "How long a stopping controller may take to bring moves to a safe point.",
    )
    concurrency: Concurrency = setting(Concurrency(), "How many moves at once; see below.")

    def __post_init__(self) -> None:
        if self.max_retry_delay < self.retry_delay:
            text, than = format_duration(self.max_retry_delay), format_duration(self.retry_delay)
            raise FieldError("maxRetryDelay", f"{text} is shorter than retryDelay ({than})")
