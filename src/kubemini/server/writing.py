"""Writing: create, update, patch and delete, for whole objects and their status; and the other subresources.

HTTP becomes calls of `api`, `eviction`, `binding` and `scale` here; what may be written is decided there. Events of
events.k8s.io are kept as core Events, so they are converted on the way in and on the way out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web

from kubemini import binding, events, eviction, patches, scale
from kubemini.api import Api, Target
from kubemini.custom import CustomKind, prune
from kubemini.errors import Json, bad_request
from kubemini.kinds import CORE_EVENT, EVENT, Kind
from kubemini.reviews import Authenticator
from kubemini.server import answers, requests
from kubemini.server.listing import ReadHandlers, selection
from kubemini.server.requests import RequestTarget, WriteOptions, deletion_of, list_options, object_body, write_options

_SCALE = Kind("autoscaling", "v1", "Scale", "scales")
_SHOWN_WHEN_GONE = ("pods", "services", "serviceaccounts", "persistentvolumeclaims", "persistentvolumes")
"""Kinds whose deletion is answered with the object instead of a Status."""


class WriteHandlers:
    """Answers requests that write."""

    def __init__(self, api: Api, listing: ReadHandlers, accounts: Authenticator) -> None:
        self._api = api
        self._listing = listing
        self._accounts = accounts

    async def create(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Create an object."""
        options, body = await self._read(request, place)
        if review := self._accounts.reviews.get(place.kind):  # answered, never kept
            return answers.answer(review(body), 201)
        made = await self._api.create(_target(place), _stored(place.kind, body), dry_run=options.dry_run)
        return answers.answer_object(request, place.kind, made, 201)

    async def update(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Replace an object, or its status."""
        options, body = await self._read(request, place)
        written = await self._api.replace(_target(place), _stored(place.kind, body), dry_run=options.dry_run)
        return answers.answer_object(request, place.kind, written)

    async def patch(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Patch an object, or its status."""
        options, form = write_options(request.query), requests.content_type(request)
        raw = await requests.raw_body(request)
        if form == patches.APPLY:
            body = _stored(place.kind, requests.decode_object(raw, answers.JSON, place.kind.name))
            done, created = await patches.apply_server_side(self._api, _target(place), body, dry_run=options.dry_run)
            return answers.answer_object(request, place.kind, done, 201 if created else 200)
        kind = place.kind

        def edit(before: Json) -> Json:
            shown = events.shown(before) if kind.resource == EVENT.resource else before
            body = patches.apply_patch(kind, form, raw, shown)
            _check_fields(kind, body, options)
            return _stored(kind, body)

        written = await self._api.edit(_target(place), edit, dry_run=options.dry_run)
        return answers.answer_object(request, kind, written)

    async def delete(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Delete an object."""
        deletion = deletion_of(place.kind, request.query, await requests.deletion_body(request))
        target = _target(place)
        gone = await self._api.delete(target, deletion)
        left = self._api.store.get(target.kind, target.key)
        stays = left is not None and left.uid == gone["metadata"]["uid"]
        if stays or place.kind.resource in _SHOWN_WHEN_GONE:
            return answers.answer_object(request, place.kind, gone)
        about = {"name": place.name, "group": place.kind.group, "kind": place.kind.plural}
        details = {key: value for key, value in about.items() if value} | {"uid": gone["metadata"]["uid"]}
        return answers.answer(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        )

    async def delete_collection(self, request: web.Request, place: RequestTarget) -> web.StreamResponse:
        """Delete all objects that are selected; the answer is how they were."""
        options = list_options(request.query)
        deletion = deletion_of(place.kind, request.query, await requests.deletion_body(request))
        page = self._listing.page(selection(place, options), options)
        for entry in page.entries:
            target = replace(_target(place), namespace=entry.key[0], name=entry.key[1])
            if self._api.store.get(target.kind, target.key) is not None:
                await self._api.delete(target, deletion)
        return await self._listing.send(request, answers.ObjectFormat(place.kind), place.kind, page)

    async def evict(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Delete a pod if its disruption budgets allow it."""
        body = await self._about_pod(request, place, "Eviction")
        options = body.get("deleteOptions") or {}
        if not isinstance(options, dict):
            raise bad_request("deleteOptions must be an object")
        deletion = deletion_of(place.kind, request.query, options)
        return answers.answer(await eviction.evict(self._api, _target(place), deletion), 201)

    async def bind(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Assign a pod to a node."""
        body = await self._about_pod(request, place, "Binding")
        if not isinstance(body.get("target"), dict):
            raise bad_request("target must be an object")
        dry_run = write_options(request.query).dry_run
        return answers.answer(await binding.bind(self._api, _target(place), body, dry_run=dry_run), 201)

    async def token(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Give a token for a service account."""
        body = await object_body(request, "TokenRequest")
        return answers.answer(self._accounts.token_of(_target(place), body), 201)

    async def scale(self, request: web.Request, place: RequestTarget) -> web.Response:
        """Show or change how many replicas a workload has."""
        target = _target(place)
        if request.method == "GET":
            return answers.answer(scale.scale_of(self._api.get(target)))
        options = write_options(request.query)
        change = await self._scale_change(request)

        def edit(before: Json) -> Json:
            return scale.rescaled(place.kind, before, change(scale.scale_of(before)))

        written = await self._api.edit(target, edit, dry_run=options.dry_run)
        return answers.answer(scale.scale_of(written))

    async def _about_pod(self, request: web.Request, place: RequestTarget, kind: str) -> Json:
        """An Eviction or a Binding, which has the name of its pod."""
        body = await object_body(request, kind)
        if not isinstance(body.get("metadata"), dict) or body["metadata"].get("name") != place.name:
            raise bad_request(f"name in URL does not match name in {kind} object")
        return body

    async def _scale_change(self, request: web.Request) -> Callable[[Json], Json]:
        """From the Scale as it is to the Scale that is wanted."""
        if request.method == "PUT":
            given = await object_body(request, "Scale")
            return lambda _: given
        form, raw = requests.content_type(request), await requests.raw_body(request)
        return lambda before: patches.apply_patch(_SCALE, form, raw, before)

    async def _read(self, request: web.Request, place: RequestTarget) -> tuple[WriteOptions, Json]:
        options = write_options(request.query)
        body = await object_body(request, place.kind.name)
        _check_fields(place.kind, body, options)
        return options, body


def _target(place: RequestTarget) -> Target:
    """What a write is about, in the kind that is stored."""
    return replace(place, kind=CORE_EVENT) if place.kind.resource == EVENT.resource else place


def _stored(kind: Kind, body: Json) -> Json:
    return events.stored(body) if kind.resource == EVENT.resource else body


def _check_fields(kind: Kind, body: Json, options: WriteOptions) -> None:
    """Refuse unknown fields of a custom kind, if the client requests that. Built-in kinds have no schema here."""
    if not options.strict or not isinstance(kind, CustomKind):
        return
    if unknown := prune(kind.schema, copy.deepcopy(body)):
        listed = ", ".join(f'unknown field "{field}"' for field in unknown)
        shown = f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}'
        raise bad_request(f"{shown}: strict decoding error: {listed}")
