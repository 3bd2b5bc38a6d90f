"""How a pod would be moved: handoff, evict or copy (DESIGN §7), from what its owner and volumes allow."""

from __future__ import annotations

from rescheduler.model import marks
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Method
from rescheduler.model.policy import MigrationMethod
from rescheduler.model.selector import Operator, Selector
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.workloads import Workloads

_SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class Methods:
    """Chooses the method for a pod."""

    def __init__(self, snapshot: ClusterSnapshot, workloads: Workloads, wanted: MigrationMethod) -> None:
        self._snapshot = snapshot
        self._workloads = workloads
        self._wanted = wanted

    def choose(self, pod: Pod) -> Method:
        """The gentlest method that fits the pod, unless the operator wants evictions."""
        if pod.owner is None:
            return Method.COPY
        wanted = self._workloads.annotation(pod, marks.MIGRATION_METHOD) or self._wanted
        if wanted == MigrationMethod.EVICT or self.cannot_hand_off(pod):
            return Method.EVICT
        return Method.HANDOFF

    def cannot_hand_off(self, pod: Pod) -> str:
        """Why a second instance cannot take over beside this one; empty when it can."""
        if pod.owner is None or pod.owner.kind != "ReplicaSet":
            return "only a ReplicaSet adopts a pod that is made beside its own"
        if not pod.ready:
            return "it is not Ready, so there is nothing to hand over"
        top = self._workloads.top(pod)
        if top is not None and top.recreate:
            return "its Deployment's strategy is Recreate: two instances may not run side by side"
        if not self._withholdable(pod):
            return "its ReplicaSet's selector has no label that could be withheld until the copy is Ready"
        for name in pod.shape.claims:
            if not self.shareable(pod, name):
                return f"claim {name} cannot be used on two nodes at once"
        return ""

    def shareable(self, pod: Pod, name: str) -> bool:
        """Whether a claim can be used on two nodes at once."""
        claim = self._snapshot.claims.get((pod.namespace, name))
        return claim is not None and bool(_SHARED_MODES.intersection(claim.access_modes))

    def _withholdable(self, pod: Pod) -> bool:
        """Whether the copy can be kept from the ReplicaSet by leaving a label out, and from nobody else."""
        controller = self._workloads.controller(pod)
        if controller is None or controller.selector is None:
            return marks.TEMPLATE_HASH in pod.labels
        keys = {r.key for r in controller.selector.requirements if r.operator in (Operator.IN, Operator.EXISTS)}
        if marks.TEMPLATE_HASH in keys:
            return True
        return bool(keys - self._selected_by_budgets(pod))

    def _selected_by_budgets(self, pod: Pod) -> set[str]:
        """Labels that a disruption budget goes by: without them the copy would not count for it."""
        near = (b.selector for b in self._snapshot.budgets if b.namespace == pod.namespace)
        return {r.key for s in near if isinstance(s, Selector) for r in s.requirements}
