"""The errors of this package: each `str()` is a sentence for the user that says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rescheduler.model.objects import Usage
from rescheduler.model.time import format_duration


class UsageError(Exception):
    """What is used could not be read; the message names the place and the cure."""


class UsageFileError(UsageError):
    """A token, certificate or key that cannot be read or does not load."""


class QueryError(UsageError):
    """An answer of a Prometheus that is none, or not to our question."""


Take = Callable[[Sequence[Usage]], None]
"""Told a part of an answer."""


class UsageBackend(Protocol):
    """Who is asked."""

    async def read(self, take: Take) -> tuple[str, ...]:
        """Hand over all that is used now; sentences about what is wrong with the answer. An error says why there is
        none: a UsageError, or one of the cluster's."""


_SHOWN = 3


class FirstNames:
    """Of any number of names, the first three and how many there are."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.count = 0
        self._first: list[str] = []
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """One more."""
        self.count += 1
        if len(self._first) < _SHOWN:
            self._first.append(name)

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        more = f" and {self.count - _SHOWN} more" if self.count > _SHOWN else ""
        return ", ".join(self._first) + more


@dataclass(slots=True)
class RejectedSamples:
    """Whose samples were refused of one answer, and why; `asked` is when."""

    asked: float
    rows: int = 0
    old: FirstNames = field(default_factory=FirstNames)
    ahead: FirstNames = field(default_factory=FirstNames)
    timeless: FirstNames = field(default_factory=FirstNames)


@dataclass(frozen=True, slots=True)
class UsageGaps:
    """Who is counted by requests because nothing else is known, of how many."""

    nodes: FirstNames
    of_nodes: int
    pods: FirstNames
    of_pods: int
    timeless: bool
    """Whether the time is not known at which the snapshot was taken."""


def describe_rejected(refused: RejectedSamples, max_age: float) -> Iterator[str]:
    """A sentence for each reason."""
    for names, why in (
        (refused.old, f"older than {format_duration(max_age)}"),
        (refused.ahead, "from a time that has not come yet (clocks differ)"),
        (refused.timeless, "without a time"),
    ):
        if names:
            be = "is" if names.count == 1 else "are"
            yield f"usage: {names.count} of {refused.rows} samples {be} {why}, and refused: {names}"


def describe_gaps(gaps: UsageGaps, others: FirstNames, max_age: float) -> Iterator[str]:
    """A sentence for nodes and one for pods; `others` are names by which the source knows nodes that we do not."""
    newer = f"no sample of the last {format_duration(max_age)}"
    if gaps.nodes:
        counted = "they are counted by their pods"
        yield f"usage: {newer} for {gaps.nodes.count} of {gaps.of_nodes} nodes; {counted}: {gaps.nodes}"
    if others:
        yield f"usage: the source names nodes otherwise than the cluster does: {others}"
    if gaps.pods:
        counted = "their requests count"
        yield f"usage: {newer} for {gaps.pods.count} of {gaps.of_pods} pods, nor for their like; {counted}: {gaps.pods}"
    if gaps.timeless:
        yield "usage: the input does not say when it was taken, so how old its samples are is not known (give --now)"
