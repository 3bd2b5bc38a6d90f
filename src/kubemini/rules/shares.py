"""Numbers that may also be percentages, as rollouts and disruption budgets have them: what must hold for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubemini.refusals import Fault
from kubemini.rules import names
from kubemini.rules.faults import each_wrong, negative, wrong

_INTEGER = re.compile(r"[+-]?[0-9]+")


def share_faults(path: str, share: int | str, *, bounded: bool = True) -> Iterator[Fault]:
    """What is wrong with a number or percentage; `bounded` ones are at most 100%."""
    if isinstance(share, int):
        yield from negative(path, share)
    elif details := names.percent(share):
        yield from each_wrong(path, share, details)
    elif bounded and int(share[:-1]) > 100:
        yield wrong(path, share, "must not be greater than 100%")


def is_zero(share: int | str | None) -> bool:
    """Whether it is none at all; what is no number counts as none."""
    if isinstance(share, str):
        digits = share.removesuffix("%") if not names.percent(share) else share
        return not _INTEGER.fullmatch(digits) or int(digits) == 0
    return not share
