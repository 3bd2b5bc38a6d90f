"""Reading: one object, a collection in whole or by pages, and measurements.

Selectors are decided from what the store keeps beside the bytes of an object, so nothing is decoded. All pages of a
list show the state of the first one. That state is a list of references to entries, which never change.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from aiohttp import web

from kubemini import clock
from kubemini.api import Api
from kubemini.kinds import EVENT, NODE, NODE_METRICS, POD, Kind
from kubemini.kubelet.metrics import node_metrics, pod_metrics
from kubemini.refusals import Json, Refusal, bad_request, expired, not_found
from kubemini.server import answers
from kubemini.server.requests import ListOptions, Place, list_options
from kubemini.store import Entry, Key, Store
from rescheduler.model.selector import EVERYTHING, Selector, SelectorError, parse_selector

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_TERM = re.compile(r"(?P<path>[^=!]+)(?P<operator>==|!=|=)(?P<value>.*)")
_KEPT_STATES = 32
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on one field."""

    path: str
    value: str
    equal: bool = True


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of one kind that a request asks for."""

    kind: Kind
    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: tuple[Term, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether all objects of the kind, or of its namespace, are selected."""
        return not self.labels.requirements and not self.fields

    def matches(self, entry: Entry) -> bool:
        """Whether an object is selected."""
        if self.namespace and entry.key[0] != self.namespace:
            return False
        if self.fields and not all((_value(entry, term.path) == term.value) is term.equal for term in self.fields):
            return False
        return self.labels.matches(entry.labels)

    def of(self, store: Store) -> list[Entry]:
        """The selected objects, in the order of their keys."""
        name = next((term.value for term in self.fields if term.equal and term.path == _NAME), "")
        if name and (self.namespace or not self.kind.namespaced):
            entry = store.get(self.kind, (self.namespace, name))
            return [entry] if entry is not None and self.matches(entry) else []
        return self.among(store.entries(self.kind, self.namespace))

    def among(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those of some objects that are selected."""
        return list(entries) if self.is_everything else [entry for entry in entries if self.matches(entry)]


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, or all of it."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int = 0

    @property
    def metadata(self) -> Json:
        """The metadata of the list."""
        metadata: Json = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class Listing:
    """Answers requests that read."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._states: OrderedDict[tuple[str, str, int], list[Entry]] = OrderedDict()
        """What later pages show, by kind, namespace and version."""

    async def get(self, request: web.Request, place: Place) -> web.Response:
        """One object."""
        entry = self._api.store.get(place.kind, (place.namespace, place.name))
        if entry is None:
            raise not_found(place.kind, place.name)
        return answers.answer(answers.shape_of(request, place.kind).one(answers.raw_of(place.kind, entry)))

    async def list(self, request: web.Request, place: Place, options: ListOptions) -> web.StreamResponse:
        """A collection."""
        shape = answers.shape_of(request, place.kind)
        page = self.page(selection(place, options), options)
        items = (shape.item(answers.raw_of(place.kind, entry)) for entry in page.entries)
        return await answers.send_list(request, shape.opening(page.metadata), items)

    async def measure(self, request: web.Request, place: Place) -> web.StreamResponse:
        """Measurements of metrics.k8s.io, computed from the pods and nodes of the moment."""
        measured = NODE if place.kind == NODE_METRICS else POD
        of_measured = Place(measured, place.namespace, place.name)
        wanted = one(of_measured) if place.name else selection(of_measured, list_options(request.query))
        found = self._measurements(measured, wanted)
        if place.name:
            if (only := next(found, None)) is None:
                raise not_found(place.kind, place.name)
            return answers.answer(only)
        opening = answers.Whole(place.kind).opening({})
        return await answers.send_list(request, opening, map(msgspec.json.encode, found))

    def page(self, wanted: Selection, options: ListOptions) -> Page:
        """The part of a collection that is asked for."""
        store = self._api.store
        if options.token:
            version, start = _decode_token(options.token)
            entries = self._states.get((wanted.kind.stored_as, wanted.namespace, version))
            if entries is None:
                raise expired(_TOO_OLD)
            rest = entries[bisect.bisect_right(entries, start, key=lambda entry: entry.key) :]
            return _cut(wanted, rest, options.limit, version)
        if (options.version or 0) > store.version:
            raise too_large(options.version or 0, store.version)
        if not options.limit:
            return Page(wanted.of(store), store.version)
        entries = store.entries(wanted.kind, wanted.namespace)
        page = _cut(wanted, entries, options.limit, store.version)
        if page.token:
            self._states[(wanted.kind.stored_as, wanted.namespace, store.version)] = entries
            if len(self._states) > _KEPT_STATES:
                self._states.popitem(last=False)
        return page

    def _measurements(self, measured: Kind, wanted: Selection) -> Iterator[Json]:
        store = self._api.store
        objects = (entry.object() for entry in wanted.of(store))
        if measured is NODE:
            return node_metrics(objects, (entry.object() for entry in store.entries(POD)), clock.now())
        return pod_metrics(objects, (entry.object() for entry in store.entries(NODE)), clock.now())


def selection(place: Place, options: ListOptions) -> Selection:
    """The objects that the selectors of a request mean."""
    try:
        labels = parse_selector(options.labels)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    terms = tuple(_term(place.kind, text) for text in options.fields.split(",") if text)
    return Selection(place.kind, place.namespace, labels, terms)


def one(place: Place) -> Selection:
    """The selection of a single object."""
    return Selection(place.kind, place.namespace, fields=(Term(_NAME, place.name),))


def too_large(version: int, current: int) -> Refusal:
    """A version that has not been reached yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return Refusal(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def _cut(wanted: Selection, entries: list[Entry], limit: int, version: int) -> Page:
    """The first objects of a list, and a token for the rest."""
    found = wanted.among(entries)
    if not limit or len(found) <= limit:
        return Page(found, version)
    page = found[:limit]
    # The real API server counts the rest only where nothing is selected.
    remaining = len(found) - limit if wanted.is_everything else 0
    return Page(page, version, _encode_token(version, page[-1].key), remaining)


def _encode_token(version: int, last: Key) -> str:
    return base64.urlsafe_b64encode("/".join((str(version), *last)).encode()).decode()


def _decode_token(token: str) -> tuple[int, Key]:
    try:
        version, namespace, name = base64.urlsafe_b64decode(token).decode().split("/")
        return int(version), (namespace, name)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


def _term(kind: Kind, text: str) -> Term:
    found = _TERM.fullmatch(text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path = found["path"]
    if kind.resource == EVENT.resource:
        path = path.replace("regarding.", "involvedObject.", 1)
    if path not in (_NAME, _NAMESPACE, *kind.fields):
        raise bad_request(f"field label not supported: {found['path']}")
    return Term(path, found["value"], found["operator"] != "!=")


def _value(entry: Entry, path: str) -> str:
    if path == _NAME:
        return entry.key[1]
    if path == _NAMESPACE:
        return entry.key[0]
    return entry.fields.get(path, "")
