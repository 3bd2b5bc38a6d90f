"""`python -m tests.browser.screenshots`: the pictures of docs/screenshots, of the real page of a real controller.

It runs on an embedded cluster that is out of balance (`tests.support.page_scene`); the pictures are taken while the
controller moves pods. Only the one of 5,000 nodes has no controller behind its server (`tests.support.page_large`).
Each is checked: no flaw on the page, and no file larger than a repository should carry.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.browser.browsing import PHONE, Look, Visit, browsing, visiting
from tests.browser.chromium import chinese_fonts
from tests.support.page_large import large_page
from tests.support.page_scene import Scene, scene

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
LARGEST = 250_000  # bytes
TWO_FRAMES = "() => new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))"
EXPLAINED = "#/pod/payments/queue-0"
"""A pod about which there is something to say: its disruption budget allows nothing."""
POLICY: dict[str, Any] = {
    "reschedulingInterval": "4s",
    "maxReschedulePods": 6,
    "enabledStrategies": ["NodeMaintenance", "ResourceOptimization", "LoadBalancing"],
    "migration": {"evictionGracePeriod": "1s", "retryDelay": "1s", "maxRetryDelay": "2s"},
}


def main() -> int:
    """Take them all."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    chinese_fonts()
    with scene(**POLICY) as running, browsing() as browser:
        _moving(running, browser, folder)
    with large_page(5_000, 60_000) as large, browsing() as browser:
        _at_once(large.server.address, browser, folder)
    too_large = [each.name for each in folder.glob("*.png") if each.stat().st_size > LARGEST]
    for each in sorted(folder.glob("*.png")):
        print(f"{each.stat().st_size / 1000:6.0f} kB  {each}")
    if too_large:
        print(f"larger than {LARGEST:,} bytes: {', '.join(too_large)}", file=sys.stderr)
    return 1 if too_large else 0


def _moving(running: Scene, browser: Browser, folder: Path) -> None:
    """While pods are moved, which takes a while; in the order in which the most is to be seen."""
    with visiting(browser, running.address) as visit:
        visit.opens("#/migrations")
        visit.until("some moves are done and others are under way", lambda: _is_busy(visit))
        _shot(visit, folder / "migrations.png")
        visit.turns_to("#/", "heatmap")
        _shot(visit, folder / "overview-light.png")
        visit.turns_to("#/plan", "plan")
        _shot(visit, folder / "plan.png")
        visit.turns_to(EXPLAINED, "pod")
        _shot(visit, folder / "pod.png")
    for name, look in (
        ("overview-dark", Look(dark=True)),
        ("overview-chinese", Look(language="zh-CN")),
        ("phone", Look(PHONE, dark=True)),
    ):
        with visiting(browser, running.address, look) as visit:
            visit.opens()
            _shot(visit, folder / f"{name}.png")


def _is_busy(visit: Visit) -> bool:
    """As the page shows it."""
    done, under_way = (visit.page.locator(f"[data-phase={phase}]").count() for phase in ("Completed", "InProgress"))
    return done >= 4 and under_way >= 3


def _at_once(address: str, browser: Browser, folder: Path) -> None:
    """5,000 nodes in one picture: the map alone, because nothing happens there."""
    with visiting(browser, address, Look((1600, 1100), dark=True)) as visit:
        visit.opens()
        visit.page.select_option("#group", "flat")
        visit.page.evaluate(TWO_FRAMES)
        visit.page.locator(".overview-map").screenshot(path=folder / "map-5000-nodes.png", animations="disabled")


def _shot(visit: Visit, path: Path) -> None:
    visit.page.evaluate(TWO_FRAMES)
    visit.page.screenshot(path=path, animations="disabled", caret="hide")


if __name__ == "__main__":
    sys.exit(main())
