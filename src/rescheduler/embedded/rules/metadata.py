"""What must hold for the metadata of every object: names, labels, annotations, owners and finalizers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rescheduler.embedded.kinds import Kind
from rescheduler.embedded.refusals import Fault, Json
from rescheduler.model.selector import SelectorError, check_key, check_value

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_ANNOTATIONS_SIZE = 256 * 1024


def metadata_faults(kind: Kind, body: Json, before: Json | None) -> list[Fault]:
    """What is wrong with an object's metadata."""
    metadata = body["metadata"]
    if before is not None and before["metadata"].get("name") == metadata.get("name"):
        return [*_labels(metadata), *_annotations(metadata), *_owners(metadata)]
    return [*_name(metadata), *_labels(metadata), *_annotations(metadata), *_owners(metadata)]


def _name(metadata: Json) -> Iterator[Fault]:
    name = metadata.get("name")
    if not name:
        yield Fault("metadata.name", "Required value", "name or generateName is required")
    elif not isinstance(name, str) or len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield Fault("metadata.name", "Invalid value", _SUBDOMAIN_RULE, name)


def _labels(metadata: Json) -> Iterator[Fault]:
    for key, value in _texts(metadata, "labels").items():
        try:
            check_key(key)
            check_value(key, value)
        except SelectorError as error:
            yield Fault("metadata.labels", "Invalid value", str(error), value)


def _annotations(metadata: Json) -> Iterator[Fault]:
    annotations = _texts(metadata, "annotations")
    for key in annotations:
        try:
            check_key(key.lower())
        except SelectorError as error:
            yield Fault("metadata.annotations", "Invalid value", str(error), key)
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_SIZE:
        yield Fault("metadata.annotations", "Too long", f"may not be more than {_ANNOTATIONS_SIZE} bytes")


def _owners(metadata: Json) -> Iterator[Fault]:
    controllers = []
    for number, owner in enumerate(metadata.get("ownerReferences", ())):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield Fault(f"metadata.ownerReferences[{number}].{key}", "Required value", "must not be empty")
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        named = " and ".join(controllers)
        why = f'Only one reference can have Controller set to true. Found "true" in references for {named}'
        yield Fault("metadata.ownerReferences", "Invalid value", why, None)


def _texts(metadata: Json, key: str) -> dict[str, str]:
    found = metadata.get(key)
    return found if isinstance(found, dict) else {}
