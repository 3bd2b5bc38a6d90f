"""The `binding` of a pod: how schedulers assign it to a node.

The HTTP server and the embedded scheduler call `bind`. As in the real API server it goes past the rules for pods, which
forbid any change of spec.nodeName, straight into the store. Nothing waits between the checks and the write.
"""

from __future__ import annotations

from kubemini.api import Api, Review, Target
from kubemini.conditions import set_pod_condition
from kubemini.kinds import NODE, POD
from kubemini.refusals import Json, Refusal, bad_request, conflict, not_found

# Since v1.35 a pod carries where its node is, so that what runs in it can know without asking for nodes.
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


async def bind(api: Api, target: Target, binding: Json, *, dry_run: bool = False) -> Json:
    """Assign a pod to a node, once; the answer is a Status."""
    metadata = binding.setdefault("metadata", {})
    node = (binding.get("target") or {}).get("name", "")
    if metadata.get("name") != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    if not node:
        raise Refusal(500, "", "target.name: Required value")  # the real one has no better code for it
    metadata["namespace"] = target.namespace
    review = Target(POD, target.namespace, target.name, "binding")
    body = {"apiVersion": "v1", "kind": "Binding"} | binding
    await api.admission.admit(Review("CREATE", review, body, dry_run=dry_run))
    entry = api.store.get(POD, target.key)
    if entry is None:
        raise not_found(POD, target.name)
    if metadata.get("uid") and metadata["uid"] != entry.uid:
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {entry.uid}"
        raise conflict(POD, target.name, why)
    pod = entry.object()
    if entry.deleting:
        raise _unassignable(target.name, f"pod {target.name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise _unassignable(target.name, f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise _unassignable(target.name, f"pod {target.name} has non-empty .spec.schedulingGates")
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    if annotations := metadata.get("annotations"):
        pod["metadata"]["annotations"] = pod["metadata"].get("annotations", {}) | annotations
    if labels := metadata.get("labels", {}) | _topology_of(api, node):
        pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | labels
    set_pod_condition(pod, "PodScheduled", "True")
    if not dry_run:
        api.store.replace(POD, pod, entry.version)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _topology_of(api: Api, node: str) -> dict[str, str]:
    found = api.store.get(NODE, ("", node))
    return {key: found.labels[key] for key in _TOPOLOGY if key in found.labels} if found else {}


def _unassignable(name: str, why: str) -> Refusal:
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return Refusal(409, "Conflict", message, {"name": name, "kind": "pods/binding"})
