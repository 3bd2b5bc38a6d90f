"""Reading objects by kind and name, and executing the commands of the migration lifecycle."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

import msgspec

from rescheduler.decode.structs import ApiObject
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.json import Json

_GROUPS = {
    "": (
        "api/v1",
        {"Pod": "pods", "Node": "nodes", "Service": "services", "Secret": "secrets", "ConfigMap": "configmaps"},
    ),
    "apps": (
        "apis/apps/v1",
        {
            "Deployment": "deployments",
            "ReplicaSet": "replicasets",
            "StatefulSet": "statefulsets",
            "DaemonSet": "daemonsets",
        },
    ),
    "batch": ("apis/batch/v1", {"Job": "jobs", "CronJob": "cronjobs"}),
    "policy": ("apis/policy/v1", {"PodDisruptionBudget": "poddisruptionbudgets"}),
    "coordination.k8s.io": ("apis/coordination.k8s.io/v1", {"Lease": "leases"}),
    "events.k8s.io": ("apis/events.k8s.io/v1", {"Event": "events"}),
    "rescheduler.io": ("apis/rescheduler.io/v1alpha1", {"PodMigration": "podmigrations"}),
    "apiextensions.k8s.io": (
        "apis/apiextensions.k8s.io/v1",
        {"CustomResourceDefinition": "customresourcedefinitions"},
    ),
}
_PLACES = {kind: (root, plural) for root, kinds in _GROUPS.values() for kind, plural in kinds.items()}


def path_of(kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or of all objects of a kind in a namespace."""
    root, plural = _PLACES[kind]
    parts = [root, *(("namespaces", quote(namespace, safe="")) if namespace else ()), plural]
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    return "/" + "/".join(parts)


_INSTALL = (
    "PodMigration is not installed in this cluster. The controller installs it when it starts (`rescheduler run`); "
    "to do it by hand:\n  rescheduler crds | kubectl apply -f -"
)


class NotInstalledError(ClusterError):
    """PodMigration is not installed in the cluster."""

    def __init__(self) -> None:
        super().__init__(_INSTALL)


class NotFoundError(ClusterError):
    """An object that a user named does not exist; similar names are hints."""

    def __init__(self, kind: str, namespace: str, name: str, known: Sequence[str]) -> None:
        near = difflib.get_close_matches(name, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        where = f" in namespace {namespace}" if namespace else ""
        super().__init__(f"there is no {kind.lower()} {name}{where}{hint}")


class _Names(msgspec.Struct):
    items: list[ApiObject]


_names = msgspec.json.Decoder(_Names)


def list_items(body: bytes, kind: str) -> list[Json]:
    """Decode the items of a list, and add `apiVersion` and `kind`, which items of a list lack."""
    listed = msgspec.json.decode(body)
    header = {"apiVersion": listed.get("apiVersion", ""), "kind": kind}
    return [header | item for item in listed.get("items") or ()]


class ObjectClient:
    """Reads single objects and lists from one API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def find(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, or None."""
        answer = await self._client.find(path_of(kind, namespace, name))
        body: Json | None = msgspec.json.decode(answer) if answer is not None else None
        return body

    async def get(self, kind: str, namespace: str, name: str) -> Json:
        """Return an object; NotFoundError if it does not exist."""
        found = await self.find(kind, namespace, name)
        if found is None:
            raise NotFoundError(kind, namespace, name, await self.list_names(kind, namespace))
        return found

    async def list_all(self, kind: str, namespace: str = "", selection: Mapping[str, str] | None = None) -> list[Json]:
        """Return all objects of a kind at one resourceVersion, or those of a `labelSelector` or `fieldSelector`."""
        found: list[Json] = []
        async for page in self._client.list_pages(path_of(kind, namespace), params=selection):
            if page.first:
                found = []
            found += list_items(page.body, kind)
        return found

    async def list_names(self, kind: str, namespace: str = "") -> list[str]:
        """Return the names of all objects of a kind."""
        found: list[str] = []
        async for page in self._client.list_pages(path_of(kind, namespace)):
            if page.first:
                found = []
            metas = (each.metadata for each in _names.decode(page.body).items)
            found += [meta.name for meta in metas if meta is not None and meta.name]
        return found

    async def list_migrations(self, namespace: str = "", selection: Mapping[str, str] | None = None) -> list[Json]:
        """Return PodMigrations; NotInstalledError says how to install their kind."""
        try:
            return await self.list_all("PodMigration", namespace, selection)
        except ApiError as error:
            if error.status == 404:
                raise NotInstalledError from error
            raise


FIELD_MANAGER = "rescheduler"
_METHODS = {Verb.CREATE: "POST", Verb.PATCH: "PATCH", Verb.DELETE: "DELETE", Verb.EVICT: "POST"}
_FINE = {Verb.CREATE: {409: "AlreadyExists"}, Verb.DELETE: {404: "NotFound"}, Verb.EVICT: {404: "NotFound"}}
_REFUSALS = frozenset({400, 403, 404, 405, 409, 410, 415, 422, 429})
# The answer to an eviction that Kubernetes can never allow. It has no reason of its own, only this text.
_TWO_BUDGETS = "more than one PodDisruptionBudget"


class CommandSender:
    """Sends commands of the lifecycle, one request each. `dry` lets the server check everything and change nothing.

    A refusal by the server is a result, not an error. A refusal that means "already so" (a copy that exists, a pod
    that is gone) counts as success. ApiError is raised only if there was no answer, or for a failure of the server
    itself; then the whole step is tried again later. `refused` is called for every refusal.
    """

    def __init__(self, client: ApiClient, *, dry: bool = False) -> None:
        self._client = client
        self._dry = dry
        self._params = {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry else {})
        self.refused: Callable[[Command, FailedCommand], None] = lambda command, refused: None

    async def carry_out(self, command: Command) -> FailedCommand | None:
        """Execute a command; return the refusal, if any."""
        name = "" if command.verb is Verb.CREATE else command.name
        path = path_of(command.kind, command.namespace, name, command.subresource)
        request = ApiRequest(
            _METHODS[command.verb],
            path,
            {} if command.verb is Verb.DELETE else self._params,
            msgspec.json.encode(self._body(command)),
            _content_type(command),
            answers=_REFUSALS,
        )
        try:
            await self._client.send(request)
        except ApiError as error:
            never = command.verb is Verb.EVICT and error.status == 500 and _TWO_BUDGETS in error.message
            if error.status not in _REFUSALS and not never:
                raise
            if _FINE.get(command.verb, {}).get(error.status or 0) == error.reason:
                return None
            refused = FailedCommand(error.status, error.reason, error.message, str(command))
            self.refused(command, refused)
            return refused
        return None

    def _body(self, command: Command) -> Json | list[Json]:
        """Return the body to send. Deletions take `dryRun` from their options in the body, not from the query."""
        if not self._dry or isinstance(command.body, list):
            return command.body
        if command.verb is Verb.DELETE:
            return command.body | {"dryRun": ["All"]}
        if command.verb is Verb.EVICT:
            return command.body | {"deleteOptions": command.body["deleteOptions"] | {"dryRun": ["All"]}}
        return command.body


def _content_type(command: Command) -> str:
    if command.verb is not Verb.PATCH:
        return "application/json"
    merge = isinstance(command.body, dict)
    return "application/merge-patch+json" if merge else "application/json-patch+json"
