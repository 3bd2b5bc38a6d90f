"""The page follows what happens by itself: moves step by step, nodes, pauses; and it comes back after a loss.

The product's page on the fixture server, which tells what a test wants it to tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Visitor
from tests.support.page_fixture import Served, serving
from tests.testbed.processes import free_port


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(nodes=12) as running:
        yield running


def row(served: Served, **fields: Any) -> dict[str, Any]:
    """A migration like the fixture's first one, but for these fields."""
    return {**served.documents["migrations"]["migrations"][0], **fields}


def test_a_move_is_seen_step_by_step_as_it_happens(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    made.turns_to("#/migrations", "migrations")
    page = made.page
    moving = row(served, name="seen-1", phase="Pending", step="", history=[], finished=None)
    steps = moving["steps"]
    assert steps
    assert page.locator("[data-migration$='/seen-1']").count() == 0
    served.publish("migration", moving)
    page.wait_for_selector("[data-migration$='/seen-1'][data-phase=Pending]")
    served.publish("migration", {**moving, "phase": "InProgress"})
    begun = page.wait_for_selector("[data-migration$='/seen-1'][data-phase=InProgress][data-step='']")
    assert begun is not None
    assert begun.query_selector(".broken, .bad-text") is None  # it has only begun
    for number, step in enumerate(steps):
        history = [{"step": each, "time": 1e9 + place} for place, each in enumerate(steps[: number + 1])]
        served.publish("migration", {**moving, "phase": "InProgress", "step": step, "history": history})
        page.wait_for_selector(f"[data-migration$='/seen-1'][data-phase=InProgress][data-step='{step}']")
    served.publish("migration", {**moving, "phase": "Completed", "step": steps[-1], "finished": 1e9 + 9})
    page.wait_for_selector("[data-migration$='/seen-1'][data-phase=Completed]")
    served.publish("gone", {"namespace": moving["namespace"], "name": "seen-1"})
    page.wait_for_selector("[data-migration$='/seen-1']", state="detached")


def test_the_heat_map_takes_changed_rows_and_a_reset(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    page, nodes = made.page, served.documents["nodes"]
    revision = nodes["revision"]
    page.wait_for_selector(f"#heatmap[data-revision='{revision}'][data-nodes='12']")
    served.publish("nodes", {"revision": revision + 1, "rows": [[0, 99.0, 98.0, 7, 0]]})
    page.wait_for_selector(f"#heatmap[data-revision='{revision + 1}']")
    served.documents["nodes"] = {
        key: column[:5] if isinstance(column, list) and len(column) == 12 else column for key, column in nodes.items()
    } | {"revision": revision + 9}
    served.publish("nodes", {"revision": revision + 9, "reset": True})
    page.wait_for_selector(f"#heatmap[data-revision='{revision + 9}'][data-nodes='5']")


def test_a_page_that_lost_its_server_says_so_and_comes_back(visit: Visitor) -> None:
    port = free_port()
    with serving(nodes=12, port=port) as first:
        made = visit(first.address)
        made.opens()
        made.page.wait_for_selector("body[data-live=on]")
    made.expects(r"no answer|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")
    made.page.wait_for_selector("body[data-live=off]")
    with serving(nodes=5, port=port):
        made.page.wait_for_selector("body[data-live=on]")
        made.page.wait_for_selector("#heatmap[data-nodes='5']")


def test_text_of_the_cluster_is_text_and_never_markup(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens("#/migrations")
    hostile = "<img src=x onerror=alert(1)><b id=injected>bold</b>"
    moving = row(served, name="hostile", message=hostile, reason=hostile, step=hostile, pod=hostile, source=hostile)
    served.publish("migration", moving)
    made.page.wait_for_selector("[data-migration$='/hostile']")
    assert made.page.locator("#injected, img[src=x]").count() == 0


def test_a_configuration_that_was_re_read_is_shown_by_itself(served: Served, visit: Visitor) -> None:
    made = visit(served.address)
    made.opens()
    made.turns_to("#/config", "config")
    page = made.page
    page.wait_for_selector(".refusal .warnings li >> text=cpuThreshold: 180 is not at most 100")
    page.wait_for_selector(".awaits-restart .warnings li >> text=leaderElection.leaseDuration")
    yaml = served.documents["config"]["yaml"].replace("cpuThreshold: 80.0", "cpuThreshold: 70.0")
    served.documents["config"] |= {"yaml": yaml, "refusal": None, "waiting": []}
    overview = served.documents["overview"]
    served.publish("overview", overview | {"configuration": {"revision": 2, "refused": False}})
    page.wait_for_selector("pre.yaml >> text=70.0")
    page.wait_for_selector(".refusal, .awaits-restart", state="detached")
