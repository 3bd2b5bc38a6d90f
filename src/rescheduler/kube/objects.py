"""Objects by kind and name: read, listed, kept by the controller, and changed by commands of the lifecycle."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar
from urllib.parse import quote

import msgspec

from rescheduler.decode.structs import READ, RESOURCES, ApiObject, ApiResource
from rescheduler.kube.client import ApiClient, ApiRequest, ListPage
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.crd import API_VERSION
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER

T = TypeVar("T")
MIGRATIONS = ApiResource("PodMigration", API_VERSION, "podmigrations")
_RESOURCES = READ | {
    resource.kind: resource
    for resource in (
        MIGRATIONS,
        ApiResource("Service", "v1", "services"),
        ApiResource("Secret", "v1", "secrets"),
        ApiResource("ConfigMap", "v1", "configmaps"),
        ApiResource("Lease", "coordination.k8s.io/v1", "leases"),
        ApiResource("Event", "events.k8s.io/v1", "events"),
        ApiResource("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions"),
        ApiResource("MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
    )
}


def api_version_of(kind: str) -> str:
    """Return the apiVersion of a kind; empty for one that is unknown."""
    return _RESOURCES[kind].api_version if kind in _RESOURCES else ""


def path_of(kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or of all objects of a kind in a namespace."""
    root, _, plural = _RESOURCES[kind].path.rpartition("/")
    parts = [root, *(("namespaces", quote(namespace, safe="")) if namespace else ()), plural]
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    return "/".join(parts)


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


def list_items(body: bytes, kind: str) -> list[Json]:
    """Decode the items of a list, and add `apiVersion` and `kind`, which items of a list lack."""
    listed = msgspec.json.decode(body)
    header = {"apiVersion": listed.get("apiVersion", ""), "kind": kind}
    return [header | item for item in listed.get("items") or ()]


class _Names(msgspec.Struct):
    items: list[ApiObject]


def _list_names(body: bytes) -> list[str]:
    metas = (each.metadata for each in msgspec.json.decode(body, type=_Names).items)
    return [meta.name for meta in metas if meta is not None and meta.name]


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
        return await self._list_pages(kind, namespace, selection, lambda page: list_items(page, kind))

    async def list_names(self, kind: str, namespace: str = "") -> list[str]:
        """Return the names of all objects of a kind."""
        return await self._list_pages(kind, namespace, None, _list_names)

    async def _list_pages(
        self, kind: str, namespace: str, selection: Mapping[str, str] | None, pick: Callable[[bytes], Iterable[T]]
    ) -> list[T]:
        """Return what `pick` takes from each page of a list; between two pages, other tasks get a turn."""
        found: list[T] = []
        async for page in self._client.list_pages(path_of(kind, namespace), params=selection):
            if page.first:
                found = []
            found += pick(page.body)
        return found

    async def list_migrations(self, namespace: str = "", selection: Mapping[str, str] | None = None) -> list[Json]:
        """Return PodMigrations; NotInstalledError says how to install their kind."""
        try:
            return await self.list_all("PodMigration", namespace, selection)
        except ApiError as error:
            if error.status == 404:
                raise NotInstalledError from error
            raise


AT_ONCE = 4  # kinds that are listed concurrently

OnPage = Callable[[ApiResource, ListPage], None]


class ForbiddenKindsError(ClusterError):
    """Kinds that may not be listed; the message has the server's reason for the first, and the missing rules."""

    def __init__(self, refused: Sequence[tuple[ApiResource, ApiError]]) -> None:
        super().__init__(refused)
        self.kinds = tuple(resource.kind for resource, _ in refused)
        self._refused = refused

    def __str__(self) -> str:
        rules = "\n".join(
            f'  - {{apiGroups: ["{resource.group}"], resources: ["{resource.plural}"], verbs: ["list"]}}'
            for resource, _ in self._refused
        )
        message = self._refused[0][1].message
        kinds = ", ".join(self.kinds)
        return f"you may not list {kinds} ({message}); ask for a ClusterRole with these rules, bound to you:\n{rules}"


async def list_cluster(
    client: ApiClient, on_page: OnPage, resources: Sequence[ApiResource] = RESOURCES
) -> frozenset[str]:
    """List every kind once, some at a time; return the optional kinds that this cluster lacks.

    Pages go undecoded to `on_page`, so that only a few of them are in memory at once. A page with `first` set starts
    the list of its kind, and may come twice: drop the objects of that kind then. Kinds that the user may not list are
    reported together, with the RBAC rules that would allow them.
    """
    absent: set[str] = set()
    refused: list[tuple[ApiResource, ApiError]] = []
    at_once = asyncio.Semaphore(AT_ONCE)

    async def list_kind(resource: ApiResource) -> None:
        answers = resource.absent_statuses
        try:
            async with at_once, aclosing(client.list_pages(resource.path, answers=answers)) as pages:
                async for page in pages:
                    if refused:
                        return  # the listing will fail; one page shows whether this kind is forbidden too
                    on_page(resource, page)
        except ApiError as error:
            if error.status in answers:
                absent.add(resource.kind)
            elif error.status == 403:
                refused.append((resource, error))
            else:
                raise

    try:
        async with asyncio.TaskGroup() as lists:
            for resource in resources:
                lists.create_task(list_kind(resource))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group  # the first failure has cancelled the others
    if refused:
        raise ForbiddenKindsError(sorted(refused, key=lambda refusal: resources.index(refusal[0])))
    return frozenset(absent)


class ManagedObject:
    """An object of the controller, by kind and name. No write goes over another writer's.

    An object without the controller's label is not ours: it is neither used nor changed, and the error has a cure.
    """

    kind = ""
    cure = f"it has no label {MANAGED_BY}={MANAGER}"

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name
        self._path = path_of(self.kind, namespace, name)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    async def fetch(self) -> Json | None:
        """Return the object, ours or not; None if it does not exist."""
        answer = await self._client.find(self._path)
        if answer is None:
            return None
        try:
            body: Json = msgspec.json.decode(answer, type=Json)
            _ = body["metadata"]["uid"], body["metadata"]["resourceVersion"]
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise self._malformed(error) from error
        return body

    async def fetch_ours(self) -> Json | None:
        """Return the object; ClusterError if it is not ours."""
        body = await self.fetch()
        if body is not None and not self.is_ours(body):
            raise ClusterError(f"{self} is not ours, and is left alone; {self.cure}")
        return body

    def is_ours(self, body: Json) -> bool:
        """Whether the object is the controller's."""
        return has_our_label(body)

    async def remove(self) -> bool:
        """Delete the object, if it exists; return whether it was deleted. ClusterError if it is not ours."""
        found = await self.fetch_ours()
        return found is not None and await self._write("DELETE", {"preconditions": {"uid": found["metadata"]["uid"]}})

    async def _write(self, method: str, body: Json) -> bool:
        """Create the object, or change or delete the one that was read; False if another writer was faster."""
        path = path_of(self.kind, self.namespace) if method == "POST" else self._path
        params = {} if method == "DELETE" else {"fieldManager": FIELD_MANAGER}
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = ApiRequest(method, path, params, msgspec.json.encode(body), content_type)
        return await self._client.write(request) is not None

    def _malformed(self, error: Exception) -> ApiError:
        return ApiError(None, NOT_KUBERNETES, f"{self} does not decode: {error}", self._path)


def has_our_label(body: Json) -> bool:
    """Whether an object has the label of the controller's objects."""
    return bool((body["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER)


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
            refused = FailedCommand(error.status, error.reason, error.message)
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
