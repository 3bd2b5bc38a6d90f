"""docs/predicates.md: every rule about a pod and a node, in the order in which a refusal is reported."""

from __future__ import annotations

from docs.generating.markdown import table, words
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.predicates.nodes import NodeRule
from rescheduler.planning.whatif import WhatIf

NODE_RULES = {
    "ControlPlane": "The node does not run the control plane.",
    "NodeNotReady": "The node is Ready.",
    "NodeUnschedulable": "The node is not cordoned.",
    "Maintenance": "The node is not labelled for maintenance.",
    "NodeDeleting": "The node is not being deleted.",
    "NodeProblem": "The input describes the node in a way that can be understood.",
}
"""Our own rules on the node: they have no class each, so no docstring."""

EXPLAINED = {
    "SameNode": "It is not the node that the pod is on.",
    "Threshold": "The node stays at or under its thresholds with the pod on it.",
    "NodeInLimit": "The node may receive more pods (`limits.perNodeIn`).",
    "AfterTheMove": "Once the pod has left its node, affinity and spread rules still hold for the pods that stay.",
}
"""What `explain` names besides the predicates, since the planner asks for it too."""

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


def predicates() -> str:
    """Every predicate, in the order in which a refusal is reported."""
    feasibility = Feasibility(WhatIf(Columns(ClusterSnapshot())))
    rows = [
        (
            f"`{predicate.name}`",
            NODE_RULES[predicate.name] if isinstance(predicate, NodeRule) else words(type(predicate)),
            "ours" if isinstance(predicate, NodeRule) else "kube-scheduler's",
        )
        for predicate in feasibility.predicates
    ]
    return "\n".join(
        [
            "# Predicates\n",
            _PREDICATES,
            table(("predicate", "what holds", "whose rule"), rows),
            _ALSO_EXPLAINED,
            table(("name", "what holds"), [(f"`{name}`", words) for name, words in EXPLAINED.items()]),
            _INSISTING,
        ]
    )
