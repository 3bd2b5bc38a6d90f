"""The overview: who leads, whether rescheduling is paused, how many of everything, the spread of the nodes, health."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rescheduler import __version__
from rescheduler.model.migration import Phase
from rescheduler.model.plan import Spreading
from rescheduler.web.history import Sample
from rescheduler.web.showing import Health, Showing
from rescheduler.web.standing import Spread

Json = dict[str, Any]


def overview(showing: Showing) -> Json:
    """All of it, as `/api/overview` gives it."""
    fields, replica, plans = showing.config.fields, showing.replica, showing.plans
    paused = showing.paused()
    newest = plans.newest
    return {
        "version": __version__,
        "cluster": showing.cluster,
        "now": showing.now(),
        "replica": {"identity": replica.identity, "leading": replica.leading(), "leader": replica.leader()},
        "paused": None if paused is None else {"by": paused.by, "since": paused.since, "reason": paused.reason},
        "approval": fields.approval.value,
        "access": "local" if showing.local else "token",
        "interval": fields.rescheduling_interval,
        "nextPlan": plans.next,
        "counts": _counts(showing),
        "utilisation": _utilisation(showing.loads.standing().spread),
        "thresholds": {
            "cpu": fields.cpu_threshold,
            "memory": fields.memory_threshold,
            "imbalance": fields.imbalance_threshold,
        },
        "health": [_health(each) for each in showing.health()],
        "warnings": list(newest.plan.warnings) if newest is not None else [],
    }


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
    return {"cpu": asdict(spread.cpu), "memory": asdict(spread.memory), "hotNodes": spread.hot_nodes}


def _extent(spreading: Spreading) -> Json:
    return {"max": spreading.max, "min": spreading.min, "mean": spreading.mean}


def _health(health: Health) -> Json:
    lag = None if health.lag is None else round(health.lag, 1)
    return {"name": health.name, "ok": not health.why, "why": health.why, "count": health.count, "lag": lag}
