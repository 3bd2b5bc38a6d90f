"""What the API server fills in where a client leaves a field open.

`api` calls `prepare_create` once for a new object, `prepare_update` once for a new version, and `set_defaults` before
and after admission. `set_defaults` changes nothing the second time. Kinds without a function here are stored as they
come. Controllers, the scheduler and kubelets rely on these fields being there.
"""

from __future__ import annotations

from collections.abc import Callable

from kubemini.custom import CustomKind, fill, prune
from kubemini.errors import Json
from kubemini.kinds import (
    BUDGET,
    CLAIM,
    DAEMON_SET,
    DEFINITION,
    DEPLOYMENT,
    JOB,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    SECRET,
    STATEFUL_SET,
    VOLUME,
    Kind,
)
from kubemini.pods import all_containers, first_status
from rescheduler.model.quantity import parse_quantity

_NAMESPACE_FINALIZER = "kubernetes"
_UID_LABEL, _JOB_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def prepare_create(kind: Kind, body: Json) -> None:
    """Remove what a client may not set in a new object, and give it what it begins with."""
    if "status" in kind.subresources and kind != NODE:
        body.pop("status", None)
    if kind.custom:
        return
    drop_empty(kind, body)
    if kind == NAMESPACE:
        finalizers = body.setdefault("spec", {}).setdefault("finalizers", [])
        if _NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(_NAMESPACE_FINALIZER)
    elif kind == JOB:
        _give_selector(body)
    elif kind == DEFINITION:
        stored = [each.get("name") for each in body["spec"]["versions"] if each.get("storage")]
        body["status"] = {"conditions": [], "storedVersions": stored}


def prepare_update(kind: Kind, body: Json, before: Json, subresource: str) -> None:
    """Keep the part of an object that this way of writing does not reach."""
    if not kind.custom:
        drop_empty(kind, body)
    if subresource == "status":
        _keep_all_but_status(kind, body, before)
    elif "status" in kind.subresources:
        body.pop("status", None)
        if "status" in before:
            body["status"] = before["status"]
    if kind == NAMESPACE and subresource != "finalize":
        body["spec"] = before["spec"]


def _keep_all_but_status(kind: Kind, body: Json, before: Json) -> None:
    for key in [key for key in body if key not in ("metadata", "status", *before)]:
        del body[key]
    for key, value in before.items():
        if key not in ("metadata", "status"):
            body[key] = value
    if kind.custom:
        version = body["metadata"].get("resourceVersion", before["metadata"]["resourceVersion"])
        body["metadata"] = {**before["metadata"], "resourceVersion": version}


def drop_empty(kind: Kind, body: Json) -> None:
    """Drop nulls and empty lists: to the API server they are the same as a field that is not there.

    The status is left as it is, because times in conditions may be null, and so is the schema of a definition.
    """
    for key, value in list(body.items()):
        if value is None or value == []:
            del body[key]
        elif key == "metadata" or (key != "status" and kind != DEFINITION):
            _drop_empty_below(value)
    for key in ("labels", "annotations"):
        if body["metadata"].get(key) == {}:
            del body["metadata"][key]


def _drop_empty_below(value: object) -> None:
    if isinstance(value, dict):
        for key, each in list(value.items()):
            if each is None or each == []:
                del value[key]
            else:
                _drop_empty_below(each)
    elif isinstance(value, list):
        for each in value:
            _drop_empty_below(each)


def set_defaults(kind: Kind, body: Json) -> None:
    """Fill in the fields that are open."""
    if isinstance(kind, CustomKind):
        prune(kind.schema, body)
        fill(kind.schema, body)
        return
    default = _DEFAULTS.get(kind)
    if default is not None:
        default(body)


def _spec_and_status(body: Json, **counts: int) -> Json:
    """The spec of an object, which has a status, too, with these counts."""
    spec: Json = body.setdefault("spec", {})
    status = body.setdefault("status", {})
    for key, count in counts.items():
        status.setdefault(key, count)
    return spec


def _pod(body: Json) -> None:
    spec = body.setdefault("spec", {})
    default_pod_spec(spec)
    for container in all_containers(spec):
        resources = container["resources"]
        for name, limit in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)
        for port in container.get("ports", ()) if spec.get("hostNetwork") else ():
            port.setdefault("hostPort", port["containerPort"])
    if "status" not in body:
        body["status"] = first_status(spec)


