"""Tables: the rows that `kubectl get` prints, made by the server so that every client shows the same.

`shapes` asks for a kind's printer here and writes lists and watch events with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubemini import kinds
from kubemini.custom import columns_of
from kubemini.kinds import Kind
from kubemini.refusals import Json, bad_request
from kubemini.server import (
    columns_cluster,
    columns_pods,
    columns_storage,
    columns_workloads,
)
from kubemini.server.columns import Printer
from kubemini.server.columns_custom import custom_printer

_PRINTERS = {
    kinds.POD.resource: columns_pods.PODS,
    kinds.NODE.resource: columns_cluster.NODES,
    kinds.NAMESPACE.resource: columns_cluster.NAMESPACES,
    kinds.SERVICE.resource: columns_cluster.SERVICES,
    kinds.CORE_EVENT.resource: columns_cluster.EVENTS,
    kinds.EVENT.resource: columns_cluster.EVENTS,
    kinds.LEASE.resource: columns_cluster.LEASES,
    kinds.PRIORITY_CLASS.resource: columns_cluster.PRIORITY_CLASSES,
    kinds.MUTATING_WEBHOOKS.resource: columns_cluster.WEBHOOKS,
    kinds.DEFINITION.resource: columns_cluster.DEFINITIONS,
    "configmaps": columns_cluster.CONFIG_MAPS,
    "secrets": columns_cluster.SECRETS,
    kinds.CLAIM.resource: columns_storage.CLAIMS,
    kinds.VOLUME.resource: columns_storage.VOLUMES,
    kinds.STORAGE_CLASS.resource: columns_storage.STORAGE_CLASSES,
    kinds.CSI_NODE.resource: columns_storage.CSI_NODES,
    kinds.DEPLOYMENT.resource: columns_workloads.DEPLOYMENTS,
    kinds.REPLICA_SET.resource: columns_workloads.REPLICA_SETS,
    kinds.STATEFUL_SET.resource: columns_workloads.STATEFUL_SETS,
    kinds.DAEMON_SET.resource: columns_workloads.DAEMON_SETS,
    kinds.CONTROLLER_REVISION.resource: columns_workloads.CONTROLLER_REVISIONS,
    kinds.JOB.resource: columns_workloads.JOBS,
    kinds.CRON_JOB.resource: columns_workloads.CRON_JOBS,
    kinds.BUDGET.resource: columns_workloads.BUDGETS,
    "scales.autoscaling": columns_workloads.SCALES,
}


def printer_of(kind: Kind) -> Printer:
    """How objects of a kind become rows."""
    if kind.custom:
        return custom_printer(columns_of(kind))
    return _PRINTERS.get(kind.resource, columns_cluster.OTHERS)


def check_included(include: str) -> None:
    """Refuse what `includeObject` can't be."""
    if include not in ("", "Metadata", "Object", "None"):
        why = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: includeObject: {why}")


def row_of(printer: Printer, body: Json, shown: Any) -> bytes:
    """One row; `shown` is the object that goes with it."""
    row: Json = {"cells": printer.row(body)}
    conditions = printer.conditions(body) if printer.conditions else []
    if conditions:
        row["conditions"] = conditions
    return msgspec.json.encode(row | {"object": shown})
