"""The environment variables of containers, and references to a pod's own fields: what must hold for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import each_wrong, required, unsupported, wrong

_SUBSCRIPTED = re.compile(r"(.*)\['(.*)'\]")
_POD_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN_FIELDS = frozenset({*_POD_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"})
_COMPUTE = tuple(f"{part}.{each}" for part in ("limits", "requests") for each in ("cpu", "ephemeral-storage", "memory"))
_CPU_DIVISORS = ("1", "1m")
_SIZE_DIVISORS = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def default_environment(container: Json) -> None:
    """Fill in what references to fields leave open."""
    for variable in container.get("env", ()):
        source = variable.get("valueFrom") or {}
        if "fieldRef" in source:
            source["fieldRef"].setdefault("apiVersion", "v1")
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)


def environment_faults(path: str, container: Json) -> Iterator[Fault]:
    """What is wrong with a container's variables."""
    for number, variable in enumerate(container.get("env", ())):
        at = f"{path}.env[{number}]"
        if not variable["name"]:
            yield required(f"{at}.name")
        else:
            yield from each_wrong(f"{at}.name", variable["name"], names.variable(variable["name"]))
        if "valueFrom" in variable:
            yield from _source(f"{at}.valueFrom", variable["valueFrom"], variable.get("value", ""))
    for number, source in enumerate(container.get("envFrom", ())):
        at = f"{path}.envFrom[{number}]"
        prefix = source.get("prefix", "")
        yield from each_wrong(f"{at}.prefix", prefix, names.variable(prefix))
        given = [each for each in ("configMapRef", "secretRef") if each in source]
        for each in given:
            name = source[each].get("name", "")
            if not name:
                yield required(f"{at}.{each}.name")
            else:
                yield from each_wrong(f"{at}.{each}.name", name, names.subdomain(names.as_prefix(name)))
        if len(given) != 1:
            few, many = (
                "must specify one of: `configMapRef` or `secretRef`",
                "may not have more than one field specified at a time",
            )
            yield wrong(f"{path}.envFrom", "", many if given else few)


def field_reference_faults(path: str, reference: Json, allowed: Collection[str]) -> Iterator[Fault]:
    """What is wrong with a reference to a field of the pod itself."""
    field = reference["fieldPath"]
    if not field:
        yield required(f"{path}.fieldPath")
        return
    if found := _SUBSCRIPTED.fullmatch(field):
        parent, key = found.groups()
        if parent not in ("metadata.annotations", "metadata.labels"):
            yield _unconvertible(path, field)
        else:
            yield from each_wrong(path, key, names.label_key(key.lower() if parent.endswith("annotations") else key))
    elif field not in _KNOWN_FIELDS:
        yield _unconvertible(path, field)
    elif field not in allowed:
        yield unsupported(f"{path}.fieldPath", field, sorted(allowed))


def resource_reference_faults(path: str, reference: Json, *, volume: bool) -> Iterator[Fault]:
    """What is wrong with a reference to a resource of a container."""
    resource, divisor = reference["resource"], reference["divisor"]
    huge = resource.startswith(("limits.hugepages-", "requests.hugepages-"))
    if volume and not reference.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _COMPUTE and not huge:
        yield unsupported(f"{path}.resource", resource, _COMPUTE)
    if divisor == "0":
        return
    sort = resource.partition(".")[2]
    if sort == "cpu" and divisor not in _CPU_DIVISORS:
        yield wrong(f"{path}.divisor", resource, "only divisor's values 1m and 1 are supported with the cpu resource")
    elif (sort in ("memory", "ephemeral-storage") or huge) and divisor not in _SIZE_DIVISORS:
        of = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(sort, "hugepages")
        allowed = ", ".join(_SIZE_DIVISORS)
        yield wrong(
            f"{path}.divisor", resource, f"only divisor's values {allowed} are supported with the {of} resource"
        )


def _source(path: str, source: Json, value: str) -> Iterator[Fault]:
    given = [each for each in _SOURCES if each in source]
    if "fieldRef" in source:
        yield from field_reference_faults(f"{path}.fieldRef", source["fieldRef"], _POD_FIELDS)
    if "resourceFieldRef" in source:
        yield from resource_reference_faults(f"{path}.resourceFieldRef", source["resourceFieldRef"], volume=False)
    for each in ("configMapKeyRef", "secretKeyRef"):
        if each in source:
            name, key = source[each].get("name", ""), source[each]["key"]
            yield from each_wrong(f"{path}.{each}.name", name, names.subdomain(name))
            if not key:
                yield required(f"{path}.{each}.key")
            else:
                yield from each_wrong(f"{path}.{each}.key", key, names.data_key(key))
    if "fileKeyRef" in source:
        yield from _file(f"{path}.fileKeyRef", source["fileKeyRef"])
    if not given:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield wrong(path, "", f"must specify one of: {listed}")
    elif value:
        yield wrong(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield wrong(path, "", "may not have more than one field specified at a time")


def _file(path: str, reference: Json) -> Iterator[Fault]:
    for key in ("key", "volumeName", "path"):
        if not reference[key]:
            yield required(f"{path}.{key}")
    yield from each_wrong(f"{path}.key", reference["key"], names.variable(reference["key"]))
    if reference["volumeName"]:
        yield from each_wrong(f"{path}.volumeName", reference["volumeName"], names.label(reference["volumeName"]))
    if ".." in reference["path"].split("/"):
        yield wrong(f"{path}.path", reference["path"], "must not contain '..'")


def _unconvertible(path: str, field: str) -> Fault:
    return wrong(f"{path}.fieldPath", field, f"error converting fieldPath: field label not supported: {field}")
