"""The pause as a replica sees it: unknown before the first answer, then the last one; changes are reported once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from structlog.testing import capture_logs

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.pause_state import PauseDetails, PauseState, PauseStore
from rescheduler.migration.events import ObjectEvent
from rescheduler.runtime.starting.holds import PauseWatcher
from tests.support.pod_migrations import replace
from tests.support.virtual_time import clock, in_virtual_time
from tests.unit.runtime.migrations import NOW

JANE = PauseDetails("jane", NOW, "why")
PAUSED = PauseState(JANE, "jane", NOW, "uid", "2")
RESUMED = PauseState(None, "joe", NOW + 60, "uid", "3")


@dataclass
class Kept:
    """A ConfigMap that says what it is told to, or fails."""

    state: PauseState | ClusterError = field(default_factory=PauseState)
    namespace: str = "ours"
    name: str = "state"
    read: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return "ConfigMap ours/state"

    async def look(self) -> PauseState:
        self.read.append(clock())
        if isinstance(self.state, ClusterError):
            raise self.state
        return self.state


@dataclass
class Told:
    news: list[ObjectEvent] = field(default_factory=list)

    async def record(self, news: Iterable[ObjectEvent]) -> None:
        self.news += news


def pauses(kept: Kept, told: Told | None = None) -> PauseWatcher:
    return PauseWatcher(cast("PauseStore", kept), cast("EventRecorder | None", told))


async def test_until_it_is_known_it_counts_as_paused() -> None:
    kept = Kept(ClusterError("no rights"))
    found = pauses(kept)
    with capture_logs() as logs:
        for _ in range(3):
            assert not await found.refresh()
    assert "no rights" in str(found.current()), "whoever asks why nothing is begun is told"
    assert not found.known
    assert [each["event"] for each in logs] == ["pause state not readable"]
    kept.state = PauseState()
    assert await found.refresh()
    assert (found.current(), found.known) == (None, True)


async def test_when_it_cannot_be_read_any_more_what_was_read_last_holds() -> None:
    kept = Kept(PAUSED)
    found = pauses(kept)
    await found.refresh()
    kept.state = ClusterError("away")
    assert not await found.refresh()
    assert found.current() == JANE


async def test_changes_are_told_once_and_what_was_there_at_the_start_is_no_news() -> None:
    kept, told = Kept(PAUSED), Told()
    found = pauses(kept, told)
    with capture_logs() as logs:
        for state in (PAUSED, PAUSED, RESUMED, RESUMED, PAUSED):
            kept.state = state
            await found.refresh()
    assert [each.reason for each in told.news] == ["ReschedulingResumed", "ReschedulingPaused"]
    assert [each["log_level"] for each in logs] == ["warning", "info", "warning"]
    assert [each.occasion for each in told.news] == [str(NOW + 60), str(NOW)]


async def test_since_when_it_goes_on_is_known() -> None:
    kept = Kept()
    found = pauses(kept)
    assert found.resumed == 0.0
    for state, resumed in ((PauseState(), 0.0), (PAUSED, 0.0), (RESUMED, NOW + 60)):
        kept.state = state
        await found.refresh()
        assert found.resumed == resumed


async def test_who_resumes_with_kubectl_leaves_the_time_of_the_pause_and_it_goes_on_from_when_that_is_seen() -> None:
    """Else what has waited through a long pause would be too late at once."""
    by_kubectl, removed = PauseState(None, "jane", NOW, "uid", "3"), PauseState()
    for state in (by_kubectl, removed):
        kept, told = Kept(PAUSED), Told()
        found = PauseWatcher(cast("PauseStore", kept), cast("EventRecorder", told), lambda: NOW + 7200)
        await found.refresh()
        kept.state = state
        await found.refresh()
        assert found.resumed == NOW + 7200
        kept.state = replace(PAUSED, version="4")
        await found.refresh()
        assert found.resumed == 0.0
        kept.state = replace(by_kubectl, version="5")
        await found.refresh()
        kept.state = replace(PAUSED, version="6")
        await found.refresh()
        assert len({(each.reason, each.occasion) for each in told.news}) == 4, "each is told, not only the first"


@in_virtual_time
async def test_it_is_read_again_and_again() -> None:
    kept = Kept()
    found = pauses(kept)
    following = asyncio.create_task(found.run())
    await asyncio.sleep(7.0)
    following.cancel()
    await asyncio.wait([following])
    assert kept.read == [0.0, 2.0, 4.0, 6.0]
