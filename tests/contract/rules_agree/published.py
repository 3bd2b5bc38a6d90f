"""What the real API server publishes about its types, held against the tables of the embedded one."""

from __future__ import annotations

from kubemini.rules.forms import Form
from tests.testbed.api import Api, Json

# Fields that are behind feature gates which are off by default: the real server publishes them and drops them.
GATED = {
    "CSINodeStatus.storageHealth",
    "ConfigMapVolumeSource.defaultUser",
    "ContainerStatus.stopSignal",
    "DownwardAPIVolumeFile.user",
    "DownwardAPIVolumeSource.defaultUser",
    "EmptyDirVolumeSource.mode",
    "GRPCAction.mode",
    "HTTPGetAction.protocol",
    "JobSpec.scheduling",
    "KeyToPath.user",
    "LeaseSpec.preferredHolder",
    "LeaseSpec.strategy",
    "Lifecycle.stopSignal",
    "NodeSpec.podPreemptionPolicy",
    "PersistentVolumeClaimStatus.healthStatus",
    "PodSpec.evictionResponders",
    "PodSpec.schedulingGroup",
    "PodStatus.nodeAllocatableResourceClaimStatuses",
    "PodStatus.volumeHealth",
    "ProjectedVolumeSource.defaultUser",
    "SecretVolumeSource.defaultUser",
    "ServiceAccountTokenProjection.user",
    "TypedObjectReference.namespace",
    "VolumeMount.bindMountOptions",
}
# The real server never keeps it, though it still publishes it.
GONE = {"ObjectMeta.selfLink"}


def disagreements(api: Api, forms: dict[str, Form]) -> list[str]:
    """Where the tables say something else than the server: fields that one of them does not have."""
    found: list[str] = []
    seen: set[str] = set()
    for place, form in forms.items():
        group, version, name = place.split("/")
        path = f"api/{version}" if group == "core" else f"apis/{group}/{version}"
        types = api.get(f"/openapi/v3/{path}")["components"]["schemas"]
        package = group.removesuffix(".k8s.io").split(".")[0]
        _compare(types, f"io.k8s.api.{package}.{version}.{name}", form, found, seen)
    return sorted(found)


def _compare(types: Json, name: str, form: Form, found: list[str], seen: set[str]) -> None:
    if form.name in seen:
        return
    seen.add(form.name)
    published: Json = types[name].get("properties", {})
    for key in sorted(set(published) ^ set(form.readers)):
        at = f"{form.name}.{key}"
        if at not in GATED | GONE:
            found.append(f"{at} is {'missing' if key in published else 'not published'}")
    for key in sorted(set(published) & set(form.readers)):
        inner = _reference(published[key])
        if key in form.inner and inner:
            _compare(types, inner, form.inner[key], found, seen)


def _reference(schema: Json) -> str:
    """The type that a field, a list or a map is made of."""
    schema = schema.get("items") or schema.get("additionalProperties") or schema
    for each in (schema, *schema.get("allOf", ())):
        if "$ref" in each:
            return str(each["$ref"]).rpartition("/")[2]
    return ""
