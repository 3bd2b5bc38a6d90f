"""The `binding` of a pod: how schedulers assign it to a node.

The HTTP server and the embedded scheduler call `bind`. As in the real API server it goes past the rules for pods, which
forbid any change of spec.nodeName, straight into the store. Nothing waits between the checks and the write.
"""

from __future__ import annotations

from kubemini.api import Api, Target
from kubemini.conditions import set_pod_condition
from kubemini.errors import Json, bad_request, conflict, not_found
from kubemini.kinds import NODE, POD

# Since v1.35 a pod carries where its node is, so that what runs in it can know without asking for nodes.
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


async def bind(api: Api, target: Target, binding: Json, *, dry_run: bool = False) -> Json:
    """Assign a pod to a node, once; the answer is a Status."""
    metadata, node = binding["metadata"], (binding.get("target") or {}).get("name")
    if not node:
        raise bad_request("target.name: Required value")
    entry = api.store.get(POD, target.key)
    if entry is None:
        raise not_found(POD, target.name)
    if metadata.get("uid") and metadata["uid"] != entry.uid:
        raise conflict(POD, target.name, f"the uid in the precondition ({metadata['uid']}) is not {entry.uid}")
    pod = entry.object()
    if entry.deleting:
        raise conflict(POD, target.name, f"pod {target.name} is being deleted, cannot be assigned to a host")
    if at := pod["spec"].get("nodeName"):
        raise conflict(POD, target.name, f'pod {target.name} is already assigned to node "{at}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(POD, target.name, f"pod {target.name} has non-empty .spec.schedulingGates")
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    if labels := _topology_of(api, node):
        pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | labels
    set_pod_condition(pod, "PodScheduled", "True")
    if not dry_run:
        api.store.replace(POD, pod, entry.version)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _topology_of(api: Api, node: str) -> dict[str, str]:
    found = api.store.get(NODE, ("", node))
    return {key: found.labels[key] for key in _TOPOLOGY if key in found.labels} if found else {}
