"""OpenAPI, as far as kubectl needs it: which kinds can be patched, and that the server itself checks fields.

kubectl looks there before `apply` and `create` whether the server understands `fieldValidation`; else it would want
the schemas and check by itself. There are no schemas here, so `kubectl explain` has nothing to say.
"""

from __future__ import annotations

import hashlib

import msgspec

from kubemini.kinds import Kind, Kinds
from kubemini.refusals import Json
from kubemini.server.discovery import VERSION

_VALIDATION = "fieldValidation"


def index(kinds: Kinds) -> Json:
    """What /openapi/v3 answers."""
    found: dict[str, Json] = {}
    for root in sorted({_root(kind) for kind in kinds}):
        document = msgspec.json.encode(document_of(kinds, root))
        digest = hashlib.sha256(document).hexdigest().upper()
        found[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest}"}
    return {"paths": found}


def document_of(kinds: Kinds, root: str) -> Json | None:
    """What /openapi/v3/apis/GROUP/VERSION answers."""
    found = [kind for kind in kinds if _root(kind) == root]
    if not found:
        return None
    parameter = {"name": _VALIDATION, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    paths = {path: entry for kind in found for path, entry in _paths(kind, parameter).items()}
    return {"openapi": "3.0.0", "info": _info(), "paths": paths, "components": {"schemas": {}}}


def old_document(kinds: Kinds) -> Json:
    """What /openapi/v2 answers."""
    parameter = {"name": _VALIDATION, "in": "query", "type": "string", "uniqueItems": True}
    paths = {path: entry for kind in kinds for path, entry in _paths(kind, parameter).items()}
    return {"swagger": "2.0", "info": _info(), "paths": paths, "definitions": {}}


def _paths(kind: Kind, parameter: Json) -> Json:
    """Where objects of a kind are made and changed."""
    collection = f"/{_root(kind)}/namespaces/{{namespace}}" if kind.namespaced else f"/{_root(kind)}"
    collection += f"/{kind.plural}"
    return {
        collection: {"post": _operation(kind, "post", parameter)},
        f"{collection}/{{name}}": {
            "put": _operation(kind, "put", parameter),
            "patch": _operation(kind, "patch", parameter),
        },
    }


def _operation(kind: Kind, action: str, parameter: Json) -> Json:
    return {
        "operationId": f"{action}{kind.group.title().replace('.', '')}{kind.version.title()}{kind.name}",
        "parameters": [parameter],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.name},
    }


def _root(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def _info() -> Json:
    return {"title": "Kubernetes", "version": VERSION["gitVersion"]}
