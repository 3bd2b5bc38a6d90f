"""What use is reckoned by, node pools and other resources: every view says the same as planning counts by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Visitor
from tests.support.page_fixture import Served, serving

GPU = "example.com/gpu"


@pytest.fixture
def served() -> Iterator[Served]:
    """Twelve nodes by measured use: the first one is of a pool, and has GPUs."""
    with serving(nodes=12) as running:
        documents = running.documents
        nodes, overview = documents["nodes"], documents["overview"]
        nodes |= {
            "resources": [GPU],
            "others": [[70.0, *[None] * 11]],
            "rule": [1, *[0] * 11],
            "cpu": [85.0, *[85.0] * 11],
            "memory": [5.0] * 12,
            "state": [0] * 12,
        }
        overview["use"] = {"by": "usage", "counts": True, "measured": time.time() - 12, "why": ""}
        overview["rules"] = [
            {"pool": "", "cpu": 80.0, "memory": 80.0, GPU: 60.0},
            {"pool": "gpu", "cpu": 90.0, GPU: 60.0},
        ]
        overview["utilisation"] |= {"hotNodes": 12, "hotByPool": {"gpu": 1}, "others": {}}
        for picture in ("before", "after"):
            spread = {"max": 70.0, "min": 70.0, "mean": 70.0, "stddev": 0.0}
            documents["plan"]["plan"][picture] |= {"others": {GPU: spread}, "hotNodesByPool": {"gpu": 1}}
        documents["plan"]["plan"]["utilization"] = "usage"
        yield running


def pixel(page: Any, name: str) -> list[int]:
    """A pixel of a node's cell, away from its marks."""
    found: list[int] = page.evaluate(
        """async (name) => {
          // What was to be drawn when this is asked is drawn then.
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          const canvas = document.querySelector("#heatmap");
          const { x, y, size } = canvas.heatmapCell(name);
          const ratio = window.devicePixelRatio || 1;
          const at = [Math.round((x + size * 0.5) * ratio), Math.round((y + size * 0.9) * ratio)];
          return [...canvas.getContext("2d").getImageData(...at, 1, 1).data];
        }""",
        name,
    )
    return found


def test_the_map_says_what_counts_and_colours_each_node_by_its_own_threshold(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    made.expects("willReadFrequently")  # of the test's own looks at the canvas
    page = made.page
    note = page.wait_for_selector(".use-note[data-by=usage][data-counts=true]")
    assert note is not None
    assert "Use is what is measured. Measured" in note.inner_text()
    names = served.documents["nodes"]["names"]
    pooled, other = pixel(page, names[0]), pixel(page, names[1])
    assert pooled[2] > pooled[0]  # at 85 % and a threshold of 90 %: blue
    assert other[0] > other[2]  # the same use and a threshold of 80 %: orange
    assert "hot above 80% to 90%, by pool" in page.inner_text(".legend")
    page.select_option("#metric", GPU)
    page.wait_for_selector(f"#heatmap[aria-label^='{GPU}']")
    now = pixel(page, names[0])
    assert now[0] > now[2]  # 70 % of its GPUs, where 60 % are hot
    assert "gpu 1" in page.inner_text(".figures")
    page.click("#show-table")
    assert "70.0%" in page.locator(f"#heatmap-table [data-node='{names[0]}']").inner_text()


def test_a_choice_of_a_resource_that_is_gone_is_none(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page = made.page
    page.select_option("#metric", GPU)
    page.reload()
    page.wait_for_selector("body[data-ready=true]")
    made.until("it is remembered", lambda: page.input_value("#metric") == GPU)
    served.documents["nodes"] |= {"resources": [], "others": []}
    page.reload()
    page.wait_for_selector("body[data-ready=true]")
    made.until("it is another one", lambda: page.input_value("#metric") == "cpu")


def test_what_is_not_measured_is_told_and_why(served: Served, visit: Visitor) -> None:
    served.documents["overview"]["use"] = {"by": "max", "counts": False, "measured": None, "why": "nobody answers"}
    made = visit(served.address)
    made.opens()
    note = made.page.wait_for_selector(".use-note[data-by=max][data-counts=false]")
    assert note is not None
    assert "not measured: requests count nobody answers" in note.inner_text()


def test_the_plan_shows_other_resources_and_pools(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    made.turns_to("#/plan", "plan")
    text = made.page.inner_text(".pictures")
    assert GPU in text
    assert "gpu" in made.page.locator(".before-after").last.inner_text()
    assert "Use is what is measured." in made.page.inner_text("[data-view=plan]")


def test_the_configuration_shows_pools_and_what_strategies_do_in_them(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    made.turns_to("#/config", "config")
    page = made.page
    assert "pool=gpu,tier notin (spot)" in page.inner_text("article[data-pool=gpu]")
    assert "CPU 90" in page.inner_text("article[data-pool=gpu]")
    assert "points" in page.inner_text("article[data-pool=empty]")
    strategy = page.inner_text("[data-strategy=NodeMaintenance] [data-pool=gpu]")
    assert "enabled" in strategy
    assert "35" in strategy


def test_a_node_tells_its_pool_its_thresholds_and_what_its_pods_use(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    name = served.documents["nodes"]["names"][0]
    made.opens()
    made.page.route(
        f"**/api/nodes/{name}",
        lambda route: route.fulfill(
            json={
                "name": name, "labels": {}, "taints": [], "states": [], "problem": "", "pool": "gpu",
                "allocatable": {"cpu": 4000, "memory": 1 << 30, "pods": 10, GPU: 4},
                "used": {"cpu": 3400, "memory": 1 << 20, "pods": 1, GPU: 3}, "cpu": 85.0, "memory": 0.1,
                "thresholds": {"cpu": 90.0, "memory": 80.0, GPU: 60.0}, "over": [GPU],
                "pods": [{
                    "namespace": "shop", "name": "p", "workload": "", "cpu": 100, "memory": 5, "phase": "Running",
                    "ready": True, "created": None, "guard": "", "why": "", "usage": {"cpu": 3400, "memory": 1 << 20},
                }],
            }
        ),
    )  # fmt: skip
    made.turns_to(f"#/node/{name}", "node")
    text = made.page.inner_text("[data-view=node]")
    for said in ("pool gpu", "CPU 90%", f"{GPU} 60%", f"hot: {GPU}", "3.40 cores of 4 cores used", "3 of 4 requested"):
        assert said in text, said
    assert "3.40 cores · 1.0 MiB" in made.page.inner_text("[data-pod='shop/p']")
