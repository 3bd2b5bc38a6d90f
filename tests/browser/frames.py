"""`python -m tests.browser.frames`: how fluid the heat map is with 5,000 nodes, beside a reference in the same browser.

The reference is a bare page whose canvas is as large and fills 5,000 rectangles in every frame: the least that a heat
map would do that draws everything anew. Ours is looked at while the pointer wanders over it, and while the live stream
changes nodes all the time. Told are the time from frame to frame and the work of the main thread in a frame; only
ratios mean the same on every machine.
"""

from __future__ import annotations

import argparse
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.browser.browsing import Look, Visit, browsing, visiting
from tests.support.page_fixture import Served, serving

FRAMES = 240
ROWS_AT_ONCE = 250
SECONDS_BETWEEN = 0.1
REFERENCE = """([width, height, count]) => {
  document.body.innerHTML = "";
  const canvas = document.createElement("canvas");
  const ratio = devicePixelRatio;
  canvas.width = width * ratio; canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  document.body.append(canvas);
  const pen = canvas.getContext("2d");
  const across = Math.ceil(Math.sqrt(count * width / height)), size = canvas.width / across;
  let turn = 0;
  const draw = () => {
    turn += 1;
    for (let cell = 0; cell < count; cell += 1) {
      pen.fillStyle = `hsl(${(cell + turn) % 360} 60% 50%)`;
      pen.fillRect((cell % across) * size, Math.floor(cell / across) * size, size - 1, size - 1);
    }
    requestAnimationFrame(draw);
  };
  draw();
}"""
WATCH = """async (frames) => {
  const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect(), times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < frames; frame += 1) {
    const x = box.left + (frame * 7) % box.width, y = box.top + (frame * 3) % box.height;
    const where = {clientX: x, clientY: y, bubbles: true};
    canvas.dispatchEvent(new PointerEvent("pointermove", where));
    canvas.dispatchEvent(new MouseEvent("mousemove", where));
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}"""


@dataclass(frozen=True)
class Fluidity:
    """Milliseconds, of one page."""

    usual: float
    slowest: float
    """Of one frame in twenty."""
    work: float
    """Of the main thread in a frame."""

    def __str__(self) -> str:
        return f"{self.usual:5.1f} usual, {self.slowest:5.1f} one in twenty, {self.work:5.2f} of work"


def measured(visit: Visit) -> Fluidity:
    session = visit.context.new_cdp_session(visit.page)
    session.send("Performance.enable")

    def busy() -> float:
        found = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))

    before = busy()
    times: list[float] = visit.page.evaluate(WATCH, FRAMES)
    work = (busy() - before) * 1000 / FRAMES
    return Fluidity(statistics.median(times), sorted(times)[FRAMES * 19 // 20], work)


@contextmanager
def lively(served: Served, count: int) -> Iterator[None]:
    """The live stream tells of changed nodes all the time."""
    over = threading.Event()

    def tell() -> None:
        revision = int(served.documents["nodes"]["revision"])
        while not over.wait(SECONDS_BETWEEN):
            revision += 1
            first = revision * ROWS_AT_ONCE
            rows = [
                [(first + row) % count, (first + row * 7) % 100, row % 100, row % 110, 0] for row in range(ROWS_AT_ONCE)
            ]
            served.publish("nodes", {"revision": revision, "rows": rows})

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.frames", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    count = parser.parse_args().nodes
    with browsing() as browser, serving(nodes=count) as served:
        with visiting(browser, served.address, Look()) as ours:
            ours.opens()
            box = ours.page.locator("#heatmap").bounding_box()
            assert box is not None
            still = measured(ours)
            with lively(served, count):
                moving = measured(ours)
        with visiting(browser, served.address, Look()) as bare:
            bare.page.goto("about:blank")
            bare.page.evaluate(REFERENCE, [box["width"], box["height"], count])
            reference = measured(bare)
    print(
        f"{count:,} nodes, canvas {box['width']:.0f} × {box['height']:.0f}, {FRAMES} frames each; milliseconds a frame"
    )
    print(f"  reference: {count:,} rectangles in each frame  {reference}")
    print(f"  heat map, pointer wandering               {still}  = {still.work / reference.work:.2f} of the reference")
    told = f"heat map, {ROWS_AT_ONCE / SECONDS_BETWEEN:,.0f} changed nodes a second"
    print(f"  {told:<40}  {moving}  = {moving.work / reference.work:.2f} of the reference")


if __name__ == "__main__":
    main()
