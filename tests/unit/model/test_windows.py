"""Time windows: what texts mean, when they are open, and what the clocks' leaps do to them."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.windows import Schedule, WindowError, parse_window, zone_of

BERLIN = "Europe/Berlin"
"""The clocks leap from 02:00 to 03:00 on 2027-03-28, and go back from 03:00 to 02:00 on 2027-10-31."""
ZONES = ("UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HOUR = 3600.0


def schedule(*texts: str, zone: str = "UTC") -> Schedule:
    return Schedule.of(tuple(parse_window(text) for text in texts), zone)


def at(text: str, zone: str = "UTC", fold: int = 0) -> float:
    """`2026-11-16 22:00`, a Monday, as an instant."""
    return datetime.fromisoformat(text).replace(tzinfo=zone_of(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("Mon-Fri 22:00-05:00", "Mon Tue Wed Thu Fri", "22:00", "29:00"),
        ("Sat,Sun", "Sat Sun", "00:00", "24:00"),
        ("* 02:00-04:00", "Mon Tue Wed Thu Fri Sat Sun", "02:00", "04:00"),
        ("02:00-04:00", "Mon Tue Wed Thu Fri Sat Sun", "02:00", "04:00"),
        ("*", "Mon Tue Wed Thu Fri Sat Sun", "00:00", "24:00"),
        ("Fri-Mon", "Mon Fri Sat Sun", "00:00", "24:00"),
        ("Mon-Wed,Fri 8:30-24:00", "Mon Tue Wed Fri", "08:30", "24:00"),
        ("sunday 22:00-monday 05:00", "Sun", "22:00", "29:00"),
        ("Fri 22:00-Mon 05:00", "Fri", "22:00", "77:00"),
        ("Mon 05:00-Mon 04:59", "Mon", "05:00", "172:59"),
        ("  Sat ,  Sun   10:00 - 11:00 ", "Sat Sun", "10:00", "11:00"),
    ],
)
def test_a_window_is_days_and_times(text: str, days: str, start: str, end: str) -> None:
    window = parse_window(text)
    assert {DAYS[day] for day in window.days} == set(days.split())
    assert (window.start, window.end) == (_minutes(start), _minutes(end))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not a time window: write it as `Mon-Fri 22:00-05:00`"),
        ("Foo 01:00-02:00", "Foo is not a day of the week: Mon, Tue, Wed, Thu, Fri, Sat, Sun, or * for all"),
        ("Mon 25:00-26:00", "25:00 is not a time of day between 00:00 and 23:59"),
        ("Mon 24:00-24:00", "24:00 is not a time of day between 00:00 and 23:59"),
        ("Mon 22:00-24:30", "24:30 is not a time of day between 00:00 and 24:00"),
        ("Mon 22:60-23:00", "22:60 is not a time of day"),
        ("Mon 22:00-22:00", "ends when it begins: for whole days leave the times out"),
        ("Mon 05:00-Mon 05:00", "lasts a whole week: leave the window out"),
        ("Mon-Wed-Fri", "Mon-Wed-Fri is not a day, nor days such as Mon-Fri"),
        ("Mon 10pm-5am", "is not a time window"),
        ("22:00", "is not a time window"),
        ("Sat Sun", "is not a time window"),
    ],
)
def test_a_text_that_is_no_window_is_refused_with_the_cure(text: str, words: str) -> None:
    with pytest.raises(WindowError) as refused:
        parse_window(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Berlin", "'Berlin' is not a time zone such as Europe/Berlin or UTC; did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Mars/Olympus", "is not a time zone"),
        ("../../etc/passwd", "is not a time zone"),
        ("Europe", "is not a time zone"),
        ("", "is not a time zone"),
    ],
)
def test_a_name_that_is_no_time_zone_is_refused_with_the_nearest(name: str, words: str) -> None:
    with pytest.raises(WindowError) as refused:
        zone_of(name)
    assert words in str(refused.value)


def test_a_machine_without_a_time_zone_database_knows_utc_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(key: str) -> zoneinfo.ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(key)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", unknown)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    assert zone_of("UTC") is UTC
    with pytest.raises(WindowError, match="this machine has no time zone database; install tzdata"):
        zone_of(BERLIN)


def test_without_windows_it_is_always_open() -> None:
    assert schedule().open_at(0.0)
    assert schedule().next_change(0.0) is None


def test_a_window_that_crosses_midnight_belongs_to_the_day_it_begins_on() -> None:
    nights = schedule("Mon-Fri 22:00-05:00", zone=BERLIN)
    asked = {
        "2026-11-16 04:59": False,  # Monday morning: Sunday has no night
        "2026-11-16 21:59": False,
        "2026-11-16 22:00": True,
        "2026-11-17 04:59": True,
        "2026-11-17 05:00": False,
        "2026-11-20 23:00": True,  # Friday
        "2026-11-21 04:00": True,  # … until Saturday morning
        "2026-11-21 22:30": False,
    }
    assert {text: nights.open_at(at(text, BERLIN)) for text in asked} == asked
    assert nights.next_change(at("2026-11-16 12:00", BERLIN)) == at("2026-11-16 22:00", BERLIN)
    assert nights.next_change(at("2026-11-16 23:00", BERLIN)) == at("2026-11-17 05:00", BERLIN)
    assert nights.next_change(at("2026-11-21 06:00", BERLIN)) == at("2026-11-23 22:00", BERLIN)


def test_windows_that_adjoin_are_one() -> None:
    weekend = schedule("Sat,Sun", "Mon 00:00-06:00")
    assert weekend.next_change(at("2026-11-21 12:00")) == at("2026-11-23 06:00")
    week = schedule("Mon-Fri", "Sat,Sun")
    assert week.open_at(at("2026-11-18 12:00"))
    assert week.next_change(at("2026-11-18 12:00")) is None


def test_times_that_the_clocks_leap_over_are_the_leap() -> None:
    leap = at("2027-03-28 03:00", BERLIN)
    late = schedule("Sun 02:30-04:00", zone=BERLIN)
    assert late.next_change(at("2027-03-28 01:00", BERLIN)) == leap
    assert late.next_change(leap) == at("2027-03-28 04:00", BERLIN)
    early = schedule("Sun 01:00-02:30", zone=BERLIN)
    assert early.next_change(at("2027-03-28 01:30", BERLIN)) == leap
    whole = schedule("Sun 02:00-03:00", zone=BERLIN)
    assert whole.next_change(at("2027-03-27 12:00", BERLIN)) == at("2027-04-04 02:00", BERLIN)


def test_of_an_hour_that_comes_twice_the_first_counts_and_no_window_opens_twice() -> None:
    twice = schedule("Sun 02:15-02:45", zone=BERLIN)
    opens, closes = at("2027-10-31 02:15", BERLIN), at("2027-10-31 02:45", BERLIN)
    assert twice.next_change(at("2027-10-31 01:00", BERLIN)) == opens
    assert twice.next_change(opens) == closes
    assert not twice.open_at(at("2027-10-31 02:30", BERLIN, fold=1))
    assert twice.next_change(closes) == at("2027-11-07 02:15", BERLIN)
    night = schedule("Sat 22:00-06:00", zone=BERLIN)
    opens = at("2027-10-30 22:00", BERLIN)
    assert night.next_change(opens) == opens + 9 * HOUR


def test_a_day_may_begin_with_a_leap() -> None:
    """In Cairo the clocks leap at midnight: there is no 00:00 on 2027-04-30, a Friday."""
    friday = schedule("Fri", zone="Africa/Cairo")
    thursday_noon = at("2027-04-29 12:00", "Africa/Cairo")
    opens = friday.next_change(thursday_noon)
    assert opens == at("2027-04-30 01:00", "Africa/Cairo")
    assert friday.next_change(opens) == opens + 23 * HOUR


def test_an_instant_is_told_in_the_windows_own_time() -> None:
    assert schedule(zone=BERLIN).local(at("2026-11-16 21:00")) == "Mon 2026-11-16 22:00"


TIMES = st.tuples(st.integers(0, 23), st.sampled_from([0, 15, 30, 59]))
INSTANTS = st.integers(int(at("2026-01-01 00:00")), int(at("2028-12-31 00:00"))).map(float)


@st.composite
def texts(draw: st.DrawFn) -> str:
    days = draw(st.one_of(st.just("*"), st.lists(st.sampled_from(DAYS), min_size=1, max_size=4).map(",".join)))
    (h1, m1), (h2, m2) = draw(st.tuples(TIMES, TIMES).filter(lambda both: both[0] != both[1]))
    times = f" {h1:02}:{m1:02}-{h2:02}:{m2:02}"
    form = draw(st.sampled_from(["daily", "whole", "across"]))
    if form == "across":
        first, last = draw(st.sampled_from(DAYS)), draw(st.sampled_from(DAYS))
        return f"{first} {h1:02}:{m1:02}-{last} {h2:02}:{m2:02}"
    return days if form == "whole" else f"{days}{times}"


@given(st.lists(texts(), min_size=1, max_size=3), st.sampled_from(ZONES), INSTANTS)
def test_nothing_changes_before_the_next_change_and_then_it_does(
    given_texts: list[str], zone: str, instant: float
) -> None:
    windows = schedule(*given_texts, zone=zone)
    now, change = windows.open_at(instant), windows.next_change(instant)
    until = change if change is not None else instant + 9 * 24 * HOUR
    steps = [instant + (until - instant) * part / 40 for part in range(40)]
    assert all(windows.open_at(step) == now for step in steps)
    if change is not None:
        assert change > instant
        assert windows.open_at(change) != now


@given(texts(), INSTANTS)
def test_where_no_clock_leaps_a_window_is_what_a_calendar_says(text: str, instant: float) -> None:
    window, there = parse_window(text), datetime.fromtimestamp(instant, UTC)
    minute = there.hour * 60 + there.minute
    begun = [(there - timedelta(days=ago)).weekday() in window.days for ago in range(9)]
    expected = any(begun[ago] and window.start <= minute + ago * 1440 < window.end for ago in range(9))
    assert schedule(text).open_at(instant) == expected


@given(texts(), st.sampled_from(ZONES), INSTANTS)
def test_a_window_is_open_only_at_times_that_it_names_but_for_an_hour_that_comes_twice(
    text: str, zone: str, instant: float
) -> None:
    window, there = parse_window(text), datetime.fromtimestamp(instant, zone_of(zone))
    minute = there.hour * 60 + there.minute
    begun = [(there - timedelta(days=ago)).weekday() in window.days for ago in range(9)]
    named = any(begun[ago] and window.start <= minute + ago * 1440 < window.end for ago in range(9))
    ambiguous = any(
        (there + timedelta(hours=hours)).replace(fold=0).utcoffset()
        != (there + timedelta(hours=hours)).replace(fold=1).utcoffset()
        for hours in (-1, 0, 1)
    )
    if not ambiguous:
        assert schedule(text, zone=zone).open_at(instant) == named


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
