"""One budget over two workloads: a copy that is nobody's yet counts as healthy, and must not be spent twice."""

from __future__ import annotations

import pytest

from rescheduler.model.json import Json
from rescheduler.model.migration import Phase
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space, name_of
from tests.support.manifests import budget, deployment, stateful_set
from tests.support.migrations import Drive, Fuse, Killed, Moves, wait_until_settled
from tests.support.pod_migrations import migration_spec
from tests.testbed.processes import until

pytestmark = pytest.mark.usefixtures("kind")


@pytest.fixture
def shop(space: Space) -> Space:
    """A Deployment and a StatefulSet of two, and a budget that wants all four."""
    space.create(deployment("web", 2))
    space.create(stateful_set("db", 2))
    both = budget("shop", "web", minAvailable=4)
    both["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}
    space.create(both)
    space.rolled_out("web")
    wait_until_settled(space, 4)
    allows(space, 0)
    return space


def allows(space: Space, number: int) -> None:
    def reckoned() -> bool:
        status = space.get("PodDisruptionBudget", "shop").get("status", {})
        return bool(status.get("expectedPods", 0) >= 4 and status.get("disruptionsAllowed") == number)

    until(f"the budget allows {number}", reckoned)


def elsewhere(nodes: list[str], pod: Json) -> str:
    return next(node for node in nodes if node != pod["spec"]["nodeName"])


def copied(shop: Space, moves: Moves, nodes: list[str]) -> None:
    """A handoff of a pod of web whose copy is Ready and nobody's: the budget seems to allow one disruption."""
    pod = shop.pods("web")[0]
    moves.order("handed", migration_spec(name_of(pod), target=elsewhere(nodes, pod), method=Method.HANDOFF))
    with pytest.raises(Killed):
        moves.drive("handed", Drive(fuse=Fuse(after="storing step Cheapen")))
    allows(shop, 1)


def test_an_eviction_does_not_use_what_only_the_copy_of_another_move_allows(
    shop: Space, moves: Moves, nodes: list[str]
) -> None:
    copied(shop, moves, nodes)
    pod = shop.pods("db")[0]
    moves.order("evicted", migration_spec(name_of(pod), target=elsewhere(nodes, pod), method=Method.EVICT))
    waits = Drive(until=lambda each: "budget shop allows no disruption now" in each.status.message)
    assert moves.drive("evicted", waits).status.step == "CheckBudgets"
    assert moves.drive("handed").status.phase is Phase.COMPLETED
    allows(shop, 0)


def test_a_handoff_waits_while_somebody_else_uses_what_its_copy_allows(
    shop: Space, moves: Moves, nodes: list[str]
) -> None:
    copied(shop, moves, nodes)
    lost = shop.pods("db")[0]
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    shop.patch("Pod", name_of(lost), held)
    shop.evict(name_of(lost))
    allows(shop, 0)
    waits = Drive(until=lambda each: "budget shop would have too few healthy pods" in each.status.message)
    assert moves.drive("handed", waits).status.step == "HandOver"
    shop.patch("Pod", name_of(lost), {"metadata": {"finalizers": None}})
    assert moves.drive("handed").status.phase is Phase.COMPLETED
