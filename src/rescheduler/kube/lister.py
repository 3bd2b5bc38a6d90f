"""Lists a whole cluster once, some kinds at a time, page by page.

Pages go undecoded to a callback, so that only a few of them are in memory at once. Kinds that the user may not list are
reported together, with the RBAC rules that would allow them.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing

from rescheduler.decode.structs import RESOURCES, ApiResource
from rescheduler.kube.client import ApiClient, ListPage
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.migrations import MigrationClient
from rescheduler.migration.crd import API_VERSION
from rescheduler.model.migration import PodMigration

AT_ONCE = 4

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


class _Listing:
    """The shared state of the workers of one listing."""

    def __init__(self, client: ApiClient, on_page: OnPage) -> None:
        self._client = client
        self._on_page = on_page
        self.absent: set[str] = set()
        self.refused: list[tuple[ApiResource, ApiError]] = []

    async def work(self, todo: Iterator[ApiResource]) -> None:
        for resource in todo:
            await self._list(resource)

    async def _list(self, resource: ApiResource) -> None:
        try:
            async with aclosing(self._client.list_pages(resource.path, answers=resource.absent_statuses)) as pages:
                async for page in pages:
                    if self.refused:
                        return  # the listing will fail; one page shows whether this kind is forbidden too
                    self._on_page(resource, page)
        except ApiError as error:
            if error.status in resource.absent_statuses:
                self.absent.add(resource.kind)
            elif error.status == 403:
                self.refused.append((resource, error))
            else:
                raise


async def list_cluster(
    client: ApiClient, on_page: OnPage, resources: Sequence[ApiResource] = RESOURCES
) -> frozenset[str]:
    """Pass every page of every kind to `on_page`; return the optional kinds that this cluster lacks.

    A page with `first` set starts the list of its kind, and may come twice: drop the objects of that kind then.
    """
    listing = _Listing(client, on_page)
    todo = iter(resources)
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(AT_ONCE):
                workers.create_task(listing.work(todo))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group  # the first failure has cancelled the others
    if listing.refused:
        raise ForbiddenKindsError(sorted(listing.refused, key=lambda refusal: resources.index(refusal[0])))
    return frozenset(listing.absent)


async def list_past_migrations(client: ApiClient, note: Callable[[str], None]) -> list[PodMigration]:
    """Return all migrations, for their outcomes; none if the kind is not installed.

    A missing right to list them is noted, and the plan is made without them.
    """
    try:
        found, complaints = await MigrationClient(client).all()
    except ApiError as error:
        if error.status == 404:
            return []
        if error.status != 403:
            raise
    else:
        for complaint in complaints:
            note(f"{complaint}; its outcome is unknown")
        return found
    if await client.find(f"/apis/{API_VERSION}") is not None:
        note("you may not list podmigrations.rescheduler.io, so workloads that rest after bad moves are unknown")
    return []
