"""The rules for CustomResourceDefinitions themselves: names, versions, columns, and a schema in each version.

`rules.table` enters them. Whether a schema may be so is said by `structural_rules`, what it means for objects by
`custom_rules`. Conversion between versions is by strategy None alone: they differ in name only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubemini import clock
from kubemini.custom_kind import at
from kubemini.refusals import Fault, Json, bad_request
from kubemini.rules.base import Rules
from kubemini.rules.faults import (
    changed,
    each_wrong,
    not_allowed,
    one_of,
    required,
    unsupported,
    wrong,
)
from kubemini.rules.forms import WrongType
from kubemini.rules.names import label_1035, subdomain
from kubemini.schema import definition_form
from kubemini.structural_rules import schema_faults

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects are gone."""

_PROTECTED = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_APPROVED = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


class DefinitionRules(Rules):
    """What must hold for a definition itself."""

    finalizers = (CLEANUP,)

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
        found = [
            *_name_faults(body),
            *_group_faults(body),
            *one_of("spec.scope", spec["scope"], ("Cluster", "Namespaced")),
            *_names_faults(spec["names"]),
        ]
        found += [*_version_faults(body), *_conversion_faults(spec)]
        if before is not None and is_established(before):
            found += _immutable_faults(spec, before["spec"])
        return found

    def deleting(self, body: Json) -> None:
        """Its objects go first."""
        told = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        body["status"] = with_condition(body["status"], "Terminating", "True", "InstanceDeletionPending", told)

    def _read(self, body: Json) -> None:
        try:
            definition_form().read(body)
        except WrongType as fault:
            shown = f'{self.kind.name} in version "{self.kind.version}" cannot be handled as a {self.kind.name}'
            raise bad_request(f"{shown}: json: {fault}") from None


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
        yield wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _group_faults(body: Json) -> Iterator[Fault]:
    group = body["spec"]["group"]
    if not group:
        yield required("spec.group")
    elif details := subdomain(group):
        yield from each_wrong("spec.group", group, details)
    elif "." not in group:
        yield wrong("spec.group", group, "should be a domain with at least one dot")
    if _PROTECTED.fullmatch(group) and not body["metadata"].get("annotations", {}).get(_APPROVED):
        why = f'protected groups must have approval annotation "{_APPROVED}"'
        yield required(f"metadata.annotations[{_APPROVED}]", why)


def _names_faults(names: Json) -> Iterator[Fault]:
    for key in ("plural", "singular", "kind", "listKind"):
        yield from _label_faults(f"spec.names.{key}", names.get(key, ""), any_case=key in ("kind", "listKind"))
    for key in ("shortNames", "categories"):
        for number, each in enumerate(names.get(key) or ()):
            yield from _label_faults(f"spec.names.{key}[{number}]", each)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield wrong("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _label_faults(path: str, name: str, *, any_case: bool = False) -> Iterator[Fault]:
    if not name:
        yield required(path)
    else:
        yield from each_wrong(path, name, label_1035(name.lower() if any_case else name))


def _version_faults(body: Json) -> Iterator[Fault]:
    spec = body["spec"]
    versions: list[Json] = spec["versions"] or []
    names = [each["name"] for each in versions]
    kept = [each["name"] for each in versions if each["storage"]]
    if len(kept) != 1:
        yield wrong("spec.versions", names or None, "must have exactly one version marked as storage version")
    if len(set(names)) < len(names):
        yield wrong("spec.versions", names, "must contain unique version names")
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield wrong("spec.preserveUnknownFields", value=True, detail=why)
    for number, version in enumerate(versions):
        yield from each_wrong(f"spec.versions[{number}].name", version["name"], label_1035(version["name"]))
        yield from _offered_faults(versions, number)
    yield from _stored_faults(body["status"].get("storedVersions") or [], names, kept)


def _offered_faults(versions: list[Json], number: int) -> Iterator[Fault]:
    """What is wrong with what a version offers. What all versions share is reported once, where it once stood alone."""
    version, here = versions[number], f"spec.versions[{number}]"

    def place(key: str) -> str | None:
        if any(each.get(key) != versions[0].get(key) for each in versions):
            return here
        return "spec" if number == 0 else None

    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    where = place("schema")
    if not schema:
        yield required(f"{here}.schema.openAPIV3Schema")
    elif where:
        yield from schema_faults(schema, f"{where}.{'validation' if where == 'spec' else 'schema'}.openAPIV3Schema")
    if where := place("subresources"):
        yield from _scale_faults((version.get("subresources") or {}).get("scale"), f"{where}.subresources.scale")
    if where := place("additionalPrinterColumns"):
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column_faults(column, f"{where}.additionalPrinterColumns[{index}]")


def _stored_faults(stored: list[str], names: list[str], kept: list[str]) -> Iterator[Fault]:
    path = "status.storedVersions"
    if not stored:
        yield wrong(path, None, "must have at least one stored version")
    for number, name in enumerate(stored):
        if name not in names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield wrong(f"{path}[{number}]", name, why)
    if kept and stored and kept[-1] not in stored:
        yield wrong(path, stored, f"must have the storage version {kept[-1]}")


def _scale_faults(scale: Json | None, path: str) -> Iterator[Fault]:
    for key, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")) if scale else ():
        given = scale.get(key) if scale else None
        if not given:
            yield required(f"{path}.{key}")
        elif not given.startswith(f"{root}."):
            yield wrong(f"{path}.{key}", given, f"should be a json path under {root}")


def _column_faults(column: Json, path: str) -> Iterator[Fault]:
    if not column["name"]:
        yield required(f"{path}.name")
    if not column["type"]:
        yield required(f"{path}.type")
    elif column["type"] not in _COLUMN_TYPES:
        yield wrong(f"{path}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
    if not column["jsonPath"]:
        yield required(f"{path}.JSONPath")
    elif not column["jsonPath"].startswith("."):
        yield wrong(f"{path}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")


def _conversion_faults(spec: Json) -> Iterator[Fault]:
    strategy = spec["conversion"]["strategy"]
    if strategy == "Webhook":
        why = "conversion by webhook is not served by the embedded cluster: use None"
        yield not_allowed("spec.conversion.strategy", why)
    elif strategy != "None":
        yield unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _immutable_faults(spec: Json, before: Json) -> Iterator[Fault]:
    for path in ("group", "scope", "names.plural", "names.kind"):
        yield from changed(f"spec.{path}", at(spec, path), at(before, path))
