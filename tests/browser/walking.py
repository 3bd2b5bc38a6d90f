"""All views of the page, as they are on whatever server it comes from: the tests walk through them in turn.

Which node and which pod are looked at closely is what the server has: the fullest node, and a pod on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from tests.browser.browsing import Visit
from tests.support.page_answers import answer


@dataclass(frozen=True)
class Stop:
    """One view on the way."""

    view: str
    route: str


def stops(address: str) -> list[Stop]:
    """Every view there is."""
    nodes = answer(address, "nodes")
    fullest = max(zip(nodes["pods"], nodes["names"], strict=True))[1]
    pod = answer(address, f"nodes/{quote(fullest)}")["pods"][0]
    return [
        Stop("heatmap", "#/"),
        Stop("plan", "#/plan"),
        Stop("migrations", "#/migrations"),
        Stop("node", f"#/node/{quote(fullest)}"),
        Stop("pod", f"#/pod/{quote(pod['namespace'])}/{quote(pod['name'])}"),
        Stop("outcomes", "#/outcomes"),
        Stop("config", "#/config"),
        Stop("health", "#/health"),
    ]


def walk(visit: Visit) -> Iterator[Stop]:
    """Opens the page and turns to one view after the other; each is loaded when it is given."""
    visit.opens()
    for stop in stops(visit.address):
        visit.turns_to(stop.route, stop.view)
        yield stop
