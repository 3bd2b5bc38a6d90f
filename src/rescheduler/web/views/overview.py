"""The overview, the active configuration, captions, outcomes and the search, as the API returns them."""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import structs

from rescheduler import __version__
from rescheduler.config.configuration import Configuration
from rescheduler.config.live import LiveConfig, RejectedConfig
from rescheduler.decode.structs import WORKLOADS
from rescheduler.model.json import Json, ObjectKey
from rescheduler.model.migration import Phase
from rescheduler.model.plan import ClusterLoad, LoadDistribution
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning import guards, predicates
from rescheduler.planning.outcomes import find_backoffs
from rescheduler.planning.refusals import NodeRefusal, PlanGuard
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import discover
from rescheduler.web.state import ComponentHealth, PageState, SpreadSample

MOST_FOUND = 20
"""Nodes, and pods, that a search returns."""
_MOST_ERRORS = 50  # of the configuration
_PODS_AT_ONCE = 1_000  # searched before the event loop runs again: about a millisecond
_Rank = tuple[bool, str, str]


def configuration(live_config: LiveConfig) -> Json:
    """What `/api/config` returns: the active configuration, every strategy, and the state of the file."""
    config = live_config.config
    policy = live_config.policy()
    return {
        "since": live_config.since,
        "waiting": list(live_config.awaiting_restart),
        "refusal": _refusal(live_config.rejected),
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


def _refusal(refusal: RejectedConfig | None) -> Json | None:
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
    more = max(0, len(nodes) - MOST_FOUND) + total - len(pods)
    return {"nodes": [name for _, name in nodes[:MOST_FOUND]], "pods": pods, "more": more}


async def _pods(state: PageState, wanted: str) -> tuple[list[Json], int]:
    space, slash, part = wanted.rpartition("/")
    best: list[_Rank] = []
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
            best, looked = heapq.nsmallest(MOST_FOUND, best), 0
            await asyncio.sleep(0)
    best = heapq.nsmallest(MOST_FOUND, best)
    shown = [(namespace, name) for _, namespace, name in best]
    return [{"namespace": key[0], "name": key[1], "node": _node(state, key)} for key in shown], total


def _node(state: PageState, key: ObjectKey) -> str:
    pod = state.loads.pod(key)
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
        return state.loads.pod((namespace, name)) is not None
    return kind not in WORKLOADS or state.cache.row(kind, key) is not None


def overview(state: PageState) -> Json:
    """What `/api/overview` returns."""
    fields, replica, plans = state.live_config.config.fields, state.replica, state.plans
    paused = state.paused()
    newest = plans.newest
    rules = _rules(state)
    return {
        "version": __version__,
        "cluster": state.cluster,
        "now": state.now(),
        "replica": {"identity": replica.identity, "leading": replica.leading(), "leader": replica.leader()},
        "paused": None if paused is None else {"by": paused.by, "since": paused.since, "reason": paused.reason},
        "window": _window(state),
        "approval": fields.approval.value,
        "access": "local" if state.local else "token",
        "interval": fields.rescheduling_interval,
        "nextPlan": plans.next,
        "counts": _counts(state),
        "utilisation": _utilisation(state.loads.stats().load),
        "use": _use(state),
        "thresholds": {
            "cpu": rules[0]["cpu"],
            "memory": rules[0]["memory"],
            "imbalance": fields.imbalance_threshold,
        },
        "rules": rules,
        "health": [_health(each) for each in state.health()],
        "configuration": {
            "revision": state.live_config.revision,
            "refused": state.live_config.rejected is not None,
        },
        "warnings": [*_warnings(state.live_config), *(newest.plan.warnings if newest is not None else ())],
    }


def _warnings(live_config: LiveConfig) -> Iterator[str]:
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
        "cpu": _extent(taken.spread.cpu),
        "memory": _extent(taken.spread.memory),
        "hotNodes": taken.spread.hot_nodes,
        "completed": taken.completed,
    }


def _window(state: PageState) -> Json | None:
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


def _counts(state: PageState) -> Json:
    migrations = state.migrations
    return {
        "nodes": state.loads.nodes,
        "pods": state.loads.pods,
        "pending": migrations.count(Phase.PENDING),
        "inProgress": migrations.count(Phase.IN_PROGRESS),
        "completed": migrations.count(Phase.COMPLETED),
        "failed": migrations.count(Phase.FAILED),
        "awaitingApproval": len(state.moves.awaiting()),
    }


def _utilisation(load: ClusterLoad) -> Json:
    return {
        "cpu": structs.asdict(load.cpu),
        "memory": structs.asdict(load.memory),
        "hotNodes": load.hot_nodes,
        "others": {name: structs.asdict(each) for name, each in load.others.items()},
        "hotByPool": load.hot_nodes_by_pool,
    }


def _use(state: PageState) -> Json:
    """The source of usage, whether it counts now, and when it was measured last."""
    usage, loads = state.usage(), state.loads
    by = loads.utilization.value
    return {"by": by, "counts": loads.measured, "measured": usage.last, "why": usage.failure}


def _rules(state: PageState) -> list[Json]:
    """Thresholds in per cent: of nodes in no pool first, then of each pool of the configuration."""
    stats = state.loads.stats()
    names = ["", *(pool.name for pool in stats.table.rules.policy.node_pools)]
    return [
        {"pool": name, **{resource: round(each, 2) for resource, each in rule.items()}}
        for name, rule in zip(names, stats.thresholds, strict=True)
    ]


def _extent(spreading: LoadDistribution) -> Json:
    return {"max": spreading.max, "min": spreading.min, "mean": spreading.mean}


def _health(health: ComponentHealth) -> Json:
    lag = None if health.lag is None else round(health.lag, 1)
    return {"name": health.name, "ok": not health.why, "why": health.why, "count": health.count, "lag": lag}
