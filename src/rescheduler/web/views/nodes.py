"""One node: its labels, taints and state, and its pods with what objects to moving each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescheduler.model.json import Json
from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import Requests
from rescheduler.planning.columns import Floats, Ints
from rescheduler.web.node_snapshot import COUNT, CPU, MEMORY, WORDS
from rescheduler.web.node_stats import workload_of
from rescheduler.web.plans import Objection
from rescheduler.web.state import PageState


def node(showing: PageState, found: Node, pods: Sequence[Pod], objections: Sequence[Objection]) -> Json:
    """All of it, as `/api/nodes/{name}` gives it; the objections are those to each of the pods."""
    standing = showing.loads.stats()
    index = showing.loads.indexes([found.name])[0]
    now, traits = standing.at(index), standing.frame.traits[index]
    state = traits.state | showing.moves.flags_of(found.name)
    return {
        "name": found.name,
        "labels": dict(sorted(found.labels.items())),
        "taints": [str(each) for each in found.taints],
        "states": [words for flag, words in WORDS.items() if flag & state],
        "problem": found.problem,
        "pool": standing.frame.judging.policy.node_pools[traits.number].name if traits.number >= 0 else "",
        "allocatable": now.capacity,
        "used": now.used,
        "cpu": round(now.percent["cpu"], 2),
        "memory": round(now.percent["memory"], 2),
        "thresholds": {name: round(each, 2) for name, each in now.thresholds.items()},
        "over": now.over,
        "pods": [_pod(showing, pod, said) for pod, said in zip(pods, objections, strict=True)],
    }


def _pod(showing: PageState, pod: Pod, said: Objection) -> Json:
    held = () if pod.finished else pod.held
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "workload": workload_of(showing.cache, pod),
        "cpu": _held(held, "cpu"),
        "memory": _held(held, "memory"),
        "usage": _usage(None if pod.finished else showing.loads.usage(pod)),
        "phase": pod.phase,
        "ready": pod.ready,
        "created": pod.created,
        "guard": said[0],
        "why": said[1],
    }


def _held(held: Requests, resource: str) -> int:
    return next((amount for name, amount in held if name == resource), 0)


def _usage(used: Requests | None) -> Json | None:
    """What was measured of it, or of its like; None where nothing was, or only requests count."""
    return None if used is None else dict(used)


def columns(showing: PageState, revision: int) -> Json:
    """Everything, as `/api/nodes` gives it."""
    loads, moves = showing.loads, showing.moves
    standing = loads.stats()
    frame, percent = standing.frame, np.round(standing.percent, 2)
    states = [each.state for each in frame.traits]
    for at in loads.indexes(moves.nodes()):
        states[at] += moves.flags_of(frame.names[at])
    return {
        "replica": showing.replica.identity,  # whose revision it is: a Service may lead to another than the stream
        "revision": revision,
        "names": frame.names,
        "cpu": percent[CPU].tolist(),
        "memory": percent[MEMORY].tolist(),
        "pods": standing.used[COUNT].tolist(),
        "podRoom": frame.capacity[COUNT].tolist(),
        "resources": frame.judging.resources[COUNT + 1 :],
        "others": [_others(percent[row], frame.capacity[row]) for row in range(COUNT + 1, len(percent))],
        "rule": (frame.number + 1).tolist(),
        "zone": frame.zone[0],
        "zones": frame.zone[1],
        "pool": frame.pool[0],
        "pools": frame.pool[1],
        "state": states,
    }


def rows(showing: PageState, indexes: Sequence[int]) -> list[list[float | int | None]]:
    """Single nodes: index, CPU, memory, pods, state, then what `resources` names."""
    standing, touching = showing.loads.stats(), showing.moves.flags_of
    frame, percent = standing.frame, np.round(standing.percent[:, indexes], 2)
    figures = zip(
        indexes,
        percent[CPU].tolist(),
        percent[MEMORY].tolist(),
        standing.used[COUNT, indexes].tolist(),
        strict=True,
    )
    found = [[at, *rest, frame.traits[at].state + touching(frame.names[at])] for at, *rest in figures]
    for row in range(COUNT + 1, len(percent)):
        for told, share in zip(found, _others(percent[row], frame.capacity[row, indexes]), strict=True):
            told.append(share)
    return found


def _others(percent: Floats, capacity: Ints) -> list[float | None]:
    """Per cent of a resource that not every node has."""
    shares = zip(percent.tolist(), capacity.tolist(), strict=True)
    return [share if room > 0 else None for share, room in shares]
