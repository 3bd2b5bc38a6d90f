from __future__ import annotations

from rescheduler.planning.api import Proposal, Proposals, Strategy
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View


class NodeMaintenance(Strategy[StrategySettings]):
    """Moves every pod that can move off nodes labelled `scheduler.alpha.kubernetes.io/maintenance: "true"`.

    Targets are chosen as the scheduler would: the least used node where the pod fits, under the thresholds if there is
    one, else any. Pods that cannot move (DaemonSet pods, a spent disruption budget, no node with room) are reported
    with the reason. Nothing is ever moved onto such a node.
    """

    order = 100
    for_gain = True
    mandatory = True
    can_undo = False  # maintenance does not mean that earlier moves were wrong

    def propose(self, view: View) -> Proposals:
        """Propose each pod on a maintenance node: lower ranks first, then the largest, while there is most room."""
        left: list[tuple[int, str]] = []
        for index, node in enumerate(view.nodes):
            if node.maintenance and view.scope[index]:
                pods = [pod for pod in view.pods_on(index) if pod not in view.moved]
                pods.sort(key=lambda p: (view.pods[p].rank, -view.share(p, index).max(), p))
                left += [(pod, f"{node.name} is under maintenance") for pod in pods]
        moved = True
        while moved and left:  # what one pod's leaving makes possible is tried again
            waiting: list[tuple[int, str]] = []
            for pod, why in left:
                result = yield Proposal.one(pod, why, force=True)
                if not result.accepted:
                    waiting.append((pod, why))
            moved, left = len(waiting) < len(left), waiting
