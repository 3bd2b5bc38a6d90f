from __future__ import annotations

from rescheduler.planning.columns import Mask
from rescheduler.planning.predicates.base import Predicate
from rescheduler.planning.predicates.support.node_masks import BLOCKING


class TaintToleration(Predicate):
    """The pod tolerates the node's NoSchedule and NoExecute taints."""

    name = "TaintToleration"
    order = 70
    caption = "Taint not tolerated"
    node_only = True

    def mask(self, pod: int) -> Mask | None:
        return self._masks.tolerated(self._columns.shape(pod))

    def reason(self, pod: int, node: int) -> str:
        shape = self._columns.shape(pod)
        taints = self._columns.nodes[node].taints
        return f"taint {next(str(t) for t in taints if t.effect in BLOCKING and not shape.tolerates(t))} not tolerated"
