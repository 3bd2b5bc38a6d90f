"""The usage poller goes on whatever the source answers, reports each change once, and keeps its samples."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog

from rescheduler.config.schema import UsageSettings
from rescheduler.kube.errors import ClusterError
from rescheduler.model.objects import Pod, Usage
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.usage.history import UsageHistory
from rescheduler.usage.samples import Take, UsageError
from tests.support.builders import NOW, cluster, node
from tests.support.virtual_time import in_virtual_time
from tests.unit.usage.rows import of_node

Said = Sequence[Usage] | Exception
NOTHING = UsageError("nobody is there")


class Scripted:
    """A source that says one thing after the other, and then the last for ever."""

    def __init__(self, *script: Said, warnings: tuple[str, ...] = (), takes: float = 0.0) -> None:
        self.asked: list[float] = []
        self._script = list(script)
        self._warnings = warnings
        self._takes = takes

    async def read(self, take: Take) -> tuple[str, ...]:
        self.asked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._takes)
        said = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(said, Exception):
            raise said
        take(said)
        return self._warnings


def metering(source: Scripted) -> UsagePoller:
    return UsagePoller(source, UsageHistory(UsageSettings()), 30.0, lambda: NOW)


async def for_a_while(loop: UsagePoller, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await loop.run()


@in_virtual_time
async def test_it_asks_every_so_often_and_the_time_of_an_answer_counts() -> None:
    source = Scripted([of_node("a")], takes=10.0)
    await for_a_while(metering(source), 95)
    assert source.asked == [0.0, 30.0, 60.0, 90.0]


@in_virtual_time
async def test_an_answer_longer_than_the_interval_is_followed_by_the_next_question_at_once() -> None:
    source = Scripted([of_node("a")], takes=40.0)
    await for_a_while(metering(source), 100)
    assert source.asked == [0.0, 40.0, 80.0]


async def test_a_snapshot_carries_what_was_heard() -> None:
    loop = metering(Scripted([of_node("a", 700)]))
    await loop.poll()
    taken = loop.with_usage(cluster(node("a")))
    assert taken.measured is not None
    assert taken.measured.nodes == {"a": (("cpu", 700), ("memory", 2**30))}
    assert (loop.failure, loop.last, loop.known) == ("", NOW, 1)


async def test_an_error_of_our_own_is_told_like_one_of_the_source() -> None:
    def pods() -> Sequence[Pod]:
        raise ZeroDivisionError("a bug")

    loop = UsagePoller(Scripted([of_node("a")]), UsageHistory(UsageSettings()), 30.0, lambda: NOW, pods)
    await loop.poll()
    assert (loop.failure, loop.polled.is_set()) == ("ZeroDivisionError: a bug", True)


@in_virtual_time
async def test_no_error_ends_it_and_what_is_known_stays() -> None:
    errors = [NOTHING, ClusterError("no metrics.k8s.io"), ZeroDivisionError("a bug"), OSError("broken")]
    source = Scripted([of_node("a")], *errors, [of_node("a", 900)])
    loop = metering(source)
    with structlog.testing.capture_logs() as logs:
        await for_a_while(loop, 29)
        for error in errors:
            await loop.poll()
            assert str(error) in loop.failure
            measured = loop.with_usage(cluster(node("a"))).measured
            assert measured is not None
            assert measured.nodes
            assert loop.failure in measured.warnings[0]
        await loop.poll()
    assert loop.failure == ""
    assert [log["event"] for log in logs][-1] == "usage source answers again"


async def test_a_failure_that_lasts_is_told_once_and_its_end_once() -> None:
    loop = metering(Scripted(NOTHING, NOTHING, NOTHING, [of_node("a")], [of_node("a")]))
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            await loop.poll()
    told = [(log["event"], log.get("why")) for log in logs]
    assert told == [
        ("usage source failed, retrying", "nobody is there"),
        ("usage source answers again", None),
    ]


async def test_warnings_are_told_when_they_change() -> None:
    loop = metering(Scripted([of_node("a")], warnings=("usage: something is missing",)))
    with structlog.testing.capture_logs() as logs:
        await loop.poll()
        await loop.poll()
    assert [log["warning"] for log in logs] == ["usage: something is missing"]


async def test_a_first_answer_can_be_waited_for_and_so_can_a_first_failure() -> None:
    for said in ([of_node("a")], NOTHING):
        loop = metering(Scripted(said))
        assert not loop.polled.is_set()
        await loop.poll()
        assert loop.polled.is_set()
