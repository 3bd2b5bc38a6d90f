"""Runs the demo: embedded cluster, workloads, churn, real controller and scenario, together in one event loop.

`run_demo` is all that the command calls. Everything that it starts ends with it, however it ends: the cluster is in
memory, the kubeconfig is in a folder of its own that goes with it, and no port stays open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from kubemini.cluster import EmbeddedCluster, HeartbeatSettings
from rescheduler.model.migration import PodMigration
from rescheduler.model.objects import Node
from rescheduler.model.plan import ClusterLoad
from rescheduler.model.policy import Thresholds
from rescheduler_demo.churn import Actions, Churn
from rescheduler_demo.command import Options
from rescheduler_demo.controller import (
    CONTROLLER_NAMESPACE,
    LogTap,
    Supervisor,
    describe_pause,
    make_configuration,
    run_until_first,
    try_port,
)
from rescheduler_demo.scenarios import SCENARIOS, Demo, Scenario
from rescheduler_demo.state import BudgetWatch, ClusterState
from rescheduler_demo.workloads import NAMESPACE, Pace, Size, agent, make_workloads

_SHOW_INTERVAL = 0.25  # seconds
_BETWEEN_ROUNDS = 15.0


@dataclass(frozen=True, slots=True)
class Status:
    """One moment of the demo."""

    scenario: str
    goal: str
    page: str
    """The page's address; empty until it is served."""
    kubeconfig: str
    elapsed: float
    now: ClusterLoad
    before: ClusterLoad | None
    """How nodes were used when the controller started; None until then."""
    thresholds: Thresholds
    node_states: Mapping[str, str]
    """What is unusual about nodes, by their name."""
    pods: int
    pending: int
    """Pods without a node."""
    active: tuple[PodMigration, ...]
    """Those in progress first."""
    recent: tuple[PodMigration, ...]
    """Those that ended last, the newest first."""
    completed: int
    failed: int
    next_plan: float | None
    """Seconds until the next plan; None before the first one."""
    paused: str
    """The description of a pause of rescheduling; empty if there is none."""
    next_step: str
    next_step_in: float | None
    """Seconds; None where a state is waited for."""
    budgets_checked: int
    """How often one of our moves took a pod that has a disruption budget."""
    budgets_broken: int
    """How often the budget needed that pod."""
    reached: bool


@dataclass(frozen=True, slots=True)
class Result:
    """How the demo ended."""

    status: Status
    seconds: float
    """Until the goal was reached, or all in all."""
    missing: str = ""
    """What was waited for at last."""
    broken: tuple[str, ...] = ()
    """Violated disruption budgets."""
    interrupted: bool = False

    @property
    def reached(self) -> bool:
        """Whether the goal was reached without a violated budget."""
        return self.status.reached and not self.broken


class View(Protocol):
    """Shows the demo."""

    def show(self, status: Status) -> None:
        """Show the current moment; called several times a second."""

    def report(self, elapsed: float, line: str) -> None:
        """Show that something has happened."""


async def run_demo(
    options: Options,
    view: View,
    stop: asyncio.Event,
    browse: Callable[[str], None],
    sinks: Sequence[Callable[[str], None]],
) -> Result:
    """Run until stopped, or with --once until the goal is reached or the time is over.

    `browse` opens the page; `sinks` receive log lines. Raises PortTakenError if the page's port is taken.
    """
    try_port(options.port)
    pace, scenario = Pace(options.speed), SCENARIOS[options.scenario]()
    config = make_configuration(options.size, pace, scenario.config())
    started = time.monotonic()

    def report(line: str) -> None:
        view.report(time.monotonic() - started, line)

    def log(level: int, line: str) -> None:
        for write in sinks:
            write(line)
        if level >= logging.ERROR:  # it must not go unnoticed
            report(line.partition("\n")[0])

    heartbeat = HeartbeatSettings(pace.seconds(3.0, 1.0), pace.seconds(12.0, 5.0), pace.seconds(15.0, 3.0))
    async with EmbeddedCluster(heartbeat=heartbeat) as cluster:
        with ExitStack() as stack:
            kubeconfig = str(stack.enter_context(cluster.kubeconfig_file()))
            store = cluster.api.store
            state = ClusterState(store, config.policy())
            budgets = BudgetWatch(store, state)
            log_tap = LogTap(config.fields.rescheduling_interval, log)
            stack.enter_context(log_tap.installed())
            actions = Actions(cluster.api)
            churn = Churn(store, actions, pace, report, scenario.spared)

            def opened(page: str) -> None:
                demo.page = page
                browse(page)

            supervisor = Supervisor(kubeconfig, config, options.port, opened)
            demo = Demo(cluster, state, actions, churn, supervisor, pace, report)
            runner = _Runner(options, scenario, demo, log_tap, budgets, view, kubeconfig, started)
            return await runner.run(stop)


