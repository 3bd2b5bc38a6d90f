"""The record of pods that scenarios are judged by: it must see what lasts but a moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.both_clusters import Space, name_of
from tests.support.embedded import EmbeddedControlPlane
from tests.support.manifests import deployment, pod, simulated
from tests.support.pod_record import Lowest, recorded
from tests.testbed.namespaces import own_namespace


@pytest.fixture
def space() -> Iterator[Space]:
    with EmbeddedControlPlane() as cluster, own_namespace(cluster.api, "record") as name:
        cluster.add_nodes(1)
        yield Space(cluster, name)


def test_a_moment_with_a_pod_less_is_in_the_record(space: Space) -> None:
    space.create(deployment("web", 2))
    space.rolled_out("web")
    space.runs(pod("calm"))
    with recorded(space) as record:
        lost, _ = space.pods("web")
        space.delete("Pod", name_of(lost))
        space.gone("Pod", name_of(lost))
        space.rolled_out("web")
    lowest = record.lowest()
    assert lowest["calm"] == Lowest(1)
    assert lowest["web"].ready == 1
    assert name_of(lost) in lowest["web"].event


def test_a_pod_that_is_on_its_way_out_does_not_count(space: Space) -> None:
    space.runs(simulated(pod("slow"), ends_in="600"))
    with recorded(space) as record:
        space.delete("Pod", "slow")
    assert record.lowest()["slow"].ready == 0
    assert [each["type"] for each in record.events] == ["MODIFIED"]
    space.delete("Pod", "slow", gracePeriodSeconds=0)
