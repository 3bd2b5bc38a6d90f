"""Writing: create, update, patch and delete, for whole objects and for their status.

Here HTTP becomes calls of `api` and back; what may be written and what then happens is decided there. Kinds that only
show what another kind stores (events.k8s.io, versions of custom resources) are turned into it on the way in and back
on the way out.
"""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from kubemini import patches, views
from kubemini.api import Api, Deletion, Target
from kubemini.kinds import JOB, Kind
from kubemini.refusals import Fault, Json, invalid
from kubemini.reviews import Accounts
from kubemini.server import answers, bodies, negotiation, shapes
from kubemini.server.listing import Listing, Page
from kubemini.server.negotiation import METADATA, TABLE
from kubemini.server.options import (
    WriteOptions,
    deletion_options,
    list_options,
    write_options,
)
from kubemini.server.paths import Place
from kubemini.server.selection import selection

APPLY = "application/apply-patch+yaml"
_SHOWN_WHEN_GONE = frozenset(
    {"pods", "services", "serviceaccounts", "resourcequotas", "persistentvolumeclaims", "persistentvolumes"}
    | {"storageclasses.storage.k8s.io", "csinodes.storage.k8s.io"}
)


class Writing:
    """Answers what is written."""

    def __init__(self, api: Api, listing: Listing, accounts: Accounts) -> None:
        self._api = api
        self._accounts = accounts
        self._listing = listing

    async def create(self, request: web.Request, place: Place) -> web.Response:
        """A new object."""
        options = write_options(request.query, "CreateOptions")
        body = bodies.checked(place.kind, await bodies.object_body(request, place.kind.name))
        if review := self._accounts.reviews.get(place.kind):  # asked and answered, never kept
            return answers.answer(request, review(body), status=201)
        unknown = self._unknown(place.kind, body, options)
        stored = views.stored(place.kind, body) if place.kind.storage else body
        made = await self._api.create(target_of(request, self._api, place), stored, dry_run=options.dry_run)
        return self._shown(request, place, made, status=201, unknown=unknown)

    async def update(self, request: web.Request, place: Place) -> web.Response:
        """A whole new version of an object, or of its status."""
        options = write_options(request.query, "UpdateOptions")
        body = bodies.checked(place.kind, await bodies.object_body(request, place.kind.name))
        unknown = self._unknown(place.kind, body, options)
        stored = views.stored(place.kind, body) if place.kind.storage else body
        written = await self._api.replace(target_of(request, self._api, place), stored, dry_run=options.dry_run)
        return self._shown(request, place, written, unknown=unknown)

    async def patch(self, request: web.Request, place: Place) -> web.Response:
        """A change to an object, or to its status."""
        options = write_options(request.query, "PatchOptions")
        sort = negotiation.content_type(request.headers.get("Content-Type", ""))
        raw = await bodies.raw_body(request)
        if sort == APPLY:
            return await self._apply(request, place, raw, options)
        kind = place.kind
        unknown = self._unknown(kind, bodies.patched_fields(raw, sort), options, raw)

        def edit(before: Json) -> Json:
            shown = views.shown(kind, before) if kind.storage else before
            body = bodies.checked(kind, patches.apply_patch(kind, sort, raw, shown))
            return views.stored(kind, body) if kind.storage else body

        written = await self._api.edit(target_of(request, self._api, place), edit, dry_run=options.dry_run)
        return self._shown(request, place, written, unknown=unknown)

    async def delete(self, request: web.Request, place: Place) -> web.Response:
        """Let go of an object."""
        deletion = await self._deletion(request, place.kind)
        target = target_of(request, self._api, place)
        entry = self._api.store.get(target.kind, target.key)
        gone = await self._api.delete(target, deletion)
        left = self._api.store.get(target.kind, target.key)
        if deletion.dry_run:
            stays = bool(gone["metadata"].get("finalizers"))
        else:
            stays = left is not None and entry is not None and left.uid == entry.uid
        if stays or place.kind.resource in _SHOWN_WHEN_GONE:
            return self._shown(request, place, gone)
        kind = place.kind
        details = {"name": place.name, "group": kind.group, "kind": kind.plural, "uid": gone["metadata"]["uid"]}
        return answers.answer(request, answers.success({key: value for key, value in details.items() if value}))

    async def delete_collection(self, request: web.Request, place: Place) -> web.StreamResponse:
        """Let go of all objects that are selected; the answer is how they were."""
        options = list_options(request.query)
        wanted = selection(place.kind, place.namespace, options.labels, options.fields)
        deletion = await self._deletion(request, place.kind)
        page: Page = self._listing.page(wanted, options)
        for entry in page.entries:
            target = replace(target_of(request, self._api, place), namespace=entry.key[0], name=entry.key[1])
            if self._api.store.get(target.kind, target.key) is not None:
                await self._api.delete(target, deletion)
        shape = shapes.Whole(place.kind)
        items = (shape.item(shapes.raw_of(place.kind, entry)) for entry in page.entries)
        return await answers.send_list(request, shape.opening(page.metadata), items, shapes.CLOSING)

    async def _apply(self, request: web.Request, place: Place, raw: bytes, options: WriteOptions) -> web.Response:
        if not options.manager:
            faults = [Fault("fieldManager", "Required value", "is required for apply patch")]
            raise invalid(Kind("meta.k8s.io", "v1", "PatchOptions", "patchoptions"), "", faults)
        body = bodies.decoded(raw, APPLY, place.kind.name)
        if place.kind.storage:
            raise patches.unsupported([patches.JSON_PATCH, patches.MERGE, patches.STRATEGIC])
        target = Target(place.kind, place.namespace, place.name, place.subresource)
        written, created = await patches.apply_server_side(self._api, target, body, dry_run=options.dry_run)
        return self._shown(request, place, written, status=201 if created else 200)

    async def _deletion(self, request: web.Request, kind: Kind) -> Deletion:
        deletion = deletion_options(request.query, await bodies.optional_body(request, "DeleteOptions"))
        if deletion.propagation:
            return deletion
        # Jobs are older than the garbage collector: who does not say otherwise keeps their pods.
        return replace(deletion, propagation="Orphan" if kind.resource == JOB.resource else "Background")

    def _unknown(self, kind: Kind, body: Json, options: WriteOptions, patch: bytes | None = None) -> list[str]:
        """The fields to warn of; refused if the client wants that."""
        if options.validation == "Ignore":
            return []
        unknown = bodies.unknown_fields(kind, body)
        if options.validation == "Strict":
            bodies.refuse_unknown(kind, unknown, patch)
        return unknown

    def _shown(
        self, request: web.Request, place: Place, body: Json, *, status: int = 200, unknown: list[str] | None = None
    ) -> web.Response:
        """An object as it was written, in the form that the client wants."""
        kind = place.kind
        accepted = negotiation.accepted(request.headers.get("Accept", ""), TABLE, METADATA)
        shape = shapes.shape_of(kind, accepted, request.query.get("includeObject", ""))
        if kind.storage and body.get("apiVersion") != kind.api_version:
            body = views.shown(kind, body)
        raw = shape.one(shapes.encoded(body))
        response = answers.answer(request, raw, status=status, encoding=accepted.encoding)
        for field in unknown or ():
            response.headers.add("Warning", f'299 - "unknown field \\"{field}\\""')
        return response


def target_of(request: web.Request, api: Api, place: Place) -> Target:
    """The object that a write is about, in the kind that is stored."""
    kind = views.storage_kind(api.kinds, place.kind) if place.kind.storage else place.kind
    return Target(kind, place.namespace, place.name, place.subresource)
