from __future__ import annotations

import numpy as np

from rescheduler.model.shape import HostPort
from rescheduler.planning.columns import Indexes, Mask
from rescheduler.planning.predicates.base import Predicate, PredicateContext


class NodePorts(Predicate):
    """The ports that the pod takes on its node are free there."""

    name = "NodePorts"
    order = 100
    caption = "Port is taken"

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._clashing: dict[HostPort, Indexes] = {}
        self._whatif.add_listener(self)

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        for taken in self._columns.shape(pod).host_ports:
            for port, counts in self._clashing.items():
                if port.clashes(taken):
                    counts[node] += delta

    def mask(self, pod: int) -> Mask | None:
        ports = self._columns.shape(pod).host_ports
        if not ports:
            return None
        free = np.ones(len(self._columns.nodes), np.bool_)
        for port in ports:
            free &= self._counts(port) == 0
        return free

    def reason(self, pod: int, node: int) -> str:
        wanted = self._columns.shape(pod).host_ports
        port = next(port for port in wanted if self._counts(port)[node])
        return f"host port {port.port}/{port.protocol} is taken"

    def _counts(self, port: HostPort) -> Indexes:
        """[N]: how many ports taken on each node clash with this one."""
        if port not in self._clashing:
            counts = np.zeros(len(self._columns.nodes), np.int32)
            for taker in self._columns.pods_with(lambda shape: bool(shape.host_ports)).tolist():
                at = self._whatif.at[taker]
                if at >= 0:
                    counts[at] += sum(port.clashes(taken) for taken in self._columns.shape(taker).host_ports)
            self._clashing[port] = counts
        return self._clashing[port]
