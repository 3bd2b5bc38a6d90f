"""Discovery: which groups, versions and kinds are served, and how they can be patched.

kubectl asks for the aggregated form and, before a drain, for the list of one group and version. It reads in OpenAPI
whether the server checks fields itself (`fieldValidation`); otherwise `apply` would want schemas, which are not served.
Everything is computed on each request, because CustomResourceDefinitions change what there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.kinds import Kind, Kinds
from kubemini.refusals import Json

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.1+kubemini",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "embedded",
}

_SUBRESOURCES: dict[str, tuple[Json, list[str]]] = {
    "binding": ({"group": "", "version": "v1", "kind": "Binding"}, ["create"]),
    "eviction": ({"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]),
    "scale": ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, ["get", "patch", "update"]),
    "status": ({}, ["get", "patch", "update"]),
    "token": ({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}, ["create"]),
}


def group_list(kinds: Kinds) -> Json:
    """The answer to /apis for clients that do not ask for the aggregated form."""
    groups = []
    for name in _groups(kinds):
        versions = [{"groupVersion": f"{name}/{each}", "version": each} for each in _versions(kinds, name)]
        groups.append({"name": name, "versions": versions, "preferredVersion": versions[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def resource_list(kinds: Kinds, group: str, version: str) -> Json | None:
    """The answer to /apis/GROUP/VERSION; None if it is not served."""
    found = _kinds_of(kinds, group, version)
    if not found:
        return None
    resources: list[Json] = []
    for kind in found:
        scope = {"namespaced": kind.namespaced}
        about = {"name": kind.plural, "singularName": kind.singular, "kind": kind.name, "verbs": list(kind.verbs)}
        resources.append(about | scope | _short_names(kind))
        for name, shown, verbs in _subresources(kind):
            resources.append({"name": f"{kind.plural}/{name}", "singularName": "", "verbs": verbs} | scope | shown)
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def aggregated(kinds: Kinds, *, core: bool) -> Json:
    """Everything about the core group, or about all others."""
    items = []
    for group in [""] if core else _groups(kinds):
        versions = [
            {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in _kinds_of(kinds, group, version)],
                "freshness": "Current",
            }
            for version in _versions(kinds, group)
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def openapi_index(kinds: Kinds) -> Json:
    """The answer to /openapi/v3."""
    roots = sorted({_root(kind) for kind in kinds})
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}


def openapi_document(kinds: Kinds, root: str) -> Json | None:
    """The answer to /openapi/v3/apis/GROUP/VERSION: that its kinds can be patched with checked fields."""
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    paths = {}
    for kind in kinds:
        if _root(kind) != root:
            continue
        scope = "/namespaces/{namespace}" if kind.namespaced else ""
        about = {"group": kind.group, "version": kind.version, "kind": kind.name}
        patch = {
            "parameters": [parameter],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": about,
        }
        paths[f"/{root}{scope}/{kind.plural}/{{name}}"] = {"patch": patch}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    document = {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}
    return document if paths else None


def _groups(kinds: Kinds) -> list[str]:
    """The groups that are served, without the core one."""
    return sorted({kind.group for kind in kinds} - {""})


def _versions(kinds: Kinds, group: str) -> list[str]:
    """The versions of a group. Stable ones come first: the first one is preferred."""
    versions = {kind.version for kind in kinds.of_group(group)}
    return sorted(versions, key=lambda version: ("alpha" in version or "beta" in version, version))


def _kinds_of(kinds: Kinds, group: str, version: str) -> list[Kind]:
    return sorted((kind for kind in kinds.of_group(group) if kind.version == version), key=lambda kind: kind.plural)


def _aggregated_resource(kind: Kind) -> Json:
    about = {"group": kind.group, "version": kind.version, "kind": kind.name}
    resource = {
        "resource": kind.plural,
        "responseKind": about,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        "subresources": [
            {"subresource": name, "responseKind": about | shown, "verbs": verbs}
            for name, shown, verbs in _subresources(kind)
        ],
    }
    return resource | _short_names(kind)


def _subresources(kind: Kind) -> Iterator[tuple[str, Json, list[str]]]:
    """The names of a kind's subresources, the kinds that they show, and their verbs."""
    for name in sorted(kind.subresources):
        if name in _SUBRESOURCES:
            shown, verbs = _SUBRESOURCES[name]
            yield name, shown or {"kind": kind.name}, verbs


def _short_names(kind: Kind) -> Json:
    names = {"shortNames": list(kind.short), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}


def _root(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
