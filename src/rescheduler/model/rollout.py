"""Whether a workload is just being changed by its owner: rolled out, or scaled.

The planner's guard asks it of rows (`cluster.objects` reads it there), a migration of the objects themselves just
before it begins: so both say the same. A pod that is being handed off or evicted by us is one over or one short for
seconds only, and the next look finds the workload quiet again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """What a workload's spec wants, and how far its controller has come."""

    kind: str
    observed: bool = True
    """Whether its controller has seen the newest of it."""
    wanted: int = 1
    replicas: int | None = 0
    """How many there are; none is not said by a Deployment, and what a StatefulSet does not say is not known."""
    updated: int = 0
    kept: int | None = 0
    """Of a StatefulSet: how many pods stay as they are (its partition); None where only people replace pods."""
    revised: bool = False
    """Of a StatefulSet: whether there is a newer revision than the one that all pods have had."""

    def __str__(self) -> str:
        """What is going on, after the workload's name; empty when nothing is."""
        if not self.observed:
            return "has changes that its controller has not seen yet"
        if self.kind == "Deployment":
            lags = self.updated != (self.replicas or 0) or (self.replicas or 0) != self.wanted
        elif self.kind == "StatefulSet":
            lags = self.revised and self.kept is not None and self.updated < self.wanted - self.kept
            lags = lags or (self.replicas is not None and self.replicas != self.wanted)
        else:
            return ""  # a ReplicaSet's template is its Deployment's, which tells more
        return "is being rolled out or scaled" if lags else ""
