"""The page and its real server before a generated cluster of any size, in memory: there is no API server behind it.

The controller's own cache is filled (`tests.bench.skewed`), and everything is answered from that. Signing in is not
possible.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from rescheduler.decode.reader import without_gc
from rescheduler.web.actions import ActionRoutes
from rescheduler.web.auth import PageAccess, RequestChecks
from tests.bench.skewed import nodes_of, objects, workloads_of
from tests.support.page_thread import InThread, pages_in_thread
from tests.support.showing import Stage


@dataclass(frozen=True)
class Large:
    """A cluster in memory, with its page."""

    stage: Stage
    server: InThread


@contextmanager
def large_page(nodes: int, pods: int) -> Iterator[Large]:
    """Served until the end of the block."""
    stage, rolled = Stage(), random.Random(1)
    stage.clock.now = time.time()
    with without_gc():
        planned = nodes_of(nodes, pods, rolled)
        for text in objects(planned, workloads_of(planned, rolled)):
            kind = text.partition('"kind": "')[2].partition('"')[0]
            stage.watching.cache.put(kind, text.encode())
    state = ("kube-system", "kube-rescheduler-state")
    actions = ActionRoutes(RequestChecks(), cast("PageAccess", None), {}, state, stage.watching.migrations)
    with pages_in_thread(stage.page.api, actions) as server:
        yield Large(stage, server)
