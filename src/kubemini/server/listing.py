"""Reading: one object, a collection in whole or by pages, and measurements.

Selectors are decided from what the store keeps beside the bytes of an object, so nothing is decoded. All pages of a
list show the state of the first one. That state is a list of references to entries, which never change.
"""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from dataclasses import dataclass

import msgspec
from aiohttp import web

from kubemini import clock
from kubemini.api import Api
from kubemini.errors import Json, bad_request, expired, not_found
from kubemini.kinds import EVENT, NODE, NODE_METRICS, POD, Kind
from kubemini.kubelet.metrics import node_metrics, pod_metrics
from kubemini.server import answers
from kubemini.server.answers import Shape
from kubemini.server.requests import ListOptions, RequestTarget, list_options
from kubemini.store import Entry, Store
from rescheduler.model.selector import EVERYTHING, Selector, SelectorError, parse_selector

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_TERM = re.compile(r"(?P<path>[^=!]+)(?P<operator>==|!=|=)(?P<value>.*)")
_KEPT_STATES = 32
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on one field."""

    path: str
    value: str
    equal: bool = True


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of one kind that a request selects."""

    kind: Kind
    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()

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
        entries = store.entries(self.kind, self.namespace)
        return entries if self.is_everything else [entry for entry in entries if self.matches(entry)]


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list, or all of it."""

    entries: list[Entry]
    metadata: Json


class ReadHandlers:
    """Answers requests that read."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._states: OrderedDict[str, tuple[int, list[Entry]]] = OrderedDict()
        """The version and all objects of lists that are read in pages, by the number in their tokens."""
        self._numbers = itertools.count(1)

    async def get(self, request: web.Request, place: RequestTarget) -> web.Response:
        """One object."""
        entry = self._api.store.get(place.kind, (place.namespace, place.name))
        if entry is None:
            raise not_found(place.kind, place.name)
        return answers.answer(answers.shape_of(request, place.kind).one(answers.raw_of(place.kind, entry)))

    async def list(self, request: web.Request, place: RequestTarget, options: ListOptions) -> web.StreamResponse:
        """A collection."""
        page = self.page(selection(place, options), options)
        return await self.send(request, answers.shape_of(request, place.kind), place.kind, page)

    async def send(self, request: web.Request, shape: Shape, kind: Kind, page: ListPage) -> web.StreamResponse:
        """A page of a collection as the answer."""
        items = (shape.item(answers.raw_of(kind, entry)) for entry in page.entries)
        return await answers.send_list(request, shape.opening(page.metadata), items)

    async def measure(self, request: web.Request, place: RequestTarget) -> web.StreamResponse:
        """Measurements of metrics.k8s.io, computed from the pods and nodes of the moment."""
        measured = NODE if place.kind == NODE_METRICS else POD
        wanted = selection(RequestTarget(measured, place.namespace), list_options(request.query))
        if place.name:
            wanted = Selection(measured, place.namespace, fields=(FieldTerm(_NAME, place.name),))
        store, now = self._api.store, clock.now()
        objects = (entry.object() for entry in wanted.of(store))
        if measured is NODE:
            found = node_metrics(objects, (entry.object() for entry in store.entries(POD)), now)
        else:
            found = pod_metrics(objects, (entry.object() for entry in store.entries(NODE)), now)
        if not place.name:
            return await answers.send_list(
                request, answers.ObjectFormat(place.kind).opening({}), map(msgspec.json.encode, found)
            )
        for only in found:
            return answers.answer(only)
        raise not_found(place.kind, place.name)

    def page(self, wanted: Selection, options: ListOptions) -> ListPage:
        """The part of a collection that is asked for. All pages show the state of the first one."""
        number, _, start = (options.token or f"{next(self._numbers)}.0").partition(".")
        if not start.isdecimal():
            raise bad_request("invalid continue token")
        if options.token and number not in self._states:
            raise expired(_TOO_OLD)
        version, found = self._states.get(number) or (self._api.store.version, wanted.of(self._api.store))
        end = int(start) + options.limit if options.limit else len(found)
        metadata: Json = {"resourceVersion": str(version)}
        if end < len(found):
            metadata["continue"] = f"{number}.{end}"
            if wanted.is_everything:  # the real API server counts the rest only where nothing is selected
                metadata["remainingItemCount"] = len(found) - end
            self._states[number] = (version, found)
            if len(self._states) > _KEPT_STATES:
                self._states.popitem(last=False)
        return ListPage(found[int(start) : end], metadata)


def selection(place: RequestTarget, options: ListOptions) -> Selection:
    """The objects that the selectors of a request mean."""
    try:
        labels = parse_selector(options.labels)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    terms = tuple(_term(place.kind, text) for text in options.fields.split(",") if text)
    return Selection(place.kind, place.namespace, labels, terms)


def _term(kind: Kind, text: str) -> FieldTerm:
    found = _TERM.fullmatch(text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path = found["path"]
    if kind.resource == EVENT.resource:
        path = path.replace("regarding.", "involvedObject.", 1)
    if path not in (_NAME, _NAMESPACE, *kind.fields):
        raise bad_request(f"field label not supported: {found['path']}")
    return FieldTerm(path, found["value"], found["operator"] != "!=")


def _value(entry: Entry, path: str) -> str:
    if path == _NAME:
        return entry.key[1]
    if path == _NAMESPACE:
        return entry.key[0]
    return entry.fields.get(path, "")
