"""All nodes, for the heat map: as columns, one entry a node in the order of names, and as rows that have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rescheduler.planning.columns import Floats, Ints
from rescheduler.web.showing import Showing
from rescheduler.web.standing import COUNT, CPU, MEMORY

Json = dict[str, Any]


def columns(showing: Showing, revision: int) -> Json:
    """Everything, as `/api/nodes` gives it."""
    loads, moves = showing.loads, showing.moves
    standing = loads.standing()
    frame, percent = standing.frame, np.round(standing.percent, 2)
    states = [each.state for each in frame.traits]
    for at in loads.indexes(moves.nodes()):
        states[at] += moves.touching(frame.names[at])
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


def rows(showing: Showing, indexes: Sequence[int]) -> list[list[float | int | None]]:
    """Single nodes: index, CPU, memory, pods, state, then what `resources` names."""
    standing, touching = showing.loads.standing(), showing.moves.touching
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
