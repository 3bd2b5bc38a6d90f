"""The configuration in force, and every strategy: what it does, whether it is enabled, and how it is set.

And what the file says now, where that is not in force: why it was refused, or which fields wait for a restart.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache

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

_MOST = 50  # errors that are shown


def configuration(live_config: LiveConfig) -> Json:
    """As `/api/config` gives it."""
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
    """Of one strategy; nothing where it is not enabled and lacks a setting that it cannot do without."""
    found = settings.get(name)
    return {} if found is None else found.model_dump(mode="json", by_alias=True)


def _in_pools(config: Configuration, policy: Policy, name: str) -> Json:
    """By pool, whether it runs there, and its settings as far as they are not those at the top."""
    top = _settings(config.settings, name)
    found = {}
    for pool, settings in zip(policy.node_pools, config.pools, strict=True):
        own = {key: value for key, value in _settings(settings, name).items() if top.get(key) != value}
        found[pool.name] = {"enabled": name in pool.enabled_strategies, "settings": own}
    return found


def _refusal(refusal: RejectedConfig | None) -> Json | None:
    """When, and the errors: not in which file, because whoever looks need not know our paths."""
    if refusal is None:
        return None
    told = [each.in_file for each in refusal.errors[:_MOST]]
    return {"at": refusal.at, "errors": told, "more": len(refusal.errors) - len(told)}


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


MOST = 20
_PIECE = 1_000  # pods that are looked at before others have a turn: about a millisecond
_Rank = tuple[bool, str, str]


async def search(showing: PageState, text: str) -> Json:
    """As `/api/search` gives it: those that begin with the text first; `namespace/name` finds what it says."""
    wanted = text.strip().lower()
    if not wanted:
        return {"nodes": [], "pods": [], "more": 0}
    nodes = sorted((not name.startswith(wanted), name) for name in showing.loads.names() if wanted in name)
    pods, total = await _pods(showing, wanted)
    more = max(0, len(nodes) - MOST) + total - len(pods)
    return {"nodes": [name for _, name in nodes[:MOST]], "pods": pods, "more": more}


async def _pods(showing: PageState, wanted: str) -> tuple[list[Json], int]:
    space, slash, part = wanted.rpartition("/")
    best: list[_Rank] = []
    total = looked = 0
    for keys in showing.loads.by_place():
        found = [
            (not name.startswith(part), namespace, name)
            for namespace, name in keys
            if part in name and (not slash or (namespace.endswith(space) and name.startswith(part)))
        ]
        total += len(found)
        best += found
        looked += len(keys)
        if looked >= _PIECE:
            best, looked = heapq.nsmallest(MOST, best), 0
            await asyncio.sleep(0)
    best = heapq.nsmallest(MOST, best)
    shown = [(namespace, name) for _, namespace, name in best]
    return [{"namespace": key[0], "name": key[1], "node": _node(showing, key)} for key in shown], total


def _node(showing: PageState, key: ObjectKey) -> str:
    pod = showing.loads.pod(key)
    return pod.node if pod is not None else ""  # it went while we looked


async def outcomes(showing: PageState) -> Json:
    """As `/api/outcomes` gives it: those that rest the longest first."""
    migrations = list(showing.board.all())  # there may be very many that are kept: not reckoned in the event loop
    reckoned = await asyncio.to_thread(find_backoffs, migrations, showing.live_config.policy())
    now = showing.now()
    found = {key: rest for key, rest in reckoned.items() if _is_there(showing, key)}
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


def _is_there(showing: PageState, key: WorkloadKey) -> bool:
    kind, namespace, name = key
    if kind == "Pod":
        return showing.loads.pod((namespace, name)) is not None
    return kind not in WORKLOADS or showing.cache.row(kind, key) is not None


def overview(showing: PageState) -> Json:
    """All of it, as `/api/overview` gives it."""
    fields, replica, plans = showing.live_config.config.fields, showing.replica, showing.plans
    paused = showing.paused()
    newest = plans.newest
    rules = _rules(showing)
    return {
        "version": __version__,
        "cluster": showing.cluster,
        "now": showing.now(),
        "replica": {"identity": replica.identity, "leading": replica.leading(), "leader": replica.leader()},
        "paused": None if paused is None else {"by": paused.by, "since": paused.since, "reason": paused.reason},
        "window": _window(showing),
        "approval": fields.approval.value,
        "access": "local" if showing.local else "token",
        "interval": fields.rescheduling_interval,
        "nextPlan": plans.next,
        "counts": _counts(showing),
        "utilisation": _utilisation(showing.loads.stats().load),
        "use": _use(showing),
        "thresholds": {
            "cpu": rules[0]["cpu"],
            "memory": rules[0]["memory"],
            "imbalance": fields.imbalance_threshold,
        },
        "rules": rules,
        "health": [_health(each) for each in showing.health()],
        "configuration": {
            "revision": showing.live_config.revision,
            "refused": showing.live_config.rejected is not None,
        },
        "warnings": [*_warnings(showing.live_config), *(newest.plan.warnings if newest is not None else ())],
    }


def _warnings(live_config: LiveConfig) -> Iterator[str]:
    """What the operator should know of his file."""
    if live_config.rejected is not None:
        errors = len(live_config.rejected.errors)
        yield f"the configuration's file is refused (errors: {errors}); what was in force stays in force"
    if live_config.awaiting_restart:
        yield f"wait for a restart of the controller: {', '.join(live_config.awaiting_restart)}"


def without_time(told: Json) -> Json:
    """What makes one overview different from another: not the clock, nor how long ago somebody was heard."""
    health = [{key: value for key, value in each.items() if key != "lag"} for each in told["health"]]
    return {**told, "now": 0, "health": health}


def sample(taken: SpreadSample) -> Json:
    """One sample of the spread over time."""
    return {
        "time": taken.time,
        "cpu": _extent(taken.spread.cpu),
        "memory": _extent(taken.spread.memory),
        "hotNodes": taken.spread.hot_nodes,
        "completed": taken.completed,
    }


def _window(showing: PageState) -> Json | None:
    """The time windows, whether one is open, and until when that stays so; None where there are none."""
    schedule, now = showing.live_config.policy().when.schedule, showing.now()
    if not schedule.windows:
        return None
    windows = [window.text for window in schedule.windows]
    return {
        "open": schedule.open_at(now),
        "until": schedule.next_change(now),
        "windows": windows,
        "timeZone": schedule.time_zone,
    }


def _counts(showing: PageState) -> Json:
    board = showing.board
    return {
        "nodes": showing.loads.nodes,
        "pods": showing.loads.pods,
        "pending": board.count(Phase.PENDING),
        "inProgress": board.count(Phase.IN_PROGRESS),
        "completed": board.count(Phase.COMPLETED),
        "failed": board.count(Phase.FAILED),
        "awaitingApproval": len(showing.moves.awaiting()),
    }


def _utilisation(load: ClusterLoad) -> Json:
    return {
        "cpu": asdict(load.cpu),
        "memory": asdict(load.memory),
        "hotNodes": load.hot_nodes,
        "others": {name: asdict(each) for name, each in load.others},
        "hotByPool": dict(load.pools),
    }


def _use(showing: PageState) -> Json:
    """What use is reckoned by, whether it is so now, and when it was measured last."""
    usage, loads = showing.usage(), showing.loads
    by = loads.utilization.value
    return {"by": by, "counts": loads.measured, "measured": usage.last, "why": usage.failure}


def _rules(showing: PageState) -> list[Json]:
    """Above what nodes are hot, in per cent: those of no pool first, then those of each pool of the configuration."""
    stats = showing.loads.stats()
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
