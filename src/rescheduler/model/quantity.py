"""Resource quantities, as Kubernetes reads and rounds them.

The scheduler counts CPU in thousandths and everything else in whole units, both rounded up, in signed 64 bits. We do
the same, so that our sums equal the scheduler's. Values beyond 64 bits are capped, as Kubernetes caps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil

MAX = 2**63 - 1
Amounts = dict[str, int]
"""By resource, the number that the scheduler counts."""
_POD_LEVEL = ("cpu", "memory", "hugepages-")  # of these a pod may request an amount as a whole; others are sums

_QUANTITY = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([A-Za-z]*)([+-]?[0-9]*)")
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{unit: Fraction(10 ** (3 * power)) for power, unit in enumerate("kMGTPE", start=1)},
    **{unit + "i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}
_PLAIN = re.compile(r"([0-9]{1,18})([a-zA-Z]{0,2})", re.ASCII)
_LONGEST = 100  # characters; Kubernetes itself writes at most a few dozen
# Past this, a number of so few digits is over 64 bits or below a billionth: no need for exactness.
_HUGE_EXPONENT = 150


class QuantityError(ValueError):
    """Text that is not a quantity, or an invalid quantity; the message says which."""


@lru_cache(maxsize=65536, typed=True)
def parse_quantity(text: str | int | float) -> Fraction:
    """The exact value of `100m`, `1.5Gi`, `1e3`, `2`; negative ones are refused, because no request or capacity is."""
    written = text if isinstance(text, str) else _plain(text)
    found = _QUANTITY.fullmatch(written) if len(written) <= _LONGEST else None
    if not found:
        raise QuantityError(f"{written[:40]!r} is not a quantity such as 100m, 1.5 or 2Gi")
    sign, digits, suffix, exponent = found.groups()
    scale = _scale(suffix, exponent)
    if scale is None:
        raise QuantityError(
            f"{written!r} is not a quantity: use a suffix of n u m k M G T P E Ki Mi Gi Ti Pi Ei, or 1e3"
        )
    number = Fraction(digits if digits[-1] != "." else digits + "0") * scale
    if sign == "-" and number:
        raise QuantityError(f"{written!r} is negative; a quantity here is 0 or more")
    return number


def amount(resource: str, text: str | int | float) -> int:
    """The number that the scheduler counts for this resource: thousandths of a CPU, whole units of all others."""
    per_unit = 1000 if resource == "cpu" else 1
    # Whole numbers skip the fractions: measurements have hundreds of thousands of distinct ones.
    found = _PLAIN.fullmatch(text) if isinstance(text, str) else None
    scale = _SUFFIXES.get(found[2]) if found is not None else None
    if found is None or scale is None:
        return min(ceil(parse_quantity(text) * per_unit), MAX)
    return min(-(-int(found[1]) * scale.numerator * per_unit // scale.denominator), MAX)


def sum_requests(
    containers: Iterable[Amounts], starting: Iterable[tuple[Amounts, bool]], whole: Amounts, overhead: Amounts
) -> Amounts:
    """Sum a pod's requests as the scheduler does: containers and sidecars, or init peak, or pod level; plus overhead.

    `starting` are the init containers in their order; True marks a sidecar, which goes on running.
    """
    total: Amounts = {}
    for asked in containers:
        _add(total, asked)
    peak: Amounts = {}
    sidecars: Amounts = {}
    for asked, is_sidecar in starting:
        at_once = dict(sidecars)
        _add(at_once, asked)
        raise_to(peak, at_once)
        if is_sidecar:
            _add(total, asked)
            sidecars = at_once
    raise_to(total, peak)
    total |= {name: number for name, number in whole.items() if name.startswith(_POD_LEVEL)}
    _add(total, overhead)
    return total


def _add(total: Amounts, more: Amounts) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def raise_to(total: Amounts, floor: Amounts) -> None:
    """Make each amount at least as large as in `floor`."""
    for name, number in floor.items():
        total[name] = max(total.get(name, 0), number)


def _plain(number: int | float) -> str:
    if isinstance(number, bool):
        raise QuantityError(f"{number} is not a quantity")
    return str(number) if isinstance(number, int) else format(Decimal(repr(number)), "f")


def _scale(suffix: str, exponent: str) -> Fraction | None:
    if not exponent:
        return _SUFFIXES.get(suffix)
    if suffix not in ("e", "E") or not exponent.lstrip("+-"):
        return None
    power = max(-_HUGE_EXPONENT, min(_HUGE_EXPONENT, int(exponent)))
    return Fraction(10) ** power
