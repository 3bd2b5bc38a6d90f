"""The parts of objects that have ways of their own: scale, eviction, binding, tokens, and a namespace's finalizers.

As in `writing`, HTTP becomes calls of the modules that know what these mean, and back.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from kubemini import binding, eviction, patches, scale
from kubemini.api import Api
from kubemini.kinds import Kind
from kubemini.refusals import Json, conflict
from kubemini.reviews import Accounts
from kubemini.server import answers, bodies, negotiation, shapes
from kubemini.server.negotiation import METADATA, TABLE
from kubemini.server.options import write_options
from kubemini.server.paths import Place
from kubemini.server.writing import target_of

SCALE = Kind("autoscaling", "v1", "Scale", "scales")

Wish = Callable[[Json], Json]
"""From the Scale as it is to the Scale that is wanted."""


class Parts:
    """Answers what is asked of parts of objects."""

    def __init__(self, api: Api, accounts: Accounts) -> None:
        self._api = api
        self._accounts = accounts

    async def evict(self, request: web.Request, place: Place) -> web.Response:
        """Ask for a pod to be deleted if its disruption budgets allow it."""
        options = write_options(request.query, "CreateOptions")
        body = await bodies.object_body(request, "Eviction")
        status = await eviction.evict(self._api, target_of(request, self._api, place), body, dry_run=options.dry_run)
        return answers.answer(request, status, status=201)

    async def bind(self, request: web.Request, place: Place) -> web.Response:
        """Say on which node a pod shall run."""
        write_options(request.query, "CreateOptions")
        body = await bodies.object_body(request, "Binding")
        return answers.answer(
            request, await binding.bind(self._api, target_of(request, self._api, place), body), status=201
        )

    async def token(self, request: web.Request, place: Place) -> web.Response:
        """A token for a service account."""
        write_options(request.query, "CreateOptions")
        body = await bodies.object_body(request, "TokenRequest")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **body}
        granted = self._accounts.token_of(target_of(request, self._api, place), body)
        return answers.answer(request, granted, status=201)

    async def finalize(self, request: web.Request, place: Place) -> web.Response:
        """Say who still has to let go of a namespace."""
        options = write_options(request.query, "UpdateOptions")
        body = bodies.checked(place.kind, await bodies.object_body(request, place.kind.name))
        finalizers = (body.get("spec") or {}).get("finalizers") or []

        def edit(before: Json) -> Json:
            _check_version(place, before, body)
            return before | {"spec": {**before.get("spec", {}), "finalizers": finalizers}}

        written = await self._api.edit(target_of(request, self._api, place), edit, dry_run=options.dry_run)
        return _shown(request, place.kind, written)

    async def scale(self, request: web.Request, place: Place) -> web.Response:
        """How many replicas a workload has and shall have."""
        target = target_of(request, self._api, place)
        if request.method == "GET":
            return _shown(request, SCALE, scale.scale_of(place.kind, self._api.get(target)))
        options = write_options(request.query, "UpdateOptions" if request.method == "PUT" else "PatchOptions")
        wish = await self._wish(request)

        def edit(before: Json) -> Json:
            wanted = wish(scale.scale_of(place.kind, before))
            _check_version(place, before, wanted)
            return scale.rescaled(place.kind, before, wanted)

        written = await self._api.edit(target, edit, dry_run=options.dry_run)
        return _shown(request, SCALE, scale.scale_of(place.kind, written))

    async def _wish(self, request: web.Request) -> Wish:
        if request.method == "PUT":
            given = await bodies.object_body(request, "Scale")
            return lambda _: given
        sort = negotiation.content_type(request.headers.get("Content-Type", ""))
        raw = await bodies.raw_body(request)
        return lambda before: patches.apply_patch(SCALE, sort, raw, before)


def _check_version(place: Place, before: Json, wanted: Json) -> None:
    """Who names a version means that one."""
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version and version != before["metadata"]["resourceVersion"]:
        raise conflict(place.kind, place.name)


def _shown(request: web.Request, kind: Kind, body: Json) -> web.Response:
    accepted = negotiation.accepted(request.headers.get("Accept", ""), TABLE, METADATA)
    shape = shapes.shape_of(kind, accepted, request.query.get("includeObject", ""))
    return answers.answer(request, shape.one(shapes.encoded(body)), encoding=accepted.encoding)
