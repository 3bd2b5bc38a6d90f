"""The server's clock as its answers tell it: right to a second, however wrong ours is."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.client import ServerClock

NOW = 1_800_000_000.25


def heard(there: float, *, sent: float, took: float) -> ServerClock:
    clock = ServerClock(lambda: sent + took)
    clock.update(formatdate(int(there), usegmt=True), sent, sent + took)
    return clock


@pytest.mark.parametrize("ahead", [-3600.0, -8.0, 8.0, 3600.0])
def test_a_clock_that_is_surely_wrong_is_put_right(ahead: float) -> None:
    clock = heard(NOW, sent=NOW + ahead, took=0.01)
    assert abs(clock.now() - NOW) <= 1.1


@pytest.mark.parametrize("ahead", [-0.2, 0.0, 0.7])
def test_a_difference_that_whole_seconds_cannot_show_is_none(ahead: float) -> None:
    assert heard(NOW, sent=NOW + ahead, took=0.01).offset == 0.0


def test_a_slow_answer_proves_nothing() -> None:
    assert heard(NOW + 20, sent=NOW, took=30.0).offset == 0.0


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_an_answer_without_a_date_changes_nothing(date: str | None) -> None:
    clock = heard(NOW, sent=NOW + 60, took=0.0)
    before = clock.offset
    clock.update(date, 0.0, 1.0)
    assert clock.offset == before


@given(st.floats(-1e6, 1e6), st.floats(0, 20), st.floats(0, 1))
def test_it_is_never_put_wrong_by_more_than_it_was(ahead: float, took: float, when: float) -> None:
    stamped = NOW + took * when  # by the server's clock, somewhere between sending and receiving
    clock = heard(stamped, sent=NOW + ahead, took=took)
    assert abs(clock.offset + ahead) <= abs(ahead) + 1e-6
