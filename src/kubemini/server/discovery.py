"""Discovery: which groups, versions and kinds are served, so that clients find the paths to them by themselves.

Both forms are given: the old one, a request per group and version, and the aggregated one that kubectl asks for first.
They are made anew each time, because CustomResourceDefinitions change what there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from kubemini.kinds import Kind, Kinds
from kubemini.refusals import Json

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

MAJOR, MINOR = "1", "37"
VERSION = {
    "major": MAJOR,
    "minor": MINOR,
    "gitVersion": f"v{MAJOR}.{MINOR}.1+rescheduler",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "embedded",
}

_PARTS: dict[str, tuple[Json, list[str]]] = {
    "binding": ({"group": "", "version": "v1", "kind": "Binding"}, ["create"]),
    "eviction": ({"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]),
    "scale": ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, ["get", "patch", "update"]),
    "status": ({}, ["get", "patch", "update"]),
    "finalize": ({}, ["update"]),
    "token": ({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}, ["create"]),
}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_MATURITY = {"alpha": 0, "beta": 1, None: 2}


def groups_of(kinds: Kinds) -> list[str]:
    """The groups that are served, without the core one."""
    return sorted({kind.group for kind in kinds} - {""})


def versions_of(kinds: Kinds, group: str) -> list[str]:
    """The versions of a group, the preferred one first."""
    return sorted({kind.version for kind in kinds.of_group(group)}, key=_rank, reverse=True)


def core_versions(address: str) -> Json:
    """What /api answers."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: Kinds) -> Json:
    """What /apis answers."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(kinds, name) for name in groups_of(kinds)]}


def group(kinds: Kinds, name: str) -> Json | None:
    """What /apis/GROUP answers."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(kinds, name) if kinds.of_group(name) else None


def resource_list(kinds: Kinds, group: str, version: str) -> Json | None:
    """What /apis/GROUP/VERSION answers."""
    found = _sorted(kind for kind in kinds.of_group(group) if kind.version == version)
    if not found:
        return None
    resources = [entry for kind in found for entry in _resources(kind)]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def aggregated(kinds: Kinds, *, core: bool) -> Json:
    """Everything about the core group or about all others."""
    items = []
    for name in [""] if core else groups_of(kinds):
        versions = []
        for version in versions_of(kinds, name):
            found = _sorted(kind for kind in kinds.of_group(name) if kind.version == version)
            resources = [_aggregated_resource(kind) for kind in found]
            versions.append({"version": version, "resources": resources, "freshness": "Current"})
        items.append({"metadata": {"name": name} if name else {}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def paths(kinds: Kinds) -> Json:
    """What / answers."""
    named = groupby(sorted({(kind.group, kind.version) for kind in kinds if kind.group}), key=lambda each: each[0])
    found = ["/api", "/api/v1", "/apis"]
    for name, versions in named:
        found += [f"/apis/{name}", *(f"/apis/{name}/{version}" for _, version in versions)]
    return {"paths": [*found, "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}


def _group(kinds: Kinds, name: str) -> Json:
    versions = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions_of(kinds, name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _sorted(found: Iterable[Kind]) -> list[Kind]:
    return sorted(found, key=lambda kind: kind.plural)


def _resources(kind: Kind) -> list[Json]:
    main = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": list(kind.verbs),
    }
    entries = [main | _extras(kind)]
    for part in sorted(kind.subresources):
        other, verbs = _PARTS[part]
        about = {key: value for key, value in other.items() if other["group"] or key == "kind"} or {"kind": kind.name}
        head = {"name": f"{kind.plural}/{part}", "singularName": "", "namespaced": kind.namespaced}
        entries.append(head | about | {"verbs": verbs})
    return entries


def _aggregated_resource(kind: Kind) -> Json:
    resource = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    } | _extras(kind)
    parts = []
    for part in sorted(kind.subresources):
        other, verbs = _PARTS[part]
        parts.append({"subresource": part, "responseKind": other or resource["responseKind"], "verbs": verbs})
    return resource | ({"subresources": parts} if parts else {})


def _extras(kind: Kind) -> Json:
    extras = {"shortNames": list(kind.short), "categories": list(kind.categories)}
    return {key: value for key, value in extras.items() if value}


def _rank(version: str) -> tuple[int, int, int, str]:
    """GA before beta before alpha, then the higher number; names that are no versions come last."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (-1, 0, 0, version)
    return (_MATURITY[found[2]], int(found[1]), int(found[3] or 0), "")
