from __future__ import annotations

import numpy as np
from pydantic import Field

from rescheduler.model.objects import Pod
from rescheduler.planning.api import PodMove, Proposals, Strategy, propose_each
from rescheduler.planning.columns import Mask
from rescheduler.planning.view import View
from rescheduler.strategies.support.health import TroubledNodes, is_moved, other_nodes, past_sources, read_states
from rescheduler.strategies.support.settings import PodFilters, PodSelection


class TooManyRestartsSettings(PodFilters):
    """How many restarts are too many, and of which pods."""

    restart_threshold: int = Field(
        100, ge=1, description="Pods with at least this many restarts, of all containers together, are moved."
    )
    include_init_containers: bool = Field(
        default=False, description="Also count restarts and check states of init containers."
    )
    states: tuple[str, ...] = Field(
        (),
        description=(
            "Only pods in one of these states: a phase (`Running`), the pod's reason, or why a container "
            "waits or has ended (`CrashLoopBackOff`, `OOMKilled`); empty means any."
        ),
    )


class TooManyRestarts(Strategy[TooManyRestartsSettings]):
    """Moves pods whose containers were restarted `restartThreshold` times or more to another node.

    A kubelet restarts a crashed container in place, for ever; if the node is the reason, only another node helps. Pods
    with the most restarts go first. Nodes on which pods of the same workload are in trouble, or that they were moved
    away from before, come last. The replacement is a new pod without restarts. Its workload then rests (`coolDown`),
    and longer each time if it only goes back and forth. No other strategy brings pods of the workload back to that node
    for as long as the move is kept (`migration.keepFinished`). Pods of workloads with the annotation
    `scheduling-retries` are left to [recovery](failed-pods.md), which acts sooner and remembers the nodes. Descheduler
    calls it RemovePodsHavingTooManyRestarts.
    """

    order = 150

    def propose(self, view: View) -> Proposals:
        """Propose pods with the most restarts first."""
        selection = PodSelection(self.settings, view)
        pods = [
            pod
            for pod in view.pods_in_scope()
            if view.pods[pod].trouble.restarts or view.pods[pod].trouble.init_restarts
        ]
        found = [
            pod
            for pod in pods
            if self._is_troubled(view.pods[pod]) and not is_moved(view, pod) and selection.accepts(view.pods[pod])
        ]
        found.sort(key=lambda pod: (-self._restarts(view.pods[pod]), view.pods[pod].rank, pod))
        if found:
            elsewhere = TroubledNodes(view, found, self.name)
            moves = (PodMove(pod, self._why(view.pods[pod]), elsewhere.cost(pod)) for pod in found)
            yield from propose_each(view, moves)

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Return all nodes but those that the pod crashed on, or that its workload was moved away from for it."""
        found = other_nodes(view, pod) if self._is_troubled(view.pods[pod]) else None
        left = past_sources(view, pod, self.name)
        if left:
            found = np.ones(len(view.nodes), np.bool_) if found is None else found
            found[[*left]] = False
        return found

    def _is_troubled(self, pod: Pod) -> bool:
        settings = self.settings
        if self._restarts(pod) < settings.restart_threshold or pod.deleting:
            return False
        states, _ = read_states(pod, init=settings.include_init_containers)
        return not settings.states or not states.isdisjoint(settings.states)

    def _restarts(self, pod: Pod) -> int:
        return pod.trouble.restarts + (pod.trouble.init_restarts if self.settings.include_init_containers else 0)

    def _why(self, pod: Pod) -> str:
        ails = f", {pod.ailment.reason}" if pod.ailment is not None else ""
        threshold = self.settings.restart_threshold
        return f"it was restarted {self._restarts(pod)} times (restartThreshold {threshold}{ails})"
