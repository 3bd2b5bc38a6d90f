"""Failed pods that their controllers delete themselves, before anybody could read them: they are counted all the same.

Nobody steers here; the workloads prefer the node where they fail, and go elsewhere when it is cordoned.
"""

from __future__ import annotations

from collections import Counter

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Items, Space, is_ready, name_of
from tests.support.failure_records import event_reasons, record, retried
from tests.support.manifests import daemon_set, gated, prefers, stateful_set
from tests.support.misbehaviour import Misbehaviour
from tests.support.recovery import QUICK, recovering
from tests.testbed.processes import until

TURNED_AWAY = Misbehaviour("OutOfcpu")
EVICTED = Misbehaviour("Failed", starts_in=0.3)


def database(node: str, how: Misbehaviour, retries: str) -> Json:
    """A StatefulSet whose two pods like a node, and fail there."""
    body = stateful_set("db", 2, podManagementPolicy="Parallel")
    body["spec"]["template"]["spec"]["affinity"] = prefers("In", node)
    return retried(Misbehaviour(how.fails, on=[node], starts_in=how.starts_in).of(body), retries)


def falls(events: Items) -> dict[str, str]:
    """The pods that have failed as a whole by what the API server told, by UID."""
    failed = [each["object"] for each in events if each["object"]["status"].get("phase") == "Failed"]
    return {each["metadata"]["uid"]: name_of(each) for each in failed}


def all_well(space: Space, app: str, count: int) -> Items | None:
    found = space.pods(app)
    return found if len(found) == count and all(map(is_ready, found)) else None


@pytest.mark.parametrize(("how", "reason"), [(TURNED_AWAY, "OutOfcpu"), (EVICTED, "Evicted")])
def test_each_pod_of_a_stateful_set_that_fails_is_recorded_and_counted_once(
    space: Space, nodes: list[str], how: Misbehaviour, reason: str
) -> None:
    since = space.version("Pod")
    with recovering(space.cluster, QUICK) as loop:
        space.create(database(nodes[0], how, "1000"))
        until("each has failed three times", lambda: min(counts(space).values(), default=0) >= 3)
        with space.cordoned(nodes[0]):
            until("both are well", lambda: all_well(space, "db", 2))
        space.create(gated("end"))  # when the watch tells of it, it has told of all that came before
        events = space.events("Pod", since, lambda event: name_of(event["object"]) == "end")
        expected = Counter(falls(events).values())
        until(f"{expected} are counted", lambda: counts(space) == expected)
        until("none is pending", lambda: not any("pending" in each for each in entries(space).values()))
        assert counts(space) == expected
        loop.counts(rescheduled=expected.total())
    assert set(expected) == {"db-0", "db-1"}
    for name, count in expected.items():
        places = entries(space)[name]["nodes"]
        assert {node: each["reason"] for node, each in places.items()} == {nodes[0]: reason}
        assert event_reasons(space, name) == ["PodRescheduled"] * count


def test_a_stateful_set_that_fails_for_good_uses_up_the_budget_of_each_pod(space: Space, nodes: list[str]) -> None:
    with recovering(space.cluster, QUICK) as loop:
        space.create(database(nodes[0], TURNED_AWAY, "2"))
        loop.counts(rescheduled=4, exhausted=2)
        until("none is pending", lambda: not any("pending" in each for each in entries(space).values()))
    assert counts(space) == {"db-0": 2, "db-1": 2}


def test_a_pod_of_a_daemon_set_that_was_turned_away_is_counted_on_its_node(space: Space, nodes: list[str]) -> None:
    body = Misbehaviour("OutOfcpu", on=nodes[:1]).of(daemon_set("agent"))
    with recovering(space.cluster, QUICK) as loop:
        space.create(retried(body, "2"))
        loop.counts(restarted=2, exhausted=1)
    found = record(space, "DaemonSet", "agent")["pods"]
    assert {node: each["count"] for node, each in found.items()} == {nodes[0]: 2}
    assert {each["reason"] for each in found[nodes[0]]["nodes"].values()} == {"OutOfcpu"}


def entries(space: Space) -> dict[str, Json]:
    found: dict[str, Json] = record(space, "StatefulSet", "db").get("pods", {})
    return found


def counts(space: Space) -> dict[str, int]:
    return {name: entry["count"] for name, entry in entries(space).items()}
