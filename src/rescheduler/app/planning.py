"""Reads the cluster that a command is about, live or from files, and plans on it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, TypeVar

from msgspec import structs

from rescheduler.config.loader import load_defaults, load_file, override
from rescheduler.config.schema import Configuration, UsageSettings, UsageSource
from rescheduler.decode.dump import DumpReader, SnapshotRecorder
from rescheduler.decode.reader import SnapshotBuilder, without_gc
from rescheduler.decode.structs import RESOURCES, ApiResource
from rescheduler.model.migration import PodMigration
from rescheduler.model.objects import Pod
from rescheduler.model.plan import HeldBack, Plan
from rescheduler.model.policy import Policy, Utilization
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.planning.api import Strategy
from rescheduler.planning.cycle import plan_cycle
from rescheduler.planning.guards import count_held_back
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.outcomes import with_move_histories
from rescheduler.planning.planner import Planner
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import discover, name_mandatory, settings_by_name

if TYPE_CHECKING:
    from rescheduler.kube.client import ApiClient, ListPage
    from rescheduler.kube.connection import Connection
    from rescheduler.planning.explain import Explanation
    from rescheduler.usage.history import UsageHistory

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Into = TypeVar("Into", bound=SnapshotBuilder)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The cluster that a kubeconfig leads to."""

    kubeconfig: str | None = None
    context: str | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    request_timeout: float | None = None

    def connection(self) -> Connection:
        """Load address and credentials; a ClusterError says what is wrong with the kubeconfig."""
        # This imports the whole client, which commands that read files do not need.
        from rescheduler.kube.connection import Impersonation  # noqa: PLC0415 - as said above
        from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection  # noqa: PLC0415 - the same

        path = Path(self.kubeconfig) if self.kubeconfig else None
        options = KubeconfigOptions(path, self.context, Impersonation(self.user, self.groups))
        return load_connection(options, os.environ)

    def run(
        self,
        work: Callable[Concatenate[ApiClient, Parameters], Coroutine[Any, Any, Result]],
        *args: Parameters.args,
        **flags: Parameters.kwargs,
    ) -> Result:
        """Connect, do one piece of work to its end, and return its result."""
        import asyncio  # noqa: PLC0415 - a plan of files needs no event loop

        from rescheduler.kube.client import ApiClient  # noqa: PLC0415 - aiohttp takes long to import

        async def connected() -> Result:
            async with ApiClient(self.connection(), request_timeout=self.request_timeout) as client:
                return await work(client, *args, **flags)

        return asyncio.run(connected())


Progress = Callable[[int], None]
"""Called with the amount that was read: bytes of files, objects of a live cluster."""

STDIN = "-"
_DUMPED = sorted((r for r in RESOURCES if not r.optional), key=lambda resource: resource.kind != "Node")
KUBECTL_DUMP = f"kubectl get {','.join(resource.plural for resource in _DUMPED)} -A -o json > cluster.json"
"""Records everything that planning reads, except metrics: kubectl fails where they are not served."""

_LISTINGS = 3
_NO_FILE = "usage: a file has nothing of Prometheus; what it has of metrics.k8s.io counts"


class InputError(Exception):
    """The cluster's description cannot be used; the message names the cure."""


class _ListRestartedError(Exception):
    """A list expired and was restarted: what was read of it before does not belong to one state of the cluster."""


@dataclass(frozen=True, slots=True)
class DumpFiles:
    """A cluster that was dumped; `-` is standard input."""

    paths: tuple[str, ...]

    def size(self) -> int | None:
        """Return the number of bytes to read; None if it is unknown."""
        try:
            return sum(Path(path).stat().st_size for path in self.paths) if STDIN not in self.paths else None
        except OSError:
            return None


def load_configuration(file: str | None, overrides: Mapping[str, object]) -> Configuration:
    """Load the file's configuration, or the default one, with the values of flags."""
    known = settings_by_name()
    return override(load_file(file, known) if file is not None else load_defaults(known), overrides)


def make_strategies(policy: Policy) -> list[Strategy[StrategySettings]]:
    """Make the enabled strategies with their settings, in the order in which they run; each node pool has its own."""
    whole = (None if not policy.node_pools else "", policy.enabled_strategies, policy.strategy_settings)
    pools = [(pool.name, pool.enabled_strategies, pool.strategy_settings) for pool in policy.node_pools]
    return [
        strategy(strategy.settings_type.model_validate(settings.get(name, {})), pool)
        for name, strategy in discover().items()
        for pool, enabled, settings in (whole, *pools)
        if name in enabled
    ]


