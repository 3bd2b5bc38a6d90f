"""What the start gate needs around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rescheduler.runtime.starting.holds import Holds, PauseWatcher
from rescheduler.runtime.starting.windows import TimeWindows
from tests.unit.runtime.migrations import NOW

if TYPE_CHECKING:
    from rescheduler.config.live import LiveConfig
    from rescheduler.kube.pause_state import PauseDetails
    from rescheduler.runtime.migration_cache import MigrationCache


@dataclass
class Pauses:
    """Paused, or not."""

    pause: PauseDetails | None = None
    resumed: float = 0.0

    def current(self) -> PauseDetails | None:
        return self.pause


def holds_of(
    migrations: MigrationCache, live: LiveConfig, pauses: Pauses | None = None, windows: TimeWindows | None = None
) -> Holds:
    """Holds; without windows, any time will do."""
    return Holds(
        migrations,
        live,
        cast("PauseWatcher", pauses or Pauses()),
        windows or TimeWindows(migrations, live, lambda: NOW),
    )
