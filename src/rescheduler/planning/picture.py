"""How the nodes stand: the before and after of a plan.

Over all nodes but the control plane's, in per cent of allocatable, rounded so that the same plan prints the same text
on every machine. The page's own figures (`web.standing`) are reckoned alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescheduler.model.plan import NodeLoad, Picture, Spreading
from rescheduler.planning.columns import PODS, Columns, Floats, Indexes, Ints, Mask
from rescheduler.planning.levels import Levels

_FIRST = 2  # CPU and memory: every node has them, and every picture


def picture(columns: Columns, levels: Levels, used: Ints, held: Ints) -> Picture:
    """The utilisation of the worker nodes under these amounts: of what counts, and of all that pods hold."""
    workers = [i for i, node in enumerate(columns.nodes) if not node.control_plane]
    capacity = levels.capacity[:, workers]
    percent = used[:, workers] * 100.0 / np.maximum(capacity, 1)
    over = used[:, workers] > levels.limit[:, workers]
    hot: Mask = np.asarray(over.any(axis=0))
    pool, names, pools = levels.pool[workers], levels.names, levels.pools
    cpu, memory = ([round(share, 2) for share in row.tolist()] for row in percent[:_FIRST])
    pods = held[columns.resource_index[PODS], workers].tolist()
    return Picture(
        cpu=spreading(percent[0]),
        memory=spreading(percent[1]),
        hot_nodes=int(hot.sum()),
        loads=tuple(
            NodeLoad(
                columns.nodes[i].name,
                cpu[at],
                memory[at],
                pods[at],
                over_of(names, over[:, at]) if is_hot else (),
                pools[number] if number >= 0 else "",
                others_of(percent[:, at], capacity[:, at]),
            )
            for at, (i, is_hot, number) in enumerate(zip(workers, hot.tolist(), pool.tolist(), strict=True))
        ),
        others=spreadings(names, percent, capacity),
        pools=hot_by_pool(pools, pool, hot),
    )


def spreading(percent: Floats) -> Spreading:
    """The distribution of these nodes' utilisation."""
    if not len(percent):
        return Spreading(0.0, 0.0, 0.0, 0.0)
    found = (percent.max(), percent.min(), percent.mean(), percent.std())
    return Spreading(*(round(float(number), 2) for number in found))


def spreadings(names: Sequence[str], percent: Floats, capacity: Ints) -> tuple[tuple[str, Spreading], ...]:
    """The same of each resource but CPU and memory, over the nodes that have any of it."""
    return tuple((name, spreading(percent[row, capacity[row] > 0])) for row, name in enumerate(names) if row >= _FIRST)


def hot_by_pool(pools: Sequence[str], pool: Indexes, hot: Mask) -> tuple[tuple[str, int], ...]:
    """How many nodes of each pool are hot."""
    return tuple((name, int((hot & (pool == number)).sum())) for number, name in enumerate(pools))


def over_of(names: Sequence[str], over: Mask) -> tuple[str, ...]:
    """The resources of one node of which more is used than its threshold."""
    return tuple(name for name, is_over in zip(names, over.tolist(), strict=True) if is_over)


def others_of(percent: Floats, capacity: Ints) -> tuple[float | None, ...]:
    """One node's use of each resource but CPU and memory; None where it has nothing of it."""
    if len(percent) == _FIRST:
        return ()
    found = zip(percent[_FIRST:].tolist(), capacity[_FIRST:].tolist(), strict=True)
    return tuple(round(share, 2) if room > 0 else None for share, room in found)