def default_pod_spec(spec: Json) -> None:
    """Fill in what the spec of a pod or of a template leaves open."""
    spec.setdefault("containers", [])
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in all_containers(spec):
        _container(container)
    for volume in spec.get("volumes", ()):
        if len(volume) == 1:
            volume["emptyDir"] = {}


def _container(container: Json) -> None:
    resources = container.setdefault("resources", {})
    for part in ("requests", "limits"):
        if part in resources:
            resources[part] = _quantities(resources[part])
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")


def _quantities(resources: Json) -> Json:
    """Resources whose amounts are text, as the API server writes them; a ValueError if one is not a quantity."""
    for quantity in resources.values():
        parse_quantity(quantity)
    return {name: str(quantity) for name, quantity in resources.items()}


def _template(spec: Json) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def _deployment(body: Json) -> None:
    spec = _spec_and_status(body)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%"} | strategy.get("rollingUpdate", {})
    _template(spec)


def _replica_set(body: Json) -> None:
    spec = _spec_and_status(body, replicas=0)
    spec.setdefault("replicas", 1)
    _template(spec)


def _stateful_set(body: Json) -> None:
    spec = _spec_and_status(body, replicas=0, availableReplicas=0)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("updateStrategy", {}).setdefault("type", "RollingUpdate")
    spec.setdefault("replicas", 1)
    _template(spec)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        _claim(claim)


def _daemon_set(body: Json) -> None:
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    spec = _spec_and_status(body, **dict.fromkeys(counts, 0))
    spec.setdefault("updateStrategy", {}).setdefault("type", "RollingUpdate")
    _template(spec)


def _give_selector(body: Json) -> None:
    """Give a new Job a selector of its own, and its pods the labels for it."""
    spec, metadata = body.setdefault("spec", {}), body["metadata"]
    if spec.get("manualSelector"):
        return
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    for key in ("job-name", _JOB_LABEL):
        labels.setdefault(key, metadata.get("name", ""))
    for key in ("controller-uid", _UID_LABEL):
        labels.setdefault(key, metadata["uid"])
    spec.setdefault("selector", {"matchLabels": {_UID_LABEL: metadata["uid"]}})


def _job(body: Json) -> None:
    spec = _spec_and_status(body)
    _template(spec)
    if labels := spec["template"]["metadata"].get("labels"):
        body["metadata"]["labels"] = body["metadata"].get("labels") or dict(labels)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("suspend", False)


def _budget(body: Json) -> None:
    _spec_and_status(body, disruptionsAllowed=0, currentHealthy=0, desiredHealthy=0, expectedPods=0)


def _node(body: Json) -> None:
    _spec_and_status(body)
    status = body["status"]
    for part in ("capacity", "allocatable"):
        if part in status:
            status[part] = _quantities(status[part])
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _namespace(body: Json) -> None:
    _spec_and_status(body)
    metadata = body["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
    body["status"].setdefault("phase", "Active")


def _claim(body: Json) -> None:
    spec = _spec_and_status(body)
    body.setdefault("metadata", {})
    spec.setdefault("resources", {})
    body["status"].setdefault("phase", "Pending")


def _volume(body: Json) -> None:
    spec = _spec_and_status(body)
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    body["status"].setdefault("phase", "Pending")


def _priority_class(body: Json) -> None:
    body.setdefault("value", 0)
    body.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _secret(body: Json) -> None:
    body.setdefault("type", "Opaque")


def _webhooks(body: Json) -> None:
    for hook in body.get("webhooks", ()):
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        for rule in hook.get("rules", ()):
            rule.setdefault("scope", "*")


_DEFAULTS: dict[Kind, Callable[[Json], None]] = {
    POD: _pod,
    NODE: _node,
    NAMESPACE: _namespace,
    CLAIM: _claim,
    VOLUME: _volume,
    SECRET: _secret,
    DEPLOYMENT: _deployment,
    REPLICA_SET: _replica_set,
    STATEFUL_SET: _stateful_set,
    DAEMON_SET: _daemon_set,
    JOB: _job,
    BUDGET: _budget,
    PRIORITY_CLASS: _priority_class,
    MUTATING_WEBHOOKS: _webhooks,
}
