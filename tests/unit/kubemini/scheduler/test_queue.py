"""The scheduler's queue: priorities, refused pods, and how long they wait. Contract tests have its decisions."""

from __future__ import annotations

import math

import pytest

from kubemini.scheduler.queue import SchedulingQueue

A, B, C = ("default", "a"), ("default", "b"), ("default", "c")


def queue_of(**priorities: int) -> SchedulingQueue:
    queue = SchedulingQueue()
    for name, priority in priorities.items():
        queue.add(("default", name), priority)
    return queue


def test_the_queue_gives_the_higher_priority_first_and_of_equals_the_older() -> None:
    queue = queue_of(a=0, b=7, c=7)
    assert [queue.pop(0) for _ in range(4)] == [B, C, A, None]


def test_the_queue_keeps_a_refused_pod_until_something_changes() -> None:
    queue = queue_of(a=0)
    queue.pop(0)
    queue.refuse(A, 0)
    assert (queue.pop(1000), queue.retry_at) == (None, math.inf)
    queue.retry_refused(1000)
    assert queue.pop(1000.05) is None
    assert queue.pop(1001) == A


def test_the_more_pods_are_refused_the_longer_is_the_pause_and_changes_do_not_prolong_it() -> None:
    queue = queue_of()
    for number in range(1000):
        queue.refuse(("default", f"p{number}"), 0)
    queue.retry_refused(0)
    queue.retry_refused(4)
    assert queue.retry_at == pytest.approx(5.1)


def test_the_queue_forgets_a_pod_that_is_dropped() -> None:
    queue = queue_of(a=0, b=0)
    queue.pop(0)
    queue.refuse(A, 0)
    queue.retry_refused(0)
    for key in (A, B):
        queue.drop(key)
    assert queue.pop(1000) is None
