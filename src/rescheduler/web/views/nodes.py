"""Nodes as `/api/nodes` and the stream of events show them: all in columns, changed ones as rows, one with its pods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescheduler.model.json import Json
from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import Requests
from rescheduler.planning.columns import Floats, Ints
from rescheduler.planning.thresholds import resources_over
from rescheduler.web.node_stats import COUNT, CPU, MEMORY, WORDS, workload_of
from rescheduler.web.plans import Objection
from rescheduler.web.state import PageState


def node(state: PageState, found: Node, pods: Sequence[Pod], objections: Sequence[Objection]) -> Json:
    """What `/api/nodes/{name}` returns; the objections are those to moving each of the pods."""
    stats = state.loads.stats()
    index = state.loads.indexes([found.name])[0]
    info, rules = stats.table.infos[index], stats.table.rules
    flags = info.state | state.moves.flags_of(found.name)
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
    held = () if pod.finished else pod.held
    usage = None if pod.finished else state.loads.usage(pod)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "workload": workload_of(state.cache, pod),
        "cpu": _amount(held, "cpu"),
        "memory": _amount(held, "memory"),
        "usage": None if usage is None else dict(usage),
        "phase": pod.phase,
        "ready": pod.ready,
        "created": pod.created,
        "guard": objection[0],
        "why": objection[1],
    }


def _amount(requests: Requests, resource: str) -> int:
    return next((amount for name, amount in requests if name == resource), 0)


def columns(state: PageState, revision: int) -> Json:
    """What `/api/nodes` returns."""
    loads, moves = state.loads, state.moves
    stats = loads.stats()
    table, percent = stats.table, np.round(stats.percent, 2)
    flags = [each.state for each in table.infos]
    for at in loads.indexes(moves.nodes()):
        flags[at] += moves.flags_of(table.names[at])
    return {
        "replica": state.replica.identity,  # a Service may send the page elsewhere than its stream of events
        "revision": revision,
        "names": table.names,
        "cpu": percent[CPU].tolist(),
        "memory": percent[MEMORY].tolist(),
        "pods": stats.used[COUNT].tolist(),
        "podRoom": table.capacity[COUNT].tolist(),
        "resources": table.rules.resources[COUNT + 1 :],
        "others": [_others(percent[row], table.capacity[row]) for row in range(COUNT + 1, len(percent))],
        "rule": (table.pool_number + 1).tolist(),
        "zone": table.zone[0],
        "zones": table.zone[1],
        "pool": table.pool[0],
        "pools": table.pool[1],
        "state": flags,
    }


def rows(state: PageState, indexes: Sequence[int]) -> list[list[float | int | None]]:
    """Build the rows of single nodes: index, CPU, memory, pods, state, then what `resources` names."""
    stats, flags_of = state.loads.stats(), state.moves.flags_of
    table, percent = stats.table, np.round(stats.percent[:, indexes], 2)
    figures = zip(
        indexes,
        percent[CPU].tolist(),
        percent[MEMORY].tolist(),
        stats.used[COUNT, indexes].tolist(),
        strict=True,
    )
    found = [[at, *rest, table.infos[at].state + flags_of(table.names[at])] for at, *rest in figures]
    for row in range(COUNT + 1, len(percent)):
        for figures_of_node, share in zip(found, _others(percent[row], table.capacity[row, indexes]), strict=True):
            figures_of_node.append(share)
    return found


def _others(percent: Floats, capacity: Ints) -> list[float | None]:
    """Per cent of a resource that not every node has."""
    shares = zip(percent.tolist(), capacity.tolist(), strict=True)
    return [share if room > 0 else None for share, room in shares]
