"""docs/predicates.md: every rule about a pod and a node, in the order in which a refusal is reported."""

from __future__ import annotations

from docs.generating.markdown import table, words
from rescheduler.planning import predicates
from rescheduler.planning.refusals import NodeRefusal

_PREDICATES = """\
A predicate is a rule about a pod and a node. A pod moves only to a node that all predicates accept, after all earlier
moves of the plan. For a handoff or copy the original still counts, for an eviction it does not. If several predicates
refuse a node, the first in this order is reported. Preferred node affinity and `PreferNoSchedule` taints refuse
nothing: they rank the targets together with the use of each node, unless the strategy ranks them itself.
"""

_ALSO_EXPLAINED = """\
`rescheduler explain NAMESPACE/POD` shows the result for each node. It also names these checks of the planner:
"""

_INSISTING = """\
Strategies that repair violations (NodeMaintenance, NodeAffinity, NodeTaints, PodAntiAffinity, and TopologySpread for
hard constraints) exceed the thresholds of a node if no other can take a pod; the others never do.
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
