"""Discovery: which groups, versions and kinds are served, and how they can be patched.

kubectl prefers an aggregated form, and takes these lists where a server does not have it. It reads in OpenAPI whether
the server checks fields itself (`fieldValidation`); otherwise `apply` would want schemas, which are not served.
Everything is computed on each request, because CustomResourceDefinitions change what there is.
"""

from __future__ import annotations

from kubemini.errors import Json
from kubemini.kinds import Kinds

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
_OPENAPI = "openapi/v3"

_SUBRESOURCES: dict[str, tuple[Json, list[str]]] = {
    "binding": ({"group": "", "version": "v1", "kind": "Binding"}, ["create"]),
    "eviction": ({"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]),
    "scale": ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, ["get", "patch", "update"]),
    "status": ({}, ["get", "patch", "update"]),
    "token": ({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}, ["create"]),
}


def document_at(kinds: Kinds, path: str) -> Json | None:
    """The discovery document at a path; None if there is none."""
    if path == "version":
        return VERSION
    if path == "api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "apis":
        return _group_list(kinds)
    if path == _OPENAPI:
        served = {f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}" for kind in kinds}
        return {"paths": {each: {"serverRelativeURL": f"/{_OPENAPI}/all"} for each in sorted(served)}}
    if path == f"{_OPENAPI}/all":
        return _openapi(kinds)
    root, _, version = path.partition("/")
    return _resource_list(kinds, version) if ("/" in version) == (root == "apis") else None


def _group_list(kinds: Kinds) -> Json:
    """All groups but the core one. The first version of each is preferred: `v1` before `v1beta1`."""
    groups = []
    for name in sorted({kind.group for kind in kinds} - {""}):
        versions = sorted({kind.version for kind in kinds if kind.group == name})
        shown = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
        groups.append({"name": name, "versions": shown, "preferredVersion": shown[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _resource_list(kinds: Kinds, version: str) -> Json | None:
    """The kinds of one version of a group."""
    resources: list[Json] = []
    for kind in sorted((kind for kind in kinds if kind.api_version == version), key=lambda kind: kind.plural):
        scope = {"namespaced": kind.namespaced}
        about = {"name": kind.plural, "singularName": kind.singular, "kind": kind.name, "verbs": kind.verbs}
        resources.append(about | scope | {"shortNames": kind.short, "categories": kind.categories})
        for name in kind.subresources:
            shown, verbs = _SUBRESOURCES[name]
            about = {"name": f"{kind.plural}/{name}", "singularName": "", "kind": kind.name, "verbs": verbs}
            resources.append(about | scope | shown)
    if not resources:
        return None
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _openapi(kinds: Kinds) -> Json:
    """That objects of all kinds can be patched with checked fields."""
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    paths = {}
    for kind in kinds:
        patch = {
            "parameters": [parameter],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        }
        paths[f"/{kind.api_version}/{kind.plural}/{{name}}"] = {"patch": patch}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}
