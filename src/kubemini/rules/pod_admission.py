"""What admission does to pods before anybody else sees them: their priority, an account with its token, tolerations.

`admission` calls these for each new pod, and once more after webhooks have changed it, so each of them does nothing
the second time.
"""

from __future__ import annotations

import secrets
import string

from kubemini.kinds import POD, PRIORITY_CLASS, Kind
from kubemini.refusals import Json, forbidden
from kubemini.rules.pod_resources import all_containers
from kubemini.store import Store

ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  a path, not a token
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105  a name
_MIRROR = "kubernetes.io/config.mirror"
_LOST_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LOST_NODE_SECONDS = 300
_LETTERS = [letter for letter in string.ascii_lowercase + string.digits if letter not in "aeiouy013"]


def admit_account(store: Store, pod: Json) -> None:
    """Give a pod an account, which must exist, and its containers the account's token."""
    metadata, spec = pod["metadata"], pod["spec"]
    if _MIRROR in metadata.get("annotations", {}):
        return
    name = spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = name
    namespace = metadata.get("namespace", "")
    entry = store.get(ACCOUNT, (namespace, name))
    if entry is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(POD, metadata.get("name", ""), why)
    account = entry.object()
    if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
        _mount_token(spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": each.get("name", "")} for each in account["imagePullSecrets"]]


def admit_runtime(pod: Json) -> None:
    """There are no classes of runtimes here, so a pod can name none, nor have the overhead of one."""
    name, spec = pod["metadata"].get("name", ""), pod["spec"]
    if wanted := spec.get("runtimeClassName"):
        raise forbidden(POD, name, f'pod rejected: RuntimeClass "{wanted}" not found')
    if spec.get("overhead"):
        raise forbidden(POD, name, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


def admit_priority(store: Store, pod: Json) -> None:
    """Turn the name of a pod's class into its priority."""
    name, spec = pod["metadata"].get("name", ""), pod["spec"]
    chosen = _class_of(store, spec.get("priorityClassName", ""), name)
    priority, policy = 0, "PreemptLowerPriority"
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
        priority, policy = chosen["value"], chosen["preemptionPolicy"]
    for key, computed, what in (
        ("priority", priority, "the integer value of priority"),
        ("preemptionPolicy", policy, "the string value of PreemptionPolicy"),
    ):
        if spec.setdefault(key, computed) != computed:
            by = f"priority admission controller computed {computed} from the given PriorityClass name"
            raise forbidden(POD, name, f"{what} ({spec[key]}) must not be provided in pod spec; {by}")


def keep_priority(pod: Json, before: Json) -> None:
    """A client that leaves the priority out of a new version does not mean to take it away."""
    for key in ("priority", "preemptionPolicy"):
        if key not in pod["spec"] and key in before["spec"]:
            pod["spec"][key] = before["spec"][key]


def admit_tolerations(pod: Json) -> None:
    """A pod stays for a while on a node that is lost, unless it says something else about that."""
    tolerations = pod["spec"].get("tolerations", [])
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _LOST_NODE_SECONDS}
        for key in _LOST_NODE
        if not any(
            each.get("key", key) == key and each.get("effect", "NoExecute") == "NoExecute" for each in tolerations
        )
    ]
    if added:
        pod["spec"]["tolerations"] = [*tolerations, *added]


def _class_of(store: Store, wanted: str, pod: str) -> Json | None:
    if wanted:
        entry = store.get(PRIORITY_CLASS, ("", wanted))
        if entry is None:
            raise forbidden(POD, pod, f"no PriorityClass with name {wanted} was found")
        return entry.object()
    defaults = [
        each for each in (entry.object() for entry in store.entries(PRIORITY_CLASS)) if each.get("globalDefault")
    ]
    return min(defaults, key=lambda each: int(each["value"]), default=None)  # where there are two, the lowest counts


def _mount_token(spec: Json) -> None:
    volumes = spec.get("volumes", [])
    there = next((volume["name"] for volume in volumes if volume["name"].startswith(_TOKEN_VOLUME)), None)
    name = there or _TOKEN_VOLUME + "".join(_LETTERS[byte % len(_LETTERS)] for byte in secrets.token_bytes(5))
    needed = False
    for container in all_containers(spec):
        mounts = container.get("volumeMounts", [])
        if all(mount["mountPath"] != _TOKEN_PATH for mount in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
            container["volumeMounts"] = [*mounts, mount]
            needed = True
    if needed and there is None:
        spec["volumes"] = [*volumes, _token_volume(name)]


def _token_volume(name: str) -> Json:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
            "defaultMode": 0o644,
        },
    }
