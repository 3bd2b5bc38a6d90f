"""Asks both sides where each candidate could be: our feasibility, and the scheduler, by having the pod bound.

Ours reads the staged cluster as `rescheduler plan` does, so decoding is on trial as well. The scheduler is asked the
way the product places pods: gate, nominate, ungate, one case at a time, and each pod is gone before the
next comes. What is asked of ours are the scheduler's own predicates, not the rules that we have besides.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rescheduler.app import planning as app
from rescheduler.model.json import Json
from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.predicates import discover
from rescheduler.planning.whatif import WhatIf
from tests.contract.agreement.doorkeeper import Doorkeeper
from tests.contract.agreement.stage import GATE, path_of
from tests.contract.agreement.world import HOLD, NODE, World, name_of, namespace_of
from tests.testbed.cluster import ControlPlane
from tests.testbed.processes import until

OURS_ALONE = frozenset(each.name for each in discover() if not each.of_scheduler)
"""Rules that the scheduler doesn't have. A cordoned node has a taint besides, which it does look at."""

LOOKS = 3  # a disagreement counts when it is there each time: informers may lag behind what we see


@dataclass(frozen=True)
class Answer:
    """Whether a pod could be on a node, and what was said about it."""

    yes: bool
    said: str


@dataclass(frozen=True)
class Case:
    """One candidate on one node: `refusals` has our predicates that refuse, with their reasons."""

    pod: Json
    node: str
    refusals: dict[str, str]
    theirs: Answer
    looks: int = 1

    @property
    def ours(self) -> bool:
        return not self.refusals

    @property
    def agreed(self) -> bool:
        return self.ours == self.theirs.yes

    def to_json(self, world: World, version: str) -> Json:
        """All that a replay needs, and what was said."""
        alone = World(world.name, world.objects, [self.pod])
        ours = {"yes": self.ours, "refusals": self.refusals}
        return {
            "kubernetes": version,
            "pod": f"{namespace_of(self.pod)}/{name_of(self.pod)}",
            "node": self.node,
            "ours": ours,
            "theirs": asdict(self.theirs),
            "world": alone.to_json(),
        }


class Predictor:
    """Our answers about a staged world."""

    def __init__(self, kubeconfig: str) -> None:
        self._columns = Columns(app.read(app.LiveCluster(kubeconfig), None, lambda _: None))
        self._feasibility = Feasibility(WhatIf(self._columns))

    def refusals(self, pod: Json, node: str) -> dict[str, str]:
        """The scheduler's predicates that we say refuse the pod there, with reasons."""
        index = self._columns.pod_index[(namespace_of(pod), name_of(pod))]
        at = self._columns.node_index[node]
        names = self._feasibility.refused_by(index, at) - OURS_ALONE
        found = [each for each in self._feasibility.predicates if each.name in names]
        return {each.name: each.reason(index, at) for each in found}


class Trial:
    """The scheduler's answers, beside ours."""

    def __init__(self, control_plane: ControlPlane, keeper: Doorkeeper) -> None:
        self._cluster = control_plane
        self._api = control_plane.api
        self._keeper = keeper
        self._asked = 0

    def cases(self, world: World, nodes: list[str] | None = None) -> Iterator[Case]:
        """Every candidate of a staged world on every node, or on these."""
        predictor = Predictor(str(self._cluster.kubeconfig))
        for pod in world.candidates:
            for node in nodes or world.nodes:
                yield self._case(predictor, pod, node)

    def _case(self, predictor: Predictor, pod: Json, node: str) -> Case:
        refusals = predictor.refusals(pod, node)
        case = Case(pod, node, refusals, self._ask(pod, node))
        for looks in range(2, LOOKS + 1):
            if case.agreed:
                break
            refusals = Predictor(str(self._cluster.kubeconfig)).refusals(pod, node)
            case = Case(pod, node, refusals, self._ask(pod, node), looks)
        return case

    def _ask(self, candidate: Json, node: str) -> Answer:
        """Gate, nominate, ungate; bound or refused?"""
        pod = copy.deepcopy(candidate)
        self._asked += 1
        pod["metadata"]["name"] += f"-at-{self._asked}"
        pod["metadata"]["annotations"][NODE] = node
        pod["spec"]["schedulingGates"] = [GATE]
        where = f"{path_of(pod)}/{name_of(pod)}"
        self._api.post(path_of(pod), pod)
        self._api.patch(f"{where}/status", {"status": {"nominatedNodeName": node}})
        self._api.patch(where, {"spec": {"schedulingGates": None}})
        try:
            return until(f"{where} is bound or refused", lambda: self._answer(pod, where), every=0.002)
        finally:
            self._api.delete(where, {"gracePeriodSeconds": 0})

    def _answer(self, pod: Json, where: str) -> Answer | None:
        found = self._api.get(where)
        if bound := found["spec"].get("nodeName"):
            wanted = pod["metadata"]["annotations"][NODE]
            if bound != wanted:
                raise AssertionError(f"{where} was to go to {wanted} or nowhere, and is on {bound}")
            return Answer(yes=True, said=f"bound to {bound}")
        for condition in found["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition.get("reason") not in (None, "SchedulingGated"):
                if condition["reason"] != "Unschedulable":
                    return None  # the scheduler had an error, and tries again
                held = HOLD in pod["metadata"]["annotations"] and self._keeper.held(pod)
                return Answer(yes=held, said=condition.get("message", ""))
        return None
