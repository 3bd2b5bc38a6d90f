"""The rules for Deployments and for the ReplicaSets that they make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kubemini.refusals import Fault, Json
from kubemini.rules.faults import changed, negative, not_allowed, unsupported, wrong
from kubemini.rules.pod_spec import default_pod_spec
from kubemini.rules.shares import is_zero, share_faults
from kubemini.rules.typed import TypedRules
from kubemini.rules.workloads import (
    always_restarting_faults,
    collision_faults,
    count_faults,
    selected_template_faults,
)

_STRATEGIES = ("Recreate", "RollingUpdate")


class DeploymentRules(TypedRules):
    """What holds for Deployments."""

    kept_by_status: ClassVar[tuple[str, ...]] = ("labels",)

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        spec = body["spec"]
        spec.setdefault("replicas", 1)
        strategy = spec["strategy"]
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        default_pod_spec(spec["template"]["spec"])

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a Deployment, or with its new status."""
        if before is not None and subresource == "status":
            counts = ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
            return [*count_faults(body["status"], counts), *collision_faults(body["status"], before)]
        spec = body["spec"]
        found = list(_spec_faults(spec))
        if before is not None:
            found += changed("spec.selector", spec["selector"], before["spec"]["selector"])
        return found


class ReplicaSetRules(TypedRules):
    """What holds for ReplicaSets."""

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        body["spec"].setdefault("replicas", 1)
        default_pod_spec(body["spec"]["template"]["spec"])

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a ReplicaSet, or with its new status."""
        if before is not None and subresource == "status":
            return list(count_faults(body["status"], ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")))
        spec = body["spec"]
        found = [
            *negative("spec.replicas", spec["replicas"]),
            *negative("spec.minReadySeconds", spec.get("minReadySeconds")),
            *selected_template_faults(spec, "deployment"),
            *always_restarting_faults(spec["template"], "ReplicaSet"),
        ]
        if before is not None:
            found += changed("spec.selector", spec["selector"], before["spec"]["selector"])
        return found


def _spec_faults(spec: Json) -> Iterator[Fault]:
    yield from negative("spec.replicas", spec["replicas"])
    yield from selected_template_faults(spec, "deployment")
    yield from always_restarting_faults(spec["template"], "ReplicaSet")
    yield from _strategy_faults("spec.strategy", spec["strategy"])
    settled = spec.get("minReadySeconds", 0)
    yield from negative("spec.minReadySeconds", settled)
    yield from negative("spec.revisionHistoryLimit", spec["revisionHistoryLimit"])
    deadline = spec["progressDeadlineSeconds"]
    yield from negative("spec.progressDeadlineSeconds", deadline)
    if deadline <= settled:
        yield wrong("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _strategy_faults(path: str, strategy: Json) -> Iterator[Fault]:
    rolling = strategy.get("rollingUpdate")
    match strategy["type"]:
        case "Recreate":
            if rolling is not None:
                why = "may not be specified when strategy `type` is 'Recreate'"
                yield not_allowed(f"{path}.rollingUpdate", why)
        case "RollingUpdate":
            unavailable, surge = strategy["rollingUpdate"]["maxUnavailable"], strategy["rollingUpdate"]["maxSurge"]
            yield from share_faults(f"{path}.rollingUpdate.maxUnavailable", unavailable)
            yield from share_faults(f"{path}.rollingUpdate.maxSurge", surge, bounded=False)
            if is_zero(unavailable) and is_zero(surge):
                why = "may not be 0 when `maxSurge` is 0"
                yield wrong(f"{path}.rollingUpdate.maxUnavailable", unavailable, why)
        case _:
            yield unsupported(path, strategy, _STRATEGIES)
