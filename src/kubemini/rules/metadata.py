"""What must hold for the metadata of every object: names, labels, annotations, owners and finalizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kubemini.kinds import CORE_EVENT, EVENT, NAMESPACE, SERVICE, STATEFUL_SET, Kind
from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import each_wrong, not_allowed, required, too_long, wrong
from kubemini.rules.selectors import labels_faults

_ANNOTATIONS_SIZE = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_LOOSE_FINALIZERS = frozenset({"customresourcedefinitions.apiextensions.k8s.io", "poddisruptionbudgets.policy"})


def _path_segment(name: str) -> names.Details:
    """Events may be called nearly anything."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{letter}'" for letter in "/%" if letter in name)


_NAMED: dict[str, Callable[[str], names.Details]] = {
    NAMESPACE.resource: names.label,
    STATEFUL_SET.resource: names.label,
    SERVICE.resource: names.label,
    CORE_EVENT.resource: _path_segment,
    EVENT.resource: _path_segment,
}


def metadata_faults(kind: Kind, body: Json, before: Json | None) -> list[Fault]:
    """What is wrong with an object's metadata."""
    metadata = body["metadata"]
    found = [] if before is not None else list(_name(kind, metadata))
    found += labels_faults("metadata.labels", metadata.get("labels") or {})
    found += annotations_faults("metadata.annotations", metadata.get("annotations") or {})
    found += _owners(metadata)
    found += _finalizers(kind, metadata)
    if before is not None and before["metadata"].get("deletionTimestamp"):
        there = before["metadata"].get("finalizers") or ()
        if new := sorted(set(metadata.get("finalizers") or ()) - set(there)):
            listed = ", ".join(f'"{each}"' for each in new)
            rule = "no new finalizers can be added if the object is being deleted"
            found.append(not_allowed("metadata.finalizers", f"{rule}, found new finalizers []string{{{listed}}}"))
    return found


def annotations_faults(path: str, annotations: Mapping[str, str]) -> Iterator[Fault]:
    """What is wrong with annotations."""
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        yield from each_wrong(path, key, names.label_key(key.lower()))
    if size > _ANNOTATIONS_SIZE:
        yield too_long(path, _ANNOTATIONS_SIZE)


def _name(kind: Kind, metadata: Json) -> Iterator[Fault]:
    rule = _NAMED.get(kind.resource, names.subdomain)
    prefix = metadata.get("generateName")
    if prefix:
        yield from each_wrong("metadata.generateName", prefix, rule(names.as_prefix(prefix)))
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from each_wrong("metadata.name", name, rule(name))


def _owners(metadata: Json) -> Iterator[Fault]:
    managing = ""
    for number, owner in enumerate(metadata.get("ownerReferences") or ()):
        at = f"metadata.ownerReferences[{number}]"
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield required(f"{at}.{key}", "must not be empty")
        if owner.get("apiVersion", "").count("/") > 1:
            yield wrong(f"{at}.apiVersion", owner["apiVersion"], "must be <group>/<version> or <version>")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            yield wrong(at, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            this = f"{owner.get('kind')}/{owner.get('name')}"
            if managing:
                found = f'Found "true" in references for {managing} and {this}'
                why = f"Only one reference can have Controller set to true. {found}"
                yield wrong("metadata.ownerReferences", metadata["ownerReferences"], why)
            managing = managing or this


def _finalizers(kind: Kind, metadata: Json) -> Iterator[Fault]:
    finalizers = metadata.get("finalizers") or ()
    qualified = not kind.custom and kind.resource not in _LOOSE_FINALIZERS
    for number, each in enumerate(finalizers):
        yield from each_wrong("metadata.finalizers", each, names.label_key(each))
        if qualified and "/" not in each and each not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield wrong(f"metadata.finalizers[{number}]", each, why)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield wrong("metadata.finalizers", finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
