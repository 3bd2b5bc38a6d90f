"""How a pod gets its node: the `binding` of a pod, as schedulers post it.

The HTTP server and the embedded scheduler call `bind`. As in the real API server it goes past the rules for pods, which
forbid any change of spec.nodeName, straight into the store: the pod is checked here, and nobody can come in between.
"""

from __future__ import annotations

from kubemini.api import Api, Review, Target
from kubemini.kinds import NODE, POD
from kubemini.pods import update_condition
from kubemini.refusals import Json, Refusal, bad_request, conflict, not_found

# Since v1.35 a pod carries where its node is, so that what runs in it can know without asking for nodes.
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


async def bind(api: Api, target: Target, binding: Json, *, dry_run: bool = False) -> Json:
    """Assign a pod to a node, once; the answer is a Status."""
    binding = {"metadata": {}, "target": {}, **binding}
    meant, node = binding["metadata"], binding["target"].get("name", "")
    if meant.get("name") != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    _check_target(binding["target"])
    binding = {"apiVersion": "v1", "kind": "Binding"} | binding
    meant["namespace"] = target.namespace
    pod_binding = Target(POD, target.namespace, target.name, "binding")
    await api.admission.admit(Review("CREATE", pod_binding, binding, dry_run=dry_run))
    entry = api.store.get(POD, target.key)
    if entry is None:
        raise not_found(POD, target.name)
    for what, wanted, there in (
        ("UID", meant.get("uid"), entry.uid),
        ("ResourceVersion", meant.get("resourceVersion"), str(entry.version)),
    ):
        if wanted and wanted != there:
            why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {there}"
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
    if annotations := meant.get("annotations"):
        pod["metadata"]["annotations"] = pod["metadata"].get("annotations", {}) | annotations
    if labels := meant.get("labels", {}) | _where(api, node):
        pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | labels
    update_condition(pod["status"], {"type": "PodScheduled", "status": "True"})
    if not dry_run:
        api.store.replace(POD, pod, entry.version)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_target(target: Json) -> None:
    """Kubernetes answers a Binding that makes no sense with a bare 500; so do we."""
    kind, name = target.get("kind", ""), target.get("name", "")
    why = ""
    if kind not in ("", "Node"):
        why = f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
    elif not name:
        why = "target.name: Required value"
    if why:
        raise Refusal(500, "", why)


def _where(api: Api, node: str) -> dict[str, str]:
    found = api.store.get(NODE, ("", node))
    return {key: found.labels[key] for key in _TOPOLOGY if key in found.labels} if found else {}


def _unassignable(name: str, why: str) -> Refusal:
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return Refusal(409, "Conflict", message, {"name": name, "kind": "pods/binding"})
