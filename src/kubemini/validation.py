"""The few checks that the API server makes before it stores an object.

Names and the types of metadata are checked for all kinds. Built-in kinds are not validated any further than others
depend on: a pod needs containers and keeps its spec, the pods of a workload match its selector. Custom objects are
checked by their schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jsonschema import Draft4Validator, SchemaError

from kubemini import custom
from kubemini.custom import CustomKind
from kubemini.errors import FieldError, Json, StatusError, bad_request
from kubemini.kinds import (
    CORE_EVENT,
    DAEMON_SET,
    DEFINITION,
    DEPLOYMENT,
    NAMESPACE,
    POD,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from kubemini.selectors import label_selector

DEFINITION_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that holds a definition until its objects are gone."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_is_label = re.compile(_LABEL, re.ASCII).fullmatch
_is_subdomain = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII).fullmatch
_NAMED_BY_LABEL = (NAMESPACE, SERVICE, STATEFUL_SET)

_WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET)
_CHANGEABLE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
_CHANGEABLE_WHILE_GATED = ("nodeSelector", "affinity")


def malformed(kind: Kind, why: str) -> StatusError:
    """The refusal of an object that has not the form of its kind."""
    return bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}')


def check_metadata_types(kind: Kind, metadata: Json) -> None:
    """Refuse metadata that the store could not index."""
    for key in ("namespace", "name", "generateName", "uid", "resourceVersion"):
        if not isinstance(metadata.get(key) or "", str):
            raise malformed(kind, f"metadata.{key} must be a string")
    for key in ("labels", "annotations"):
        values = metadata.get(key) or {}
        if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
            raise malformed(kind, f"metadata.{key} must be a map of strings")
    for key in ("finalizers", "ownerReferences"):
        if not isinstance(metadata.get(key) or [], list):
            raise malformed(kind, f"metadata.{key} must be a list")


def find_faults(kind: Kind, body: Json, before: Json | None, subresource: str) -> list[FieldError]:
    """What is wrong with an object; `before` is the version that it replaces."""
    found = list(_metadata_faults(kind, body["metadata"], before))
    if isinstance(kind, CustomKind):
        found += custom.check(kind, body)
    elif subresource != "status":
        found += _spec_faults(kind, body, before)
    return found


def _metadata_faults(kind: Kind, metadata: Json, before: Json | None) -> Iterator[FieldError]:
    name = metadata.get("name", "")
    longest, is_fine = (63, _is_label) if kind in _NAMED_BY_LABEL else (253, _is_subdomain)
    if before is None and kind != CORE_EVENT and (len(name) > longest or not is_fine(name)):
        yield FieldError("metadata.name", f"{name!r} is not 1 to {longest} small letters, digits, '-' or '.'")
    for number, owner in enumerate(metadata.get("ownerReferences") or ()):
        if not all(owner.get(key) for key in ("apiVersion", "kind", "name", "uid")):
            yield FieldError(f"metadata.ownerReferences[{number}]", "needs an apiVersion, a kind, a name and a uid")
    if before is not None and before["metadata"].get("deletionTimestamp"):
        new = set(metadata.get("finalizers") or ()) - set(before["metadata"].get("finalizers") or ())
        if new:
            why = f"no new finalizers can be added if the object is being deleted, found {sorted(new)}"
            yield FieldError("metadata.finalizers", why)


def _spec_faults(kind: Kind, body: Json, before: Json | None) -> Iterator[FieldError]:
    if kind == POD:
        if not body["spec"]["containers"]:
            yield FieldError("spec.containers", "is required")
        if body["spec"].get("nodeName") and body["spec"].get("schedulingGates"):
            yield FieldError("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        if before is not None and body["spec"] != before["spec"]:
            yield from _pod_changes(body["spec"], before["spec"])
    elif kind in _WORKLOADS:
        yield from _workload_faults(body["spec"])
    elif kind == DEFINITION:
        yield from _definition_faults(body)


def _workload_faults(spec: Json) -> Iterator[FieldError]:
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        yield FieldError("spec.replicas", "must be greater than or equal to 0")
    if not spec["template"]["spec"]["containers"]:
        yield FieldError("spec.template.spec.containers", "is required")
    selector = label_selector(spec.get("selector"))
    if selector is None or not selector.requirements:
        yield FieldError("spec.selector", "is required")
    elif not selector.matches(spec["template"]["metadata"].get("labels", {})):
        yield FieldError("spec.template.metadata.labels", "`selector` does not match template `labels`")


def _pod_changes(spec: Json, before: Json) -> Iterator[FieldError]:
    """Changes of a pod's spec that are not allowed. The node selection of a gated pod may still be narrowed."""
    gates = {gate["name"] for gate in before.get("schedulingGates", ())}
    if not {gate["name"] for gate in spec.get("schedulingGates", ())} <= gates:
        yield FieldError("spec.schedulingGates", "only deletion is allowed")
    tolerated = [_without_seconds(each) for each in spec.get("tolerations", ())]
    if not all(_without_seconds(each) in tolerated for each in before.get("tolerations", ())):
        yield FieldError("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    changeable = (*_CHANGEABLE, *(_CHANGEABLE_WHILE_GATED if gates else ()))
    fixed, fixed_before = _fixed_part(spec, changeable), _fixed_part(before, changeable)
    changed = sorted(key for key in {*fixed, *fixed_before} if fixed.get(key) != fixed_before.get(key))
    if changed:
        why = "pod updates may not change fields other than images, `activeDeadlineSeconds` and further `tolerations`"
        yield FieldError("spec", f"{why}; changed: {', '.join(changed)}")


def _fixed_part(spec: Json, changeable: tuple[str, ...]) -> Json:
    fixed = {key: value for key, value in spec.items() if key not in changeable}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [{name: value for name, value in each.items() if name != "image"} for each in fixed[key]]
    return fixed


def _without_seconds(toleration: Json) -> Json:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _definition_faults(body: Json) -> Iterator[FieldError]:
    """Why a definition cannot be served."""
    spec = body["spec"]
    if body["metadata"]["name"] != f"{spec['names']['plural']}.{spec['group']}":
        yield FieldError("metadata.name", 'must be spec.names.plural+"."+spec.group')
    try:
        Draft4Validator.check_schema(custom.kind_of(body).schema)
    except (LookupError, SchemaError) as error:
        yield FieldError("spec", f"cannot be served: {type(error).__name__}: {error.args[0]}")
