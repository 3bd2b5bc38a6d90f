"""Which objects a request's path means: `/apis/apps/v1/namespaces/default/deployments/web/scale` and the like.

`app` asks for every request under /api and /apis. The kinds are looked up each time, because CustomResourceDefinitions
add and remove them while the server runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubemini.kinds import NAMESPACE, Kind, Kinds
from kubemini.refusals import Refusal

_METHODS = {
    "status": ("GET", "PUT", "PATCH"),
    "scale": ("GET", "PUT", "PATCH"),
    "eviction": ("POST",),
    "binding": ("POST",),
    "finalize": ("PUT",),
    "token": ("POST",),
}
_VERBS = {
    "collection": {"GET": "list", "POST": "create", "DELETE": "deletecollection"},
    "everywhere": {"GET": "list"},
    "object": {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"},
}


@dataclass(frozen=True, slots=True)
class Place:
    """What a path names: a collection, an object, or a part of one."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watched: bool = False
    """Whether the path itself says that it is to be watched (`/api/v1/watch/pods`, the old way)."""

    def verb(self, method: str) -> str:
        """What an HTTP method does here; refused where it does nothing."""
        if self.subresource:
            verb = method.lower() if method in _METHODS.get(self.subresource, ()) else ""
        elif self.name:
            verb = _VERBS["object"].get(method, "")
        else:
            everywhere = self.kind.namespaced and not self.namespace
            verb = _VERBS["everywhere" if everywhere else "collection"].get(method, "")
        if not verb or (not self.subresource and verb not in self.kind.verbs):
            raise wrong_method()
        return verb


def place_of(kinds: Kinds, path: list[str]) -> Place | None:
    """What the steps of a path under /api or /apis name; nothing if the API has no such place."""
    root, *steps = path
    group = "" if root == "api" or not steps else steps.pop(0)
    if len(steps) < 2 or not all(steps):
        return None
    version, *rest = steps
    watched = rest[0] == "watch" and len(rest) > 1
    if watched:
        rest.pop(0)
    namespace = ""
    of_a_namespace = rest[0] == NAMESPACE.plural and len(rest) > 2
    if of_a_namespace and not (group == "" and len(rest) == 3 and rest[2] in NAMESPACE.subresources):
        namespace, rest = rest[1], rest[2:]
    kind = kinds.at(group, version, rest[0])
    if kind is None or len(rest) > 3:
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    wrong_scope = bool(namespace) != kind.namespaced and bool(namespace or name)
    if wrong_scope or (subresource and subresource not in kind.subresources):
        return None
    return Place(kind, namespace, name, subresource, watched)


def wrong_method() -> Refusal:
    """The place is there, but not for that."""
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def nowhere() -> Refusal:
    """There is no such place."""
    return Refusal(404, "NotFound", "the server could not find the requested resource")
