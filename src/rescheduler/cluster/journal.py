"""The journal: migrations as PodMigration objects, stored before anything is done and read again after a crash.

`runtime` writes through it. A status is stored only over the version that it was decided on: if somebody else has
written meanwhile (a person who paused it, another leader), storing is refused and everything is looked at anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from rescheduler.cluster.client import ApiClient, Request
from rescheduler.cluster.errors import ApiError, ClusterError
from rescheduler.cluster.installation import CURE
from rescheduler.cluster.journal_format import JournalError, decoded, new_object, status_of
from rescheduler.cluster.paths import path_of
from rescheduler.cluster.writer import FIELD_MANAGER
from rescheduler.model.migration import Migration, Progress

KIND = "PodMigration"
_UNKNOWN = {
    'unknown field "spec.approvalRequired"': "approval",
    'unknown field "spec.windowed"': "time windows",
    'spec.method: Unsupported value: "remove"': "removals",
}
"""What is refused by a definition of an older version, and what that does not know of."""


class StaleError(Exception):
    """The migration has changed since it was read, or is gone."""


class Journal:
    """The migrations of one cluster."""

    def __init__(self, client: ApiClient, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now

    async def add(self, migration: Migration) -> Migration:
        """Store a new migration; one that is there under the same name already is given back as it is."""
        body = msgspec.json.encode(new_object(migration))
        path, params = path_of(KIND, migration.namespace), {"fieldManager": FIELD_MANAGER}
        if migration.order.needs_approval or migration.order.windowed:
            # An older definition, which we may not update, would drop the field: then nobody would be asked, or waited.
            params["fieldValidation"] = "Strict"
        try:
            answer = await self._client.send(Request("POST", path, params, body, answers=frozenset({409})))
        except ApiError as error:
            unknown = " and no ".join(said for name, said in _UNKNOWN.items() if name in error.message)
            if error.status in (400, 422) and unknown:
                told = f"the definition of PodMigration is of an older version, which knows of no {unknown}"
                raise ClusterError(f"{told} ({error.message}); let somebody who may run `{CURE}`") from error
            if error.reason != "AlreadyExists":
                raise
            found = await self.read(migration.namespace, migration.name)
            if found is None:
                raise StaleError(f"{migration.full_name} was there, and went") from error
            return found
        return decoded(msgspec.json.decode(answer))

    async def read(self, namespace: str, name: str) -> Migration | None:
        """A migration as it is now; None if it is gone."""
        answer = await self._client.find(path_of(KIND, namespace, name))
        return decoded(msgspec.json.decode(answer)) if answer is not None else None

    async def all(self, namespace: str = "") -> tuple[list[Migration], list[str]]:
        """All migrations, and what is to be said of those that make no sense."""
        migrations: list[Migration] = []
        complaints: list[str] = []
        async for page in self._client.list_pages(path_of(KIND, namespace)):
            if page.first:
                migrations, complaints = [], []
            items: list[dict[str, Any]] = msgspec.json.decode(page.body)["items"]
            for item in items:
                try:
                    migrations.append(decoded(item))
                except JournalError as error:
                    complaints.append(str(error))
        return migrations, complaints

    async def store(self, migration: Migration, progress: Progress) -> Migration:
        """Record progress over the version that was read."""
        # The version alone says which object is meant: no other object ever has it, not even one of the same name.
        metadata = {"resourceVersion": migration.version}
        request = Request(
            "PATCH",
            path_of(KIND, migration.namespace, migration.name, "status"),
            {"fieldManager": FIELD_MANAGER},
            msgspec.json.encode({"metadata": metadata, "status": status_of(migration, progress, self._now())}),
            "application/merge-patch+json",
            answers=frozenset({404, 409}),
        )
        try:
            answer = await self._client.send(request)
        except ApiError as error:
            if error.status in (404, 409):
                raise StaleError(f"{migration.full_name}: {error.message}") from error
            raise
        return decoded(msgspec.json.decode(answer))

    async def remove(self, migration: Migration) -> None:
        """Forget a migration that is over."""
        body = msgspec.json.encode({"preconditions": {"uid": migration.uid}})
        path = path_of(KIND, migration.namespace, migration.name)
        try:
            await self._client.send(Request("DELETE", path, {}, body, answers=frozenset({404, 409})))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
