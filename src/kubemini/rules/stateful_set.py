"""The rules for StatefulSets, and for the revisions that they and DaemonSets keep."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.claim_spec import claim_spec_faults, default_claim_spec
from kubemini.rules.faults import changed, each_wrong, negative, required, unsupported, wrong
from kubemini.rules.pod_spec import default_pod_spec
from kubemini.rules.shares import is_zero, share_faults
from kubemini.rules.typed import TypedRules
from kubemini.rules.workloads import (
    always_restarting_faults,
    collision_faults,
    count_faults,
    selected_template_faults,
)

_FIXED = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")
_RETENTION = ("Retain", "Delete")


class StatefulSetRules(TypedRules):
    """What holds for StatefulSets."""

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        spec = body["spec"]
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec["updateStrategy"]
        if "type" not in strategy:
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
            strategy["rollingUpdate"].setdefault("partition", 0)
            strategy["rollingUpdate"].setdefault("maxUnavailable", 1)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        default_pod_spec(spec["template"]["spec"])
        for claim in spec.get("volumeClaimTemplates", ()):
            claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
            default_claim_spec(claim["spec"])
            claim["status"].setdefault("phase", "Pending")

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a StatefulSet, or with its new status."""
        if before is not None and subresource == "status":
            counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
            return [*count_faults(body["status"], counts), *collision_faults(body["status"], before)]
        spec = body["spec"]
        found = list(_spec_faults(spec))
        if before is None:
            for number, claim in enumerate(spec.get("volumeClaimTemplates", ())):
                found += claim_spec_faults(f"spec.volumeClaimTemplates[{number}].spec", claim["spec"])
        else:
            for key in _FIXED:
                found += changed(f"spec.{key}", spec.get(key), before["spec"].get(key))
        return found


class ControllerRevisionRules(TypedRules):
    """What holds for the revisions of StatefulSets and DaemonSets."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a revision."""
        found = list(negative("revision", body["revision"]))
        if body["data"] is None:
            found.append(required("data", "data is mandatory"))
        elif not isinstance(body["data"], dict):
            found.append(required("data", "data must be a valid JSON object"))
        if before is not None:
            found += changed("data", body["data"], before["data"])
        return found


def _spec_faults(spec: Json) -> Iterator[Fault]:
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        yield wrong("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _strategy_faults("spec.updateStrategy", spec["updateStrategy"])
    for key, kept in spec["persistentVolumeClaimRetentionPolicy"].items():
        if kept not in _RETENTION:
            yield unsupported(f"spec.persistentVolumeClaimRetentionPolicy.{key}", kept, _RETENTION)
    yield from negative("spec.replicas", spec["replicas"])
    yield from negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    yield from negative("spec.ordinals.start", spec.get("ordinals", {}).get("start"))
    if service := spec["serviceName"]:
        yield from each_wrong("spec.serviceName", service, names.label(service))
    yield from selected_template_faults(spec, "statefulset", _with_claims(spec))
    yield from always_restarting_faults(spec["template"], "StatefulSet")


def _strategy_faults(path: str, strategy: Json) -> Iterator[Fault]:
    rolling = strategy.get("rollingUpdate")
    match strategy["type"]:
        case "RollingUpdate":
            if rolling is None:
                return
            at = f"{path}.rollingUpdate"
            yield from negative(f"{at}.partition", rolling["partition"])
            yield from share_faults(f"{at}.maxUnavailable", rolling["maxUnavailable"])
            if is_zero(rolling["maxUnavailable"]):
                yield wrong(f"{at}.maxUnavailable", rolling["maxUnavailable"], "cannot be 0")
        case "OnDelete":
            if rolling is not None:
                yield wrong(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
        case _:
            yield wrong(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")


def _with_claims(spec: Json) -> Json:
    """The template as its pods will be: with a volume for each claim, and a name that the controller gives."""
    template: Json = spec["template"]
    claims = {claim["metadata"].get("name", ""): None for claim in spec.get("volumeClaimTemplates", ())}
    inner = {key: value for key, value in template["spec"].items() if key not in ("hostname", "subdomain")}
    if claims:
        own = [volume for volume in inner.get("volumes", ()) if volume["name"] not in claims]
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        inner["volumes"] = [*made, *own]
    return template | {"spec": inner}
