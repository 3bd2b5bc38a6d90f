"""What somebody does to the demo's cluster while the controller works: deploy, scale, roll out, mark and break nodes.

Scenarios and the bustle act through it. It goes straight to the embedded API, as `kubectl` would go to it by HTTP; what
has gone meanwhile is no error, because in the demo everything may go at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubemini.api import Api, Deletion, Target
from kubemini.kinds import DEPLOYMENT, NAMESPACE, NODE, Kind
from kubemini.refusals import Refusal
from kubemini.simulation import KUBELET_LABEL, Kubelet
from rescheduler_demo.manifests import SPACE, Json

_GONE = 404


class Hands:
    """Somebody at work on one cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def namespaces(self, *names: str) -> None:
        """Make namespaces."""
        for name in names:
            await self._api.create(Target(NAMESPACE, name=name), {"metadata": {"name": name}})

    async def deploy(self, bodies: Iterable[Json]) -> None:
        """Create objects of the demo's namespace."""
        for body in bodies:
            kind = self._api.kinds.named(body["apiVersion"], body["kind"])
            if kind is None:
                raise LookupError(f"the embedded cluster does not know {body['apiVersion']} {body['kind']}")
            await self._api.create(Target(kind, SPACE), body)

    async def scale(self, app: str, replicas: int) -> None:
        """Have another number of pods of a Deployment."""

        def scaled(body: Json) -> Json:
            body["spec"]["replicas"] = replicas
            return body

        await self._edit(Target(DEPLOYMENT, SPACE, app), scaled)

    async def roll_out(self, app: str, version: str) -> None:
        """Roll a Deployment out anew, as `kubectl rollout restart` does."""

        def restarted(body: Json) -> Json:
            body["spec"]["template"]["metadata"].setdefault("annotations", {})["shop.example/version"] = version
            return body

        await self._edit(Target(DEPLOYMENT, SPACE, app), restarted)

    async def label(self, node: str, **labels: str | None) -> None:
        """Set labels of a node, or take them off (None)."""

        def labelled(body: Json) -> Json:
            kept = body["metadata"].get("labels", {}) | labels
            body["metadata"]["labels"] = {key: value for key, value in kept.items() if value is not None}
            return body

        await self._edit(Target(NODE, name=node), labelled)

    async def kubelet(self, node: str, state: Kubelet) -> None:
        """Have the kubelet of a node die, or come back."""
        await self.label(node, **{KUBELET_LABEL: state.value or None})

    async def remove(self, kind: Kind, name: str) -> None:
        """Delete an object, with all that belongs to it."""
        namespace = SPACE if kind.namespaced else ""
        try:
            await self._api.delete(Target(kind, namespace, name), Deletion())
        except Refusal as refusal:
            if refusal.code != _GONE:
                raise

    async def _edit(self, target: Target, edit: Callable[[Json], Any]) -> None:
        try:
            await self._api.edit(target, edit)
        except Refusal as refusal:
            if refusal.code != _GONE:
                raise
