"""Why a pod fits nowhere, in kube-scheduler's own words, and what has to change before another look is worth it.

People and programs read these messages off the pod's PodScheduled condition and its events. A node counts for the
first rule that refuses it, in the order of the scheduler's plugins; where several resources are short, for each of
them. The second half of a message is about preemption, which the embedded scheduler doesn't do: it says what the real
one says where no pod of lower priority is in the way.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

UNHELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_NODES = "no nodes available to schedule pods"
EXTENDER = "Extender"


@dataclass
class Unschedulable:
    """What was found out about a pod that fits nowhere."""

    nodes: int
    """How many nodes there are."""
    whole: str = ""
    """What is wrong with the pod itself, so that no node was looked at."""
    reasons: Counter[str] = field(default_factory=Counter)
    preemptable: int = 0
    """How many nodes refuse it for something that pods there hold."""
    rules: set[str] = field(default_factory=set)
    """The rules that refused it anywhere."""
    preempts: bool = True

    @property
    def message(self) -> str:
        """What the pod's condition says."""
        if not self.nodes:
            return NO_NODES
        if self.whole and self.preempts:
            return f"{self._none}: {self.whole}. not found"  # these last words are the real one's, and its oversight
        reasons = self.whole or _listed(self.reasons)
        said = f" {reasons}." if reasons else ""
        return f"{self._none}:{said} preemption: {self._preemption}"

    @property
    def renounces(self) -> bool:
        """Whether a nomination of the pod is taken back: whoever may not preempt, or isn't let to try, keeps it."""
        return not self.nodes or (not self.whole and self.preempts)

    @property
    def _none(self) -> str:
        return f"0/{self.nodes} nodes are available"

    @property
    def _preemption(self) -> str:
        if not self.preempts:
            return "not eligible due to preemptionPolicy=Never."
        tried = Counter({NO_VICTIMS: self.preemptable, UNHELPFUL: self.nodes - self.preemptable})
        return f"{self._none}: {_listed(+tried)}."


def _listed(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
