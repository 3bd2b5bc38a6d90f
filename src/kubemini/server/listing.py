"""Reading: one object, or a collection in whole or by pages, at the newest version or an earlier one.

The rules for `resourceVersion`, `resourceVersionMatch`, `limit` and `continue` are those of the real API server with
its watch cache on; `options` has checked that they fit together.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from kubemini.api import Api
from kubemini.refusals import Json, Refusal, not_found
from kubemini.server import answers, negotiation, pages, shapes
from kubemini.server.negotiation import METADATA, METADATA_LIST, TABLE, YAML
from kubemini.server.options import ListOptions, version_of
from kubemini.server.pages import States
from kubemini.server.paths import Place
from kubemini.server.selection import Selection, selection
from kubemini.store import Entry

_IN_ONE_PIECE = 250


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, or all of it."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> Json:
        """The list's metadata."""
        metadata: Json = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class Listing:
    """Answers what is read."""

    def __init__(self, api: Api, states: States) -> None:
        self._api = api
        self._states = states

    async def get(self, request: web.Request, place: Place) -> web.StreamResponse:
        """One object."""
        accepted = negotiation.accepted(request.headers.get("Accept", ""), TABLE, METADATA)
        shape = shapes.shape_of(place.kind, accepted, request.query.get("includeObject", ""))
        if given := request.query.get("resourceVersion"):
            self._check_reached(version_of(given))
        entry = self._api.store.get(place.kind, (place.namespace, place.name))
        if entry is None:
            raise not_found(place.kind, place.name)
        raw = shape.one(shapes.raw_of(place.kind, entry))
        return answers.answer(request, raw, encoding=accepted.encoding)

    async def collection(self, request: web.Request, place: Place, options: ListOptions) -> web.StreamResponse:
        """A collection."""
        kind = place.kind
        accepted = negotiation.accepted(request.headers.get("Accept", ""), TABLE, METADATA_LIST)
        shape = shapes.shape_of(kind, accepted, request.query.get("includeObject", ""))
        page = self.page(selection(kind, place.namespace, options.labels, options.fields), options)
        shape = shapes.shape_of_list(shape, (shapes.raw_of(kind, entry) for entry in page.entries))
        opening = shape.opening(page.metadata)
        items = (shape.item(shapes.raw_of(kind, entry)) for entry in page.entries)
        if len(page.entries) <= _IN_ONE_PIECE or accepted.encoding == YAML:
            raw = opening + b",".join(items) + shapes.CLOSING
            return answers.answer(request, raw, encoding=accepted.encoding)
        return await answers.send_list(request, opening, items, shapes.CLOSING)

    def page(self, wanted: Selection, options: ListOptions) -> Page:
        """The part of a collection that is asked for."""
        store, version = self._api.store, options.version
        if options.token:
            return self._next_page(wanted, options)
        if version:
            self._check_reached(version)
        if version and (options.match == "Exact" or (options.limit and not options.match)):
            entries = self._states.at(wanted.kind, wanted.namespace, version)
            return self._cut(wanted, entries, options.limit, version)
        if not options.limit or (version == 0 and not options.match):
            return Page(wanted.of(store), store.version)
        entries = store.entries(wanted.kind, wanted.namespace)
        page = self._cut(wanted, entries, options.limit, store.version)
        if page.token:
            self._states.keep(wanted.kind, wanted.namespace, entries)
        return page

    def _next_page(self, wanted: Selection, options: ListOptions) -> Page:
        start = pages.start_of(options.token)
        if start.version is None:
            entries, version = self._api.store.entries(wanted.kind, wanted.namespace), self._api.store.version
        else:
            self._check_reached(start.version)
            version = start.version
            try:
                entries = self._states.at(wanted.kind, wanted.namespace, version)
            except Refusal:
                raise pages.PageExpired(start) from None
        return self._cut(wanted, entries[pages.after(entries, start.key) :], options.limit, version)

    def _cut(self, wanted: Selection, entries: list[Entry], limit: int, version: int) -> Page:
        if not limit:
            return Page(wanted.among(entries), version)
        if wanted.everything:
            page, rest = entries[:limit], len(entries) - limit
            return (
                Page(page, version, pages.token_for(version, page[-1].key), rest) if rest > 0 else Page(page, version)
            )
        page = []
        for entry in entries:
            if not wanted.matches(entry):
                continue
            if len(page) == limit:  # how many more there are is not counted, as in the real one
                return Page(page, version, pages.token_for(version, page[-1].key))
            page.append(entry)
        return Page(page, version)

    def _check_reached(self, version: int) -> None:
        current = self._api.store.version
        if version > current:
            raise too_large(version, current)


def too_large(version: int, current: int) -> Refusal:
    """A version that has not been reached yet: there is no use in waiting for it here."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return Refusal(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
