"""What every namespace comes with: the service account `default`, and the certificate of the cluster's authority.

Admission gives new pods the account, and people's pods mount the certificate. Both are made again when somebody
deletes them. The embedded API speaks plain HTTP on loopback, so there is no authority, and the bundle is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubemini.api import Api, Target
from kubemini.kinds import NAMESPACE, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Key

_ACCOUNT, _BUNDLE = "default", "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class AccountController:
    """Furnishes namespaces."""

    name = "serviceaccount-controller"

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        account, bundle = api.kinds.named("v1", "ServiceAccount"), api.kinds.named("v1", "ConfigMap")
        if account is None or bundle is None:
            raise LookupError("the API serves no service accounts or config maps")
        self._furniture: dict[Kind, Json] = {
            account: {"metadata": {"name": _ACCOUNT}},
            bundle: {
                "metadata": {"name": _BUNDLE, "annotations": {"kubernetes.io/description": _DESCRIPTION}},
                "data": {"ca.crt": ""},
            },
        }
        self.kinds: tuple[Kind, ...] = (NAMESPACE, *self._furniture)

    def concerned(self, change: Change) -> Iterable[Key]:
        """A namespace that is new, or one that has lost something."""
        namespace, name = change.entry.key
        if change.kind.resource == NAMESPACE.resource:
            return (change.entry.key,) if change.type == "ADDED" else ()
        return (("", namespace),) if change.type == "DELETED" and name in (_ACCOUNT, _BUNDLE) else ()

    async def reconcile(self, key: Key) -> float | None:
        """Make what is missing."""
        entry = self._store.get(NAMESPACE, key)
        if entry is None or entry.deleting:
            return None
        for kind, body in self._furniture.items():
            if self._store.get(kind, (key[1], body["metadata"]["name"])) is None:
                await self._make(Target(kind, key[1]), body)
        return None

    async def _make(self, target: Target, body: Json) -> None:
        try:
            await self._api.create(target, {**body, "metadata": dict(body["metadata"])})
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
