"""The work queue: no key is worked on twice at once, none is lost, and failures are retried ever more slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rescheduler.runtime.reconciler import BackoffPolicy, WorkQueue
from tests.support.virtual_time import VirtualLoop, clock, in_virtual_time

STEADY = BackoffPolicy(first=1.0, longest=8.0, limit=5, jitter=lambda: 1.0)


@in_virtual_time
async def test_keys_come_in_the_order_in_which_they_were_added_and_each_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abcab":
        queue.add(key)
    assert [await queue.take() for _ in range(3)] == ["a", "b", "c"]
    for key in "abc":
        queue.done(key, None)
    assert queue.idle


@in_virtual_time
async def test_a_key_is_looked_at_again_after_the_time_that_was_asked_for() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.done("a", 30.0)
    assert queue.idle
    assert (await queue.take(), clock()) == ("a", 30.0)


@in_virtual_time
async def test_a_new_appointment_replaces_the_old_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_later("a", 30.0)
    queue.add_later("a", 10.0)
    await queue.take()
    assert clock() == 10.0
    queue.done("a", None)
    await asyncio.sleep(60)
    assert queue.idle


@in_virtual_time
async def test_failures_come_again_ever_more_slowly_and_not_for_ever() -> None:
    queue: WorkQueue[str] = WorkQueue(STEADY)
    queue.add("a")
    waited = []
    for _ in range(STEADY.limit):
        await queue.take()
        waited.append(queue.failed("a"))
    assert waited == [1.0, 2.0, 4.0, 8.0, 8.0]
    await queue.take()
    assert queue.failed("a") is None
    await asyncio.sleep(600)
    assert queue.idle


@in_virtual_time
async def test_a_success_forgets_the_failures_before_it() -> None:
    queue: WorkQueue[str] = WorkQueue(STEADY)
    queue.add("a")
    for _ in range(3):
        await queue.take()
        queue.failed("a")
    assert queue._failures["a"] == 3
    await queue.take()
    queue.done("a", 1.0)
    await queue.take()
    assert queue.failed("a") == 1.0


@in_virtual_time
async def test_a_change_during_a_failure_waits_for_its_pause() -> None:
    queue: WorkQueue[str] = WorkQueue(STEADY)
    queue.add("a")
    await queue.take()
    queue.add("a")  # as our own write would
    queue.failed("a")
    assert (await queue.take(), clock()) == ("a", 1.0)


@in_virtual_time
async def test_a_change_during_the_last_of_too_many_failures_is_not_lost() -> None:
    queue: WorkQueue[str] = WorkQueue(BackoffPolicy(first=1.0, longest=8.0, limit=0, jitter=lambda: 1.0))
    queue.add("a")
    await queue.take()
    queue.add("a")
    assert queue.failed("a") == 8.0
    assert (await queue.take(), clock()) == ("a", 8.0)


@in_virtual_time
async def test_what_failed_too_often_is_tried_again_when_something_changes() -> None:
    queue: WorkQueue[str] = WorkQueue(BackoffPolicy(limit=0))
    queue.add("a")
    await queue.take()
    assert queue.failed("a") is None
    queue.add("a")
    assert await queue.take() == "a"


@in_virtual_time
async def test_a_closed_queue_rings_no_more() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_later("a", 5.0)
    queue.close()
    await asyncio.sleep(60)
    assert queue.idle


@in_virtual_time
async def test_a_worker_that_is_cancelled_while_it_waits_takes_no_key_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(1)
    queue.add("a")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await queue.take() == "a"


@given(st.integers(1, 30), st.floats(0.0, 1.0))
def test_pauses_stay_between_half_of_the_steady_one_and_all_of_it(failures: int, drawn: float) -> None:
    steady = BackoffPolicy(jitter=lambda: 1.0).delay(failures)
    found = BackoffPolicy(jitter=lambda: drawn).delay(failures)
    if steady is None or found is None:
        assert steady is found is None
    else:
        assert steady / 2 <= found <= steady <= 60.0


class Loops(RuleBasedStateMachine):
    """Watches add, workers take and end, time passes; the model holds what must still be worked on."""

    keys = st.sampled_from("abc")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.queue: WorkQueue[str] = WorkQueue(BackoffPolicy(first=1.0, longest=4.0, limit=2))
        self.busy: set[str] = set()
        self.owed: set[str] = set()
        """Added or promised, and not taken since."""

    def do(self, act: Callable[[], object]) -> None:
        async def acted() -> None:
            act()

        self.loop.run_until_complete(acted())

    @rule(key=keys)
    def added(self, key: str) -> None:
        self.do(lambda: self.queue.add(key))
        self.owed.add(key)

    @rule(key=keys, seconds=st.floats(-1.0, 10.0))
    def appointed(self, key: str, seconds: float) -> None:
        self.do(lambda: self.queue.add_later(key, seconds))
        self.owed.add(key)

    @precondition(lambda self: self.owed - self.busy)
    @rule()
    def taken(self) -> None:
        """Whoever waits long enough gets what is owed."""
        key = self.loop.run_until_complete(asyncio.wait_for(self.queue.take(), 60.0))
        assert key not in self.busy, "two work on one key"
        assert key in self.owed, "nobody asked for it"
        self.busy.add(key)
        self.owed.discard(key)

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), again=st.one_of(st.none(), st.floats(0.0, 10.0)))
    def done(self, data: st.DataObject, again: float | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.busy)))
        self.do(lambda: self.queue.done(key, again))
        self.busy.discard(key)
        if again is not None:
            self.owed.add(key)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def failed(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.busy)))
        before = self.queue._failures.get(key, 0)
        self.do(lambda: self.queue.failed(key))
        self.busy.discard(key)
        if before < 2:
            self.owed.add(key)

    @rule(seconds=st.floats(0.0, 20.0))
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @invariant()
    def the_queue_knows_who_is_busy(self) -> None:
        assert {key for key in "abc" if self.queue.is_busy(key)} == self.busy

    def teardown(self) -> None:
        self.do(self.queue.close)
        self.loop.close()


TestLoops = Loops.TestCase
