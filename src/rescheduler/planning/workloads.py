"""A pod's controller, the workload above it, its replicas, and the method by which the pod can be moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from rescheduler.model import labels
from rescheduler.model.objects import Pod, Workload
from rescheduler.model.plan import Method
from rescheduler.model.policy import MigrationMethod
from rescheduler.model.selector import Operator, Selector
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.model.time import read_instant

NODE_BOUND = ("DaemonSet", "Node")
"""Owners whose pods belong to their nodes."""


class Workloads:
    """Looks up owners in a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._keys: dict[tuple[str, object], WorkloadKey] = {}

    def controller(self, pod: Pod) -> Workload | None:
        """Return the object that owns the pod directly, if the input has it."""
        if pod.owner is None:
            return None
        return self._snapshot.workloads.get((pod.owner.kind, pod.namespace, pod.owner.name))

    def top(self, pod: Pod) -> Workload | None:
        """Return the object that a user created: the Deployment above a ReplicaSet, else the controller itself."""
        controller = self.controller(pod)
        if controller is None or controller.owner is None:
            return controller
        above = (controller.owner.kind, controller.namespace, controller.owner.name)
        return self._snapshot.workloads.get(above, controller)

    def key(self, pod: Pod) -> WorkloadKey:
        """Return the key of the pod's workload; a pod without a controller is its own workload."""
        if pod.owner is None:
            return ("Pod", pod.namespace, pod.name)
        known = (pod.namespace, pod.owner)
        if known not in self._keys:
            top = self.top(pod)
            if top is not None:
                found = (top.kind, top.namespace, top.name)
            else:
                found = (pod.owner.kind, pod.namespace, pod.owner.name)
            self._keys[known] = found
        return self._keys[known]

    def replicas(self, pod: Pod) -> int:
        """Return how many replicas the pod's controller wants; if that is unknown, how many there are."""
        controller = self.controller(pod)
        if controller is not None and controller.replicas is not None:
            return controller.replicas
        return self._siblings[(pod.namespace, pod.owner)] if pod.owner is not None else 1

    @cached_property
    def _siblings(self) -> Counter[tuple[str, object]]:
        return Counter((pod.namespace, pod.owner) for pod in self._snapshot.pods if pod.owner and not pod.finished)

    def annotation(self, pod: Pod, key: str) -> str | None:
        """Find an annotation of ours on the pod, its controller or its workload; the nearest one counts."""
        for holder in (pod, self.controller(pod), self.top(pod)):
            if holder is not None and key in holder.annotations:
                return holder.annotations[key]
        return None

    def only_ready(self, pod: Pod) -> bool:
        """Whether it is the only Ready pod of its controller."""
        return pod.ready and self._ready[(pod.namespace, pod.owner)] <= 1

    @cached_property
    def _ready(self) -> Counter[tuple[str, object]]:
        pods = (pod for pod in self._snapshot.pods if pod.owner and pod.ready and not pod.finished and not pod.deleting)
        return Counter((pod.namespace, pod.owner) for pod in pods)

    @cached_property
    def last_moves(self) -> dict[WorkloadKey, tuple[float | None, str]]:
        """When each workload was last moved, by annotations on its pods; None for a text that is not a time."""
        moved: dict[WorkloadKey, tuple[float | None, str]] = {}
        for pod in self._snapshot.pods:
            written = pod.annotations.get(labels.MIGRATION_TIME) if pod.annotations else None
            if written is not None:
                key = self.key(pod)
                found = (read_instant(written), written)
                # A text that is not a time outranks all others: a person has to fix it.
                moved[key] = max(moved.get(key, found), found, key=lambda m: (m[0] is None, m[0] or 0.0, m[1]))
        return moved


def belongs_to_node(pod: Pod) -> bool:
    """Whether a pod stays on its node when others leave: it is of a DaemonSet, static, or a mirror pod."""
    return stays_on_node("" if pod.owner is None else pod.owner.kind, pod.annotations)


def stays_on_node(owner_kind: str, annotations: Mapping[str, str]) -> bool:
    """Whether a pod with this controller and these annotations belongs to its node."""
    # Most pods have no annotations that are kept.
    return owner_kind in NODE_BOUND or (bool(annotations) and labels.is_static(annotations))


class MethodChooser:
    """Chooses the method for a pod."""

    def __init__(self, snapshot: ClusterSnapshot, workloads: Workloads, wanted: MigrationMethod) -> None:
        self._snapshot = snapshot
        self._workloads = workloads
        self._wanted = wanted

    def choose(self, pod: Pod) -> Method:
        """Choose the gentlest method that fits the pod, unless the operator wants evictions."""
        if pod.owner is None:
            return Method.COPY
        wanted = self._workloads.annotation(pod, labels.MIGRATION_METHOD) or self._wanted
        if wanted == MigrationMethod.EVICT or self.cannot_hand_off(pod):
            return Method.EVICT
        return Method.HANDOFF

    def cannot_hand_off(self, pod: Pod) -> str:
        """Explain why a second instance cannot take over beside this one; empty if it can."""
        if pod.owner is None or pod.owner.kind != "ReplicaSet":
            return "only a ReplicaSet adopts a pod that is made beside its own"
        if not pod.ready:
            return "it is not Ready, so there is nothing to hand over"
        top = self._workloads.top(pod)
        if top is not None and top.recreate:
            return "its Deployment's strategy is Recreate: two instances may not run side by side"
        if top is not None and top.no_surge:
            return "its Deployment's maxSurge is 0: there may never be a pod more"
        if not self._withholdable(pod):
            return "its ReplicaSet's selector has no label that could be withheld until the copy is Ready"
        for name in pod.shape.claims:
            if not self.shareable(pod, name):
                return f"claim {name} cannot be used on two nodes at once"
        return ""

    def shareable(self, pod: Pod, name: str) -> bool:
        """Whether a claim can be used on two nodes at once."""
        claim = self._snapshot.claims.get((pod.namespace, name))
        modes = set(claim.access_modes) if claim is not None else set()
        # With ReadWriteOnce beside it, ReadOnlyMany does not help: which of the two holds is known to the pod alone.
        return "ReadWriteMany" in modes or modes == {"ReadOnlyMany"}

    def _withholdable(self, pod: Pod) -> bool:
        """Whether leaving out a label hides the copy from the ReplicaSet, but not from disruption budgets."""
        controller = self._workloads.controller(pod)
        if controller is None or controller.selector is None:
            keys = {labels.TEMPLATE_HASH} & set(pod.labels)
        else:
            keys = {r.key for r in controller.selector.requirements if r.operator in (Operator.IN, Operator.EXISTS)}
        return bool(keys - self._selected_by_budgets.get(pod.namespace, set()))

    @cached_property
    def _selected_by_budgets(self) -> dict[str, set[str]]:
        """The labels that a namespace's budgets select by: without them the copy would not count for a budget."""
        found: dict[str, set[str]] = {}
        for budget in self._snapshot.budgets:
            if isinstance(budget.selector, Selector):
                keys = (requirement.key for requirement in budget.selector.requirements)
                found.setdefault(budget.namespace, set()).update(keys)
        return found
