"""The twin on topology spread, nailed to the scheduler's rules one sentence at a time.

Each row: what is said, the cluster, the pod that would come, the node, and all predicates that refuse it.
"""

from __future__ import annotations

import pytest

from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import cluster, node, pod, spread
from tests.support.twin import World, refusals

Case = tuple[str, ClusterSnapshot, Pod, str, set[str]]
WEB = {"app": "web"}

A = node("a", zone="z1")
C = node("c", zone="z2")
BARE = node("bare")
EVEN = [spread(1, "zone", WEB)]
TWO_ZONES = (A, C)
ONE_WEB = (*TWO_ZONES, pod("x", on="a", labels=WEB))
SPREAD: list[Case] = [
    ("the emptier zone is open", cluster(ONE_WEB), pod("n", labels=WEB, spread=EVEN), "c", set()),
    ("the fuller one is not", cluster(ONE_WEB), pod("n", labels=WEB, spread=EVEN), "a", {"PodTopologySpread"}),
    ("a pod that is not counted itself adds nothing", cluster(ONE_WEB), pod("n", spread=EVEN), "a", set()),
    ("a wider skew allows it", cluster(ONE_WEB), pod("n", labels=WEB, spread=[spread(2, "zone", WEB)]), "a", set()),
    (
        "soft ones never refuse",
        cluster(ONE_WEB),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, hard=False)]),
        "a",
        set(),
    ),
    (
        "a node without the key is refused",
        cluster(A, BARE),
        pod("n", labels=WEB, spread=EVEN),
        "bare",
        {"PodTopologySpread"},
    ),
    (
        "too few domains make the minimum 0",
        cluster(A, C, pod("x", on="a", labels=WEB), pod("y", on="c", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, min_domains=3)]),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "a first pod is within it all the same",
        cluster(A, C),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, min_domains=3)]),
        "a",
        set(),
    ),
    (
        "terminating pods are not counted",
        cluster(A, C, pod("x", on="a", labels=WEB, deleting=True)),
        pod("n", labels=WEB, spread=EVEN),
        "a",
        set(),
    ),
    (
        "nor those of other namespaces",
        cluster(A, C, pod("x", on="a", labels=WEB, namespace="shop")),
        pod("n", labels=WEB, spread=EVEN),
        "a",
        set(),
    ),
    (
        "a zone that the pod may not enter does not hold the minimum down",
        cluster(ONE_WEB),
        pod("n", labels=WEB, spread=EVEN, node_selector={"zone": "z1"}),
        "a",
        set(),
    ),
    (
        "unless the constraint ignores that",
        cluster(ONE_WEB),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, honor_affinity=False)], node_selector={"zone": "z1"}),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "a tainted zone does",
        cluster(A, node("c", zone="z2", taints=["k:NoSchedule"]), pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, spread=EVEN),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "unless the constraint honours taints",
        cluster(A, node("c", zone="z2", taints=["k:NoSchedule"]), pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, honor_taints=True)]),
        "a",
        set(),
    ),
    (
        "and they are not tolerated",
        cluster(A, node("c", zone="z2", taints=["k:NoSchedule"]), pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, honor_taints=True)], tolerations=["k"]),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "a domain that is not counted has no pods",
        cluster(TWO_ZONES, pod("x", on="c", labels=WEB)),
        pod("n", labels=WEB, spread=EVEN, node_selector={"zone": "z1"}),
        "c",
        {"NodeAffinity"},
    ),
    (
        "a node that lacks another constraint's key is not counted for any",
        cluster(A, node("c", zone="z2", labels={"row": "1"}), pod("x", on="c", labels=WEB)),
        pod("n", labels=WEB, spread=[*EVEN, spread(5, "row", WEB)]),
        "c",
        set(),
    ),
    (
        "matchLabelKeys tell revisions apart",
        cluster(A, C, pod("x", on="a", labels={**WEB, "rev": "1"})),
        pod("n", labels={**WEB, "rev": "2"}, spread=[spread(1, "zone", WEB, match_label_keys=["rev"])]),
        "a",
        set(),
    ),
    (
        "keys that the pod lacks are passed over",
        cluster(A, C, pod("x", on="a", labels={**WEB, "rev": "1"})),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, match_label_keys=["rev"])]),
        "a",
        {"PodTopologySpread"},
    ),
    ("no selector counts nobody", cluster(ONE_WEB), pod("n", labels=WEB, spread=[spread(1, "zone")]), "a", set()),
    (
        "nor does one that selects all",
        cluster(ONE_WEB, node("b", zone="z1"), pod("y", on="b", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", {})]),
        "a",
        set(),
    ),
]


@pytest.mark.parametrize(
    ("snapshot", "new", "where", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in SPREAD],
)
def test_the_twin_spreads_as_the_scheduler_does(
    snapshot: ClusterSnapshot, new: Pod, where: str, expected: set[str]
) -> None:
    assert refusals(World(snapshot), new, where) == expected
