"""Resource quantities as the API server keeps them: one way of writing for each amount, and amounts to compare.

`forms` writes every quantity of an object in its canonical form (`1000m` becomes `1`, `1024Mi` becomes `1Gi`), as the
real server does when it decodes and encodes; rules and quota compare and add amounts with `amount` and `text_of`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil

from rescheduler.model.quantity import MAX, QuantityError, parse_quantity

_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@lru_cache(maxsize=65536, typed=True)
def amount(text: str | int | float) -> Fraction:
    """The exact value, which may be negative; Kubernetes keeps billionths and rounds the rest up."""
    written = str(text) if isinstance(text, str) else text
    if isinstance(written, str) and written.startswith("-"):
        return -_to_billionths(parse_quantity(written[1:]))
    if not isinstance(written, str) and not isinstance(written, bool) and written < 0:
        return -_to_billionths(parse_quantity(-written))
    return _to_billionths(parse_quantity(written))


@lru_cache(maxsize=65536, typed=True)
def canonical(text: str | int | float) -> str:
    """A quantity as the API server writes it; QuantityError where it is none."""
    value = amount(text)
    written = str(text)
    if written.endswith("i"):
        return _binary(min(value, Fraction(MAX)))
    if "e" in written.lower() and not written.endswith("E"):
        mantissa, exponent = _base_ten(value)
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return _decimal(value)


@lru_cache(maxsize=65536, typed=True)
def canonical_milli(text: str | int | float) -> str:
    """The same for resource lists, in which nothing is finer than a thousandth."""
    value = amount(text)
    if (value * 1000).denominator == 1:
        return canonical(text)
    rounded = Fraction(ceil(value * 1000) if value > 0 else -ceil(-value * 1000), 1000)
    return _binary(rounded) if str(text).endswith("i") else _decimal(rounded)


def is_quantity(value: object) -> bool:
    """Whether something can be read as a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        amount(value)
    except QuantityError:
        return False
    return True


def text_of(value: Fraction, like: str = "") -> str:
    """An amount in words; in powers of 1024 if `like` is written so."""
    return _binary(value) if like.endswith("i") else _decimal(value)


def _to_billionths(value: Fraction) -> Fraction:
    return Fraction(ceil(value * 10**9), 10**9)


def _binary(value: Fraction) -> str:
    if -1024 < value < 1024 or value.denominator != 1:  # a fraction can't be written in powers of 1024
        return _decimal(value)
    number, power = int(value), 0
    while number % 1024 == 0 and power < len(_BINARY) - 1:
        number //= 1024
        power += 1
    return f"{number}{_BINARY[power]}"


def _decimal(value: Fraction) -> str:
    mantissa, exponent = _base_ten(value)
    if exponent > 18:
        mantissa, exponent = mantissa * 10 ** (exponent - 18), 18
    return f"{mantissa}{_DECIMAL[exponent]}"


def _base_ten(value: Fraction) -> tuple[int, int]:
    """A whole number, and a power of ten that is a multiple of three."""
    if not value:
        return 0, 0
    number, exponent = int(value * 10**9), -9
    while number % 1000 == 0:
        number //= 1000
        exponent += 3
    return number, exponent
