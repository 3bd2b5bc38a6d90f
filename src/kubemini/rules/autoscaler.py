"""The rules for HorizontalPodAutoscalers. Nothing here scales by them: whoever tries them out writes their status."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules.faults import negative, not_allowed, required, wrong
from kubemini.rules.typed import TypedRules

_TARGET = {"type": "Utilization", "averageUtilization": 80}


class AutoscalerRules(TypedRules):
    """What holds for HorizontalPodAutoscalers."""

    def default(self, body: Json) -> None:
        """Fill in what is open: by CPU, at 80 per cent."""
        spec = body["spec"]
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": dict(_TARGET)}}]

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with an autoscaler, or with its new status."""
        if before is not None and subresource == "status":
            return list(_status_faults(body["status"]))
        return list(_spec_faults(body["spec"]))


def _spec_faults(spec: Json) -> Iterator[Fault]:
    least, most, target = spec["minReplicas"], spec["maxReplicas"], spec["scaleTargetRef"]
    for key in ("kind", "name"):
        if not target[key]:
            yield required(f"spec.scaleTargetRef.{key}")
    version = target.get("apiVersion", "")
    if "/" not in version and target["kind"] != "ReplicationController":
        yield wrong("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")
    yield from negative("spec.minReplicas", least)
    if least == 0 and not any(metric["type"] in ("Object", "External") for metric in spec["metrics"]):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield not_allowed("spec.metrics", why)
    if most < 1:
        yield wrong("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield wrong("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    if most == 0:
        yield required("spec.maxReplicas")


def _status_faults(status: Json) -> Iterator[Fault]:
    for key in ("currentReplicas", "desiredReplicas"):
        yield from negative(f"status.{key}", status.get(key))
