"""What a migration that needs approval waits for, and when there is nothing to wait for any more; pure.

The lifecycle asks so that nothing begins without approval, whoever else forgets it; `runtime.consent` asks to tell
people, and to give up. Moves that belong together are begun together, so one that is not approved keeps all waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.migration.steps import ALL_STORED
from rescheduler.model.duration import format_duration
from rescheduler.model.migration import Migration, Phase

WAITS = "waits for approval"
"""How the message of one that waits for it begins."""


def wanting(migration: Migration, members: Sequence[Migration]) -> str:
    """What people are told of a pending migration that may not begin without approval; empty when it may."""
    if migration.progress.phase is not Phase.PENDING or not migration.order.needs_approval:
        return ""
    if migration.awaits_approval:
        return f"{WAITS}: rescheduler approve {_address(migration)}"
    other = next((each for each in members if each.awaits_approval), None)
    if other is None:
        return ""
    return f"{WAITS} of {other.full_name}, which belongs to it: rescheduler approve {_address(other)}"


def hopeless(migration: Migration, members: Sequence[Migration], now: float, timeout: float) -> str:
    """Why a pending migration that needs approval is given up; empty while it is not."""
    order, created = migration.order, migration.created
    if not order.needs_approval or migration.progress.phase is not Phase.PENDING:
        return ""
    if migration.rejected_by:
        return f"rejected by {migration.rejected_by}"
    if lost := next((each for each in members if each.progress.phase is Phase.FAILED), None):
        return f"{lost.full_name}, which belongs to it, was given up: {lost.progress.message}"
    waited = now - max(created if created is not None else now, migration.progress.retry_at or 0.0)
    if len(members) < order.members - 1 and waited > ALL_STORED:
        return "a move that belongs to it was never stored, or has been deleted"
    if wanting(migration, members) and waited > timeout:
        return f"nobody approved of it within {format_duration(timeout)} (approvalTimeout)"
    return ""


def _address(migration: Migration) -> str:
    """By what `rescheduler approve` finds it."""
    return migration.order.plan or migration.full_name
