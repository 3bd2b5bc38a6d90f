"""The twin on claims and volumes, nailed to the scheduler's rules one sentence at a time.

Each row: what is said, the cluster, the pod that would come, the node, and all predicates that refuse it.
"""

from __future__ import annotations

import pytest

from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import claim, cluster, csinode, node, pod, storage_class, volume
from tests.support.twin import World, refusals

Case = tuple[str, ClusterSnapshot, Pod, str, set[str]]
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"

A = node("a", zone="z1")
C = node("c", zone="z2")
BARE = node("bare")
USES = pod("n", claims=["data"])
BOUND = claim("data", "pv")
VOLUMES: list[Case] = [
    ("a claim must be there", cluster(A), USES, "a", {"VolumeBinding"}),
    ("its volume too", cluster(A, BOUND), USES, "a", {"VolumeBinding"}),
    ("a bound one is fine", cluster(A, BOUND, volume("pv")), USES, "a", set()),
    (
        "where it can be reached",
        cluster(A, BOUND, volume("pv", node_affinity=["zone=z2"])),
        USES,
        "a",
        {"VolumeBinding"},
    ),
    ("such as there", cluster(A, BOUND, volume("pv", node_affinity=["zone=z2", "zone=z1"])), USES, "a", set()),
    ("an unbound one of no class waits", cluster(A, claim("data")), USES, "a", {"VolumeBinding"}),
    (
        "or of a class that binds at once",
        cluster(A, claim("data", storage_class="s"), storage_class("s", wait=False)),
        USES,
        "a",
        {"VolumeBinding"},
    ),
    ("a waiting class makes one", cluster(A, claim("data", storage_class="s"), storage_class("s")), USES, "a", set()),
    (
        "in its topologies only",
        cluster(A, claim("data", storage_class="s"), storage_class("s", topologies=["zone in (z2,z3)"])),
        USES,
        "a",
        {"VolumeBinding"},
    ),
    (
        "such as these",
        cluster(A, claim("data", storage_class="s"), storage_class("s", topologies=["zone in (z2,z1)"])),
        USES,
        "a",
        set(),
    ),
    (
        "if it has a provisioner",
        cluster(A, claim("data", storage_class="s"), storage_class("s", provisioner="kubernetes.io/no-provisioner")),
        USES,
        "a",
        {"VolumeBinding"},
    ),
    ("zones are labels too", cluster(A, BOUND, volume("pv", labels={"zone": "z2"})), USES, "a", {"VolumeZone"}),
    ("a set of zones admits each", cluster(A, BOUND, volume("pv", labels={"zone": "z0__z1"})), USES, "a", set()),
    ("a broken set says nothing", cluster(A, BOUND, volume("pv", labels={"zone": "z0__"})), USES, "a", set()),
    ("a node without zones passes", cluster(BARE, BOUND, volume("pv", labels={"zone": "z2"})), USES, "bare", set()),
    (
        "with a region only it does not",
        cluster(node("a", labels={"region": "r"}), BOUND, volume("pv", labels={"zone": "z2"})),
        USES,
        "a",
        {"VolumeZone"},
    ),
    ("an old label meets a new one", cluster(A, BOUND, volume("pv", labels={BETA_ZONE: "z1"})), USES, "a", set()),
    (
        "a new label does not meet an old one",
        cluster(node("a", labels={BETA_ZONE: "z1"}), BOUND, volume("pv", labels={"zone": "z1"})),
        USES,
        "a",
        {"VolumeZone"},
    ),
    (
        "a claim for one pod is for one pod, wherever",
        cluster(
            A,
            C,
            claim("data", "pv", modes=["ReadWriteOncePod"]),
            volume("pv"),
            pod("w", on="a"),
            pod("x", on="c", claims=["data"]),
        ),
        USES,
        "a",
        {"VolumeRestrictions"},
    ),
    (
        "its namesake elsewhere is another",
        cluster(
            A,
            claim("data", "pv", modes=["ReadWriteOncePod"]),
            volume("pv"),
            pod("x", on="a", claims=["data"], namespace="shop"),
        ),
        USES,
        "a",
        set(),
    ),
    (
        "a driver's limit counts its volumes",
        cluster(
            A, csinode("a", 1), BOUND, volume("pv"), claim("d2", "p2"), volume("p2"), pod("x", on="a", claims=["d2"])
        ),
        USES,
        "a",
        {"NodeVolumeLimits"},
    ),
    (
        "a volume that is there already is not new",
        cluster(A, csinode("a", 1), BOUND, volume("pv"), pod("x", on="a", claims=["data"])),
        USES,
        "a",
        set(),
    ),
    (
        "other drivers have their own",
        cluster(
            A,
            csinode("a", 1),
            BOUND,
            volume("pv"),
            claim("d2", "p2"),
            volume("p2", driver="o.io"),
            pod("x", on="a", claims=["d2"]),
        ),
        USES,
        "a",
        set(),
    ),
    (
        "a volume that nobody knows counts by its claim's class",
        cluster(A, csinode("a", 0), claim("data", "gone", storage_class="s"), storage_class("s")),
        USES,
        "a",
        {"VolumeBinding", "NodeVolumeLimits"},
    ),
    ("a driver without a limit has none", cluster(A, csinode("a", {"o.io": 0}), BOUND, volume("pv")), USES, "a", set()),
    (
        "volumes to be made count",
        cluster(A, csinode("a", 0), claim("data", storage_class="s"), storage_class("s")),
        USES,
        "a",
        {"NodeVolumeLimits"},
    ),
]


@pytest.mark.parametrize(
    ("snapshot", "new", "where", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in VOLUMES],
)
def test_the_twin_reaches_volumes_as_the_scheduler_does(
    snapshot: ClusterSnapshot, new: Pod, where: str, expected: set[str]
) -> None:
    assert refusals(World(snapshot), new, where) == expected
