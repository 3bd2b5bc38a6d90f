"""The rules for CustomResourceDefinitions themselves: names, versions, columns, and a schema in each version.

`rules.table` enters them. Whether a schema may be so is said by `structural_rules`, what it means for objects by
`custom_rules`. Conversion between versions is by strategy None alone: they differ in name only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rescheduler.embedded import clock
from rescheduler.embedded.custom_kind import at
from rescheduler.embedded.refusals import Fault, Json, bad_request
from rescheduler.embedded.rules.base import Rules
from rescheduler.embedded.rules.forms import WrongType
from rescheduler.embedded.schema import definition_form
from rescheduler.embedded.structural_rules import schema_faults

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects are gone."""

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PROTECTED = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_APPROVED = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


class DefinitionRules(Rules):
    """What must hold for a definition itself."""

    def prepare_create(self, body: Json) -> None:
        """A definition begins without a status of its own."""
        self._read(body)
        stored = [each["name"] for each in body["spec"]["versions"] or () if each["storage"]]
        body["status"] = {
            "conditions": [],
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored[:1],
        }

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """A version that objects are stored in from now on is remembered."""
        self._read(body)
        super().prepare_update(body, before, subresource)
        stored = body["status"].setdefault("storedVersions", []) or []
        for version in body["spec"]["versions"] or ():
            if version["storage"] and version["name"] not in stored:
                body["status"]["storedVersions"] = [*stored, version["name"]]

    def default(self, body: Json) -> None:
        """Names that follow from others."""
        spec = body["spec"]
        names = spec["names"]
        if names.get("kind"):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a definition."""
        spec = body["spec"]
        found = [*_name_faults(body), *_group_faults(body), *_scope_faults(spec), *_names_faults(spec["names"])]
        found += [*_version_faults(body), *_conversion_faults(spec)]
        if before is not None and is_established(before):
            found += _immutable_faults(spec, before["spec"])
        return found

    def grace(self, body: Json, asked: int | None) -> int:
        """Deleting a definition begins by holding it until its objects are gone."""
        metadata = body["metadata"]
        if "deletionTimestamp" not in metadata:
            metadata["finalizers"] = list(dict.fromkeys([*metadata.get("finalizers", ()), CLEANUP]))
        return 0

    def deleting(self, body: Json) -> None:
        """Its objects go first."""
        told = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        body["status"] = with_condition(body["status"], "Terminating", "True", "InstanceDeletionPending", told)

    def _read(self, body: Json) -> None:
        try:
            definition_form().read(body)
        except WrongType as wrong:
            shown = f'{self.kind.name} in version "{self.kind.version}" cannot be handled as a {self.kind.name}'
            raise bad_request(f"{shown}: json: {wrong}") from None


def is_established(definition: Json) -> bool:
    """Whether its objects have been served."""
    return has_condition(definition, "Established")


def has_condition(definition: Json, sort: str) -> bool:
    """Whether a condition is true."""
    conditions = definition["status"].get("conditions") or ()
    return any(each["type"] == sort and each["status"] == "True" for each in conditions)


def with_condition(status: Json, sort: str, value: str, reason: str, message: str) -> Json:
    """A status that says so; the time stays where only the words change."""
    conditions = [dict(each) for each in status.get("conditions") or ()]
    before = next((each for each in conditions if each["type"] == sort), None)
    changed = before is None or before["status"] != value
    since = clock.stamp(clock.now()) if before is None or changed else before["lastTransitionTime"]
    said = {"type": sort, "status": value, "lastTransitionTime": since, "reason": reason, "message": message}
    kept = [said if each["type"] == sort else each for each in conditions]
    return {**status, "conditions": kept if before is not None else [*conditions, said]}


def _name_faults(body: Json) -> Iterator[Fault]:
    name, spec = body["metadata"].get("name", ""), body["spec"]
    if name != f"{spec['names']['plural']}.{spec['group']}":
        yield Fault("metadata.name", "Invalid value", 'must be spec.names.plural+"."+spec.group', name)


def _group_faults(body: Json) -> Iterator[Fault]:
    group = body["spec"]["group"]
    if not group:
        yield Fault("spec.group", "Required value")
    elif not _SUBDOMAIN.fullmatch(group):
        why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        yield Fault("spec.group", "Invalid value", why, group)
    elif "." not in group:
        yield Fault("spec.group", "Invalid value", "should be a domain with at least one dot", group)
    if _PROTECTED.fullmatch(group) and not body["metadata"].get("annotations", {}).get(_APPROVED):
        why = f'protected groups must have approval annotation "{_APPROVED}"'
        yield Fault(f"metadata.annotations[{_APPROVED}]", "Required value", why)


def _scope_faults(spec: Json) -> Iterator[Fault]:
    if not spec["scope"]:
        yield Fault("spec.scope", "Required value")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        why = 'supported values: "Cluster", "Namespaced"'
        yield Fault("spec.scope", "Unsupported value", why, spec["scope"])


def _names_faults(names: Json) -> Iterator[Fault]:
    labels = [(key, key, names.get(key, "")) for key in ("plural", "singular")]
    labels += [(key, key, names.get(key, "")) for key in ("kind", "listKind")]
    labels += [
        (key, f"{key}[{number}]", each)
        for key in ("shortNames", "categories")
        for number, each in enumerate(names.get(key) or ())
    ]
    for key, field, name in labels:
        if not name:
            yield Fault(f"spec.names.{field}", "Required value")
        elif not _LABEL.fullmatch(name.lower() if key in ("kind", "listKind") else name):
            yield Fault(f"spec.names.{field}", "Invalid value", _LABEL_RULE, name)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        why = "kind and listKind may not be the same"
        yield Fault("spec.names.listKind", "Invalid value", why, names["listKind"])


def _version_faults(body: Json) -> Iterator[Fault]:
    spec, stored = body["spec"], body["status"].get("storedVersions") or []
    versions: list[Json] = spec["versions"] or []
    names = [each["name"] for each in versions]
    kept = [each["name"] for each in versions if each["storage"]]
    if len(kept) != 1:
        why = "must have exactly one version marked as storage version"
        yield Fault("spec.versions", "Invalid value", why, names or None)
    if len(set(names)) < len(names):
        yield Fault("spec.versions", "Invalid value", "must contain unique version names", names)
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield Fault("spec.preserveUnknownFields", "Invalid value", why, value=True)
    same = [_agree(versions, key) for key in ("schema", "subresources", "additionalPrinterColumns")]
    for number, version in enumerate(versions):
        here = f"spec.versions[{number}]"
        if not _LABEL.fullmatch(version["name"]):
            yield Fault(f"{here}.name", "Invalid value", _LABEL_RULE, version["name"])
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            yield Fault(f"{here}.schema.openAPIV3Schema", "Required value")
        # What all versions have in common is reported once, where it stood before there were versions.
        elif number == 0 or not same[0]:
            where = "spec.validation" if same[0] else f"{here}.schema"
            yield from schema_faults(schema, f"{where}.openAPIV3Schema")
        if number == 0 or not same[1]:
            where = "spec" if same[1] else here
            yield from _subresource_faults(version.get("subresources") or {}, f"{where}.subresources")
        if number == 0 or not same[2]:
            where = "spec" if same[2] else here
            columns = version.get("additionalPrinterColumns") or ()
            yield from _column_faults(columns, f"{where}.additionalPrinterColumns")
    yield from _stored_faults(stored, names, kept)


def _stored_faults(stored: list[str], names: list[str], kept: list[str]) -> Iterator[Fault]:
    path = "status.storedVersions"
    if not stored:
        yield Fault(path, "Invalid value", "must have at least one stored version", None)
    for number, name in enumerate(stored):
        if name not in names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield Fault(f"{path}[{number}]", "Invalid value", why, name)
    if kept and stored and kept[-1] not in stored:
        yield Fault(path, "Invalid value", f"must have the storage version {kept[-1]}", stored)


def _agree(versions: list[Json], key: str) -> bool:
    return all(each.get(key) == versions[0].get(key) for each in versions)


def _subresource_faults(offered: Json, path: str) -> Iterator[Fault]:
    scale = offered.get("scale")
    if not scale:
        return
    for key, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        where, given = f"{path}.scale.{key}", scale.get(key)
        if not given:
            yield Fault(where, "Required value")
        elif not given.startswith(root):
            yield Fault(where, "Invalid value", f"should be a json path under {root[:-1]}", given)


def _column_faults(columns: Any, path: str) -> Iterator[Fault]:
    for number, column in enumerate(columns):
        here = f"{path}[{number}]"
        if not column["name"]:
            yield Fault(f"{here}.name", "Required value")
        if not column["type"]:
            yield Fault(f"{here}.type", "Required value")
        elif column["type"] not in _COLUMN_TYPES:
            why = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield Fault(f"{here}.type", "Invalid value", why, column["type"])
        if not column["jsonPath"]:
            yield Fault(f"{here}.JSONPath", "Required value")
        elif not column["jsonPath"].startswith("."):
            why = "must be a simple json path starting with ."
            yield Fault(f"{here}.JSONPath", "Invalid value", why, column["jsonPath"])


def _conversion_faults(spec: Json) -> Iterator[Fault]:
    strategy = spec["conversion"]["strategy"]
    if strategy == "Webhook":
        why = "conversion by webhook is not served by the embedded cluster: use None"
        yield Fault("spec.conversion.strategy", "Forbidden", why)
    elif strategy != "None":
        why = 'supported values: "None", "Webhook"'
        yield Fault("spec.conversion.strategy", "Unsupported value", why, strategy)


def _immutable_faults(spec: Json, before: Json) -> Iterator[Fault]:
    for path in ("group", "scope", "names.plural", "names.kind"):
        given, there = at(spec, path), at(before, path)
        if given != there:
            yield Fault(f"spec.{path}", "Invalid value", "field is immutable", given)
