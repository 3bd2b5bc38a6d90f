"""The conditions of a PodMigration, by which `kubectl wait` and other tools tell where it is.

`journal_format` writes them with every status. All three are always there, True or False: `Progressing` while it is
being carried out, `Completed` once the pod has been moved or removed, `Failed` once it is given up and everything is
undone. The time of a condition is when its status changed; reason and message may change in between.
"""

from __future__ import annotations

from typing import Any

from rescheduler.migration.approval import WAITS
from rescheduler.migration.lifecycle import ROLL_BACK
from rescheduler.model.instant import format_instant
from rescheduler.model.migration import Migration, Phase, Progress
from rescheduler.model.plan import Method

Json = dict[str, Any]
PROGRESSING = "Progressing"
COMPLETED = "Completed"
FAILED = "Failed"
_LONGEST = 32_768  # characters of a message, as for all conditions in Kubernetes


def conditions_of(migration: Migration, progress: Progress, now: float) -> list[Json]:
    """The conditions that this progress gives a migration."""
    phase, reason = progress.phase, _reason(migration, progress)
    true_in = {PROGRESSING: Phase.IN_PROGRESS, COMPLETED: Phase.COMPLETED, FAILED: Phase.FAILED}
    since = {each.type: (each.status, each.since) for each in migration.conditions}
    found: list[Json] = []
    for name, needed in true_in.items():
        status = "True" if phase is needed else "False"
        before, changed = since.get(name, ("", None))
        found.append(
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": progress.message[:_LONGEST],
                "lastTransitionTime": format_instant(now if before != status or changed is None else changed),
                "observedGeneration": migration.generation,
            }
        )
    return found


def _reason(migration: Migration, progress: Progress) -> str:
    """Where the migration is, in one word; the same for all its conditions."""
    match progress.phase:
        case Phase.PENDING if migration.order.paused:
            return "Paused"
        case Phase.PENDING if migration.awaits_approval or progress.message.startswith(WAITS):
            return "AwaitingApproval"
        case Phase.PENDING:
            return "WaitingToRetry" if progress.attempts else "Waiting"
        case Phase.IN_PROGRESS if progress.step == ROLL_BACK:
            return "RollingBack"
        case Phase.IN_PROGRESS:
            return progress.step or "Beginning"
        case Phase.COMPLETED:
            return "Removed" if progress.method is Method.REMOVE else "Moved"
        case Phase.FAILED:
            return "RolledBack" if progress.attempts else "NotPossible"
