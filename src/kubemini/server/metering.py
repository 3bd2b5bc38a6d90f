"""metrics.k8s.io of the embedded API server: measurements, reckoned from the pods and nodes of the moment.

`app` hands such requests over where the cluster serves the kinds. As metrics-server does, it knows selectors but
neither pages nor watches.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from aiohttp import web

from kubemini import clock
from kubemini.api import Api
from kubemini.kinds import NODE, NODE_METRICS, POD, Kind
from kubemini.kubelet.metrics import node_metrics, pod_metrics
from kubemini.refusals import Json, not_found
from kubemini.server import answers, negotiation
from kubemini.server.options import list_options
from kubemini.server.paths import Place
from kubemini.server.selection import one, selection


class Metering:
    """Answers what is used."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def answer(self, request: web.Request, place: Place) -> web.StreamResponse:
        """One measurement, or those that are selected."""
        accepted = negotiation.accepted(request.headers.get("Accept", ""))
        found = self._found(NODE if place.kind == NODE_METRICS else POD, place, request)
        if place.name:
            if (only := next(found, None)) is None:
                raise not_found(place.kind, place.name)
            return answers.answer(request, only, encoding=accepted.encoding)
        head = {"kind": f"{place.kind.name}List", "apiVersion": place.kind.api_version, "metadata": {}}
        if accepted.encoding == negotiation.YAML:
            return answers.answer(request, head | {"items": list(found)}, encoding=accepted.encoding)
        opening = msgspec.json.encode(head)[:-1] + b',"items":['
        return await answers.send_list(request, opening, map(msgspec.json.encode, found), b"]}")

    def _found(self, measured: Kind, place: Place, request: web.Request) -> Iterator[Json]:
        store = self._api.store
        if place.name:
            chosen = one(measured, place.namespace, place.name)
        else:
            options = list_options(request.query)
            chosen = selection(measured, place.namespace, options.labels, options.fields)
        objects = (entry.object() for entry in chosen.of(store))
        if measured is NODE:
            return node_metrics(objects, (entry.object() for entry in store.entries(POD)), clock.now())
        return pod_metrics(objects, (entry.object() for entry in store.entries(NODE)), clock.now())
