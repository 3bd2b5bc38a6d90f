"""How the nodes stand: the before and after of a plan.

Over all nodes but the control plane's, in per cent of allocatable, rounded so that the same plan prints the same text
on every machine.
"""

from __future__ import annotations

import numpy as np

from rescheduler.model.plan import NodeLoad, Picture, Spreading
from rescheduler.planning.columns import PODS, Columns, Floats, Ints
from rescheduler.planning.view import View


def picture(columns: Columns, used: Ints, view: View) -> Picture:
    """The utilisation of the worker nodes under these amounts [R, N]."""
    workers = [i for i, node in enumerate(columns.nodes) if not node.control_plane]
    percent = used[:2, workers] * 100.0 / np.maximum(view.capacity[:, workers], 1)
    counts = used[columns.resource_index[PODS], workers]
    hot = (used[:2, workers] > view.limit[:, workers]).any(axis=0)
    return Picture(
        cpu=spreading(percent[0]),
        memory=spreading(percent[1]),
        hot_nodes=int(hot.sum()),
        loads=tuple(
            NodeLoad(columns.nodes[i].name, round(float(c), 2), round(float(m), 2), int(p))
            for i, c, m, p in zip(workers, percent[0], percent[1], counts, strict=True)
        ),
    )


def spreading(percent: Floats) -> Spreading:
    """The distribution of these nodes' utilisation."""
    if not len(percent):
        return Spreading(0.0, 0.0, 0.0, 0.0)
    found = (percent.max(), percent.min(), percent.mean(), percent.std())
    return Spreading(*(round(float(number), 2) for number in found))
