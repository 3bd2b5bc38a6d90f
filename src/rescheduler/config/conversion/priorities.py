"""Priority thresholds, which are numbers or names of PriorityClasses, and which of several is the lowest.

`evictor` asks. What a PriorityClass stands for is known of the built-in ones alone, and of all others that it is below
those.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.config.conversion.draft import Draft, Path
from rescheduler.config.conversion.options import Given, Option, take_options
from rescheduler.config.errors import wrong_type

THRESHOLD: Path = ("filters", "priorityThreshold")
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_HIGHEST = 1_000_000_000  # of a PriorityClass that is not built in


def priority(draft: Draft, given: Given) -> None:
    """`{value, name}`, of which one may be given."""
    take_options(draft, given, (Option("value", (), _number), Option("name", (), _name)))
    if given.inner("value").value is not None and given.inner("name").value:
        draft.wrong(given.loc, "value and name are not possible at once")


def _number(draft: Draft, given: Given) -> None:
    if isinstance(given.value, int) and not isinstance(given.value, bool):
        draft.put(THRESHOLD, given.value, given.loc)
    else:
        draft.wrong(given.loc, wrong_type(given.value, "an integer"))


def _name(draft: Draft, given: Given) -> None:
    if given.value == "":
        draft.settled(given.loc, "it names no PriorityClass")
    elif isinstance(given.value, str):
        draft.put(THRESHOLD, given.value, given.loc)
    else:
        draft.wrong(given.loc, wrong_type(given.value, "the name of a PriorityClass"))


def lowest(thresholds: Sequence[int | str]) -> int | str | None:
    """The threshold that protects most pods; None if that cannot be told."""
    names = {each for each in thresholds if isinstance(each, str) and each not in _BUILT_IN}
    known = {each: _BUILT_IN[each] if isinstance(each, str) else each for each in thresholds if each not in names}
    if not names:
        return min(known, key=lambda each: known[each])
    if len(names) == 1 and all(value >= _HIGHEST for value in known.values()):
        return names.pop()
    return None