@dataclass
class _Runner:
    """One run of the demo."""

    options: Options
    scenario: Scenario
    demo: Demo
    log_tap: LogTap
    budgets: BudgetWatch
    view: View
    kubeconfig: str
    started: float
    reached_after: float | None = None
    """Seconds until the goal was reached first."""

    async def run(self, stop: asyncio.Event) -> Result:
        """Run to the end; a part that fails ends it with its error."""
        limit = self.options.limit if self.options.once else None
        await run_until_first(self._show(), self._work(), stop.wait(), limit=limit)
        status = self._status()
        self.view.show(status)
        seconds, broken = self.reached_after or status.elapsed, tuple(self.budgets.broken)
        return Result(status, seconds, self.demo.next_step, broken, stop.is_set())

    def _status(self) -> Status:
        demo, state, scenario = self.demo, self.demo.state, self.scenario
        pods = [pod for pod in state.pods() if not pod.finished]
        return Status(
            scenario=scenario.name,
            goal=scenario.goal,
            page=demo.page,
            kubeconfig=self.kubeconfig,
            elapsed=time.monotonic() - self.started,
            now=state.picture(),
            before=state.before,
            thresholds=state.policy.node_thresholds,
            node_states={node.name: unusual for node in state.nodes() if (unusual := _describe(node))},
            pods=len(pods),
            pending=sum(not pod.node for pod in pods),
            active=tuple(state.active_migrations()),
            recent=tuple(state.recent),
            completed=len(state.completed),
            failed=len(state.failed),
            next_plan=self.log_tap.next_plan,
            paused=describe_pause(demo.cluster.api),
            next_step=demo.next_step if state.before is not None else "the controller starts",
            next_step_in=demo.next_step_in,
            budgets_checked=self.budgets.checked,
            budgets_broken=len(self.budgets.broken),
            reached=self.reached_after is not None,
        )

    async def _show(self) -> None:
        while True:
            started = time.monotonic()
            self.view.show(self._status())
            # In a large cluster this takes a while: the other tasks need most of the time.
            await asyncio.sleep(max(_SHOW_INTERVAL, 4 * (time.monotonic() - started)))

    async def _work(self) -> None:
        """Fill the cluster, then run controller, churn and scenario; returns when there is nothing more to show."""
        demo = self.demo
        await self._fill()
        demo.state.before = demo.state.picture()
        await run_until_first(demo.supervisor.run(), demo.churn.run(), self._run_scenario())

    async def _fill(self) -> None:
        """Add nodes and workloads; returns when every pod runs, or has found no room."""
        demo, pace, scenario = self.demo, self.demo.pace, self.scenario
        size = Size(self.options.nodes, self.options.size)
        layout = scenario.layout(size)
        for namespace in (NAMESPACE, CONTROLLER_NAMESPACE):
            await demo.actions.create_namespace(namespace)
        await demo.cluster.add_nodes(layout.first)
        await demo.actions.create(make_workloads(Size(layout.first, size.pods), layout.percent, pace))
        await demo.actions.create(scenario.workloads(size, pace))
        await self._settle(size.pods)
        if layout.late:
            demo.report(f"{size.pods} pods run on {layout.first} of the nodes; {layout.late} more nodes join")
            await demo.cluster.add_nodes(layout.late)
        await demo.actions.create([agent(pace)])
        await self._settle(size.pods + layout.first + layout.late)
        nodes, pods = len(demo.state.nodes()), len(demo.state.pods())
        demo.report(f"ready: {nodes} nodes, {pods} pods; the controller starts")

    async def _settle(self, pods: int) -> None:
        def settled() -> bool:
            found = self.demo.state.pods()
            placed = [pod for pod in found if pod.node and not pod.finished]
            return self.demo.cluster.idle and len(found) >= pods and all(pod.ready for pod in placed)

        await self.demo.wait_until("all pods run", settled)

    async def _run_scenario(self) -> None:
        demo, scenario = self.demo, self.scenario
        while True:
            await scenario.run(demo)
            if self.reached_after is None:
                self.reached_after = time.monotonic() - self.started
                demo.report(f"goal reached: {scenario.goal}")
            if self.options.once:
                return
            if not scenario.repeats:
                await demo.wait_until("goal reached; Ctrl-C ends the demo", lambda: False)
            await demo.pause("the scenario starts again", _BETWEEN_ROUNDS)


def _describe(node: Node) -> str:
    """What is unusual about a node."""
    if not node.ready:
        return "not ready"
    if node.maintenance:
        return "maintenance"
    return "cordoned" if node.unschedulable else ""
