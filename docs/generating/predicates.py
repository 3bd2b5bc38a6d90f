"""docs/predicates.md: every rule about a pod and a node, in the order in which a refusal is reported."""

from __future__ import annotations

from docs.generating.markdown import table, words
from rescheduler.planning import predicates
from rescheduler.planning.refusals import NodeRefusal

_PREDICATES = """\
A predicate is a rule about a pod and a node. A pod is moved only to a node that all of them let it be on, with all
earlier moves of the plan in place. A pod that is handed off or copied is judged with the original still there, an
evicted one without it. Where several refuse a node, the first in this order is reported. Preferred node affinity and
`PreferNoSchedule` taints refuse nothing: where a strategy leaves the choice open, they rank the targets, together with
how much each node is used.
"""

_ALSO_EXPLAINED = """\
`rescheduler explain NAMESPACE/POD` shows what each node says. It names these too, which the planner asks for on top:
"""

_INSISTING = """\
Strategies that put right what is broken (NodeMaintenance, NodeAffinity, NodeTaints, PodAntiAffinity, and TopologySpread
for hard constraints) fill a node above its thresholds when no other can take a pod; the others never do.
"""


def predicates_page() -> str:
    """Every predicate, in the order in which a refusal is reported."""
    rows = [
        (f"`{each.name}`", words(each), "kube-scheduler's" if each.of_scheduler else "ours")
        for each in predicates.discover()
    ]
    return "\n".join(
        [
            "# Predicates\n",
            _PREDICATES,
            table(("predicate", "what holds", "whose rule"), rows),
            _ALSO_EXPLAINED,
            table(("name", "what holds"), [(f"`{each}`", each.meaning) for each in NodeRefusal]),
            _INSISTING,
        ]
    )
