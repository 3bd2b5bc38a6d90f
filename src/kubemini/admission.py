"""What happens to an object between a client's request and the rules of its kind: the admission of the real cluster.

`api` calls `admit` for every write. First come the API server's own steps, in its order: namespaces that must stay,
accounts, priorities, tolerations, taints of new nodes, storage classes, addresses of Services; then mutating webhooks,
and what they changed goes through all of it once more; quotas have the last word, because everything else is known by
then, and nothing waits between their yes and the write.
"""

from __future__ import annotations

import copy

from kubemini.api import Review
from kubemini.kinds import CLAIM, NAMESPACE, NODE, POD, PRIORITY_CLASS, SERVICE, STORAGE_CLASS
from kubemini.quota import QuotaLedger
from kubemini.refusals import Json, forbidden
from kubemini.rules.pod_admission import (
    admit_account,
    admit_priority,
    admit_runtime,
    admit_tolerations,
    keep_priority,
)
from kubemini.rules.service_addresses import admit_addresses
from kubemini.rules.table import rules_of
from kubemini.store import Store
from kubemini.webhooks import Round, Webhooks

_IMMORTAL = ("default", "kube-system", "kube-public")
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "generation")


class AdmissionChain:
    """The admission of one cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._quotas = QuotaLedger(store)
        self._webhooks = Webhooks(store)

    async def close(self) -> None:
        """Let go of connections to webhooks."""
        await self._webhooks.close()

    async def admit(self, review: Review) -> Json:
        """The object as it shall be; a Refusal if it shall not."""
        body = review.body
        if not review.target.subresource:
            self._own_steps(review, body)
        if self._webhooks.concern(review):
            body = await self._ask(review, body)
        if not review.target.subresource and review.operation != "DELETE":
            self._quotas.check(review.target.kind, body, review.before)
        return body

    async def _ask(self, review: Review, body: Json) -> Json:
        """Have webhooks change the object; afterwards it has again what only the API server gives."""
        shown = _as_sent(review, body)
        so_far = Round()
        changed = await self._webhooks.admit(review, shown, so_far)
        if review.operation == "DELETE":
            return body
        if changed != shown and not review.target.subresource:
            rules_of(review.target.kind).default(changed)
            self._own_steps(review, changed)
            if changed != so_far.left:
                so_far.again |= so_far.asked
            if so_far.again:
                changed = await self._webhooks.admit(review, changed, so_far, again=True)
        return _restored(review, changed, body)

    def _own_steps(self, review: Review, body: Json) -> None:
        kind, creating, deleting = review.target.kind, review.operation == "CREATE", review.operation == "DELETE"
        if deleting:
            if kind == NAMESPACE and review.target.name in _IMMORTAL:
                raise forbidden(kind, review.target.name, "this namespace may not be deleted")
        elif kind == POD:
            self._admit_pod(review, body)
        elif kind == PRIORITY_CLASS:
            self._only_default(body)
        elif kind == SERVICE:
            admit_addresses(self._store, body)
        elif creating and kind == NODE:
            _taint(body)
        elif creating and kind == CLAIM:
            self._choose_class(body)

    def _admit_pod(self, review: Review, pod: Json) -> None:
        if review.operation == "CREATE":
            admit_account(self._store, pod)
            admit_priority(self._store, pod)
            admit_runtime(pod)
        elif review.before is not None:
            keep_priority(pod, review.before)
        admit_tolerations(pod)

    def _only_default(self, body: Json) -> None:
        """There is at most one class of priority for pods that name none."""
        name = body["metadata"].get("name", "")
        if not body.get("globalDefault"):
            return
        for entry in self._store.entries(PRIORITY_CLASS):
            if entry.key[1] != name and entry.object().get("globalDefault"):
                why = f"PriorityClass {entry.key[1]} is already marked as default. Only one default can exist"
                raise forbidden(PRIORITY_CLASS, name, why)

    def _choose_class(self, claim: Json) -> None:
        """A claim that names no class of storage gets the default one; the newest, if there are several."""
        if "storageClassName" in claim["spec"]:
            return
        defaults = [
            each
            for each in (entry.object() for entry in self._store.entries(STORAGE_CLASS))
            if any(each["metadata"].get("annotations", {}).get(key) == "true" for key in _DEFAULT_CLASS)
        ]
        if defaults:
            newest = max(defaults, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
            claim["spec"]["storageClassName"] = newest["metadata"]["name"]


def _taint(node: Json) -> None:
    """Nothing is scheduled to a new node before it is known to be ready."""
    taints = node["spec"].get("taints", [])
    if all((taint["key"], taint["effect"]) != (_NOT_READY["key"], _NOT_READY["effect"]) for taint in taints):
        node["spec"]["taints"] = [*taints, dict(_NOT_READY)]


def _as_sent(review: Review, body: Json) -> Json:
    """The object as a webhook sees it: a new one has no uid yet, no name that the API server makes up, no status."""
    shown = copy.deepcopy(body)
    if review.operation != "CREATE" or review.target.subresource:
        return shown
    metadata = shown["metadata"]
    for key in _SYSTEM_FIELDS:
        metadata.pop(key, None)
    if review.name_generated:
        del metadata["name"]
    if "status" in review.target.kind.subresources and review.target.kind != NODE:
        shown["status"] = {}
    return shown


def _restored(review: Review, changed: Json, body: Json) -> Json:
    if review.operation == "CREATE" and not review.target.subresource:
        metadata = changed["metadata"]
        for key in (*_SYSTEM_FIELDS, "namespace"):
            if key in body["metadata"]:
                metadata[key] = body["metadata"][key]
        metadata.setdefault("name", body["metadata"].get("name", ""))
        if "status" in review.target.kind.subresources and review.target.kind != NODE and "status" in body:
            changed["status"] = body["status"]
    return changed
