"""MakeRoom: move a few pods so that a pending pod fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from rescheduler.model.fields import Duration
from rescheduler.model.objects import Pod
from rescheduler.planning.api import Arrival, PodMove, Proposal, Proposals, Strategy
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View
from rescheduler.strategies.support.room import Refused, Room, RoomSearch
from rescheduler.strategies.support.settings import PodFilters, PodSelection

_TRIES = 4  # what the planner refuses is tried in another way, this often
_KEPT_FREE = 100  # so many pods that fit are expected; the scheduler is quick, so more are hardly ever there
_ELSEWHERE = 1000.0  # any other target comes after the one that was found

_Look = tuple[int, int, str]
_Pending = tuple[int, ...]
"""Pending pods that need room together: the pods of one pod group, or a single pod."""


class MakeRoomSettings(PodFilters):
    """Which pending pods get room, and how many moves one may cost."""

    min_pending_age: Duration = Field(
        30.0,
        description="Only pods that are at least this old, so that the scheduler and an autoscaler had their chance.",
    )
    max_moves_per_pod: int = Field(3, ge=1, le=10, description="At most this many pods are moved for one pending pod.")


class MakeRoom(Strategy[MakeRoomSettings]):
    """Moves a few pods out of the way of a Pending pod that fits nowhere, so that the scheduler can place it.

    Pods of highest priority come first, then the oldest. For each it finds the node on which the fewest pods have to
    make room; of equal numbers lower priorities are preferred, then smaller pods. Pods of higher priority than the
    pending pod are not moved. Each moved pod has its own target under the thresholds, and all of them move or none. A
    pod is in the way by its resources, its host ports, or rules that keep the two apart. Pending pods of one pod group
    get room together or not at all; running members of a group are not moved for others.

    A pod that fits somewhere is left to the scheduler, and its room is kept free in the plan. So are pods with
    scheduling gates or a nominated node, and DaemonSet pods. When the room is there, the scheduler places the pending
    pod by itself. The search is exact, unless there are so many sets of pods to try that it runs out of steps.
    """

    name: ClassVar[str] = "MakeRoom"
    order: ClassVar[int] = 170
    settings_type: ClassVar[type[StrategySettings]] = MakeRoomSettings

    def propose(self, view: View) -> Proposals:
        """Propose room for each pending pod or group; retry when other moves may have made it possible."""
        search, kept, full = RoomSearch(view), 0, False
        helped = True
        while helped:
            helped = False
            stuck: set[tuple[_Look, ...]] = set()
            for together, most_moves in self._pending(view):
                look = tuple(_look(view.pods[pod]) for pod in together)
                if look in stuck and most_moves:
                    continue  # what there was no room for, there is none for its look-alike either
                refused: Refused = set()
                for _ in range(_TRIES):
                    rooms = search.find(
                        together, min(most_moves, view.moves_left or 0) if full else most_moves, refused
                    )
                    if rooms is None:
                        if most_moves:
                            stuck.add(look)
                        break
                    if not any(room.moves for room in rooms):
                        kept += len(rooms)
                        if kept > _KEPT_FREE:
                            break
                    result = yield _proposal(view, together, rooms)
                    if result.is_final:
                        return
                    if result.accepted or not any(room.moves for room in rooms):
                        helped |= result.accepted
                        break
                    if result.refused_by(PlanGuard.MAX_RESCHEDULE_PODS):
                        full = True  # people have seen that there was more to do
                        stuck.add(look)
                        break
                    refused |= {tuple(sorted(pod for pod, _ in room.moves)) for room in rooms}

    def _pending(self, view: View) -> list[tuple[_Pending, int]]:
        """Return pending pods and the moves allowed for each: the highest priority first, then the oldest."""
        selection = PodSelection(self.settings, view)
        waiting = [pod for pod in (view.at < 0).nonzero()[0].tolist() if _waits(view.pods[pod])]
        waiting.sort(key=lambda pod: (-view.pods[pod].priority, view.pods[pod].created or 0.0, pod))
        groups: dict[tuple[str, str, int], list[int]] = {}
        for pod in waiting:
            group = view.groups.name(pod)
            groups.setdefault((view.pods[pod].namespace, group, -1 if group else pod), []).append(pod)
        most = self.settings.max_moves_per_pod
        due = (
            all(self._is_due(view, pod) and selection.matches(view.pods[pod]) for pod in pods)
            for pods in groups.values()
        )
        return [(tuple(pods), most if ready else 0) for pods, ready in zip(groups.values(), due, strict=True)]

    def _is_due(self, view: View, pod: int) -> bool:
        created = view.pods[pod].created
        return view.now is None or created is None or view.now - created >= self.settings.min_pending_age


def _look(pod: Pod) -> _Look:
    return id(pod.shape), id(pod.labels), pod.namespace


def _waits(pod: Pod) -> bool:
    """Whether the scheduler would place the pod if it could, and we can tell where it fits."""
    if pod.phase != "Pending" or pod.node or pod.nominated or pod.deleting or pod.problem or pod.shape.resource_claims:
        return False
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return False
    return all(each.reason != "SchedulingGated" for each in pod.trouble.conditions if each.type == "PodScheduled")


def _proposal(view: View, together: Sequence[int], rooms: Sequence[Room]) -> Proposal:
    pod_moves: list[PodMove] = []
    for pending, room in zip(together, rooms, strict=True):
        name, place = view.pods[pending].full_name, view.nodes[room.node].name
        why = f"pending {name} fits nowhere: this makes room for it on {place}"
        for pod, target in room.moves:
            cost = view.cost(pod) + _ELSEWHERE
            cost[target] = 0.0
            pod_moves.append(PodMove(pod, why, cost))
    arrivals = tuple(Arrival(pod, room.node) for pod, room in zip(together, rooms, strict=True))
    return Proposal(tuple(pod_moves), arrivals)
