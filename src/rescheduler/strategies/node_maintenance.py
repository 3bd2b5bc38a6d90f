"""NodeMaintenance: empty the nodes that an operator wants to work on."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.planning.settings import Settings
from rescheduler.planning.strategy import Proposal, Proposals, Strategy
from rescheduler.planning.view import View


class NodeMaintenance(Strategy[Settings]):
    """Moves every pod that can move off nodes labelled `scheduler.alpha.kubernetes.io/maintenance: "true"`.

    Targets are chosen as the scheduler would: the least used node where the pod fits, under the thresholds if there is
    one, else any. What cannot move (DaemonSet pods, a spent disruption budget, no node with room) is reported with its
    reason. Nothing is ever moved onto such a node.
    """

    name: ClassVar[str] = "NodeMaintenance"
    order: ClassVar[int] = 100

    def propose(self, view: View) -> Proposals:
        """Each pod on a maintenance node: lower priority first, then the largest, while there is most room."""
        for index, node in enumerate(view.nodes):
            if not node.maintenance:
                continue
            pods = sorted(view.pods_on(index), key=lambda p: (view.pods[p].priority, -view.share(p, index).max(), p))
            for pod in pods:
                yield Proposal.one(pod, f"{node.name} is under maintenance", insist=True)
