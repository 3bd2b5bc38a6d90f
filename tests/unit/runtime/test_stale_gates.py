"""A pod that nothing has let through after some seconds goes to the scheduler, whichever replica has died.

Time is virtual; the cluster is a table of pods whose writer applies what it is told, or refuses as a script says.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from kubemini.patches import apply_json_patch
from rescheduler.decode.cache import Changed, ClusterCache
from rescheduler.kube.errors import ApiError
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant, parse_instant
from rescheduler.runtime.stale_gates import PATIENCE, StaleGateController
from tests.support.builders import pod
from tests.support.virtual_time import clock, in_virtual_time
from tests.unit.runtime.migrations import NOW

KEY = ("shop", "web-c")
Answer = FailedCommand | Exception | None


@dataclass
class Stage:
    """A cluster of pods, its cache, and a log of what was done when."""

    bodies: dict[tuple[str, str], Json] = field(default_factory=dict)
    rows_: dict[tuple[str, str], Any] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    done: list[tuple[float, str]] = field(default_factory=list)
    reads: int = 0

    def __post_init__(self) -> None:
        self.told: list[Changed] = []
        self.gate_controller = StaleGateController(
            cast("ClusterCache", self),
            cast("MigrationObserver", self),
            cast("CommandSender", self),
            lambda: NOW + clock(),
        )

    def listen(self, listener: Changed) -> None:
        self.told.append(listener)

    def row(self, _kind: str, key: Any) -> Any:
        return self.rows_.get(key)

    def rows(self, _kind: str) -> list[Any]:
        return list(self.rows_.values())

    async def find(self, _kind: str, namespace: str, name: str) -> Json | None:
        self.reads += 1
        return copy.deepcopy(self.bodies.get((namespace, name)))

    async def carry_out(self, command: Command) -> FailedCommand | None:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        self.done.append((clock(), f"refused {answer.code}" if answer else command.name))
        if answer is None:
            assert isinstance(command.body, list)
            key = (command.namespace, command.name)
            self.bodies[key] = apply_json_patch(command.body, self.bodies[key])
            self.tells(key)
        return answer

    def appears(self, *gates: str, name: str = "web-c", uid: str = "", age: float = 0.0, noted: bool = True) -> None:
        """A pod is made, and the watch tells of it."""
        key = ("shop", name)
        metadata: Json = {"namespace": "shop", "name": name, "uid": uid or f"{name}-uid"}
        metadata["creationTimestamp"] = format_instant(NOW + clock() - age)
        metadata["annotations"] = {"theirs": "kept"} | ({labels.GATED: "m"} if noted else {})
        gates_ = [{"name": gate} for gate in gates]
        self.bodies[key] = {"kind": "Pod", "metadata": metadata, "spec": {"schedulingGates": gates_}}
        self.tells(key)

    def tells(self, key: tuple[str, str]) -> None:
        body = self.bodies.get(key)
        if body is None:
            self.rows_.pop(key, None)
        else:
            notes = {name: value for name, value in body["metadata"]["annotations"].items() if labels.is_relevant(name)}
            made = parse_instant(body["metadata"]["creationTimestamp"])
            row = pod(key[1], "", namespace=key[0], annotations=notes)
            self.rows_[key] = msgspec.structs.replace(row, created=made)
        for listener in self.told:
            listener("Pod", key, "9")

    def gates(self, key: tuple[str, str] = KEY) -> list[str]:
        return [gate["name"] for gate in self.bodies[key]["spec"]["schedulingGates"]]


def told(story: Callable[[Stage], Awaitable[None]], before: Callable[[Stage], None] = lambda stage: None) -> Stage:
    """Run the controller of stale gates beside a story."""
    stages: list[Stage] = []

    async def test() -> None:
        stage = Stage()
        stages.append(stage)
        before(stage)
        running = asyncio.ensure_future(stage.gate_controller.run())
        try:
            await asyncio.sleep(1)
            await story(stage)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait([running])

    in_virtual_time(test)()
    return stages[0]


def test_a_pod_that_nobody_lets_through_is_let_through_after_some_seconds() -> None:
    async def story(stage: Stage) -> None:
        stage.appears(labels.NOMINATE_GATE)
        await asyncio.sleep(PATIENCE - 1)
        assert (stage.reads, stage.gates()) == (0, [labels.NOMINATE_GATE])
        await asyncio.sleep(600)
        assert stage.done == [(1 + PATIENCE, "web-c")]
        assert stage.gates() == []
        assert stage.bodies[KEY]["metadata"]["annotations"] == {"theirs": "kept"}

    told(story)


def test_a_pod_that_was_there_before_the_replica_came_is_let_through_too() -> None:
    async def story(stage: Stage) -> None:
        assert stage.done == [(0.0, "web-c")]

    told(story, lambda stage: stage.appears(labels.NOMINATE_GATE, age=60.0))


def test_a_pod_that_the_leader_lets_through_is_left_alone() -> None:
    async def story(stage: Stage) -> None:
        stage.appears(labels.NOMINATE_GATE)
        await asyncio.sleep(2)
        stage.appears(age=2.0, noted=False)
        await asyncio.sleep(600)
        assert stage.done == []

    told(story)


def test_gates_of_others_stay() -> None:
    async def story(stage: Stage) -> None:
        stage.appears("theirs", labels.NOMINATE_GATE, labels.GATE)
        await asyncio.sleep(60)
        assert stage.gates() == ["theirs", labels.GATE]

    told(story)


def test_a_pod_of_the_same_name_gets_its_own_time() -> None:
    """As of a StatefulSet: the first was deleted behind its gate, and another made."""

    async def story(stage: Stage) -> None:
        stage.appears(labels.NOMINATE_GATE)
        await asyncio.sleep(5)
        stage.appears(labels.NOMINATE_GATE, uid="another")
        await asyncio.sleep(600)
        assert stage.done == [(6 + PATIENCE, "web-c")]

    told(story)


@pytest.mark.parametrize("code", [404, 409, 422])
def test_a_refused_patch_has_the_pod_looked_at_anew(code: int) -> None:
    async def story(stage: Stage) -> None:
        stage.answers = [FailedCommand(code, "", "changed")]
        stage.appears(labels.NOMINATE_GATE)
        await asyncio.sleep(60)
        assert stage.done == [(1 + PATIENCE, f"refused {code}"), (2 + PATIENCE, "web-c")]

    told(story)


def test_an_api_server_that_is_away_for_long_is_asked_until_it_is_back() -> None:
    async def story(stage: Stage) -> None:
        stage.answers = [ApiError(None, "Unreachable", "nobody is there", "/")] * 50
        stage.appears(labels.NOMINATE_GATE)
        await asyncio.sleep(600)
        assert [name for _, name in stage.done] == ["web-c"]

    told(story)


def test_a_pod_that_makes_no_sense_stops_no_other() -> None:
    async def story(stage: Stage) -> None:
        stage.appears(labels.NOMINATE_GATE, name="odd")
        del stage.bodies["shop", "odd"]["spec"]
        stage.appears(labels.NOMINATE_GATE)
        await asyncio.sleep(60)
        assert [name for _, name in stage.done] == ["web-c"]

    told(story)


def test_many_pods_are_each_let_through_once() -> None:
    async def story(stage: Stage) -> None:
        for number in range(200):
            stage.appears(labels.NOMINATE_GATE, name=f"web-{number}")
        await asyncio.sleep(600)
        assert sorted(name for _, name in stage.done) == sorted(f"web-{number}" for number in range(200))
        assert {moment for moment, _ in stage.done} == {1 + PATIENCE}

    told(story)
