"""The overview: who leads, whether rescheduling is paused, how many of everything, the spread of the nodes, health."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rescheduler import __version__
from rescheduler.model.migration import Phase
from rescheduler.model.plan import Spreading
from rescheduler.runtime.mandate import Mandate
from rescheduler.web.history import Sample
from rescheduler.web.showing import Health, Showing
from rescheduler.web.standing import Spread

Json = dict[str, Any]


def overview(showing: Showing) -> Json:
    """All of it, as `/api/overview` gives it."""
    fields, replica, plans = showing.mandate.config.fields, showing.replica, showing.plans
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
        "utilisation": _utilisation(showing.loads.standing().spread),
        "use": _use(showing),
        "thresholds": {
            "cpu": rules[0]["cpu"],
            "memory": rules[0]["memory"],
            "imbalance": fields.imbalance_threshold,
        },
        "rules": rules,
        "health": [_health(each) for each in showing.health()],
        "configuration": {"revision": showing.mandate.revision, "refused": showing.mandate.refusal is not None},
        "warnings": [*_warnings(showing.mandate), *(newest.plan.warnings if newest is not None else ())],
    }


def _warnings(mandate: Mandate) -> Iterator[str]:
    """What the operator should know of his file."""
    if mandate.refusal is not None:
        errors = len(mandate.refusal.errors)
        yield f"the configuration's file is refused (errors: {errors}); what was in force stays in force"
    if mandate.waiting:
        yield f"wait for a restart of the controller: {', '.join(mandate.waiting)}"


def without_time(told: Json) -> Json:
    """What makes one overview different from another: not the clock, nor how long ago somebody was heard."""
    health = [{key: value for key, value in each.items() if key != "lag"} for each in told["health"]]
    return {**told, "now": 0, "health": health}


def sample(taken: Sample) -> Json:
    """One sample of the spread over time."""
    return {
        "time": taken.time,
        "cpu": _extent(taken.spread.cpu),
        "memory": _extent(taken.spread.memory),
        "hotNodes": taken.spread.hot_nodes,
        "completed": taken.completed,
    }


def _window(showing: Showing) -> Json | None:
    """The time windows, whether one is open, and until when that stays so; None where there are none."""
    schedule, now = showing.mandate.policy().timing.schedule, showing.now()
    if not schedule.windows:
        return None
    windows = [window.text for window in schedule.windows]
    return {
        "open": schedule.open_at(now),
        "until": schedule.next_change(now),
        "windows": windows,
        "timeZone": schedule.time_zone,
    }


def _counts(showing: Showing) -> Json:
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


def _utilisation(spread: Spread) -> Json:
    return {
        "cpu": asdict(spread.cpu),
        "memory": asdict(spread.memory),
        "hotNodes": spread.hot_nodes,
        "others": {name: asdict(each) for name, each in spread.others},
        "hotByPool": dict(spread.pools),
    }


def _use(showing: Showing) -> Json:
    """What use is reckoned by, whether it is so now, and when it was measured last."""
    usage, loads = showing.usage(), showing.loads
    by = loads.utilization.value
    return {"by": by, "counts": loads.measured, "measured": usage.last, "why": usage.failure}


def _rules(showing: Showing) -> list[Json]:
    """Above what nodes are hot, in per cent: those of no pool first, then those of each pool of the configuration."""
    standing = showing.loads.standing()
    names = ["", *(pool.name for pool in standing.frame.judging.policy.pools)]
    return [
        {"pool": name, **{resource: round(each, 2) for resource, each in rule.items()}}
        for name, rule in zip(names, standing.rules, strict=True)
    ]


def _extent(spreading: Spreading) -> Json:
    return {"max": spreading.max, "min": spreading.min, "mean": spreading.mean}


def _health(health: Health) -> Json:
    lag = None if health.lag is None else round(health.lag, 1)
    return {"name": health.name, "ok": not health.why, "why": health.why, "count": health.count, "lag": lag}
