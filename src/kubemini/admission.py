"""Admission: what the API server does to an object between a client's request and validation.

`api` calls `admit` for every new object. First come the API server's own plug-ins: service accounts, priorities,
tolerations, taints of new nodes, storage classes. Then mutating webhooks; what they changed goes through the plug-ins
once more.
"""

from __future__ import annotations

import copy
import secrets

from kubemini.api import SUFFIX_LETTERS, Creation
from kubemini.defaults import set_defaults
from kubemini.errors import Json, forbidden
from kubemini.kinds import CLAIM, NODE, POD, PRIORITY_CLASS, SERVICE_ACCOUNT, STORAGE_CLASS, Kind
from kubemini.pods import all_containers
from kubemini.store import Store
from kubemini.webhooks import MutatingWebhooks

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_LOST_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LOST_NODE_SECONDS = 300
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "generation")
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  a path, not a token
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105  a name


class AdmissionChain:
    """The admission of one cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._webhooks = MutatingWebhooks(store)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._webhooks.close()

    async def admit(self, creation: Creation) -> Json:
        """The object to store; a StatusError if it is refused."""
        kind, body = creation.kind, creation.body
        self._plug_ins(kind, body)
        if not self._webhooks.concern(creation):
            return body
        shown = _as_sent(creation)
        changed = await self._webhooks.admit(creation, shown)
        if changed != shown:
            set_defaults(kind, changed)
            self._plug_ins(kind, changed)
        for key in (*_SYSTEM_FIELDS, "namespace"):
            if key in body["metadata"]:
                changed["metadata"][key] = body["metadata"][key]
        changed["metadata"].setdefault("name", body["metadata"].get("name", ""))
        if "status" in body:
            changed["status"] = body["status"]
        return changed

    def _plug_ins(self, kind: Kind, body: Json) -> None:
        if kind == POD:
            self._set_account(body)
            self._set_priority(body)
            _add_tolerations(body)
        elif kind == NODE:
            _add_taint(body)
        elif kind == CLAIM:
            self._set_storage_class(body)

    def _set_account(self, pod: Json) -> None:
        """Give a pod its service account, which must exist, and its containers the account's token."""
        spec, metadata = pod["spec"], pod["metadata"]
        name = spec.setdefault("serviceAccountName", "default")
        spec["serviceAccount"] = name
        namespace = metadata.get("namespace", "")
        account = self._store.get(SERVICE_ACCOUNT, (namespace, name))
        if account is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(POD, metadata.get("name", ""), why)
        if spec.get("automountServiceAccountToken", account.object().get("automountServiceAccountToken", True)):
            _mount_token(spec)

    def _set_priority(self, pod: Json) -> None:
        """Turn the name of a pod's PriorityClass into its priority."""
        spec, name = pod["spec"], pod["metadata"].get("name", "")
        wanted = spec.get("priorityClassName")
        classes = [entry.object() for entry in self._store.entries(PRIORITY_CLASS)]
        chosen = next(
            (
                each
                for each in classes
                if each["metadata"]["name"] == wanted or (not wanted and each.get("globalDefault"))
            ),
            None,
        )
        if wanted and chosen is None:
            raise forbidden(POD, name, f"no PriorityClass with name {wanted} was found")
        priority, policy = 0, "PreemptLowerPriority"
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
            priority, policy = chosen["value"], chosen["preemptionPolicy"]
        if spec.setdefault("priority", priority) != priority:
            raise forbidden(
                POD, name, f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
            )
        spec.setdefault("preemptionPolicy", policy)

    def _set_storage_class(self, claim: Json) -> None:
        """Give a claim that names no StorageClass the default one."""
        if "storageClassName" in claim["spec"]:
            return
        for entry in self._store.entries(STORAGE_CLASS):
            if entry.object()["metadata"].get("annotations", {}).get(_DEFAULT_CLASS) == "true":
                claim["spec"]["storageClassName"] = entry.key[1]


def _add_tolerations(pod: Json) -> None:
    """Tolerate a lost node for five minutes, unless the pod has tolerations of its own for that."""
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


def _add_taint(node: Json) -> None:
    """Keep pods from a new node until it is known to be ready."""
    taints = node["spec"].get("taints", [])
    if all((taint["key"], taint["effect"]) != (_NOT_READY["key"], _NOT_READY["effect"]) for taint in taints):
        node["spec"]["taints"] = [*taints, dict(_NOT_READY)]


def _mount_token(spec: Json) -> None:
    """Mount the token of the service account, as every real pod has it: copies of pods must leave it out."""
    volumes = spec.setdefault("volumes", [])
    name = next((volume["name"] for volume in volumes if volume["name"].startswith(_TOKEN_VOLUME)), "")
    if not name:
        name = _TOKEN_VOLUME + "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
        sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
        volumes.append({"name": name, "projected": {"sources": sources, "defaultMode": 0o644}})
    for container in all_containers(spec):
        mounts = container.setdefault("volumeMounts", [])
        if all(mount["mountPath"] != _TOKEN_PATH for mount in mounts):
            mounts.append({"name": name, "readOnly": True, "mountPath": _TOKEN_PATH})


def _as_sent(creation: Creation) -> Json:
    """The object as a webhook sees it: it has no uid yet, no generated name, no status."""
    shown = copy.deepcopy(creation.body)
    for key in _SYSTEM_FIELDS:
        shown["metadata"].pop(key, None)
    if creation.name_generated:
        del shown["metadata"]["name"]
    if "status" in shown:
        shown["status"] = {}
    return shown
