"""Faults: moves go on for minutes while the connection to the API server breaks; then it heals, and all must end well.

A supervisor starts the controller again when it ends, as a kubelet would: a leader that cannot renew its lease ends by
itself, and rightly so. New moves are ordered all the time, past the proxy, so that some are in every step.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from rescheduler.model.json import Json
from tests.chaos.cases import Stage
from tests.chaos.kills import LONGEST
from tests.chaos.lives import Life, Setting
from tests.support.auditor import Auditor
from tests.support.fault_proxy import FaultProxy
from tests.support.ready_watch import ReadyWatch

IN_FLIGHT = 8  # moves at a time
OF_ONE = 2  # … and of one workload, as long as it has so many pods
LOOK_EVERY = 0.3
LEAST = 25  # faults: where the machine is slow, the weather lasts until there were so many
Tell = Callable[[str], None]


@dataclass
class Weather:
    """What came of it."""

    seconds: float = 0.0
    lives: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    events: int = 0
    broken: list[str] = field(default_factory=list)

    def table(self) -> str:
        """For people."""
        lines = [
            f"{self.seconds:.0f} s of faults, {self.lives} lives of the controller, {self.events} changes watched",
            f"{sum(self.faults.values())} faults in {self.requests} requests: {_list(self.faults)}",
            f"moves: {_list(self.ends)}",
            *(f"  failed ×{count}: {reason}" for reason, count in self.reasons.most_common(10)),
            f"broken invariants: {len(self.broken)}",
            *self.broken,
        ]
        return "\n".join(lines)


def run_faults(stage: Stage, setting: Setting, proxy: FaultProxy, seconds: float, tell: Tell) -> Weather:
    """Faults for so many seconds with moves going on, then none until all is in order."""
    done, started = Weather(seconds=seconds), time.monotonic()
    auditor = Auditor(stage.space.api, [stage.space.name])
    with ReadyWatch(stage.space.api, stage.floors()) as watch, ExitStack() as lives:
        supervisor = _Supervisor(setting, lives)
        orders = _Orders(stage, random.Random(proxy.port))
        proxy.faulty = True
        while _is_to_go_on(time.monotonic() - started, seconds, proxy):
            supervisor.look()
            orders.look()
            time.sleep(LOOK_EVERY)  # the pace of orders, not a wait for a state
        proxy.faulty = False
        tell(f"{len(stage.ordered)} moves ordered, {sum(proxy.faults.values())} faults; the weather clears")
        deadline = time.monotonic() + LONGEST
        while (broken := auditor.settles(watch.ancestors, seconds=5.0)) and time.monotonic() < deadline:
            supervisor.look()
        done.broken += broken
        if (code := supervisor.end()) != 0:
            done.broken.append(f"the last controller was told to go, and ended with code {code}")
    done.broken += watch.breaches
    done.lives, done.events, done.requests, done.faults = supervisor.lives, watch.events, proxy.requests, proxy.faults
    for each in stage.migrations().values():
        status = each.get("status") or {}
        done.ends[f"{status.get('method', 'none')} {status.get('phase', 'new')}"] += 1
        if status.get("phase") == "Failed":
            done.reasons[f"{status.get('method')}: {status.get('message')}"] += 1
    return done


def _is_to_go_on(passed: float, seconds: float, proxy: FaultProxy) -> bool:
    return passed < seconds or (passed < 10 * seconds and sum(list(proxy.faults.values())) < LEAST)


class _Supervisor:
    """Keeps one controller alive."""

    def __init__(self, setting: Setting, stack: ExitStack) -> None:
        self.lives = 0
        self._setting = setting
        self._stack = stack
        self._life = self._begun()

    def look(self) -> None:
        """Start another one if it has ended."""
        if self._life.ended is not None:
            self._life = self._begun()

    def end(self) -> int | None:
        """Tell it to go; its exit code, or 0 if it went by itself before that, or lost its lead on a busy machine."""
        if self._life.ended is not None:
            return 0
        code = self._life.leave()
        return 0 if self._life.lost_its_lead else code

    def _begun(self) -> Life:
        self.lives += 1
        return self._stack.enter_context(Life(self._setting))


class _Orders:
    """Orders moves, of all workloads alike."""

    def __init__(self, stage: Stage, dice: random.Random) -> None:
        self._stage = stage
        self._dice = dice
        self._under_way: dict[str, str] = {}
        """Cases by the name of their migration."""

    def look(self) -> None:
        """Order as many as have ended."""
        found = self._stage.migrations()
        self._under_way = {
            name: case for name, case in self._under_way.items() if name in found and not _is_over(found[name])
        }
        moving = Counter(self._under_way.values())
        free = [case for case in self._stage.cases if moving[case.name] < min(OF_ONE, case.replicas)]
        self._dice.shuffle(free)
        for case in free[: IN_FLIGHT - len(self._under_way)]:
            if self._stage.pods(case):
                self._under_way[self._stage.order(case, self._dice.randrange(100))] = case.name


def _is_over(migration: Json) -> bool:
    return (migration.get("status") or {}).get("phase") in ("Completed", "Failed")


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items())) or "none"
