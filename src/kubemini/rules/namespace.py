"""The rules for namespaces: they end in two steps, and the finalizers in their spec are let go of separately."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import each_wrong, wrong
from kubemini.rules.typed import TypedRules

NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"


class NamespaceRules(TypedRules):
    """What holds for namespaces."""

    def prepare_create(self, body: Json) -> None:
        """A new namespace is held until its content is gone."""
        super().prepare_create(body)
        finalizers = body["spec"].get("finalizers", [])
        if _FINALIZER not in finalizers:
            body["spec"]["finalizers"] = [*finalizers, _FINALIZER]

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """Who holds a namespace is written through `finalize` alone."""
        super().prepare_update(body, before, subresource)
        if subresource != "finalize":
            body["spec"] = before["spec"]

    def default(self, body: Json) -> None:
        """A namespace can be selected by its name."""
        metadata = body["metadata"]
        if metadata.get("name"):
            metadata.setdefault("labels", {})[NAME_LABEL] = metadata["name"]
        body["status"].setdefault("phase", "Active")

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a namespace."""
        if before is not None and subresource == "status":
            return list(_phase_faults(body))
        path = "spec.finalizers"
        found: list[Fault] = []
        for number, each in enumerate(body["spec"].get("finalizers", ())):
            at = f"{path}[{number}]" if subresource == "finalize" else path
            found += each_wrong(at, each, names.label_key(each))
            if "/" not in each and each != _FINALIZER:
                found.append(wrong(at, each, "name is neither a standard finalizer name nor is it fully qualified"))
        return found

    def deleting(self, body: Json) -> None:
        """A namespace that is deleted says so."""
        body["status"]["phase"] = "Terminating"


def _phase_faults(body: Json) -> Iterator[Fault]:
    phase, going = body["status"]["phase"], "deletionTimestamp" in body["metadata"]
    wanted = "Terminating" if going else "Active"
    if phase != wanted:
        why = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if going else ''}empty"
        yield wrong("status.Phase", phase, why)
