"""The stage: embedded cluster, workload, bustle, real controller and scenario, together in one event loop.

`perform` is all that the command calls. Everything that it starts ends with it, however it ends: the cluster is in
memory, the kubeconfig is in a folder of its own that goes with it, and no port stays open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from kubemini.cluster import EmbeddedCluster, Pulse
from rescheduler.app.connecting import Live
from rescheduler.model.objects import Node
from rescheduler.runtime.controller import beside
from rescheduler_demo.bustle import Bustle
from rescheduler_demo.filling import fill
from rescheduler_demo.hands import Hands
from rescheduler_demo.hearing import Hearing
from rescheduler_demo.invariants import Watch
from rescheduler_demo.keeper import Keeper
from rescheduler_demo.pace import Pace
from rescheduler_demo.scenario import Director, Scenario
from rescheduler_demo.scene import Audience, Coming, Moves, Result, Scene
from rescheduler_demo.scenery import Scenery
from rescheduler_demo.settings import Wishes, check_port, configured
from rescheduler_demo.surroundings import kubeconfig_of, listening, paused_in
from rescheduler_demo.workload import Size

_SHOWN_EVERY = 0.25  # seconds
_BETWEEN_ROUNDS = 15.0


@dataclass(frozen=True, slots=True)
class Performance:
    """What is to be performed."""

    scenario: Scenario
    size: Size
    pace: Pace
    once: bool = False
    """End when the goal is reached."""
    timeout: float | None = None
    """With `once`: how many seconds to wait for the goal at most."""
    port: int = 0
    """Where the page is served; 0 is a free port."""


async def perform(performance: Performance, audience: Audience, stop: asyncio.Event) -> Result:
    """Perform until stopped, or with `once` until the goal is reached or the time is over.

    PortTakenError says that the page can't be served where it should be.
    """
    await check_port(performance.port)
    pace = performance.pace
    pulse = Pulse(pace.seconds(3.0, 1.0), pace.seconds(12.0, 5.0), pace.seconds(15.0, 3.0))
    config = await configured(Wishes(performance.scenario, performance.size, pace))
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(EmbeddedCluster(pulse=pulse))
        kubeconfig = stack.enter_context(kubeconfig_of(cluster))
        audience.connected(str(kubeconfig))
        scenery = Scenery(cluster.api.store, config.policy().thresholds)
        stack.callback(scenery.close)
        watch = Watch(cluster.api.store, scenery)
        stack.callback(watch.close)

        def tell(line: str) -> None:
            audience.tell(time.monotonic() - started, line)

        def heard(level: int, line: str) -> None:
            audience.log(level, line)
            if level >= logging.ERROR:  # nobody should have to look for it
                tell(line.partition("\n")[0])

        hearing = stack.enter_context(listening(Hearing(config.fields.rescheduling_interval, heard)))
        hands = Hands(cluster.api)
        bustle = Bustle(cluster.api.store, hands, pace, tell, performance.scenario.spared)
        keeper = Keeper(Live(str(kubeconfig)), config, performance.port, audience.opened)
        director = Director(cluster, scenery, hands, bustle, keeper, pace, tell)
        stage = _Stage(performance, director, hearing, watch, audience, started)
        await stage.run(stop)
        return stage.result(interrupted=stop.is_set())


@dataclass
class _Stage:
    """One performance."""

    performance: Performance
    director: Director
    hearing: Hearing
    watch: Watch
    audience: Audience
    started: float
    act: str = "nodes and pods come"
    reached: float | None = None
    """After how many seconds the goal was reached first."""

    async def run(self, stop: asyncio.Event) -> None:
        """Perform; a part that fails ends it with its error."""
        limit = self.performance.timeout if self.performance.once else None
        async with (
            beside(self._show()) as showing,
            beside(self._perform()) as performing,
            beside(_until(stop)) as stopping,
        ):
            parts = (showing, performing, stopping)
            await asyncio.wait(parts, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                if part.done():
                    part.result()
        self.audience.show(self.scene())

    def result(self, *, interrupted: bool) -> Result:
        """How it has ended."""
        scenario, broken = self.performance.scenario, tuple(self.watch.broken)
        reached = self.reached is not None and not broken
        if broken:
            why = f"{len(broken)} times a disruption budget was broken: {broken[0]}"
        else:
            waited = self.director.coming.what or self.act
            why = "" if reached else f"it ended at: {waited}"
        seconds = time.monotonic() - self.started if self.reached is None else self.reached
        return Result(scenario.name, scenario.goal, reached, why, seconds, self.scene(), broken, interrupted)

    def scene(self) -> Scene:
        """This moment."""
        scenery, director = self.director.scenery, self.director
        pods = [pod for pod in scenery.pods() if not pod.finished]
        return Scene(
            elapsed=time.monotonic() - self.started,
            act=self.act,
            now=scenery.picture(),
            before=scenery.before,
            thresholds=scenery.thresholds,
            states={node.name: said for node in scenery.nodes() if (said := _state(node))},
            pods=len(pods),
            pending=sum(not pod.node for pod in pods),
            moves=Moves(
                tuple(scenery.active()), tuple(reversed(scenery.lately)), len(scenery.completed), len(scenery.failed)
            ),
            next_plan=self.hearing.next_plan,
            paused=paused_in(director.cluster.api),
            coming=director.coming if scenery.before is not None else Coming("the controller starts"),
            checked=self.watch.checked,
            broken=len(self.watch.broken),
            reached=self.reached is not None,
        )

    async def _show(self) -> None:
        while True:
            began = time.monotonic()
            self.audience.show(self.scene())
            # In a large cluster a look takes a while: the others shall have most of the time.
            await asyncio.sleep(max(_SHOWN_EVERY, 4 * (time.monotonic() - began)))

    async def _perform(self) -> None:
        """Fill the cluster, then let everybody work; returns when the goal is reached and nothing more is to be."""
        director = self.director
        await fill(director, self.performance.scenario, self.performance.size)
        director.scenery.before = director.scenery.picture()
        self.act = "the controller works"
        async with beside(director.keeper.run()) as keeping, beside(director.bustle.run()) as bustling:
            playing = asyncio.ensure_future(self._play())
            try:
                await asyncio.wait([playing, keeping, bustling], return_when=asyncio.FIRST_COMPLETED)
                for part in (keeping, bustling, playing):
                    if part.done():
                        part.result()
            finally:
                playing.cancel()
                await asyncio.wait([playing])

    async def _play(self) -> None:
        scenario, director = self.performance.scenario, self.director
        while True:
            await scenario.play(director)
            if self.reached is None:
                self.reached = time.monotonic() - self.started
                director.tell(f"the goal is reached: {scenario.goal}")
            if self.performance.once:
                return
            if not scenario.again:
                director.bustle.resume()
                await director.until("nothing special any more; Ctrl-C ends it", lambda: False)
            await director.pause("it begins anew", _BETWEEN_ROUNDS)


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


def _state(node: Node) -> str:
    """What is not usual about a node."""
    if not node.ready:
        return "not ready"
    if node.maintenance:
        return "maintenance"
    return "cordoned" if node.unschedulable else ""
