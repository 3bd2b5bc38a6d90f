"""Arrows of moves under way and the texts of nodes, on one map: neither hides the other."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.browsing import PHONE, Look, Visit
from tests.browser.conftest import Visitor
from tests.support.page_documents import migration
from tests.support.page_fixture import Served, serving

PAIRS = ((0, 11), (11, 1), (2, 9), (4, 5), (3, 7))
ARCS = [f"shop/web-{number}" for number in range(len(PAIRS))]
CELLS = "names => names.map((name) => document.querySelector('#heatmap').heatmapCell(name))"
ENDS = """names => names.map((name) => {
  const path = document.querySelector(`[data-arc="${name}"] .arc-line`);
  return [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())].map(({ x, y }) => ({ x, y }));
})"""
SEEN = "([selector, seen]) => { document.querySelector(selector).style.visibility = seen ? 'visible' : 'hidden'; }"
# Of the places where texts stand in large cells: how many pixels of letters there are, how many of those look different
# in the other picture, and how many pixels do in all.
COMPARED = """async ({ pictures, cells }) => {
  const [bare, drawn] = await Promise.all(pictures.map(async (encoded) => {
    const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const pen = new OffscreenCanvas(picture.width, picture.height).getContext("2d", { willReadFrequently: true });
    pen.drawImage(picture, 0, 0);
    return (x, y) => pen.getImageData(x, y, 1, 1).data;
  }));
  const apart = (one, other) => [0, 1, 2].reduce((sum, at) => sum + Math.abs(one[at] - other[at]), 0);
  const found = { letters: 0, spoiled: 0, changed: 0 };
  for (const { x, y, size } of cells) {
    const paper = bare(x + 5, y + size - 5);
    for (let across = Math.ceil(x) + 9; across < x + size - 12; across += 1)
      for (let down = Math.ceil(y) + 12; down < y + 52; down += 1) {
        const letter = apart(bare(across, down), paper) > 150;
        const differs = apart(bare(across, down), drawn(across, down)) > 12;
        found.letters += letter;
        found.changed += differs;
        found.spoiled += letter && differs;
      }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(nodes=12) as running:
        nodes, now = running.documents["nodes"], time.time()
        running.documents["migrations"]["migrations"] = [
            migration(nodes, f"web-{number}", now, phase="InProgress", step="AwaitReady")
            | {"source": nodes["names"][source], "target": nodes["names"][target]}
            for number, (source, target) in enumerate(PAIRS)
        ]
        yield running


def shows_arcs(made: Visit) -> None:
    made.opens()
    made.page.select_option("#group", "flat")
    made.until("the moves are drawn", lambda: made.page.locator(".arc").count() == len(PAIRS))


@pytest.mark.parametrize("look", [Look(), Look(dark=True), Look(PHONE)], ids=["light", "dark", "phone"])
def test_arrows_go_behind_the_letters_on_nodes(served: Served, visit: Visitor, look: Look) -> None:
    made = visit(served.address, look)
    shows_arcs(made)
    page, pictures = made.page, []
    for seen in (False, True):
        page.evaluate(SEEN, [".stage .arcs", seen])
        pictures.append(base64.b64encode(page.locator(".stage").screenshot(animations="disabled")).decode())
    cells = page.evaluate(CELLS, served.documents["nodes"]["names"])
    assert cells[0]["size"] >= 58  # they carry texts
    elsewhere = made.context.new_page()  # without the page's policy
    found = elsewhere.evaluate(COMPARED, {"pictures": pictures, "cells": cells})
    assert found["letters"] > 1000
    assert found["changed"] > 100  # arrows do cross texts
    assert found["spoiled"] == 0


@pytest.mark.parametrize("look", [Look(), Look(PHONE)], ids=["laptop", "phone"])
def test_arrows_go_from_edge_to_edge(served: Served, visit: Visitor, look: Look) -> None:
    made = visit(served.address, look)
    shows_arcs(made)
    names = served.documents["nodes"]["names"]
    cells: list[Any] = made.page.evaluate(CELLS, names)
    for ends, pair in zip(made.page.evaluate(ENDS, ARCS), PAIRS, strict=True):
        for point, index in zip(ends, pair, strict=True):
            assert to_edge(cells[index], point) <= 5, names[index]


def to_edge(cell: dict[str, float], point: dict[str, float]) -> float:
    """How far a point is from the edge of a square, within it or without."""
    half = cell["size"] / 2
    return float(abs(half - max(abs(point[axis] - cell[axis] - half) for axis in ("x", "y"))))
