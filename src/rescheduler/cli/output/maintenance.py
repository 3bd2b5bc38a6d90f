"""Nodes under maintenance, as `maintenance status` shows them: a table for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rescheduler.app.maintenance import CordonState
from rescheduler.cli.output.table import Table
from rescheduler.cli.output.terminal import Terminal
from rescheduler.planning.maintenance import DrainStatus, RemainingPod

_HEADERS = ("NODE", "CORDONED", "TO MOVE", "REFUSED", "STAYING")
_NAMED = 5

Cordons = Mapping[str, CordonState]


def status_lines(nodes: Sequence[DrainStatus], cordons: Cordons, terminal: Terminal, **how: bool) -> Iterator[str]:
    """The table; `wide` names what is refused, `headers` heads it."""
    rows = [
        [
            node.node,
            cordons[node.node].value,
            str(len(node.remaining) - len(node.stuck)),
            str(len(node.stuck)),
            str(node.staying),
            *([reasons(node)] if how["wide"] else []),
        ]
        for node in nodes
    ]
    headers = (*_HEADERS, "REASONS") if how["wide"] else _HEADERS
    table = Table(headers, rows, flowing=int(how["wide"]), right=frozenset({2, 3, 4}))
    return table.lines(terminal, headers=how["headers"])


def reasons(node: DrainStatus) -> str:
    """Which pods are refused now, and why, in a line."""
    held = [pod for pod in node.remaining if pod.reason]
    told = [describe_remaining(pod) for pod in held[:_NAMED]]
    return "; ".join([*told, *([f"and {len(held) - _NAMED} more"] if len(held) > _NAMED else [])])


def describe_remaining(pod: RemainingPod) -> str:
    """A pod that is still there, and why."""
    return f"{pod.full_name}: {pod.reason or 'waits for its turn'}"


def status_document(nodes: Sequence[DrainStatus], cordons: Cordons) -> dict[str, object]:
    """All of it, as plain values."""
    return {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "MaintenanceStatus",
        "nodes": [
            {
                "name": node.node,
                "cordoned": cordons[node.node] is not CordonState.NONE,
                "cordonedByRescheduler": cordons[node.node] is CordonState.OURS,
                "remaining": [
                    {"namespace": pod.namespace, "pod": pod.pod, "reason": pod.reason, "refused": pod.lasting}
                    for pod in node.remaining
                ],
                "staying": node.staying,
            }
            for node in nodes
        ],
    }
