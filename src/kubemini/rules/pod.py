"""The rules for pods: what a new one begins with, what may change, and how long it takes to end.

`table` enters them. The spec has files of its own, because the templates of workloads share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from kubemini import clock
from kubemini.refusals import Fault, Json
from kubemini.rules.faults import negative, not_allowed, wrong
from kubemini.rules.pod_resources import (
    all_containers,
    default_pod_level,
    default_requests,
    quality_of_service,
)
from kubemini.rules.pod_spec import default_pod_spec, pod_annotations_faults, pod_spec_faults
from kubemini.rules.pod_update import spec_update_faults, status_update_faults
from kubemini.rules.typed import TypedRules

TERMINAL = ("Failed", "Succeeded")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PodRules(TypedRules):
    """What holds for pods."""

    kept_by_status: ClassVar[tuple[str, ...]] = ("ownerReferences",)

    def prepare_create(self, body: Json) -> None:
        """Merge into selectors what shall be taken from the pod's own labels."""
        super().prepare_create(body)
        _merge_label_keys(body["spec"], body["metadata"].get("labels", {}))

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """Keep what a client that knows nothing of it has left out of a status."""
        super().prepare_update(body, before, subresource)
        if subresource == "status":
            _keep_observed(body["status"], before.get("status", {}))

    def default(self, body: Json) -> None:
        """Fill in what is open; a new pod is pending."""
        spec = body["spec"]
        default_pod_spec(spec)
        if spec["terminationGracePeriodSeconds"] < 0:
            spec["terminationGracePeriodSeconds"] = 1
        default_requests(spec)
        spec.setdefault("enableServiceLinks", True)
        if spec.get("hostNetwork"):
            for container in all_containers(spec):
                for port in container.get("ports", ()):
                    port.setdefault("hostPort", port["containerPort"])
        if "resourceVersion" not in body["metadata"]:
            default_pod_level(spec)
            body["status"] = _first_status(spec)
        else:
            _default_addresses(body["status"])

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a new pod, a new version, or a new status."""
        if before is not None and subresource == "status":
            return list(status_update_faults(body, before))
        if before is None:
            return [*_pod_faults(body), *_creation_faults(body["spec"])]
        # What was fine is fine: most changes of pods are marks on them, and there are many pods.
        same = body["spec"] == before["spec"]
        found = list(_annotation_faults(body)) if same else list(_pod_faults(body))
        return [*found, *spec_update_faults(body, before)]

    def grace(self, body: Json, asked: int | None) -> int:
        """What was asked for, else what the pod says; nothing where there is nobody to end it."""
        spec = body["spec"]
        if not spec.get("nodeName") or body.get("status", {}).get("phase") in TERMINAL:
            return 0
        seconds: int = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return 1 if seconds < 0 else seconds


def update_condition(status: Json, condition: Json) -> bool:
    """Put a condition into a status, as Kubernetes does: its time is that of the last change of its status.

    The answer is whether anything has changed.
    """
    conditions: list[Json] = status.setdefault("conditions", [])
    fresh = {"lastProbeTime": None, "lastTransitionTime": clock.stamp(clock.now())} | condition
    for number, there in enumerate(conditions):
        if there["type"] == condition["type"]:
            if there["status"] == condition["status"]:
                fresh["lastTransitionTime"] = there.get("lastTransitionTime")
            conditions[number] = fresh
            return there != fresh
    conditions.append(fresh)
    return True


def _first_status(spec: Json) -> Json:
    status: Json = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        waiting = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        update_condition(status, waiting)
    return status | {"qosClass": quality_of_service(spec)}


def _pod_faults(body: Json) -> Iterator[Fault]:
    spec, metadata = body["spec"], body["metadata"]
    yield from _annotation_faults(body)
    yield from pod_spec_faults("spec", spec, metadata.get("name", ""), is_pod=True)
    yield from negative("spec.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"])
    for key in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(key) or ()):
            image = container.get("image", "")
            if image.strip() != image:
                yield wrong(f"spec.{key}[{number}].image", image, "must not have leading or trailing whitespace")


def _annotation_faults(body: Json) -> Iterator[Fault]:
    return pod_annotations_faults("metadata.annotations", body["metadata"].get("annotations", {}), body["spec"])


def _creation_faults(spec: Json) -> Iterator[Fault]:
    if spec.get("ephemeralContainers"):
        yield not_allowed("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield not_allowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _merge_label_keys(spec: Json, labels: Mapping[str, str]) -> None:
    affinity = spec.get("affinity") or {}
    for sort in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(sort) or {}
        for term in pods.get(_REQUIRED, ()):
            _merge(term, labels)
        for weighted in pods.get(_PREFERRED, ()):
            _merge(weighted["podAffinityTerm"], labels)
    for constraint in spec.get("topologySpreadConstraints", ()):
        _merge(constraint, labels)


def _merge(owner: Json, labels: Mapping[str, str]) -> None:
    selector = owner.get("labelSelector")
    if selector is None:  # none at all matches nothing, whatever is merged into it
        return
    merged = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for keys, operator in ((owner.get("matchLabelKeys", ()), "In"), (owner.get("mismatchLabelKeys", ()), "NotIn"))
        for key in keys
        if key in labels
    ]
    if merged:
        selector["matchExpressions"] = [*selector.get("matchExpressions", ()), *merged]


def _keep_observed(status: Json, old: Json) -> None:
    """What only newer clients write is not lost when an older one writes the status."""
    for key in ("qosClass", "observedGeneration", "resourceClaimStatuses", "extendedResourceClaimStatus"):
        if key not in status and key in old:
            status[key] = old[key]
    observed: dict[str, Iterable[int]] = {}
    for condition in old.get("conditions", ()):
        observed[condition["type"]] = [*observed.get(condition["type"], ()), condition.get("observedGeneration", 0)]
    for condition in status.get("conditions", ()):
        first, *rest = [*observed.get(condition["type"], ()), 0]
        observed[condition["type"]] = rest
        if first and not condition.get("observedGeneration"):
            condition["observedGeneration"] = first


def _default_addresses(status: Json) -> None:
    """The one address and the list of addresses say the same; the one counts."""
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0]["ip"] != one):
        status["podIPs"] = [{"ip": one}]
    elif many and not one:
        status["podIP"] = many[0]["ip"]
