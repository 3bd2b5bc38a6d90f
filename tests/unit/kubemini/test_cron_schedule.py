"""When cron expressions are due: fields, names, steps, days of two sorts, changed clocks, and what never comes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubemini.cron_schedule import Calendar, CronError, Steady, schedule_of

SUNDAY = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


def due(text: str, after: str, zone: str = "", count: int = 1) -> list[str]:
    """The next times, as UTC says them."""
    schedule, at = schedule_of(text, zone), datetime.fromisoformat(after).replace(tzinfo=UTC)
    found = []
    for _ in range(count):
        following = schedule.next(at)
        assert following is not None
        at = following
        found.append(at.strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", ["11-15 08:01", "11-15 08:02"]),
        ("*/20 * * * *", ["11-15 08:20", "11-15 08:40"]),
        ("5/25 * * * *", ["11-15 08:05", "11-15 08:30"]),
        ("10-12 9 * * *", ["11-15 09:10", "11-15 09:11"]),
        ("0 8 * * *", ["11-16 08:00", "11-17 08:00"]),
        ("0 0 * * mon,WED", ["11-16 00:00", "11-18 00:00"]),
        ("0 0 1 jan-mar/2 *", ["01-01 00:00", "03-01 00:00"]),
        ("0 0 31 * *", ["12-31 00:00", "01-31 00:00"]),
        ("@hourly", ["11-15 09:00", "11-15 10:00"]),
        ("@daily", ["11-16 00:00", "11-17 00:00"]),
        ("@weekly", ["11-22 00:00", "11-29 00:00"]),
        ("@monthly", ["12-01 00:00", "01-01 00:00"]),
        ("@yearly", ["01-01 00:00", "01-01 00:00"]),
        ("@every 90m", ["11-15 09:30", "11-15 11:00"]),
    ],
)
def test_the_next_times_of_an_expression(text: str, expected: list[str]) -> None:
    assert due(text, "2026-11-15T08:00:00", count=2) == expected


def test_of_two_sorts_of_days_one_is_enough_unless_a_star_leaves_one_open() -> None:
    assert due("0 0 20 * mon", "2026-11-15T08:00:00", count=3) == ["11-16 00:00", "11-20 00:00", "11-23 00:00"]
    assert due("0 0 * * mon", "2026-11-15T08:00:00", count=2) == ["11-16 00:00", "11-23 00:00"]
    assert due("0 0 */7 * mon", "2026-11-15T08:00:00", count=3) == ["11-16 00:00", "11-22 00:00", "11-23 00:00"]


def test_the_clocks_of_a_time_zone_count() -> None:
    assert due("0 3 * * *", "2026-11-15T08:00:00", "Europe/Berlin") == ["11-16 02:00"]
    assert due("0 3 * * *", "2026-07-15T08:00:00", "Europe/Berlin") == ["07-16 01:00"]
    assert due("15 0 * * *", "2026-11-15T08:00:00", "Asia/Kathmandu") == ["11-15 18:30"]


def test_an_hour_that_clocks_skip_is_skipped_and_one_that_they_repeat_is_repeated() -> None:
    assert due("30 2 * * *", "2026-03-28T12:00:00", "Europe/Berlin", 2) == ["03-30 00:30", "03-31 00:30"]
    assert due("30 2 * * *", "2026-10-24T12:00:00", "Europe/Berlin", 3) == ["10-25 00:30", "10-25 01:30", "10-26 01:30"]


def test_what_never_comes_is_said_to_never_come() -> None:
    assert schedule_of("0 0 31 2 *").next(SUNDAY) is None
    assert due("0 0 29 2 *", "2026-11-15T08:00:00") == ["02-29 00:00"]


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "5-1 * * * *", "*/0 * * * *", "@often", "@every soon"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(CronError):
        schedule_of(text)


def test_a_time_zone_that_there_is_not_is_refused() -> None:
    with pytest.raises(CronError, match="Mars/Olympus"):
        schedule_of("@hourly", "Mars/Olympus")


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/7", "10-20"]),
    st.sampled_from(["*", "0", "23", "*/5"]),
    st.sampled_from(["*", "1", "29", "31", "*/3"]),
    st.sampled_from(["*", "feb", "6-12", "jan"]),
    st.sampled_from(["*", "sun", "mon-fri", "6"]),
)
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001  it gets one


@given(fields=FIELDS, start=MOMENTS, hours=st.integers(0, 200))
def test_the_latest_time_is_the_last_of_all_that_come_one_after_the_other(
    fields: tuple[str, ...], start: datetime, hours: int
) -> None:
    schedule = schedule_of(" ".join(fields))
    until = start + timedelta(hours=hours)
    last, following = None, schedule.next(start)
    while following is not None and following <= until:
        assert isinstance(schedule, Calendar)
        assert start < following
        last, following = following, schedule.next(following)
    assert schedule.latest(start, until) == last


@given(start=MOMENTS, every=st.integers(1, 5000), seconds=st.integers(0, 100_000))
def test_a_steady_schedule_comes_as_often_as_it_fits(start: datetime, every: int, seconds: int) -> None:
    start = start.replace(microsecond=0)
    latest = Steady(timedelta(seconds=every)).latest(start, start + timedelta(seconds=seconds))
    expected = start + timedelta(seconds=seconds // every * every)
    assert latest == (None if seconds < every else expected)
