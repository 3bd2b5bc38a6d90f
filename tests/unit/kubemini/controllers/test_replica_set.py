"""ReplicaSets of the embedded cluster: which pods go first."""

from typing import Any

import pytest

from kubemini.controllers.pods import PodState
from kubemini.controllers.replica_set import Candidate, rank_for_deletion
from kubemini.store import Entry

NOW = 1_800_000_000.0


def candidate(name: str, node: str = "n", uid: str = "", **facts: Any) -> Candidate:
    plain: dict[str, Any] = {
        "phase": "Running",
        "deleting": False,
        "ready_since": NOW - 5000,
        "created": NOW - 5000,
        "cost": 0,
        "restarts": 0,
    }
    entry = Entry(("default", name), 1, b"", uid or name, {}, (), {"spec.nodeName": node}, deleting=False)
    return Candidate(entry, PodState(**(plain | facts)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"node": "", "phase": "Running"}, {"phase": "Pending"}, id="without a node"),
        pytest.param({"phase": "Pending"}, {"phase": "Unknown", "ready_since": None}, id="Pending before Unknown"),
        pytest.param({"phase": "Unknown"}, {"ready_since": None}, id="Unknown before Running"),
        pytest.param({"ready_since": None, "cost": 9}, {"cost": -9}, id="not ready, whatever it costs"),
        pytest.param({"cost": -(2**31)}, {"ready_since": NOW, "restarts": 9}, id="cheaper"),
        pytest.param({"node": "full"}, {"ready_since": NOW}, id="doubled up"),
        pytest.param({"ready_since": NOW - 100}, {"created": NOW, "restarts": 9}, id="ready more recently"),
        pytest.param({"restarts": 2}, {"restarts": 1, "created": NOW}, id="more restarts"),
        pytest.param({"created": NOW - 100}, {}, id="created more recently"),
    ],
)
def test_the_surplus_goes_in_the_order_of_kubernetes(first: dict[str, Any], second: dict[str, Any]) -> None:
    pods = [candidate("one", **first), candidate("two", **second)]
    crowd = [candidate("c1", node="full"), candidate("c2", node="full"), candidate("c3")]
    for given in (pods, pods[::-1]):
        assert [each.entry.key[1] for each in rank_for_deletion(given, crowd)] == ["one", "two"]
