"""Durations are read and printed as Go does; the tables are from Go's own tests of package time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.time import DurationError, format_duration, parse_duration

_EXACT = 2**23 * 10**9  # nanoseconds that a float of seconds tells apart


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-5s", -5),
        ("+5s", 5),
        ("5.6s", 5.6),
        ("5.s", 5),
        (".5s", 0.5),
        ("12µs", 1.2e-5),  # U+00B5
        ("12μs", 1.2e-5),  # U+03BC
        ("3h30m", 12600),
        ("10.5s4m", 250.5),
        ("-2m3.4s", -123.4),
        ("1h2m3s4ms5us6ns", 3723.004005006),
        ("39h9m14.425s", 140954.425),
        ("0.3333333333333333333h", 1200),
        ("9223372036854775807ns", 9223372036.854775807),
        ("-9223372036854775808ns", -9223372036.854775808),
        ("0000000000000000000000000000001s", 1),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a duration"),
        ("s", "is not a duration"),
        (".", "is not a duration"),
        (".s", "is not a duration"),
        ("--5s", "is not a duration"),
        ("3", "lacks a unit"),
        ("1h30", "lacks a unit"),
        ("1d", "unknown unit 'd'"),
        ("10 s", "unknown unit ' s'"),
        ("5s ", "unknown unit 's '"),
        ("5S", "unknown unit 'S'"),
        ("1e3s", "unknown unit 'e'"),
        ("٣s", "is not a duration"),
        ("30s\n", "unknown unit"),
        ("9223372036854775808ns", "too long"),
        ("-9223372036854775809ns", "too long"),
        ("3000000h", "too long"),
        ("9" * 5000 + "s", "too long"),
    ],
)
def test_what_is_not_a_duration_is_refused_in_a_short_sentence(text: str, why: str) -> None:
    with pytest.raises(DurationError, match=why) as raised:
        parse_duration(text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-0.0, "0s"),
        (1e-9, "1ns"),
        (1.1e-6, "1.1µs"),
        (2.2e-3, "2.2ms"),
        (90, "1m30s"),
        (245.001, "4m5.001s"),
        (18367.001, "5h6m7.001s"),
        (480.000000001, "8m0.000000001s"),
        (-90, "-1m30s"),
        (-0.5, "-500ms"),
        (9223372036.854775807, "2562047h47m16.854775807s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e10])
def test_what_go_could_not_hold_is_not_printed(seconds: float) -> None:
    with pytest.raises(DurationError, match="cannot be written"):
        format_duration(seconds)


@given(st.integers(-_EXACT, _EXACT))
def test_printing_and_reading_gives_the_same_seconds(nanoseconds: int) -> None:
    seconds = nanoseconds / 1_000_000_000
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.text(alphabet="0123456789.+-hmsunµμ ", max_size=30))
def test_any_text_is_a_duration_that_prints_or_a_duration_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except DurationError:
        return
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)