def read(source: DumpFiles | LiveCluster, now: float | None, progress: Progress) -> ClusterSnapshot:
    """Read the live cluster, or a dump; `now` replaces the time from which ages are counted."""
    with without_gc():
        collector, taken_at = _collect(source, _MigrationCollector, progress)
        snapshot = collector.snapshot(taken_at if now is None else now)
        snapshot = with_move_histories(snapshot, collector.migrations)
    if not snapshot.nodes:
        raise InputError(_explain_missing_nodes(source))
    return snapshot


def with_measured_usage(
    snapshot: ClusterSnapshot, utilization: Utilization, settings: UsageSettings, *, live: bool
) -> ClusterSnapshot:
    """Add the usage of now, for a plan that is made once. There is one sample of each, so nothing is smoothed."""
    if utilization is Utilization.REQUESTS:
        return snapshot
    from rescheduler.usage.history import SystemOverhead, UsageHistory  # noqa: PLC0415 - most plans go by requests

    history, by_prometheus = UsageHistory(settings), settings.source is UsageSource.PROMETHEUS
    times = [row.timestamp for row in snapshot.usage if row.timestamp is not None]
    at = snapshot.taken_at if snapshot.taken_at is not None else max(times, default=0.0)
    history.begin(at, SystemOverhead(snapshot.pods))
    if by_prometheus and live:
        import asyncio  # noqa: PLC0415 - a plan of files needs no event loop

        asyncio.run(_query_prometheus(history, settings, at))
    elif snapshot.usage:
        history.take(snapshot.usage)
        history.end((_NO_FILE,) if by_prometheus else ())
    else:
        history.failed("there is nothing of metrics.k8s.io: install metrics-server, or set usage.source: prometheus")
    return replace(snapshot, measured=history.measured(snapshot))


async def _query_prometheus(history: UsageHistory, settings: UsageSettings, at: float) -> None:
    from rescheduler.usage.prometheus import Prometheus  # noqa: PLC0415 - aiohttp takes long, and files need none of it
    from rescheduler.usage.samples import UsageError  # noqa: PLC0415 - the same

    try:
        history.end(await Prometheus(settings.prometheus, at).read(history.take))
    except UsageError as error:
        history.failed(str(error))


def record(source: DumpFiles | LiveCluster, out: BinaryIO, now: float | None, progress: Progress) -> SnapshotRecorder:
    """Write what planning reads of a cluster, and nothing else; `out` must be seekable, since lists may restart."""

    def make_collector() -> SnapshotRecorder:
        out.seek(0)
        out.truncate()
        return SnapshotRecorder(out)

    recorder, taken_at = _collect(source, make_collector, progress)
    recorder.close(taken_at if now is None else now)
    return recorder


def plan(snapshot: ClusterSnapshot, policy: Policy) -> Plan:
    """Make the plan of one cycle."""
    return make_plan(snapshot, policy)[1]


def find_held_back(snapshot: ClusterSnapshot, policy: Policy, pods: Iterable[Pod]) -> tuple[HeldBack, ...]:
    """Count by guard which of these pods are held back; it takes as long as a plan, so the controller does not."""
    return count_held_back(pods, GuardContext(policy, snapshot))


def make_plan(snapshot: ClusterSnapshot, policy: Policy) -> tuple[Planner, Plan]:
    """Make the plan of one cycle; the planner is returned, too, because it can explain many pods."""
    strategies = make_strategies(policy)
    planner, made = plan_cycle(snapshot, policy, strategies)
    reminders = (
        *_warn_of_closed_windows(snapshot, policy, made),
        *_warn_of_idle_strategies(planner, strategies),
        *_warn_of_unemptied_nodes(snapshot, policy),
    )
    return planner, structs.replace(made, warnings=(*made.warnings, *reminders))


def _warn_of_closed_windows(snapshot: ClusterSnapshot, policy: Policy, made: Plan) -> Iterator[str]:
    """Warn of moves that must wait for a time window."""
    schedule, now = policy.when.schedule, snapshot.taken_at
    waiting = sum(not is_mandatory(move.strategy) for move in made.moves)
    if waiting and now is not None and not schedule.open_at(now):
        opens = schedule.next_change(now)
        when = f"before {schedule.local(opens)} {schedule.time_zone}" if opens is not None else "any more"
        moves = "1 move of this plan is" if waiting == 1 else f"{waiting} moves of this plan are"
        yield f"no time window is open (when.windows): {moves} not carried out {when}"


def _warn_of_idle_strategies(planner: Planner, strategies: Sequence[Strategy[StrategySettings]]) -> Iterator[str]:
    """Warn of strategies that can do nothing in any pool, or that wait although there is something to do."""
    reasons: dict[str, list[str]] = {}
    for each in strategies:
        reasons.setdefault(each.name, []).append(each.idle_reason(planner.snapshot.taken_at))
    for name, found in reasons.items():
        if all(found):
            yield f"{name} moves nothing: {found[0]}"
    for each in strategies:
        if why := each.wait_reason(planner.view_of(each.pool)):
            where = "" if each.pool is None else f" in pool {each.pool}" if each.pool else " on nodes of no pool"
            yield f"{each.name} moves nothing{where}: {why}"


