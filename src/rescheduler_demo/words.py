"""What the demo says in words, for both of its views: how nodes stand, what moves, what comes next, how it ended."""

from __future__ import annotations

from rescheduler.cli.output.terminal import plain
from rescheduler.model.migration import Migration, Phase
from rescheduler.model.plan import Picture, Spreading
from rescheduler_demo.scene import Result, Scene


def spread(scene: Scene, arrow: str) -> list[tuple[str, str]]:
    """CPU, memory and hot nodes, each before and now."""
    before, now = scene.before, scene.now
    hot = f"{now.hot_nodes}" if before is None else f"{before.hot_nodes} {arrow} {now.hot_nodes}"
    return [
        ("cpu", _change(before.cpu if before else None, now.cpu, arrow)),
        ("memory", _change(before.memory if before else None, now.memory, arrow)),
        ("hot nodes", hot),
    ]


def moves(scene: Scene) -> str:
    """How many move, and have moved."""
    under_way = sum(each.progress.phase is Phase.IN_PROGRESS for each in scene.moves.active)
    waiting = len(scene.moves.active) - under_way
    return f"{under_way} under way, {waiting} waiting, {scene.moves.completed} done, {scene.moves.failed} failed"


def move(migration: Migration, arrow: str) -> str:
    """One move in a line."""
    made, order = migration.progress, migration.order
    where = made.target or order.target  # a pod that is removed goes nowhere
    way = f"{made.source} {arrow} {where}".strip() if where else made.source  # one that has not begun has no source yet
    at = made.phase.value if made.over else made.step or made.phase.value
    how = f" by {made.method.value}" if made.method else ""
    return plain(f"{order.pod}  {way}{how}: {at}")


def coming(scene: Scene) -> str:
    """What happens next."""
    plan = "" if scene.next_plan is None else f"next plan in {scene.next_plan:.0f} s; "
    if scene.paused:
        plan = f"{plain(scene.paused)}; "
    if scene.coming.seconds is not None:
        return f"{plan}in {scene.coming.seconds:.0f} s {scene.coming.what}"
    return plan + (f"waited for: {scene.coming.what}" if scene.coming.what else scene.act)


def state(scene: Scene) -> str:
    """How everything stands, in one line."""
    now = scene.now
    return (
        f"cpu {_range(now.cpu)} (gap {now.cpu.max - now.cpu.min:.0f}), memory {_range(now.memory)}, "
        f"{now.hot_nodes} hot nodes; {scene.pods} pods, {scene.pending} without a node; moves: {moves(scene)}; "
        f"{kept(scene)}"
    )


def kept(scene: Scene) -> str:
    """Whether what must hold has held."""
    return f"budgets: {scene.checked} times watched, {scene.broken} times broken"


def ending(result: Result, arrow: str) -> str:
    """The result, in one line."""
    scene = result.scene
    before: Picture | None = scene.before
    was = f"{_range(before.cpu)} {arrow} " if before is not None else ""
    counted = (
        f"{scene.moves.completed} moves done, {scene.moves.failed} failed; cpu {was}{_range(scene.now.cpu)}; "
        f"{kept(scene)}"
    )
    how = f"goal reached after {result.seconds:.1f} s" if result.reached else "ended before the goal was reached"
    return plain(f"{result.scenario}: {how}: {result.goal}; {counted}")


def clock(seconds: float) -> str:
    """`1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _change(before: Spreading | None, now: Spreading, arrow: str) -> str:
    gap = f"gap {now.max - now.min:.0f}"
    if before is None:
        return f"{_range(now)}, mean {now.mean:.0f}%, {gap}"
    return (
        f"{_range(before)} {arrow} {_range(now)}, mean {now.mean:.0f}%, "
        f"gap {before.max - before.min:.0f} {arrow} {now.max - now.min:.0f}"
    )


def _range(spreading: Spreading) -> str:
    return f"{spreading.min:.0f}-{spreading.max:.0f}%"
