"""What the page's API returns, as plain values for JSON: nodes, migrations, the plan, the overview, search.

`/api/nodes` and the stream of events show nodes in columns and changed ones as rows; one node comes with its pods.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np
from msgspec import structs

from rescheduler import __version__
from rescheduler.config.live import LiveConfig, RejectedConfig
from rescheduler.config.schema import Configuration
from rescheduler.decode.structs import WORKLOADS
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.model.json import Json, ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import LoadDistribution, Method, Plan, plan_document
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning import guards, predicates
from rescheduler.planning.columns import Floats, Ints
from rescheduler.planning.outcomes import find_backoffs
from rescheduler.planning.refusals import NodeRefusal, PlanGuard
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.thresholds import resources_over
from rescheduler.strategies import discover
from rescheduler.web.node_stats import COUNT, CPU, MEMORY, WORDS, workload_of
from rescheduler.web.plans import Objection, TimedPlan
from rescheduler.web.state import ComponentHealth, PageState, SpreadSample

_MOST_MIGRATIONS = 500
_MOST_REJECTIONS = 1_000
_lifecycle = Lifecycle()
_STEPS = {method: _lifecycle.steps(method) for method in Method}
_MOST_FOUND = 20  # nodes, and pods, that a search returns
_MOST_ERRORS = 50  # of the configuration
_PODS_AT_ONCE = 1_000  # searched before the event loop runs again: about a millisecond


def node(state: PageState, found: Node, pods: Sequence[Pod], objections: Sequence[Objection]) -> Json:
    """What `/api/nodes/{name}` returns; the objections are those to moving each of the pods."""
    stats = state.loads.stats()
    index = state.loads.indexes([found.name])[0]
    info, rules = stats.table.infos[index], stats.table.rules
    flags = info.state | state.moves.flags().get(found.name, 0)
    percent = stats.by_resource(stats.percent, index)
    return {
        "name": found.name,
        "labels": dict(sorted(found.labels.items())),
        "taints": [str(each) for each in found.taints],
        "states": [words for flag, words in WORDS.items() if flag & flags],
        "problem": found.problem,
        "pool": rules.policy.node_pools[info.pool_number].name if info.pool_number >= 0 else "",
        "allocatable": stats.by_resource(stats.table.capacity, index),
        "used": stats.by_resource(stats.used, index),
        "cpu": round(percent["cpu"], 2),
        "memory": round(percent["memory"], 2),
        "thresholds": {name: round(each, 2) for name, each in stats.thresholds_of(index).items()},
        "over": resources_over(rules.counted, stats.over[:, index]) if stats.hot[index] else (),
        "pods": [_pod(state, pod, objection) for pod, objection in zip(pods, objections, strict=True)],
    }


def _pod(state: PageState, pod: Pod, objection: Objection) -> Json:
    held = {} if pod.finished else dict(pod.held)
    usage = None if pod.finished else state.loads.usage(pod)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "workload": workload_of(state.cache, pod),
        "cpu": held.get("cpu", 0),
        "memory": held.get("memory", 0),
        "usage": None if usage is None else dict(usage),
        "phase": pod.phase,
        "ready": pod.ready,
        "created": pod.created,
        "guard": objection[0],
        "why": objection[1],
    }


def columns(state: PageState, revision: int) -> Json:
    """What `/api/nodes` returns."""
    stats, flags = state.loads.stats(), state.moves.flags()
    table, percent = stats.table, np.round(stats.percent, 2)
    states = [info.state for info in table.infos]
    for at in state.loads.indexes(flags):
        states[at] |= flags[table.names[at]]
    return {
        "replica": state.identity,  # a Service may send the page elsewhere than its stream of events
        "revision": revision,
        "names": table.names,
        "cpu": percent[CPU].tolist(),
        "memory": percent[MEMORY].tolist(),
        "pods": stats.used[COUNT].tolist(),
        "podRoom": table.capacity[COUNT].tolist(),
        "resources": table.rules.resources[COUNT + 1 :],
        "others": [_shares(percent[row], table.capacity[row]) for row in range(COUNT + 1, len(percent))],
        "rule": (table.pool_number + 1).tolist(),
        "zone": table.zone[0],
        "zones": table.zone[1],
        "pool": table.pool[0],
        "pools": table.pool[1],
        "state": states,
    }


def node_rows(state: PageState, indexes: Sequence[int]) -> list[list[float | int | None]]:
    """Build the rows of single nodes: index, CPU, memory, pods, state, then what `resources` names."""
    stats, flags = state.loads.stats(), state.moves.flags()
    table, percent = stats.table, np.round(stats.percent[:, indexes], 2)
    figures = zip(
        indexes,
        percent[CPU].tolist(),
        percent[MEMORY].tolist(),
        stats.used[COUNT, indexes].tolist(),
        strict=True,
    )
    found = [[at, *rest, table.infos[at].state | flags.get(table.names[at], 0)] for at, *rest in figures]
    for row in range(COUNT + 1, len(percent)):
        for figures_of_node, share in zip(found, _shares(percent[row], table.capacity[row, indexes]), strict=True):
            figures_of_node.append(share)
    return found


def _shares(percent: Floats, capacity: Ints) -> list[float | None]:
    """Per cent of a resource that not every node has."""
    shares = zip(percent.tolist(), capacity.tolist(), strict=True)
    return [share if room > 0 else None for share, room in shares]


def migrations(state: PageState) -> Json:
    """What `/api/migrations` returns: all unfinished migrations, and the newest of the others."""
    active = sorted(state.migrations.active(), key=_age)
    over = [each for each in state.migrations.all() if each.status.over]
    found = [*active, *heapq.nsmallest(max(0, _MOST_MIGRATIONS - len(active)), over, key=_age)]
    shown = sorted(found, key=_age)
    more = len(active) + len(over) - len(shown)
    return {"migrations": [migration_row(state, each) for each in shown], "more": more}


def migration_row(state: PageState, migration: PodMigration) -> Json:
    """The row of a migration."""
    order, progress = migration.spec, migration.status
    method = progress.method or order.fixed_method
    pod: Pod | None = state.cache.row("Pod", (migration.namespace, order.pod.name))
    owner = progress.workload or progress.controller
    workload = str(owner) if owner is not None else workload_of(state.cache, pod) if pod is not None else ""
    passed = state.moves.history((migration.namespace, migration.name))
    return {
        "namespace": migration.namespace,
        "name": migration.name,
        "pod": order.pod.name,
        "source": progress.source or (pod.node if pod is not None and not progress.over else ""),
        "target": progress.target or order.target,
        "strategy": order.strategy,
        "reason": order.reason,
        "method": method.value if method is not None else None,
        "phase": progress.phase.value,
        "step": progress.step,
        "steps": _STEPS[method] if method is not None else [],
        "history": [{"step": each.step, "time": each.time} for each in passed],
        "message": progress.message,
        "attempts": progress.attempts,
        "created": migration.metadata.creation_timestamp,
        "started": progress.start_time,
        "finished": progress.completion_time,
        "awaitsApproval": migration.awaits_approval,
        "approvedBy": migration.approved_by,
        "plan": order.plan,
        "workload": workload,
        "replacement": progress.replacement.name if progress.replacement is not None else "",
        "outcome": _describe_outcome(migration),
    }


def _describe_outcome(migration: PodMigration) -> Json | None:
    outcome = migration.status.outcome
    if outcome is None:
        return None
    predicted = migration.spec.expected_gain
    return {"predicted": predicted, "realised": outcome.gain, "verdict": outcome.verdict.value}


def _age(migration: PodMigration) -> tuple[float, str, str]:
    """Sort the newest first, then by name."""
    return -(migration.metadata.creation_timestamp or 0.0), migration.namespace, migration.name


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """An encoded plan."""

    document: msgspec.Raw
    """In the plan format (docs/plan-format.md), with the first rejections only."""
    rejected: Json


NO_PLAN = PlanDocument(msgspec.Raw(b"null"), {"total": 0, "byGuard": {}})
"""Stands for a plan before there is one."""


def document_plan(made: Plan) -> PlanDocument:
    """Encode a plan; it may be large, so this runs in a thread."""
    shown = structs.replace(made, rejections=made.rejections[:_MOST_REJECTIONS])
    guards = Counter(rejection.guard for rejection in made.rejections)
    document = msgspec.Raw(msgspec.json.encode(plan_document(shown)))
    return PlanDocument(document, {"total": len(made.rejections), "byGuard": dict(guards.most_common())})


def plan(state: PageState, planned: TimedPlan | None, shown: PlanDocument, awaiting: Sequence[PodMigration]) -> Json:
    """What `/api/plan` returns."""
    return {
        "made": planned.made if planned is not None else None,
        "seconds": round(planned.seconds, 3) if planned is not None else 0.0,
        "by": state.identity,
        "plan": shown.document,
        "awaiting": [{"namespace": each.namespace, "name": each.name} for each in awaiting],
        "rejected": shown.rejected,
    }


def configuration(live_config: LiveConfig) -> Json:
    """What `/api/config` returns: the active configuration, every strategy, and the state of the file."""
    config = live_config.config
    policy = live_config.policy()
    return {
        "since": live_config.since,
        "waiting": list(live_config.awaiting_restart),
        "refusal": _describe_rejection(live_config.rejected),
        "yaml": config.effective_yaml(),
        "strategies": [
            {
                "name": name,
                "enabled": name in policy.enabled_strategies,
                "about": _first_paragraph(inspect.getdoc(strategy) or ""),
                "settings": _settings(config.settings, name),
                "pools": _in_pools(config, policy, name),
            }
            for name, strategy in discover().items()
        ],
        "pools": [
            {
                "name": pool.name,
                "nodeSelector": fields.node_selector,
                "thresholds": pool.thresholds.named(),
                "mode": pool.thresholds.mode.value,
                "enabled": list(pool.enabled_strategies),
            }
            for pool, fields in zip(policy.node_pools, config.fields.pools, strict=True)
        ],
    }


@cache
def captions() -> Json:
    """What `/api/captions` returns: the captions of everything that refuses a move or a node, by its name."""
    return {
        "guard": {each.name: each.caption for each in guards.discover().values()}
        | {str(each): each.caption for each in PlanGuard},
        "predicate": {each.name: each.caption for each in predicates.discover()}
        | {str(each): each.caption for each in NodeRefusal},
    }


def _settings(settings: Mapping[str, StrategySettings], name: str) -> Json:
    """Dump the settings of a strategy; empty if it is off and lacks a required setting."""
    found = settings.get(name)
    return {} if found is None else found.model_dump(mode="json", by_alias=True)


def _in_pools(config: Configuration, policy: Policy, name: str) -> Json:
    """List by pool whether the strategy runs there, and its settings that differ from the top."""
    top = _settings(config.settings, name)
    found = {}
    for pool, settings in zip(policy.node_pools, config.pools, strict=True):
        own = {key: value for key, value in _settings(settings, name).items() if top.get(key) != value}
        found[pool.name] = {"enabled": name in pool.enabled_strategies, "settings": own}
    return found


def _describe_rejection(refusal: RejectedConfig | None) -> Json | None:
    """Time and errors of a refused file; without its path, which is not for everyone."""
    if refusal is None:
        return None
    errors = [each.in_file for each in refusal.errors[:_MOST_ERRORS]]
    return {"at": refusal.at, "errors": errors, "more": len(refusal.errors) - len(errors)}


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


async def search(state: PageState, text: str) -> Json:
    """What `/api/search` returns: names that begin with the text first; `namespace/name` is understood, too."""
    wanted = text.strip().lower()
    if not wanted:
        return {"nodes": [], "pods": [], "more": 0}
    nodes = sorted((not name.startswith(wanted), name) for name in state.loads.names() if wanted in name)
    pods, total = await _pods(state, wanted)
    more = max(0, len(nodes) - _MOST_FOUND) + total - len(pods)
    return {"nodes": [name for _, name in nodes[:_MOST_FOUND]], "pods": pods, "more": more}


async def _pods(state: PageState, wanted: str) -> tuple[list[Json], int]:
    space, slash, part = wanted.rpartition("/")
    best: list[tuple[bool, str, str]] = []
    total = looked = 0
    for keys in state.loads.by_place():
        found = [
            (not name.startswith(part), namespace, name)
            for namespace, name in keys
            if part in name and (not slash or (namespace.endswith(space) and name.startswith(part)))
        ]
        total += len(found)
        best += found
        looked += len(keys)
        if looked >= _PODS_AT_ONCE:
            best, looked = heapq.nsmallest(_MOST_FOUND, best), 0
            await asyncio.sleep(0)
    best = heapq.nsmallest(_MOST_FOUND, best)
    shown = [(namespace, name) for _, namespace, name in best]
    return [{"namespace": key[0], "name": key[1], "node": _node(state, key)} for key in shown], total


def _node(state: PageState, key: ObjectKey) -> str:
    pod: Pod | None = state.cache.row("Pod", key)
    return pod.node if pod is not None else ""  # it was deleted meanwhile


async def outcomes(state: PageState) -> Json:
    """What `/api/outcomes` returns: workloads in cool-down the longest first."""
    migrations = list(state.migrations.all())  # there may be very many: not computed in the event loop
    resting = await asyncio.to_thread(find_backoffs, migrations, state.live_config.policy())
    now = state.now()
    found = {key: rest for key, rest in resting.items() if _is_there(state, key)}
    listed = sorted(found.items(), key=lambda item: (-item[1].until, item[0]))
    return {
        "workloads": [
            {
                "workload": f"{kind}/{name}",
                "namespace": namespace,
                "bad": rest.bad,
                "restsUntil": rest.until if rest.until > now else None,
                "why": rest.why,
            }
            for (kind, namespace, name), rest in listed
        ]
    }


def _is_there(state: PageState, key: WorkloadKey) -> bool:
    kind, namespace, name = key
    if kind == "Pod":
        return state.cache.row("Pod", (namespace, name)) is not None
    return kind not in WORKLOADS or state.cache.row(kind, key) is not None


def overview(state: PageState) -> Json:
    """What `/api/overview` returns."""
    live_config, plans, loads = state.live_config, state.plans, state.loads
    fields, migrations, poller, stats = live_config.config.fields, state.migrations, state.usage(), loads.stats()
    pools = ["", *(pool.name for pool in stats.table.rules.policy.node_pools)]
    rules = [  # thresholds in per cent: of nodes in no pool first, then of each pool of the configuration
        {"pool": name, **{resource: round(each, 2) for resource, each in thresholds.items()}}
        for name, thresholds in zip(pools, stats.thresholds, strict=True)
    ]
    return {
        "version": __version__,
        "cluster": state.cluster,
        "now": state.now(),
        "replica": {"identity": state.identity, "leading": state.leading(), "leader": state.leader()},
        "paused": state.paused(),
        "window": _describe_window(state),
        "approval": fields.approval.value,
        "access": "local" if state.local else "token",
        "interval": fields.rescheduling_interval,
        "nextPlan": plans.next,
        "counts": {
            "nodes": state.cache.count("Node"),
            "pods": state.cache.count("Pod"),
            "pending": migrations.count(Phase.PENDING),
            "inProgress": migrations.count(Phase.IN_PROGRESS),
            "completed": migrations.count(Phase.COMPLETED),
            "failed": migrations.count(Phase.FAILED),
            "awaitingApproval": len(state.moves.awaiting()),
        },
        "utilisation": {
            "cpu": stats.load.cpu,
            "memory": stats.load.memory,
            "hotNodes": stats.load.hot_nodes,
            "others": stats.load.others,
            "hotByPool": stats.load.hot_nodes_by_pool,
        },
        "use": {  # the source of usage, whether it counts now, and when it was measured last
            "by": loads.utilization.value,
            "counts": loads.measured,
            "measured": poller.last if poller is not None else None,
            "why": poller.failure if poller is not None else "",
        },
        "thresholds": {
            "cpu": rules[0]["cpu"],
            "memory": rules[0]["memory"],
            "imbalance": fields.imbalance_threshold,
        },
        "rules": rules,
        "health": [_describe_health(each) for each in state.health()],
        "configuration": {"revision": live_config.revision, "refused": live_config.rejected is not None},
        "warnings": [*_config_warnings(live_config), *(plans.newest.plan.warnings if plans.newest is not None else ())],
    }


def _config_warnings(live_config: LiveConfig) -> Iterator[str]:
    """Warnings about the configuration file."""
    if live_config.rejected is not None:
        errors = len(live_config.rejected.errors)
        yield f"the configuration's file is refused (errors: {errors}); what was in force stays in force"
    if live_config.awaiting_restart:
        yield f"wait for a restart of the controller: {', '.join(live_config.awaiting_restart)}"


def without_time(found: Json) -> Json:
    """The overview without clock and lags, to compare two of them."""
    health = [{key: value for key, value in each.items() if key != "lag"} for each in found["health"]]
    return {**found, "now": 0, "health": health}


def sample(taken: SpreadSample) -> Json:
    """A sample of the spread over time."""
    return {
        "time": taken.time,
        "cpu": _describe_extent(taken.spread.cpu),
        "memory": _describe_extent(taken.spread.memory),
        "hotNodes": taken.spread.hot_nodes,
        "completed": taken.completed,
    }


def spread(state: PageState) -> Json:
    """What `/api/spread` returns."""
    return {"samples": [sample(each) for each in state.samples.all()]}


def _describe_window(state: PageState) -> Json | None:
    """The time windows, whether one is open, and until when; None without windows."""
    schedule, now = state.live_config.policy().when.schedule, state.now()
    if not schedule.windows:
        return None
    windows = [window.text for window in schedule.windows]
    return {
        "open": schedule.open_at(now),
        "until": schedule.next_change(now),
        "windows": windows,
        "timeZone": schedule.time_zone,
    }


def _describe_extent(spreading: LoadDistribution) -> Json:
    return {"max": spreading.max, "min": spreading.min, "mean": spreading.mean}


def _describe_health(health: ComponentHealth) -> Json:
    lag = None if health.lag is None else round(health.lag, 1)
    return {"name": health.name, "ok": not health.why, "why": health.why, "count": health.count, "lag": lag}
