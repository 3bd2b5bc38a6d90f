"""The queue: whose turn it is, and when those that were refused have another."""

from __future__ import annotations

import math

import pytest

from kubemini.scheduling.causes import Cause
from kubemini.scheduling.unschedulable import EXTENDER
from kubemini.scheduling.waiting import Waiting

A, B, C = ("default", "a"), ("default", "b"), ("default", "c")


def test_the_higher_priority_comes_first_and_of_equals_the_first() -> None:
    waiting = Waiting()
    for key, priority in ((A, 0), (B, 7), (C, 7)):
        waiting.add(key, priority)
    assert [waiting.next(0), waiting.next(0), waiting.next(0), waiting.next(0)] == [B, C, A, None]


def test_one_that_is_dropped_has_no_turn() -> None:
    waiting = Waiting()
    waiting.add(A, 0)
    waiting.drop(A)
    assert waiting.next(0) is None


def test_one_that_was_refused_waits_for_a_cause() -> None:
    waiting = Waiting()
    waiting.add(A, 0)
    waiting.next(0)
    waiting.refuse(A, {"NodeResourcesFit"}, 0)
    assert waiting.next(10) is None
    waiting.happened({Cause.CAME, Cause.VOLUMES})
    assert waiting.next(10) is None
    waiting.happened({Cause.GONE})
    assert waiting.next(10) == A


def test_the_pause_grows_with_every_refusal() -> None:
    waiting = Waiting()
    waiting.add(A, 0)
    pauses, now = [], 0.0
    for _ in range(12):
        assert waiting.next(now) == A
        waiting.refuse(A, {"NodeAffinity"}, now)
        waiting.happened({Cause.NODES})
        pauses.append(round(waiting.next_due() - now, 3))
        now = waiting.next_due()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10, 10]


def test_a_pod_that_is_new_again_does_not_pause() -> None:
    waiting = Waiting()
    waiting.add(A, 0)
    waiting.next(0)
    waiting.refuse(A, {"NodeAffinity"}, 0)
    waiting.add(A, 0)
    assert waiting.next(0) == A


def test_whatever_happens_a_refused_pod_is_tried_every_five_minutes() -> None:
    waiting = Waiting()
    waiting.add(A, 0)
    waiting.next(0)
    waiting.refuse(A, {"NodeAffinity"}, 0)
    assert waiting.next(299) is None
    assert waiting.next_due() == 300
    assert waiting.next(300) == A
    assert waiting.next_due() == math.inf


def test_what_failed_is_tried_again_without_any_cause() -> None:
    waiting = Waiting()
    waiting.add(A, 0)
    waiting.next(0)
    waiting.failed(A, 0)
    assert waiting.next(0.05) is None
    assert waiting.next(0.1) == A


@pytest.mark.parametrize(
    ("cause", "rules", "cures"),
    [
        (Cause.NODES, {"TaintToleration"}, True),
        (Cause.GONE, {"TaintToleration", "NodeAffinity", "NodeTooSmall"}, False),
        (Cause.GONE, {"TaintToleration", "NodeResourcesFit"}, True),
        (Cause.GONE, {"PodAffinity"}, True),
        (Cause.CAME, {"NodeResourcesFit", "NodePorts"}, False),
        (Cause.CAME, {"PodTopologySpread"}, True),
        (Cause.VOLUMES, {"VolumeBinding"}, True),
        (Cause.VOLUMES, {"NodePorts"}, False),
        (Cause.NAMESPACES, {"PodAntiAffinity"}, True),
        (Cause.NAMESPACES, {"NodePorts"}, False),
        (Cause.CAME, {EXTENDER}, True),
    ],
)
def test_what_may_cure_which_refusal(cause: Cause, rules: set[str], cures: bool) -> None:
    assert cause.cures(frozenset(rules)) == cures
