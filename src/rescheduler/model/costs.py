"""What it costs to move a pod, as its marks say it: the order among pods of one priority.

`Pod.rank` is made of it, by which strategies sort; `planning.unrest` heeds the cost that means never. Three marks tell
it: our own, koordinator's, and Kubernetes' pod-deletion-cost, which says whom the pod's owner would miss least. The
first of them that is a number counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rescheduler.model import marks

MOST, LEAST = 2**31 - 1, -(2**31)
"""The bounds of a cost, as of a priority. The highest cost means never, but as pod-deletion-cost."""

_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,9}", re.ASCII)
_MARKS = (marks.EVICTION_COST, marks.KOORDINATOR_COST, marks.DELETION_COST)
_STEP = 2**32  # more than costs differ by: no cost makes up for a priority
_LOWEST = -(2**63)


class EvictionCost(NamedTuple):
    """A cost, and the mark that tells it; none for a pod of which nothing does."""

    number: int = 0
    mark: str = ""

    @property
    def never(self) -> bool:
        """Whether it means that the pod is not to be moved at all."""
        return self.number == MOST and self.mark != marks.DELETION_COST


_NONE = EvictionCost()


def eviction_cost(annotations: Mapping[str, str]) -> EvictionCost:
    """What the marks among these annotations say; what is not a number says nothing."""
    if not annotations:
        return _NONE
    found = ((mark, _number(text)) for mark, text in _said(annotations))
    return next((EvictionCost(number, mark) for mark, number in found if number is not None), _NONE)


def unclear_costs(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The marks that should be a number and are not, each with what it says instead."""
    return ((mark, text) for mark, text in _said(annotations) if _number(text) is None)


def rank(priority: int, annotations: Mapping[str, str]) -> int:
    """Priority and cost as one number of 64 bits: who has the lower one goes first."""
    first = priority * _STEP
    return max(first + eviction_cost(annotations).number, _LOWEST) if annotations else first


def _said(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for mark in _MARKS:
        text = annotations.get(mark)
        if mark == marks.DELETION_COST and marks.COST_BEFORE in annotations:
            text = annotations[marks.COST_BEFORE] or None  # what it says now is ours, for the time of a handoff
        if text is not None:
            yield mark, text


def _number(text: str) -> int | None:
    """As Kubernetes and koordinator read it: no plus, no zeros in front, and 32 bits."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and LEAST <= number <= MOST else None
