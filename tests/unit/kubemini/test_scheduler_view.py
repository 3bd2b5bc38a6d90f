"""A view that is brought up to date, change after change, says the same as one that is built anew."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kubemini.kinds import POD
from kubemini.scheduling.board import Board
from kubemini.scheduling.ledger import Ledger
from kubemini.scheduling.siblings import Siblings
from kubemini.scheduling.view import View
from kubemini.store import Key
from tests.unit.kubemini.scheduler_cases import (
    HOSTNAME,
    ZONE,
    Json,
    app,
    away,
    near,
    node,
    pod,
    preferred,
    service,
    spread,
    taint,
)
from tests.unit.kubemini.scheduler_cases import expression as needs
from tests.unit.kubemini.scheduler_stage import Stage

STEPS = 80


class Story:
    """Pods come, are bound, are relabelled, end and go, as chance has it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.stage = Stage()
        self.ledger = Ledger(self.stage.store, lambda: None)
        self.board = Board(self.ledger, self.stage.store)
        self.nodes = [f"n{number}" for number in range(6)]
        for number, name in enumerate(self.nodes):
            taints = [taint("k", "PreferNoSchedule")] if number == 3 else []
            self.stage.put(node(name, zone=f"z{number % 3}", cpu="4", taints=taints))
        self.stage.put(service("web"))
        self.close = self.ledger.open()
        self._made = 0

    def read(self) -> None:
        while self.ledger.behind:
            self.board.follow(self.ledger.take(self.rng.randint(1, 5)))

    def step(self) -> None:
        """One thing happens."""
        bodies = [entry.object() for entry in self.stage.store.entries(POD)]
        waiting = [body for body in bodies if not body["spec"].get("nodeName")]
        bound = [body for body in bodies if body["spec"].get("nodeName")]
        chance = self.rng.random()
        if chance < 0.4 or not bodies:
            self._come()
        elif chance < 0.6 and waiting:
            self._bind(self.rng.choice(waiting))
        elif chance < 0.7 and waiting:
            body = self.rng.choice(waiting)
            body["status"]["nominatedNodeName"] = self.rng.choice([*self.nodes, "", "nowhere"])
            self.stage.change(body)
        elif chance < 0.8 and bound:
            body = self.rng.choice(bound)
            body["metadata"]["labels"] = self.rng.choice([app("web"), app("db"), {}])
            self.stage.change(body)
        elif chance < 0.9 and bound:
            body = self.rng.choice(bound)
            if self.rng.random() < 0.5:
                body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            else:
                body["status"]["phase"] = "Succeeded"
            self.stage.change(body)
        else:
            body = self.rng.choice(bodies)
            entry = self.stage.store.get(POD, ("default", body["metadata"]["name"]))
            assert entry is not None
            self.stage.store.delete(POD, body, entry.version)

    def _come(self) -> None:
        self._made += 1
        kind = self.rng.choice(["web", "db", "other"])
        more: Json = self.rng.choice(
            [
                {},
                {"affinity": away("web")},
                {"affinity": near("web", ZONE)},
                {"affinity": away("db", ZONE, weight=30)},
                {"affinity": near("web", weight=self.rng.choice([5, 40]))},
                {"affinity": preferred((10, needs(HOSTNAME, "In", "n1")))},
                {"topologySpreadConstraints": [spread(kind, ZONE)]},
                {"topologySpreadConstraints": [spread(kind, HOSTNAME, whenUnsatisfiable="ScheduleAnyway")]},
                {"ports": [self.rng.choice([80, 81])]},
                {"asks": {"ephemeral-storage": "1Gi"}},
            ]
        )
        cpu = self.rng.choice(["100m", "700m", "1500m", ""])
        self.stage.put(pod(f"p{self._made}", cpu=cpu, labels=app(kind), priority=self.rng.choice([0, 0, 5]), **more))

    def _bind(self, body: Json) -> None:
        """By the scheduler, which assumes it at once, or by somebody else."""
        at = self.rng.choice(self.nodes)
        key = ("default", body["metadata"]["name"])
        if self.rng.random() < 0.5 and key in self.ledger.pods and key not in self.board.assumed:
            self.board.assume(key, at)
            if self.rng.random() < 0.3:
                return  # it waits for its volumes
        body["spec"]["nodeName"] = self.board.assumed.get(key, at)
        body["metadata"].setdefault("labels", {})[ZONE] = f"z{self.nodes.index(body['spec']['nodeName']) % 3}"
        self.stage.change(body)

    def waiting(self) -> Iterator[Key]:
        return (key for key, known in self.ledger.pods.items() if known.schedulable and key not in self.board.assumed)


@pytest.mark.parametrize("seed", range(6))
def test_following_changes_comes_to_the_same_as_building_anew(seed: int) -> None:
    story = Story(seed)
    story.stage.put(pod("first"))
    story.read()
    kept = story.board.view(("default", "first"))
    compared = 0
    for _ in range(STEPS):
        story.step()
        if story.rng.random() < 0.5:
            continue  # so that several changes are read together
        story.read()
        fresh = View(story.ledger, story.board.assumed, Siblings(story.stage.store))
        for key in story.waiting():
            assert story.board.view(key) is kept
            left = kept.feasible(key)
            assert left.tolist() == fresh.feasible(key).tolist(), key
            if left.any():
                assert (kept.total(key, left) == fresh.total(key, left))[left].all(), key
                best = kept.scores.best(kept.total(key, left), left)
                assert best == fresh.scores.best(fresh.total(key, left), left)
            else:
                assert kept.refusal(key) == fresh.refusal(key)
            compared += 1
            for number in range(len(story.nodes)):
                assert kept.lets_in(key, number) == bool(left[number])
    story.close()
    assert compared > STEPS
    assert story.board.builds == 1


def test_a_resource_that_no_row_has_makes_the_board_be_built_anew() -> None:
    story = Story(1)
    story.stage.put(pod("first"))
    story.read()
    story.board.view(("default", "first"))
    story.stage.put(pod("second", asks={"example.com/gpu": "1"}))
    story.read()
    assert not story.board.view(("default", "second")).feasible(("default", "second")).any()
    assert story.board.builds == 2
    story.close()
