"""One measurement in a process of its own, so that its peak of memory is its own.

`python -m tests.bench.measure WHAT FILE` prints one line of JSON. Times are CPU time of this process: machines are
shared, and what others do is not our speed. `decode` is the reference: what msgspec alone needs for the objects of the
same file.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from rescheduler.app import planning as app
from rescheduler.decode import structs as wire
from rescheduler.decode.split import ListHead, split
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.planning.cycle import make_plan
from rescheduler.planning.planner import Planner
from rescheduler.planning.view import View
from rescheduler.strategies import discover

ROUNDS = 3
# The setting of the project's goals: 70 % CPU, 80 % memory, no limit on moves.
POLICY = Policy(cpu_threshold=70.0, memory_threshold=80.0, max_reschedule_pods=None)


def decode(path: Path) -> dict[str, float]:
    """Seconds that msgspec needs for the objects of the file: as our lean structs, and as plain dicts."""
    structs = msgspec.json.Decoder(wire.ApiPod)
    plain = msgspec.json.Decoder()
    gc.disable()
    nothing = _pass(path, lambda view: None)
    return {
        "structs": _pass(path, structs.decode) - nothing,
        "dicts": _pass(path, plain.decode) - nothing,
        "file_mb": path.stat().st_size / 1e6,
    }


def _pass(path: Path, work: Callable[[memoryview], object]) -> float:
    started = time.process_time()
    with path.open("rb") as stream:
        for part in split(stream):
            if not isinstance(part, ListHead):
                work(part)
    return time.process_time() - started


def plan(path: Path, strategy: str) -> dict[str, float]:
    """Read the file as the command does, then plan with one strategy."""
    started = time.process_time()
    snapshot = app.read(app.DumpFiles((str(path),)), None, lambda count: None)
    read = time.process_time() - started
    seconds: list[float] = []
    for _ in range(ROUNDS):
        chosen = discover()[strategy]
        started = time.process_time()
        found = make_plan(snapshot, POLICY, [chosen(chosen.settings_type())])
        seconds.append(time.process_time() - started)
    fresh = Planner(snapshot, POLICY)
    return {
        "nodes": len(snapshot.nodes),
        "pods": len(snapshot.pods),
        "read": read,
        "plan": statistics.median(seconds),
        "first_plan": seconds[0],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "least": least_moves(fresh.view),
        **_figures(found),
    }


def least_moves(view: View) -> int:
    """No plan can do with fewer: per hot node, the fewest of its largest pods that shed the excess, feasible or not."""
    total = 0
    for node in range(len(view.nodes)):
        needed = 0
        for column, excess in enumerate(view.excess(node).tolist()):
            count = 0
            for size in sorted(view.held(view.pods_on(node))[:, column].tolist(), reverse=True):
                if excess <= 0:
                    break
                excess -= size
                count += 1
            needed = max(needed, count)
        total += needed
    return total


def _figures(plan: Plan) -> dict[str, float]:
    figures: dict[str, float] = {
        "moves": len(plan.moves),
        "rejections": len(plan.rejections),
        "hot_before": plan.before.hot_nodes,
        "hot_after": plan.after.hot_nodes,
    }
    for when, picture in (("before", plan.before), ("after", plan.after)):
        for resource_name, spread in (("cpu", picture.cpu), ("memory", picture.memory)):
            figures[f"{resource_name}_spread_{when}"] = spread.max - spread.min
            figures[f"{resource_name}_stddev_{when}"] = spread.stddev
    return figures


if __name__ == "__main__":
    what, file = sys.argv[1], Path(sys.argv[2])
    print(json.dumps(decode(file) if what == "decode" else plan(file, what)))
