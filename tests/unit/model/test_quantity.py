"""Quantities, as Kubernetes reads and rounds them: resource.ParseQuantity is the reference."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.quantity import MAX, QuantityError, amount, parse_quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("0", 0),
        ("-0", 0),
        ("007", 7),
        (".5", Fraction(1, 2)),
        ("1.", 1),
        ("1.G", 10**9),
        ("1.5Gi", 3 * 2**29),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1e+3", 1000),
        ("12.5e1", 125),
        (0.1, Fraction(1, 10)),
        (1e22, 10**22),
        (1e-7, Fraction(1, 10**7)),
    ],
)
def test_a_quantity_is_read_exactly(text: str | float, exact: int | Fraction) -> None:
    assert parse_quantity(text) == exact


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "one", "1 Gi", " 1", "1\n", "1K", "1ki", "1KI", "1Gib", "1e", "1e+", "1E-", "1Ki3", "1m3", "0x10"),
        *("1,5", "1.2.3", "--1", "+-1", ".", "+", "-", "Ki", "1_000", "1e3.5", "١", "NaN", "inf", "∞"),
        *(float("nan"), float("inf"), float("-inf")),
    ],
)
def test_what_is_no_quantity_is_refused_and_named(text: str | float) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["-1", "-100m", "-1e3", -0.5])
def test_a_negative_quantity_is_refused_as_such(text: str | float) -> None:
    with pytest.raises(QuantityError, match="is negative"):
        parse_quantity(text)


@pytest.mark.parametrize("number", [1, 1.0])
def test_a_truth_value_is_no_quantity_even_after_the_number_that_equals_it(number: float) -> None:
    assert parse_quantity(number) == 1
    with pytest.raises(QuantityError):
        parse_quantity(True)


@pytest.mark.parametrize(("text", "thousandths"), [("1", 1000), ("100m", 100), ("0.1", 100), ("1e3", 10**6), (2, 2000)])
def test_cpu_is_counted_in_thousandths(text: str | int, thousandths: int) -> None:
    assert amount("cpu", text) == thousandths


@pytest.mark.parametrize("text", ["0.0001", "1u", "1n", "1e-12", "0.1m"])
def test_a_trace_of_cpu_is_a_thousandth(text: str) -> None:
    assert amount("cpu", text) == 1


@pytest.mark.parametrize(
    ("text", "units"), [("0.1", 1), ("100m", 1), ("1.1", 2), ("1500m", 2), ("1Ki", 1024), ("0", 0)]
)
def test_everything_else_is_counted_in_whole_units_rounded_up(text: str, units: int) -> None:
    assert amount("memory", text) == amount("example.com/gpu", text) == units


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "10E", "1e30", "1e99999999999", "9" * 60])
def test_what_is_beyond_64_bits_is_capped(text: str) -> None:
    assert amount("memory", text) == amount("cpu", text) == MAX == 2**63 - 1


def test_the_greatest_64_bit_number_is_itself() -> None:
    assert amount("memory", "9223372036854775807") == MAX
    assert amount("cpu", "9223372036854775807m") == MAX


def test_an_exponent_far_below_zero_still_asks_for_something() -> None:
    assert amount("memory", "1e-99999999999") == amount("cpu", "1e-99999999999") == 1


def test_zero_with_any_exponent_is_zero() -> None:
    assert amount("memory", "0e99999999999") == amount("cpu", "0e-99999999999") == 0


def test_leading_zeros_of_an_exponent_mean_nothing() -> None:
    assert parse_quantity("1e0000000003") == 1000


def test_a_number_of_thousands_of_digits_is_refused_not_choked_on() -> None:
    with pytest.raises(QuantityError, match="not a quantity"):
        amount("memory", "9" * 5000)


@given(
    whole=st.integers(0, 10**18),
    decimals=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_any_number_with_any_suffix_is_exact(whole: int, decimals: str, suffix: str) -> None:
    exact = (whole + Fraction(int(decimals or "0"), 10 ** len(decimals))) * SUFFIXES[suffix]
    text = f"{whole}.{decimals}{suffix}" if decimals else f"{whole}{suffix}"
    assert parse_quantity(text) == exact
    assert amount("memory", text) == min(-(-exact.numerator // exact.denominator), MAX)
    assert amount("cpu", text) == min(-(-exact.numerator * 1000 // exact.denominator), MAX)


@given(number=st.integers(0, 10**6), exponent=st.integers(-12, 15), letter=st.sampled_from("eE"))
def test_any_decimal_exponent_is_exact(number: int, exponent: int, letter: str) -> None:
    assert parse_quantity(f"{number}{letter}{exponent}") == number * Fraction(10) ** exponent


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        assert parse_quantity(text) >= 0