def _warn_of_unemptied_nodes(snapshot: ClusterSnapshot, policy: Policy) -> Iterator[str]:
    """Warn of nodes under maintenance that no strategy empties."""
    marked = [
        node.name
        for node in snapshot.nodes
        if node.maintenance and not any(map(is_mandatory, policy.strategies_for(node.labels)))
    ]
    if marked:
        more = f" and {len(marked) - 3} more" if len(marked) > 3 else ""
        names = ", ".join(marked[:3]) + more
        yield f"under maintenance, but {name_mandatory()} is not among enabledStrategies: {names}"


def explain_pod(snapshot: ClusterSnapshot, policy: Policy, pod: tuple[str, str]) -> tuple[Explanation, Plan]:
    """Explain why a pod (namespace, name) is moved or not; return the plan, too."""
    planner, made = make_plan(snapshot, policy)
    return explain_in_plan(planner, made, pod), made


def explain_in_plan(planner: Planner, made: Plan, pod: tuple[str, str]) -> Explanation:
    """Explain why a pod is moved or not in a plan, with the planner that made the plan."""
    from rescheduler.planning.explain import explain  # noqa: PLC0415 - plans are made without

    enabled = planner.policy.strategies_anywhere
    return explain(planner, made, pod, [name for name in discover() if name in enabled])


def _collect(
    source: DumpFiles | LiveCluster, make_collector: Callable[[], Into], progress: Progress
) -> tuple[Into, float | None]:
    if isinstance(source, LiveCluster):
        return source.run(_list, source.connection().source, make_collector, progress)
    collector = make_collector()
    reader = DumpReader(collector, progress)
    for path in source.paths:
        with open_input(path) as stream:
            reader.read(stream, "<stdin>" if path == STDIN else path)
    return collector, reader.taken_at


@contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`."""
    if path == STDIN:
        if sys.stdin is None:  # closed by the shell: `<&-`
            raise InputError("<stdin>: cannot be read: standard input is closed")
        yield sys.stdin.buffer
        return
    try:
        stream = Path(path).open("rb", buffering=0)  # noqa: SIM115 - closed below; only the opening is in the try
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    with stream:
        yield stream


async def _list(
    client: ApiClient, source: str, make_collector: Callable[[], Into], progress: Progress
) -> tuple[Into, float]:
    """List everything; start over when a list was restarted, so that all of it is one state."""
    # aiohttp takes longer to import than a small dump takes to plan: only commands that use a cluster pay for it.
    from rescheduler.kube.migrations import list_past_migrations  # noqa: PLC0415 - as said above
    from rescheduler.kube.objects import list_cluster  # noqa: PLC0415 - the same

    for _ in range(_LISTINGS):
        collector, started = make_collector(), time.time()
        try:
            absent = await list_cluster(client, _page_reader(collector, source, progress))
        except _ListRestartedError:
            continue
        for resource in RESOURCES:
            if resource.kind not in absent:
                collector.saw(resource.kind)
        if isinstance(collector, _MigrationCollector):
            collector.migrations = await list_past_migrations(client, collector.note)
        return collector, started
    raise InputError(f"{source}: lists expire before they are read; try again when the cluster is calmer")


class _MigrationCollector(SnapshotBuilder):
    """Collects the objects, and of a live cluster also earlier migrations."""

    migrations: Sequence[PodMigration] = ()


def _page_reader(
    collector: SnapshotBuilder, source: str, progress: Progress
) -> Callable[[ApiResource, ListPage], None]:
    """Return a function that adds each object of a page."""
    begun: set[str] = set()

    def take(resource: ApiResource, page: ListPage) -> None:
        if page.first and resource.kind in begun:
            raise _ListRestartedError(resource.kind)
        begun.add(resource.kind)
        objects = list(page.items())
        for each in objects:
            collector.add(resource.kind, each, source)
        progress(len(objects))

    return take


def _explain_missing_nodes(source: DumpFiles | LiveCluster) -> str:
    if isinstance(source, LiveCluster):
        return "the cluster has no nodes, so there is nothing to plan"
    names: Sequence[str] = ["<stdin>" if path == STDIN else path for path in source.paths]
    return (
        f"{', '.join(names)}: holds no Node; a plan needs nodes and pods. Record them with\n"
        f"  {KUBECTL_DUMP}\n"
        "or, with everything left out that planning doesn't need, with\n"
        "  rescheduler snapshot -o cluster.json"
    )
