"""The twin on the state after a move: what held before must hold once the original has gone.

Each row: what is said, the cluster, the pod that moves (its name or place), the target, and whether all is kept.
"""

from __future__ import annotations

import pytest

from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import cluster, deployment, near, node, pod, pod_named, spread
from tests.support.twin import World, keeps_rules

WEB, DB = {"app": "web"}, {"app": "db"}
EVEN = [spread(1, "zone", WEB)]

A = node("a", zone="z1")
B = node("b", zone="z1")
C = node("c", zone="z2")
PAIR = [pod("front", on="a", labels=WEB, affinity=[near(DB)]), pod("back", on="a", labels=DB)]
MOVES = [
    ("a lone pod goes anywhere", cluster(A, C, pod("p", on="a", labels=WEB)), "p", "c", True),
    ("company may be left within the zone", cluster(A, B, PAIR), "front", "b", True),
    ("but not beyond it", cluster(A, C, PAIR), "front", "c", False),
    ("nor may the company leave", cluster(A, C, PAIR), "back", "c", False),
    ("unless it has a stand-in", cluster(A, C, PAIR, pod("b2", on="a", labels=DB)), "back", "c", True),
    ("the first of its kind may go", cluster(A, C, pod("p", on="a", labels=WEB, affinity=[near(WEB)])), "p", "c", True),
    (
        "whoever had no company loses none",
        cluster(A, B, C, pod("q", on="c", affinity=[near(DB)]), pod("back", on="a", labels=DB)),
        "back",
        "b",
        True,
    ),
    ("an even spread stays even", cluster(A, C, deployment("web", on=["a", "c"], spread=EVEN)), 0, "c", False),
    ("a move within the zone is none", cluster(A, B, C, deployment("web", on=["a", "c"], spread=EVEN)), 0, "b", True),
    ("a skew may be mended", cluster(A, C, deployment("web", on=["a", "a", "a"], spread=EVEN)), 0, "c", True),
    (
        "a bad skew may stay bad",
        cluster(A, B, C, deployment("web", on=["a", "a", "a"], spread=EVEN)),
        0,
        "b",
        True,
    ),
    (
        "another's constraint counts too",
        cluster(A, C, pod("p", on="a", labels=WEB), pod("holder", on="c", labels=WEB, spread=EVEN)),
        "p",
        "c",
        False,
    ),
    (
        "if it speaks of the moved pod",
        cluster(A, C, pod("p", on="a", labels=DB), pod("holder", on="c", labels=WEB, spread=EVEN)),
        "p",
        "c",
        True,
    ),
]


@pytest.mark.parametrize(("snapshot", "name", "target", "kept"), [pytest.param(*row[1:], id=row[0]) for row in MOVES])
def test_the_rules_are_kept_once_the_original_has_gone(
    snapshot: ClusterSnapshot, name: str | int, target: str, kept: bool
) -> None:
    moved = snapshot.pods[name] if isinstance(name, int) else pod_named(snapshot, name)
    assert keeps_rules(World(snapshot), moved, moved.node, target) is kept
