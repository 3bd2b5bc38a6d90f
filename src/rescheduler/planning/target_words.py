"""Why the one node that was asked for does not take a pod.

The planner counts what all nodes say, which tells little where only one of them was to be it. `recheck` and
`move --dry-run` put the answer of that one into the words of a ruling.
"""

from __future__ import annotations

from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.whatif import WhatIf

_NO_TARGET = "NoTarget: "


class TargetWords:
    """Asks nodes of one snapshot; it is laid out when the first question comes."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._feasibility: Feasibility | None = None

    def in_place_of(self, why: str, pod: tuple[str, str], target: str) -> str:
        """A ruling's reason; if it is that no node will do, what the target says."""
        if not target or not why.startswith(_NO_TARGET):
            return why
        if self._feasibility is None:
            self._feasibility = Feasibility(WhatIf(Columns(self._snapshot)))
        columns = self._feasibility.whatif.columns
        verdict = self._feasibility.verdicts(columns.pod_index[pod])[columns.node_index[target]]
        if verdict.ok:
            return f"{_NO_TARGET}{target} does not take it once the moves before it are made"
        return f"{_NO_TARGET}{target}: {verdict.reason} ({verdict.predicate})"
