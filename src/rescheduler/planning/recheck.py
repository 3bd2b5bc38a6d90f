"""Is a plan that was made a while ago still good? Each of its moves, held against the cluster as it is now.

`apply` asks before it orders anything. A move whose pod or target is no longer what the plan saw is stale; the others
are judged by the rules that the controller admits them by, in the plan's order, each in the world that the moves before
it leave. Moves of one proposal stand or fall together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import Method, Move
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.rulings import Rulings, Wanted


@dataclass(frozen=True, slots=True)
class Checked:
    """A move, and why it is refused; empty when it may be made."""

    move: Move
    refusal: str = ""


def recheck(snapshot: ClusterSnapshot, policy: Policy, moves: Sequence[Move]) -> list[Checked]:
    """Judge every move, in the plan's order; pods that are spoken for in the snapshot are being moved already."""
    facts = _Facts(snapshot)
    refusals = {index: why for index, move in enumerate(moves) if (why := facts.stale(move))}
    _spread(moves, refusals)
    while not _ruled(facts, policy, moves, refusals):
        pass
    return [Checked(move, refusals.get(index, "")) for index, move in enumerate(moves)]


def node_objection(node: Node) -> str:
    """Why nothing can be moved onto a node, as far as the node itself goes."""
    if node.deleting:
        return f"node {node.name} is being deleted"
    if not node.ready:
        return f"node {node.name} is not Ready"
    if node.maintenance:
        return f"node {node.name} is under maintenance"
    if node.unschedulable:
        return f"node {node.name} is cordoned"
    return ""


def _ruled(facts: _Facts, policy: Policy, moves: Sequence[Move], refusals: dict[int, str]) -> bool:
    """Rule on all that is not refused yet; False when that must be done again.

    What was laid in for the first members of a proposal cannot be taken out when a later one is refused.
    """
    rulings = Rulings(facts.snapshot, policy)
    laid_in: set[int] = set()
    for index, move in enumerate(moves):
        if index in refusals:
            continue
        ruling = rulings.rule(Wanted(move.namespace, move.pod, move.uid, move.target, move.method))
        if ruling.method is not None:
            laid_in.add(move.proposal)
            continue
        refusals[index] = ruling.reason
        _spread(moves, refusals)
        if move.proposal in laid_in:
            return False
    return True


def _spread(moves: Sequence[Move], refusals: dict[int, str]) -> None:
    """Refuse what belongs to refused moves."""
    sizes = Counter(move.proposal for move in moves)
    culprits: dict[int, str] = {}
    for index in sorted(refusals):
        move = moves[index]
        culprits.setdefault(move.proposal, f"{move.namespace}/{move.pod}, which belongs to it, is refused")
    for index, move in enumerate(moves):
        if sizes[move.proposal] > 1 and move.proposal in culprits:
            refusals.setdefault(index, culprits[move.proposal])


class _Facts:
    """What the plan took for granted, looked up in the cluster as it is."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self._pods = {(pod.namespace, pod.name): index for index, pod in enumerate(snapshot.pods)}
        self._nodes = {node.name: index for index, node in enumerate(snapshot.nodes)}

    def stale(self, move: Move) -> str:
        """What has changed since the plan was made, so that the move makes no sense any more."""
        if busy := self.snapshot.spoken_for.get((move.namespace, move.pod)):
            return busy
        pod = self._pod(move)
        if pod is None:
            return "the pod is gone"
        if move.uid and pod.uid != move.uid:
            return "another pod has its name by now"
        if pod.node != move.source:
            return f"it is on {pod.node or 'no node'}, not on {move.source}"
        if move.method is Method.REMOVE:
            return "" if pod.finished else f"it has not ended ({pod.phase})"
        target = self._nodes.get(move.target)
        if target is None:
            return f"node {move.target} is gone"
        return node_objection(self.snapshot.nodes[target])

    def _pod(self, move: Move) -> Pod | None:
        index = self._pods.get((move.namespace, move.pod))
        return None if index is None else self.snapshot.pods[index]
