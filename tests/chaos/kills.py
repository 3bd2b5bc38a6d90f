"""Kills: lives of the controller that each end at one point of one move, and a last one that must put all in order.

A round moves one pod of several workloads. For each, a controller is started that dies at a named point of that move,
while it also goes on with what its predecessors left; some of those moves then have their time up, and the next one
dies while it rolls back. After the last life nothing may be lost or left, and no workload may have been short of pods.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from rescheduler.model.json import Json
from tests.chaos.cases import CASES, Case, Stage
from tests.chaos.lives import Life, Setting, forget_lease, holder
from tests.support.auditor import Auditor
from tests.support.killing import FIRST, IN_REQUEST, LEAVING, POINTS, STORED, STORING, Point
from tests.support.pod_migrations import replace
from tests.support.ready_watch import ReadyWatch
from tests.testbed.processes import StateNotReached, until

ROLL_BACK = "RollBack"
DELETED = "deleted"
"""Somebody deletes the PodMigration while nobody lives: what it left is to be found without it."""
WAITING = frozenset({"Land", "AwaitReady", "AwaitGone", "AwaitRebuilt", "AwaitRebuiltReady"})
"""Steps without commands; they may be over before they are recorded."""
CLOSING = frozenset({"Restore", "MarkRebuilt", "Unprotect", "Finish", "Completed"})
"""The move is made: there is nothing to roll back any more."""
TWICE = frozenset({"Mark", "EvictOriginal", "Restore", "Finish"})
"""Steps with two commands or more, in every case or in some."""
ONCE = (STORING, STORED, *IN_REQUEST[0], FIRST, LEAVING)
LONGEST = 180.0
"""Seconds until a life must have come to its point, or the last one have put all in order. An eviction whose request
is broken off may have been counted and not done: for two minutes its budget then allows no other."""
AFTER = 15.0  # how long a life may go on when its move is over, before it is taken to have missed its point
TRIES = 5  # lives for one point, where the machine is too busy for them to keep their lease
SIGKILLED = -9
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Kill:
    """One point of one move, and what happens to it then."""

    case: str
    step: str
    point: str
    then: str = ""
    """A point of rolling back, for which the time is up before the next life; or DELETED."""

    @property
    def lives(self) -> list[Point]:
        """Where lives end in it."""
        method = CASES[self.case].method.value
        points = [Point(method, self.step, self.point)]
        return points if self.then in ("", DELETED) else [*points, Point(method, ROLL_BACK, self.then)]


@dataclass
class Death:
    """How a life went that was to end at a point."""

    case: str
    at: Point
    reached: bool
    migration: str
    phase: str = ""
    message: str = ""


@dataclass
class Round:
    """What came of one round; broken are the invariants that did not hold."""

    deaths: list[Death] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    events: int = 0


def every_kill(cases: Iterable[str] = tuple(CASES)) -> Iterator[Kill]:
    """Each point of each step that is recorded in each case."""
    for case in cases:
        yield Kill(case, "InProgress", STORED)
        for step in CASES[case].steps:
            yield from (Kill(case, step, point) for point in _points(step))
        yield from (Kill(case, "Completed", point) for point in (STORING, STORED))


def _points(step: str) -> tuple[str, ...]:
    if step in WAITING:
        return (STORING, STORED, LEAVING)
    return POINTS if step in TWICE else ONCE


def chosen_kills(count: int, seed: int) -> list[Kill]:
    """So many lives to end: first one point of every step, then another of each, and so on.

    Half of those that still can be are rolled back, and some are deleted.
    """
    dice = random.Random(seed)
    steps: dict[tuple[str, str], list[Kill]] = {}
    for kill in every_kill():
        steps.setdefault((kill.case, kill.step), []).append(kill)
    for kills in steps.values():
        dice.shuffle(kills)
    chosen: list[Kill] = []
    lives = 0
    while lives < count:
        order = list(steps)
        dice.shuffle(order)
        for key in order:
            kill = steps[key].pop(0)
            steps[key].append(kill)
            kill = replace(kill, then=_fate(kill, dice))
            chosen.append(kill)
            lives += len(kill.lives)
            if lives >= count:
                break
    return chosen


def _fate(kill: Kill, dice: random.Random) -> str:
    drawn = dice.random()
    if drawn < 0.5 and kill.step not in CLOSING:
        return dice.choice(POINTS)
    return DELETED if drawn > 0.85 and kill.step != "Completed" else ""


def rounds_of(kills: Iterable[Kill]) -> list[list[Kill]]:
    """Dealt into rounds of which each has a case at most once."""
    rounds: list[list[Kill]] = []
    for kill in kills:
        free = (each for each in rounds if kill.case not in {other.case for other in each})
        found = next(free, None)
        if found is None:
            rounds.append([kill])
        else:
            found.append(kill)
    return rounds


def run_round(stage: Stage, setting: Setting, kills: Iterable[Kill], tell: Tell) -> Round:
    """One round; the stage is as it was afterwards, or the round is broken."""
    done, api = Round(), stage.space.api
    auditor = Auditor(api, [stage.space.name])
    with ReadyWatch(api, stage.floors()) as watch:
        for number, kill in enumerate(kills):
            for death in _deaths(stage, setting, number, kill):
                done.deaths.append(death)
                done.broken += [death.message] if death.message else []
                tell(f"{death.migration}: {death.at}: {'killed' if death.reached else 'not reached'}")
        done.broken += _last_life(stage, setting, auditor, watch)
        done.broken += auditor.problems(watch.ancestors) if not done.broken else []
    done.broken += watch.breaches
    done.events = watch.events
    _note_ends(stage, done)
    return done


def _last_life(stage: Stage, setting: Setting, auditor: Auditor, watch: ReadyWatch) -> list[str]:
    """Puts all in order and goes when it is told to; what is wrong in spite of that."""
    predecessor = holder(stage.space.api)
    with Life(setting) as life:
        life.leads(stage.space.api, predecessor)
        broken = auditor.settles(watch.ancestors, seconds=LONGEST)
        if life.lost_its_lead:
            return _last_life(stage, setting, auditor, watch)
        if life.ended is not None:
            return [*broken, f"the last controller ended by itself, with code {life.ended}"]
        code = life.leave()
        if code != 0 and not life.lost_its_lead:
            broken.append(f"the last controller was told to go, and ended with code {code}")
        return broken


def _deaths(stage: Stage, setting: Setting, number: int, kill: Kill) -> Iterator[Death]:
    """A move, and the lives that end in it."""
    case = CASES[kill.case]
    move = (case, stage.order(case, number))
    for at in kill.lives:
        if at.step == ROLL_BACK:
            stage.time_is_up(move[1])
        tries = (_life(stage, setting, move, at) for _ in range(TRIES))
        death = next((each for each in tries if each is not None), None)
        if death is None:
            raise StateNotReached(f"{TRIES} controllers in a row lost their lead: the machine is too busy")
        yield death
        if not death.reached:
            return
    if kill.then == DELETED:
        stage.forget(move[1])


def _life(stage: Stage, setting: Setting, move: tuple[Case, str], at: Point) -> Death | None:
    """A life that is to end there; it is ended by us when it has missed it. None if it lost its lead before."""
    case, name = move
    over_since: list[float] = []
    if setting.forgets_leases:
        forget_lease(stage.space.api)

    with Life(setting, at, f"{stage.space.name}/{name}") as life:

        def is_decided() -> bool:
            if life.ended is not None:
                return True
            if not over_since and _is_over(stage.migrations()[name]):
                over_since.append(time.monotonic())
            return bool(over_since) and time.monotonic() - over_since[0] > AFTER

        try:
            until("it has died, or its move is over", is_decided, seconds=LONGEST, every=0.1)
        except StateNotReached:
            found = stage.migrations()[name].get("status")
            return Death(case.name, at, reached=False, migration=name, message=f"{name} got stuck: {found}")
        code = life.ended
        if life.lost_its_lead:
            return None
    death = Death(case.name, at, code == SIGKILLED, name)
    if code not in (SIGKILLED, None):
        death.message = f"the controller that was to die at {at} ended by itself, with code {code}"
    return death


def _note_ends(stage: Stage, done: Round) -> None:
    found = stage.migrations()
    for death in done.deaths:
        status = found.get(death.migration, {}).get("status") or {"phase": DELETED}
        death.phase, death.message = status.get("phase", ""), status.get("message", "")


def _is_over(migration: Json) -> bool:
    return (migration.get("status") or {}).get("phase") in ("Completed", "Failed")
