"""Which pods a pod belongs with: those that its ReplicaSet or StatefulSet and the Services around it select.

kube-scheduler spreads them by default. Services are read again when one in the namespace has changed; the selector of
a ReplicaSet or StatefulSet never changes.
"""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from kubemini.kinds import REPLICA_SET, SERVICE, STATEFUL_SET
from kubemini.store import Store
from rescheduler.cluster import sections, wire
from rescheduler.model.objects import Owner, Pod
from rescheduler.model.selector import Operator, Requirement, Selector, selector_of

T = TypeVar("T")
_log = logging.getLogger(__name__)
_OWNERS = {kind.name: kind for kind in (REPLICA_SET, STATEFUL_SET)}
_NOBODY = Selector()


class _ServiceSpec(wire.Wire):
    selector: dict[str, str] | None = None


class _Service(wire.Wire):
    spec: _ServiceSpec | None = None


_SERVICE = msgspec.json.Decoder(_Service)
_WORKLOAD = msgspec.json.Decoder(wire.Workload)


class Siblings:
    """Selectors of pods that belong together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._services: dict[str, list[dict[str, str]]] = {}
        self._owners: dict[str, Selector] = {}

    def forget(self, namespace: str) -> None:
        """A Service has changed."""
        self._services.pop(namespace, None)

    def selector(self, pod: Pod) -> Selector | None:
        """What all of them have in common; None when nothing holds the pod together with others."""
        found: list[Requirement] = []
        for service in self._of_namespace(pod.namespace):
            if all(pod.labels.get(key) == value for key, value in service.items()):
                found += [Requirement(key, Operator.IN, (value,)) for key, value in service.items()]
        if pod.owner is not None:
            found += self._of_owner(pod.namespace, pod.owner).requirements
        return selector_of(found) if found else None

    def _of_namespace(self, namespace: str) -> list[dict[str, str]]:
        if namespace not in self._services:
            services = [_decoded(entry.raw, _SERVICE) for entry in self._store.entries(SERVICE, namespace)]
            selectors = [service.spec.selector for service in services if service is not None and service.spec]
            self._services[namespace] = [selector for selector in selectors if selector]
        return self._services[namespace]

    def _of_owner(self, namespace: str, owner: Owner) -> Selector:
        known = self._owners.get(owner.uid)
        if known is not None:
            return known
        kind = _OWNERS.get(owner.kind)
        entry = self._store.get(kind, (namespace, owner.name)) if kind is not None else None
        workload = _decoded(entry.raw, _WORKLOAD) if entry is not None else None
        if workload is None or workload.spec is None:
            return _NOBODY  # it may come later
        try:
            selector = sections.raw_label_selector(workload.spec.selector, "spec.selector") or _NOBODY
        except sections.SectionError as error:
            _log.warning("the selector of %s %s/%s cannot be read: %s", owner.kind, namespace, owner.name, error)
            selector = _NOBODY
        self._owners[owner.uid] = selector
        return selector


def _decoded(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        _log.warning("an object that pods may belong to cannot be read: %s", error)
        return None
